"""Comparison of groups of rows: a field for each group, and permutation tests of their differences."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from numbers import Integral
from typing import Any, get_args

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import sparsefield
from sparsefield.analysis.group_comparison import GroupComparison, edge_and_node_columns, network_test_columns
from sparsefield.analysis.group_refits import SubsetProblem, complete_once
from sparsefield.analysis.permutation_tests import (
    Adjustment,
    PermutationResult,
    PermutationTest,
    Progress,
    SeparateFits,
    match_missing,
)
from sparsefield.compute import Engine, Threads
from sparsefield.data import DenseDataset, Label, Table, as_array, as_source, deduplicate_rows
from sparsefield.data.column_summaries import read_categories
from sparsefield.data.frame_building import make_frame
from sparsefield.data.labels import unify_labels
from sparsefield.data.table import rebuild_table
from sparsefield.errors import DataError, LeftOutWarning
from sparsefield.estimators.compiled_rows import compile_densely, copy_with_field
from sparsefield.estimators.markov_field import MarkovField
from sparsefield.estimators.row_groups import split_groups
from sparsefield.estimators.training import make_path, training_options
from sparsefield.induction import all_pairs
from sparsefield.interrupts import interrupts_as_such
from sparsefield.model import Field, FitRecord
from sparsefield.parameter_checks import raise_problems
from sparsefield.solver.checkpoint import CheckpointFile, fingerprint, make_folder
from sparsefield.text import count

FEWEST_ROWS = 10
"""Rows of a group, at least."""

MOST_GROUPS = 20

MIDNIGHT = " 00:00:00"
"""How the text of a time ends that is a date."""


def compare(
    X: Any,
    group: Any,
    *,
    observed: Sequence[str | int] | str | None = None,
    permutations: int = 1000,
    adjust: Adjustment = "max",
    seed: int = 0,
    drop_missing_groups: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> GroupComparison:
    """Fit the networks of groups of rows, each by itself, and test whether they differ.

    Tests permute the groups of rows, and fit each group again, as the NetworkComparisonTest of R does.

    Parameters
    ----------
    X : frame or 2-D array
        Rows by columns of any kind; missing values are None, NaN or null.
    group : name of a column of ``X``, or (rows,) values
        The group of each row.
    observed : columns, by name or position, that are conditioned on
    permutations : int
        Number of permutations of each test; 0 tests nothing.
    adjust : {"max", "holm", "bh", "none"}
        How p-values of edges and nodes are adjusted for their number, over all pairs of groups: by the largest
        statistic of each permutation (Westfall and Young), or as Holm, or Benjamini and Hochberg do.
    seed : int
        Seed of everything random.
    drop_missing_groups : bool
        Whether rows without a group are left out, with a `LeftOutWarning`, instead of refused.
    checkpoint : folder
        Where the state of the tests is saved; after an interruption the same call continues from it.
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
    _check_parameters(permutations, adjust, seed)
    if "sample_weight" in options:
        raise DataError("A comparison of groups counts each row once: leave sample_weight out.")
    estimator = MarkovField(**{"random_state": seed, **options})
    refuse_unsupported(estimator.get_params(deep=False))
    groups = read_compared_groups(X, group, drop_missing=drop_missing_groups)
    estimator.fit(groups.X, observed=observed)
    if not estimator.l1_ > 0.0:
        raise DataError("A comparison of groups needs an l1 above 0.")
    table = compile_densely(estimator, groups.X).tables[0]
    with interrupts_as_such(), Threads(estimator.n_jobs) as engine:
        tested, field = _match_missing(estimator, table, groups.numbers, seed, engine)
        plan = _Plan(estimator, groups, table, tested, field, seed, int(permutations))
        results = plan.test(engine, checkpoint, progress)
    return plan.finish(results, adjust)


