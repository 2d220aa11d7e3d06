"""Comparison of groups of rows: a field for each group, and permutation tests of their differences."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil
from numbers import Integral
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import sparsefield
from sparsefield.analysis.imputation import impute
from sparsefield.analysis.network import Network, sum_by_node, variable_slopes
from sparsefield.analysis.permutation_tests import PairTest, SubsetProblem, adjust_p_values, run_tests
from sparsefield.analysis.refit import Progress
from sparsefield.compute import Threads
from sparsefield.data import Label, as_source
from sparsefield.data.frame_building import Frame, make_frame
from sparsefield.data.labels import unify_labels
from sparsefield.data.table import join_blocks
from sparsefield.errors import DataError, count, interrupts_as_such, list_first
from sparsefield.estimators.compiled_rows import compile_densely, copy_with_field
from sparsefield.estimators.markov_field import MarkovField
from sparsefield.estimators.training import group_cells, split_groups
from sparsefield.induction import all_pairs
from sparsefield.model import Field, FitRecord
from sparsefield.options import raise_problems

FEWEST_ROWS, MOST_GROUPS = 10, 20
"""Rows of a group, at least, and number of groups, at most."""

OBSERVED_PRECISION = 20.0
"""How much smaller the tolerance of the fits of the groups is than that of permuted groups, whose statistics only have
to be above or below the observed ones."""

ITERATIONS = 4
"""Iterations of the imputation of missing cells, of which no more than a draw is needed."""

LEVEL, LISTED_EDGES = 0.05, 8
"""Level of significance at which networks count as different, and number of edges that a sentence names, at most."""

FEW_ROWS = 5
"""Rows for each column below which a group is called small."""

TESTS = {
    "global strength": "global strength (sum of the strengths of all edges)",
    "structure": "structure (largest difference of an edge)",
}
"""Tests of whole networks, and what they compare."""

FREQUENCIES = (
    "The tests permute whole rows: frequencies that differ between groups can make them significant, too, where the "
    "weights of edges do not differ."
)

ALLOWED = {
    "objective": ("pl", "the pseudo-likelihood"),
    "penalty": ("l1", "single weights"),
    "refit": (False, "weights with their L1 penalty"),
    "features__penalize_biases": (False, "free biases"),
    "features__max_order": (2, "features of two columns"),
    "latent": (None, "no latent variables"),
    "solver__engine": (None, "this machine"),
}
"""{parameter of `MarkovField`: (its value in a comparison, what a comparison has)}."""

TEST_COLUMNS = "group_a", "group_b", "test", "difference", "p", "p_adjusted"
EDGE_COLUMNS = (
    "group_a", "group_b", "variable_a", "variable_b", "weight_a", "weight_b", "difference", "norm", "p", "p_adjusted",
)  # fmt: skip
NODE_COLUMNS = "group_a", "group_b", "variable", "strength_a", "strength_b", "difference", "p", "p_adjusted"


@dataclass(frozen=True)
class GroupComparison:
    """The fields of groups of rows, how they differ, and tests of these differences.

    P-values are adjusted by the largest statistic of each permutation (Westfall and Young), over all edges, nodes or
    tests of all pairs of groups.

    Attributes
    ----------
    groups : tuple of group labels
    sizes : tuple of int, the rows of each group
    fields : dict of group label -> `MarkovField`
        Each fitted to the rows of the group by themselves.
    pooled : `MarkovField`
        Fitted to all rows without the group column. The l1 of a group is that of this field times the square root of
        the group's share of the rows.
    tests : frame
        For each pair of groups: group_a, group_b, test, difference, p, p_adjusted.
    edges : frame
        For each pair of groups and each edge that has a weight: group_a, group_b, variable_a, variable_b; weight_a and
        weight_b, the weights of the edge as in `centrality`; difference, weight_a minus weight_b, NaN where edges have
        no sign, so that weights are norms; norm, that of the differences of all its weights, which is tested; p and
        p_adjusted. Smallest p first, over all pairs of groups.
    nodes : frame
        For each pair of groups and each column, its strength centrality in both, and the test of its difference.
    permutations : int
        Number of permutations that were drawn.
    imputed_cells : int
        Number of missing cells, which were imputed once.
    """

    groups: tuple[Label, ...]
    sizes: tuple[int, ...]
    fields: Mapping[Label, MarkovField]
    pooled: MarkovField
    tests: Frame
    edges: Frame
    nodes: Frame
    permutations: int
    imputed_cells: int

    def __repr__(self) -> str:
        return f"<GroupComparison of {', '.join(map(str, self.groups))}: summary(), tests, edges, nodes, fields>"

    def summary(self) -> str:
        """Return the result in a few lines of text, the verdict first."""
        named = list(zip(self.groups, self.sizes, self.fields.values(), strict=True))
        fits = [
            f"{label} ({n:,} rows) with l1 = {field.field_.record.l1:.3g} has "
            f"{count(len(Network(field.field_).ends), 'edge')}"
            for label, n, field in named
        ]
        lines = [f"Each group is fitted by itself: {', '.join(fits)} (l1 = {self.pooled.l1_:.3g} for all rows)."]
        n_columns = self.pooled.field_.schema.n_variables
        small = [f"{label} ({n:,} rows)" for label, n, _ in named if n < FEW_ROWS * n_columns]
        if small:
            lines.append(
                f"Few rows for {count(n_columns, 'column')}: {', '.join(small)}. Only large differences can be found, "
                "so that none was found says little."
            )
        if not self.permutations:
            return "\n".join(["Nothing was tested, since there are no permutations.", *lines])
        if self.imputed_cells:
            lines.append(f"{count(self.imputed_cells, 'missing cell')} were imputed once, by the field of all rows.")
        for row in rows_of(self.tests):
            groups, what = f"{name_groups(row)}, " if len(self.groups) > 2 else "", ""
            if row["test"] == "global strength":
                nodes = [node for node in rows_of(self.nodes) if name_groups(node) == name_groups(row)]
                a, b = (sum(node[name] for node in nodes) / 2 for name in ("strength_a", "strength_b"))
                what = f"{a:.2f} and {b:.2f}, "
            adjusted = f" (adjusted for the pairs of groups {row['p_adjusted']:.3g})" if groups else ""
            p_value = f"p = {row['p']:.3g}{adjusted}"
            lines.append(f"{groups}{TESTS[row['test']]}: {what}difference {row['difference']:.2f}, {p_value}.")
        return "\n".join([self._verdict(), *lines, FREQUENCIES])

    def _verdict(self) -> str:
        """Return whether the networks differ, and which edges do by their own tests."""
        drawn, families = count(self.permutations, "permutation"), len(TESTS) + 1
        smallest = families / (1 + self.permutations)
        if smallest > LEVEL:
            return (
                f"No difference can be found: with {drawn} the smallest possible p-value, adjusted for the "
                f"{families} kinds of tests, is {min(smallest, 1.0):.3g}. Take at least "
                f"{ceil(families / LEVEL) - 1:,} permutations."
            )
        kinds = {name: [row for row in rows_of(self.tests) if row["test"] == name] for name in TESTS}
        differing, tests, left = [], [], families
        families_by_p = sorted(  # Holm (1979)
            [*kinds.values(), rows_of(self.edges)],
            key=lambda rows: min((row["p_adjusted"] for row in rows), default=np.inf),
        )
        for kind in families_by_p:
            significant = [row for row in kind if left * row["p_adjusted"] <= LEVEL]
            if not significant:
                break
            if "test" in kind[0]:
                tests += significant
            else:
                differing = significant
            left -= 1
        if not differing and not tests:
            return f"No difference was found (p > {LEVEL:g}, adjusted for the number of tests, {drawn})."
        several = len(self.groups) > 2
        if not differing:
            differences = [f"{row['test']}" + f" of {name_groups(row)}" * several for row in tests]
            return f"The networks differ in {', '.join(differences)} (p <= {LEVEL:g}, {drawn}), but in no single edge."
        names = [
            f"{row['variable_a']} - {row['variable_b']} "
            f"({f'{name_groups(row)}: ' * several}{row['weight_a']:.2f} and {row['weight_b']:.2f})"
            for row in differing
        ]
        return (
            f"The networks differ in {count(len(differing), 'edge')} (p <= {LEVEL:g}, adjusted for their number, "
            f"{drawn}): {list_first(names, LISTED_EDGES)}."
        )


def compare(
    X: Any,
    group: Any,
    *,
    observed: Sequence[str | int] | str | None = None,
    permutations: int = 500,
    seed: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> GroupComparison:
    """Fit the networks of groups of rows, each by itself, and test whether they differ.

    Tests permute the groups of rows, and fit each group again, as the NetworkComparisonTest of R does.

    Parameters
    ----------
    X : frame or 2-D array
        Rows by columns of any kind; missing values are None, NaN or null. They are imputed once, by `impute` with the
        field of all rows, which knows no groups: if groups are alike, their completed rows are, too, also where one of
        them has more missing cells.
    group : name of a column of ``X``, or (rows,) values
        The group of each row.
    observed : columns, by name or position, that are conditioned on
    permutations : int
        Number of permutations of each test, at most; 0 tests nothing. Tests end where nothing can become significant.
    seed : int
        Seed of everything random.
    progress : function that is called with the number of permutations that are done and their total number
    **options
        Parameters of `MarkovField`, such as ``l1``, ``l2``, ``selection``, ``kinds`` or ``n_jobs``. ``l1="auto"``
        selects it for the field of all rows.

    Returns
    -------
    GroupComparison

    Examples
    --------
    >>> import numpy as np
    >>> from sparsefield import compare
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.integers(0, 2, (2, 400))
    >>> group = np.repeat(["south", "north"], 200)
    >>> X = np.column_stack([a, np.where((group == "north") & (rng.random(400) < 0.8), a, b)])
    >>> comparison = compare(X, group, l1=5.0, permutations=99)
    >>> comparison.groups, comparison.edges["p"][0]
    (('north', 'south'), 0.01)
    """
    problems = [
        f"{name} must be a whole number from 0; got {value!r}."
        for name, value in (("permutations", permutations), ("seed", seed))
        if not isinstance(value, Integral) or value < 0
    ]
    if "sample_weight" in options:
        problems.append("A comparison of groups counts each row once: leave sample_weight out.")
    raise_problems(problems)
    estimator = MarkovField(**{"random_state": seed, **options})
    parameters = estimator.get_params() | {"objective": estimator.resolve("objective").name}
    raise_problems(
        f"{name.rpartition('__')[2]}={parameters[name]!r} is not possible in a comparison of groups, which has {what}: "
        "leave it out."
        for name, (value, what) in ALLOWED.items()
        if parameters[name] != value
    )
    X, labels, numbers = read_compared_groups(X, group)
    estimator.fit(X, observed=observed)
    if not estimator.l1_ > 0.0:
        raise DataError("A comparison of groups needs an l1 above 0.")
    table, n_groups = compile_densely(estimator, X).tables[0], len(labels)
    missing_cells = int((table.codes() < 0).sum())
    if missing_cells:
        table = compile_densely(estimator, impute(estimator, X, 2, seed=seed, iterations=ITERATIONS)[0]).tables[0]
    with interrupts_as_such(), Threads(estimator.n_jobs) as engine:
        field, rule = estimator.field_, estimator.resolve("induction")
        layout = field.layout
        candidates = rule.start(layout) if rule.fixed_candidates else all_pairs(layout)
        problem = SubsetProblem(join_blocks(table.blocks), layout, candidates, estimator.l2)
        start = problem.start_from(field.pairs, field.theta)
        chosen = [numbers == number for number in range(n_groups)]
        # The noise in a gradient grows with the square root of the number of rows.
        l1 = [estimator.l1_ * float(np.sqrt(rows.mean())) for rows in chosen]
        fits = [problem.fit(rows, l1[k], start, None, OBSERVED_PRECISION) for k, rows in enumerate(chosen)]
        pairs = combinations(range(n_groups), 2)
        tests = [PairTest(groups, problem, numbers, l1, fits, start) for groups in pairs]
        run_tests(tests, int(permutations), seed, engine, progress)
    unconverged = sum(test.unconverged for test in tests) + sum(not fit.converged for fit in fits)
    if unconverged:
        warnings.warn(
            f"{count(unconverged, 'fit')} of groups stopped before convergence. Raise l1 or l2.",
            ConvergenceWarning,
            stacklevel=2,
        )
    fields = {}
    for label, rows, penalty, fit in zip(labels, chosen, l1, fits, strict=True):
        record = FitRecord(
            version=sparsefield.__version__,
            n_rows=int(rows.sum()),
            l1=penalty,
            objective=problem.objective(rows, penalty, fit.theta),
            kkt_violation=fit.violation,
            converged=fit.converged,
            mc_error=None if missing_cells else 0.0,
        )
        fields[label] = copy_with_field(estimator, problem.field_of(fit, record), l1=penalty)
    return GroupComparison(
        groups=labels,
        sizes=tuple(int(rows.sum()) for rows in chosen),
        fields=fields,
        pooled=estimator,
        **_result_frames(labels, [each.field_ for each in fields.values()], tests, estimator.kind_),
        permutations=len(tests[0].drawn),
        imputed_cells=missing_cells,
    )


def read_compared_groups(X: Any, group: Any) -> tuple[Any, tuple[Label, ...], np.ndarray]:
    """Return a table without its group column, the labels of the groups, and the number of each row's group.

    ``group`` is the name of a column, or an array with the group of each row. Groups that cannot be compared are
    refused, with all reasons.
    """
    if sp.issparse(X):
        raise DataError("Groups are compared in a dense table, not in a sparse matrix: pass X.toarray().")
    name = f"Column {group!r}" if isinstance(group, str) else "group"
    X, values = split_groups(X, group)
    source = as_source(X)
    cells = group_cells(values, source.n_rows, name)
    if cells.column.in_days:
        raise DataError(f"{name} has dates or times: write them as text, or take a column of few values.")
    labels, numbers = tuple(unify_labels([*cells.labels], cells.are_objects)), cells.codes
    if len(labels) > MOST_GROUPS:
        raise DataError(
            f"{name} has {len(labels):,} values, more than {MOST_GROUPS} groups: name another column, or merge groups."
        )
    problems, sizes = [], np.bincount(numbers, minlength=len(labels)).tolist()
    if len(labels) < 2:
        problems.append(f"{name} has {count(len(labels), 'group')}: a comparison needs two groups or more.")
    small = [f"{label!r} has {size}" for label, size in zip(labels, sizes, strict=True) if size < FEWEST_ROWS]
    if small:
        problems.append(
            f"{name}: a group needs at least {FEWEST_ROWS} rows, but {', '.join(small)}: leave such rows out, or merge "
            "groups."
        )
    for variable in source.names:  # columns that have values in some groups only
        known = np.bincount(numbers[source.column(variable).present], minlength=len(labels)) > 0
        if known.any() and not known.all():
            empty = [repr(label) for label, is_known in zip(labels, known, strict=True) if not is_known]
            problems.append(f"Column {variable!r} has no values in group {', '.join(empty)}: drop it.")
    if problems:
        raise DataError(" ".join(problems))
    return X, labels, numbers


def rows_of(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a frame of any library, by the names of its columns."""
    return nw.from_native(frame, eager_only=True).rows(named=True)