def _check_parameters(permutations: Any, adjust: Any, seed: Any) -> None:
    problems = [
        f"{name} must be a whole number from 0; got {value!r}."
        for name, value in (("permutations", permutations), ("seed", seed))
        if not isinstance(value, Integral) or value < 0
    ]
    if adjust not in get_args(Adjustment):
        problems.append(f"adjust must be one of {', '.join(map(repr, get_args(Adjustment)))}; got {adjust!r}.")
    raise_problems(problems)


def _match_missing(
    estimator: MarkovField, table: Table, numbers: np.ndarray, seed: int, engine: Engine
) -> tuple[Table, Field]:
    """Return a table in which the cells of all groups are missing alike, and a field that was fitted to it."""
    codes = table.codes()
    hidden = match_missing((codes < 0).T, numbers, seed).T & (codes >= 0)
    if not hidden.any():
        return table, estimator.field_
    matched = rebuild_table(table, np.where(hidden, -1, codes), np.arange(table.n_rows), table.schema.n_columns)
    options = training_options(estimator, estimator.l1_)
    path = make_path(estimator, deduplicate_rows(DenseDataset.single(matched)), options, engine)
    return matched, path.run().field


@dataclass(frozen=True)
class _Plan:
    """What a comparison is made from."""

    estimator: MarkovField
    """Fitted to all rows."""
    groups: ComparedGroups
    table: Table
    tested: Table
    """The table, with cells hidden so that all groups have the same missing cells."""
    tested_field: Field
    """Fitted to it, without groups."""
    seed: int
    permutations: int

    @cached_property
    def problem(self) -> SubsetProblem:
        """The fits to any subset of the rows."""
        layout, rule = self.estimator.field_.layout, self.estimator.resolve("induction")
        candidates = rule.start(layout) if rule.fixed_candidates else all_pairs(layout)
        rows = complete_once(self.tested, self.tested_field, self.seed)
        return SubsetProblem(rows, layout, candidates, self.estimator.l2)

    @cached_property
    def start(self) -> np.ndarray:
        """(parameters,): the weights of the field of all rows, for all candidates."""
        return self.problem.start_from(self.tested_field.pairs, self.tested_field.theta)

    @cached_property
    def separate(self) -> SeparateFits:
        """The fits of the groups by themselves."""
        return SeparateFits.of(self.problem, self.groups.numbers, self.estimator.l1_, self.start)

    def test(
        self, engine: Engine, checkpoint: str | os.PathLike[str] | None, progress: Progress | None
    ) -> tuple[PermutationResult, ...]:
        """Return the results of the tests of all pairs of groups, and of all groups if there are more than two."""
        everyone = tuple(range(len(self.groups.labels)))
        compared = [*combinations(everyone, 2), *([everyone] if len(everyone) > 2 else [])]
        files = [self._file(checkpoint, number) for number in range(len(compared))]
        results, total = [], self.permutations * len(compared)
        for number, (groups, file) in enumerate(zip(compared, files, strict=True)):

            def advance(done: int, _: int, before: int = number * self.permutations) -> None:
                if progress is not None:
                    progress(before + done, total)

            rows = self.problem, self.groups.numbers
            test = PermutationTest(groups, number, *rows, self.seed, self.separate, self.start)
            results.append(test.run(self.permutations, engine, file, advance))
        for file in files:
            if file is not None:
                file.path.unlink(missing_ok=True)
        return tuple(results)

    def _file(self, checkpoint: str | os.PathLike[str] | None, number: int) -> CheckpointFile | None:
        if checkpoint is None:
            return None
        facts = np.array([self.estimator.l1_, self.estimator.l2, self.seed, self.permutations, number])
        pooled = self.estimator.field_
        arrays = self.groups.numbers, facts, self.problem.pairs, pooled.features, pooled.theta
        mark = fingerprint(DenseDataset.single(self.table), *arrays)
        return CheckpointFile(make_folder(checkpoint) / f"comparison-{number}.safetensors", mark)

    def finish(self, results: tuple[PermutationResult, ...], adjust: Adjustment) -> GroupComparison:
        """Return the result of the comparison."""
        unconverged = sum(result.unconverged for result in results)
        if unconverged:
            warnings.warn(
                f"{count(unconverged, 'fit')} of groups stopped before convergence. Raise l1 or l2.",
                ConvergenceWarning,
                stacklevel=3,
            )
        labels, kind = self.groups.labels, self.estimator.kind_
        fields = {label: self._group_estimator(k) for k, label in enumerate(labels)}
        plain = [field.field_ for field in fields.values()]
        edges, nodes = edge_and_node_columns(labels, plain, self.problem.pairs, results, adjust)
        return GroupComparison(
            groups=labels,
            sizes=self.groups.sizes,
            fields=fields,
            pooled=self.estimator,
            l1=self.estimator.l1_,
            tests=make_frame(network_test_columns(labels, results), kind),
            edges=make_frame(edges, kind),
            nodes=make_frame(nodes, kind),
            permutations=self.permutations,
            adjustment=adjust,
            results=results,
            hidden_cells=int((self.tested.codes() < 0).sum() - (self.table.codes() < 0).sum()),
        )

    def _group_estimator(self, group: int) -> MarkovField:
        """Return the fitted estimator of one group."""
        l1, fit, n = self.separate.l1[group], self.separate.fits[group], self.problem.n_biases
        record = FitRecord(
            version=sparsefield.__version__,
            n_rows=self.groups.sizes[group],
            l1=l1,
            objective=self.problem.objective(self.groups.numbers == group, l1, fit.theta),
            kkt_violation=fit.violation,
            converged=fit.converged,
            mc_error=None if self.tested.has_missing else 0.0,
        )
        weighted = fit.theta[n:] != 0.0
        pairs, weights = self.problem.pairs[weighted], fit.theta[n:][weighted]
        field = Field(self.problem.layout, fit.theta[:n].copy(), pairs, weights, record=record)
        return copy_with_field(self.estimator, field, l1=l1)


@dataclass(frozen=True)
class ComparedGroups:
    """A table without its group column, and the group of each row."""

    X: Any
    labels: tuple[Label, ...]
    numbers: np.ndarray
    """(rows,): positions in ``labels``."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of rows of each group."""
        return tuple(np.bincount(self.numbers, minlength=len(self.labels)).tolist())


def read_compared_groups(X: Any, group: Any, *, drop_missing: bool = False) -> ComparedGroups:
    """Return a table and its groups; ``group`` is the name of a column, or an array with the group of each row.

    With ``drop_missing``, rows without a group are left out, with a warning.
    """
    if sp.issparse(X):
        raise DataError("Groups are compared in a dense table, not in a sparse matrix: pass X.toarray().")
    if isinstance(group, str):
        names = as_source(X).names
        if group not in names:
            raise DataError(
                f"The group column {group!r} is not there: name one of {', '.join(map(repr, names[:8]))}"
                f"{', ...' if len(names) > 8 else ''}, or pass an array with the group of each row."
            )
    X, values = split_groups(X, group)
    cells = as_array(values, "group")
    n_rows = as_source(X).n_rows
    if cells.shape != (n_rows,):
        raise DataError(f"group.shape == {cells.shape}, expected ({n_rows},): one group per row.")
    source = as_source(cells.reshape(-1, 1), what="group")
    categories = read_categories(source, "x0")
    own_name = group if isinstance(group, str) else getattr(group, "name", None)
    name = f"Column {own_name!r}" if own_name else "group"
    labels = (
        _date_texts(cells, categories.codes)
        if source.column("x0").in_days
        else unify_labels([*categories.labels], categories.are_objects)
    )
    groups = ComparedGroups(X, tuple(labels), categories.codes)
    if drop_missing and (categories.codes < 0).any():
        groups = _without_missing(groups, name)
    problems = list(_problems(groups, name))
    if problems:
        raise DataError(" ".join(problems))
    return groups