def name_groups(row: Mapping[str, Any]) -> str:
    """Return the two groups of a row of `tests`, `edges` or `nodes`."""
    return f"{row['group_a']} and {row['group_b']}"


def _result_frames(
    labels: Sequence[Label], fields: Sequence[Field], tests: Sequence[PairTest], kind: str
) -> dict[str, Frame]:
    """Return the frames of tests of whole networks, and of edges and nodes of all pairs of groups."""
    names, candidates = [variable.name for variable in fields[0].schema.variables], tests[0].network
    ends, whole, edges, nodes = np.sort(candidates.ends, axis=1), [], [], []
    has_sign = variable_slopes(fields[0].schema)[ends].min(axis=1) > 0
    networks = [_edge_weights(field, ends) for field in fields]
    for test, adjusted in zip(tests, adjust_p_values(tests), strict=True):
        groups, (a, b) = [str(labels[group]) for group in test.groups], (networks[group] for group in test.groups)
        values = np.column_stack([test.observed, test.p_values, adjusted])
        whole += [[*groups, name, *row] for name, row in zip(TESTS, values[: len(TESTS)].tolist(), strict=True)]
        of_edges, of_nodes = np.split(values[len(TESTS) :], [len(ends)])
        rows = np.column_stack([a, b, np.where(has_sign, a - b, np.nan), of_edges])
        for k in np.flatnonzero((a != 0.0) | (b != 0.0) | (of_edges[:, 0] > 0.0)).tolist():
            edges.append([*groups, *(names[end] for end in ends[k].tolist()), *rows[k].tolist()])
        of_a, of_b = (sum_by_node(ends, np.abs(part), len(names)) for part in (a, b))
        rows = np.column_stack([of_a, of_b, of_a - of_b, of_nodes[:, 1:]])
        nodes += [[*groups, name, *row] for name, row in zip(names, rows.tolist(), strict=True)]
    for rows in (edges, nodes):  # the smallest p first
        rows.sort(key=lambda row: (*np.nan_to_num(row[-2:], nan=2.0).tolist(), -abs(row[-3])))
    frames = {"tests": (TEST_COLUMNS, whole), "edges": (EDGE_COLUMNS, edges), "nodes": (NODE_COLUMNS, nodes)}
    return {
        name: make_frame({column: [row[k] for row in rows] for k, column in enumerate(columns)}, kind)
        for name, (columns, rows) in frames.items()
    }


def _edge_weights(field: Field, ends: np.ndarray) -> np.ndarray:
    """Return the weights of edges between variables, (edges, 2), as in `Network`; 0 for those that it lacks."""
    network = Network(field)
    pairs = zip(network.ends.tolist(), network.weights.tolist(), strict=True)
    weights = {(min(a, b), max(a, b)): weight for (a, b), weight in pairs}
    return np.array([weights.get((a, b), 0.0) for a, b in ends.tolist()])