def _without_missing(groups: ComparedGroups, name: str) -> ComparedGroups:
    """Return the rows that have a group."""
    rows = np.flatnonzero(groups.numbers >= 0)
    left_out = len(groups.numbers) - len(rows)
    warnings.warn(
        f"{name} has {left_out:,} missing value(s): these rows are left out, and {len(rows):,} remain.",
        LeftOutWarning,
        stacklevel=4,
    )
    source = as_source(groups.X)
    X = source.native[rows] if source.kind == "array" else nw.to_native(source.native[rows.tolist()])
    return ComparedGroups(X, groups.labels, groups.numbers[rows])


def _date_texts(cells: np.ndarray, codes: np.ndarray) -> list[Label]:
    """Return the dates, times or durations of the labels with the codes 0, 1, ... as text."""
    places = [int(np.argmax(codes == code)) for code in range(int(codes.max(initial=-1)) + 1)]
    if cells.dtype.kind in "mM":
        # Python has no dates or durations of nanoseconds, and NumPy would return integers.
        cells = cells.astype(f"{cells.dtype.kind}8[us]")
    texts = [str(cell) for cell in cells[places].tolist()]
    at_midnight = all(text.endswith(MIDNIGHT) for text in texts)
    return [text.removesuffix(MIDNIGHT) if at_midnight else text for text in texts]


def _problems(groups: ComparedGroups, name: str) -> Iterator[str]:
    """Yield a sentence for each reason why groups cannot be compared."""
    missing = np.flatnonzero(groups.numbers < 0)
    if len(missing):
        yield (
            f"{name} has {len(missing):,} missing value(s), the first in row {missing[0] + 1:,} (counted from 1): give "
            "every row a group, or leave these rows out with drop_missing_groups=True."
        )
        return
    if len(groups.labels) < 2:
        only = f" the only group {groups.labels[0]!r}" if groups.labels else " no group"
        yield f"{name} has{only}: a comparison needs two groups or more."
    if len(groups.labels) > MOST_GROUPS:
        yield (
            f"{name} has {len(groups.labels):,} different values, more than {MOST_GROUPS} groups: name a column of "
            "fewer values, or merge groups."
        )
        return
    parts = zip(groups.labels, groups.sizes, strict=True)
    small = [f"{label!r} has {size}" for label, size in parts if size < FEWEST_ROWS]
    if small:
        yield (
            f"{name}: a group needs at least {FEWEST_ROWS} rows, but {', '.join(small)}: leave such rows out, or merge "
            "groups."
        )
    yield from _empty_columns(groups)


def _empty_columns(groups: ComparedGroups) -> Iterator[str]:
    """Yield a sentence for each column that has values in some groups only."""
    source = as_source(groups.X)
    for name in source.names:
        known = np.bincount(groups.numbers[source.column(name).present], minlength=len(groups.labels)) > 0
        if known.any() and not known.all():
            empty = [repr(label) for label, is_known in zip(groups.labels, known, strict=True) if not is_known]
            yield f"Column {name!r} has no values in group {', '.join(empty)}: drop it."


def refuse_unsupported(parameters: Mapping[str, Any]) -> None:
    """Refuse parameters of `MarkovField` for which groups cannot be compared."""
    allowed = {
        "objective": ("pl", "the pseudo-likelihood"),
        "penalty": ("l1", "single weights"),
        "refit": (False, "weights with their L1 penalty"),
        "penalize_biases": (False, "free biases"),
        "latent": (None, "no latent variables"),
        "engine": (None, "this machine"),
    }
    problems = [
        f"{name}={parameters[name]!r} is not possible in a comparison of groups, which has {what}: leave it out."
        for name, (value, what) in allowed.items()
        if parameters[name] != value
    ]
    if getattr(parameters["max_order"], "max_order", parameters["max_order"]) != 2:
        problems.append("max_order above 2 is not possible in a comparison of groups: leave it out.")
    raise_problems(problems)
