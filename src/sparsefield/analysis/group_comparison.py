"""This module compares the networks of groups of rows: one field for each group, their differences, and tests."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import sparsefield
from sparsefield.analysis.compared_groups import ComparedGroups, read_compared_groups, refuse_unsupported
from sparsefield.analysis.comparison_tables import ComparisonTables, difference_field, make_tables
from sparsefield.analysis.comparison_text import ComparisonFacts, describe_comparison
from sparsefield.analysis.completed_rows import complete_once, complete_table, match_missing
from sparsefield.analysis.difference_selection import DifferencePenalty, select_difference
from sparsefield.analysis.group_refits import SubsetProblem
from sparsefield.analysis.group_statistics import Adjustment, CandidateEdges
from sparsefield.analysis.joint_fit import GroupRows, JointFit, JointOptions, fit_groups
from sparsefield.analysis.permutation_tests import Comparison, PermutationResult, PermutationTest, SeparateFits
from sparsefield.compute import Engine, Threads
from sparsefield.data import DenseDataset, Label, Layout, Table, compile_table, deduplicate_rows
from sparsefield.data.table import rebuild_table
from sparsefield.errors import DataError
from sparsefield.estimators.markov_field import MarkovField
from sparsefield.frame_protocol import Frame
from sparsefield.induction.candidates import all_pairs
from sparsefield.interrupts import interrupts_as_such
from sparsefield.model import Field, FitRecord
from sparsefield.parameter_checks import raise_problems
from sparsefield.solver.checkpoint import CheckpointFile, fingerprint, make_folder

if TYPE_CHECKING:
    from sparsefield.app.pages.figure import NetworkPlot


@dataclass(frozen=True)
class GroupComparison:
    """The fields of groups of rows, how they differ, and tests of these differences.

    Attributes
    ----------
    groups : tuple of group labels
    sizes : tuple of int, the rows of each group
    fields : dict of group label -> fitted `MarkovField`
    pooled : `MarkovField`
        Fitted to all rows without the group column.
    l1, l1_difference : float
        Penalties of the weights that all groups share, and of the differences of each group.
    path : tuple of `DifferencePenalty`
        The values of l1_difference that were tried; empty where it was given.
    tests : frame
        group_a, group_b ("" and "" for the test of all groups), test, statistic, p.
    edges : frame
        For each pair of groups and each edge that has a weight: group_a, group_b, variable_a, variable_b; weight_a,
        weight_b and difference in the fields; separate_a and separate_b in the fits of each group by itself, to which
        statistic, p and p_adjusted of the test belong. Smallest p first, over all pairs of groups.
    nodes : frame
        For each pair of groups and each column, its strength centrality in the fields, and the test of its difference.
    permutations : int
    adjustment : "max", "holm", "bh" or "none"
    results : tuple of `PermutationResult`
    hidden_cells : int
        Observed cells that the tests did not use, so that all groups have the same missing cells.
    """

    groups: tuple[Label, ...]
    sizes: tuple[int, ...]
    fields: Mapping[Label, MarkovField]
    pooled: MarkovField
    l1: float
    l1_difference: float
    path: tuple[DifferencePenalty, ...]
    tables: ComparisonTables
    permutations: int
    adjustment: Adjustment
    results: tuple[PermutationResult, ...]
    hidden_cells: int

    def __repr__(self) -> str:
        return f"<GroupComparison of {', '.join(map(str, self.groups))}: summary(), tests, edges, fields, plot()>"

    @property
    def tests(self) -> Frame:
        return self.tables.tests

    @property
    def edges(self) -> Frame:
        return self.tables.edges

    @property
    def nodes(self) -> Frame:
        return self.tables.nodes

    def difference_field(self, group_a: Label | None = None, group_b: Label | None = None) -> Field:
        """Return a field whose weights are those of group_a minus those of group_b; by default of the first two."""
        a, b = self._two_groups(group_a, group_b)
        return difference_field(self.fields[a].field_, self.fields[b].field_)

    def plot(self, group_a: Label | None = None, group_b: Label | None = None) -> NetworkPlot:
        """Return a plot of the difference network of two groups: edges have the weight in group_a minus group_b."""
        from sparsefield.app.pages.figure import plot_network

        a, b = self._two_groups(group_a, group_b)
        return plot_network(self.difference_field(a, b), title=f"Weights of {a} minus weights of {b}")

    @property
    def facts(self) -> ComparisonFacts:
        """Return what texts and pages are made from."""
        penalties = self.l1, self.l1_difference
        tested = self.permutations, self.adjustment, self.tables, self.hidden_cells
        return ComparisonFacts(self.groups, self.sizes, *penalties, *tested)

    def summary(self) -> str:
        """Return the result in a few lines of text."""
        return "\n".join(describe_comparison(self.facts))

    def save_models(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write the field of each group to a model file in a folder, and return the files."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        paths = [place / f"{name}.safetensors" for name in _file_names(self.groups)]
        for path, field in zip(paths, self.fields.values(), strict=True):
            field.save(path)
        return paths

    def _two_groups(self, group_a: Label | None, group_b: Label | None) -> tuple[Label, Label]:
        a = self.groups[0] if group_a is None else group_a
        b = next(label for label in self.groups if label != a) if group_b is None else group_b
        unknown = [label for label in (a, b) if label not in self.groups]
        if unknown:
            known = ", ".join(map(repr, self.groups))
            raise DataError(f"There is no group {unknown[0]!r}; the groups are {known}.")
        return a, b


def compare(
    X: Any,
    group: Any,
    *,
    observed: Sequence[str | int] | str | None = None,
    l1_difference: float | str = "auto",
    permutations: int = 1000,
    adjust: Adjustment = "max",
    seed: int = 0,
    drop_missing_groups: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> GroupComparison:
    """Fit the networks of groups of rows together, and test whether they differ.

    The weights of a group are weights that all groups share plus differences, with the penalty l1 on shared weights
    and l1_difference on differences; biases are those of each group. Tests permute the groups of rows, and fit each
    group by itself, as the NetworkComparisonTest of R does.

    Parameters
    ----------
    X : frame or 2-D array
        Rows by columns of any kind; missing values are None, NaN or null.
    group : name of a column of ``X``, or (rows,) values
        The group of each row.
    observed : columns, by name or position, that are conditioned on
    l1_difference : float or "auto"
        "auto" selects it by cross-validation over rows: the largest one whose score is within one standard error of the
        best. Infinity allows no differences but those of biases. Up to l1 / number of groups, groups share nothing, and
        are fitted by themselves with this penalty.
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
    >>> found = compare(X, group, l1=5.0, permutations=99)
    >>> found.groups, found.edges["p"][0]
    (('north', 'south'), 0.01)
    """
    _check_parameters(l1_difference, permutations, adjust, seed)
    if "sample_weight" in options:
        raise DataError("A comparison of groups counts each row once: leave sample_weight out.")
    estimator = MarkovField(**{"random_state": seed, **options})
    refuse_unsupported(estimator.get_params(deep=False))
    groups = read_compared_groups(X, group, drop_missing=drop_missing_groups)
    estimator.fit(groups.X, observed=observed)
    if not estimator.l1_ > 0.0:
        raise DataError("A comparison of groups needs an l1 above 0.")
    source = estimator._read(groups.X)
    names = tuple(map(str, groups.labels))
    rows = GroupRows(compile_table(source, estimator.field_.schema), groups.numbers, names)
    with interrupts_as_such(), Threads(estimator.n_jobs) as engine:
        tested, field = _match_missing(estimator, rows, seed, engine)
        plan = _Plan(estimator, groups, rows, tested, field, seed, int(permutations))
        fit, path = plan.fit(l1_difference, engine)
        results = plan.test(engine, checkpoint, progress)
    return plan.finish(fit, path, results, adjust)


def _check_parameters(l1_difference: Any, permutations: Any, adjust: Any, seed: Any) -> None:
    problems = []
    if l1_difference != "auto" and (not isinstance(l1_difference, Real) or not float(l1_difference) > 0.0):
        problems.append(f"l1_difference must be a number above 0, or 'auto'; got {l1_difference!r}.")
    if not isinstance(permutations, Integral) or permutations < 0:
        problems.append(f"permutations must be a whole number from 0; got {permutations!r}.")
    if adjust not in get_args(Adjustment):
        problems.append(f"adjust must be one of {', '.join(map(repr, get_args(Adjustment)))}; got {adjust!r}.")
    if not isinstance(seed, Integral) or seed < 0:
        problems.append(f"seed must be a whole number from 0; got {seed!r}.")
    raise_problems(problems)


def _match_missing(estimator: MarkovField, rows: GroupRows, seed: int, engine: Engine) -> tuple[Table, Field]:
    """Return a table in which the cells of all groups are missing alike, and a field that was fitted to it."""
    codes = rows.table.codes()
    hidden = match_missing((codes < 0).T, rows.numbers, seed).T & (codes >= 0)
    if not hidden.any():
        return rows.table, estimator.field_
    table = rebuild_table(
        rows.table, np.where(hidden, -1, codes), np.arange(rows.table.n_rows), rows.table.schema.n_columns
    )
    options = replace(estimator._training_options(), l1=estimator.l1_)
    trainer = estimator._make_trainer(deduplicate_rows(DenseDataset.single(table)), options, engine)
    return table, trainer.run().field


@dataclass(frozen=True)
class _Plan:
    """What a comparison is made from."""

    estimator: MarkovField
    """Fitted to all rows."""
    groups: ComparedGroups
    rows: GroupRows
    tested: Table
    """The rows, with cells hidden so that all groups have the same missing cells."""
    tested_field: Field
    """Fitted to them, without groups."""
    seed: int
    permutations: int

    @property
    def layout(self) -> Layout:
        return self.estimator.field_.layout

    @cached_property
    def candidates(self) -> np.ndarray:
        """(pairs, 2)"""
        rule = self.estimator._resolve("induction")
        return rule.start(self.layout) if rule.fixed_candidates else all_pairs(self.layout)

    def options(self, l1_difference: float) -> JointOptions:
        """Return the options of a joint fit."""
        estimator = self.estimator
        training = replace(estimator._training_options(), certify=True, stages=1)
        return JointOptions(estimator.l1_, l1_difference, training, estimator._resolve("missing"))

    def fit(self, l1_difference: Any, engine: Engine) -> tuple[JointFit, tuple[DifferencePenalty, ...]]:
        """Return the joint fit, and the values of l1_difference that were tried."""
        candidates, pooled, path = self.candidates, self.estimator.field_, ()
        complete = replace(self.rows, table=complete_table(self.rows.table, pooled, self.seed))
        weighted = self.candidates[(self.separate.weights != 0.0).any(axis=0)]
        likely = np.unique(np.concatenate([pooled.pairs, weighted]), axis=0)
        value = l1_difference
        if value == "auto":
            path = select_difference(complete, self.options(np.inf), likely, engine, self.seed)
            value = next(point.l1_difference for point in path if point.selected)
        return fit_groups(self.rows, self.options(float(value)), candidates, likely, engine), path

    @cached_property
    def _problem(self) -> SubsetProblem:
        rows = complete_once(self.tested, self.tested_field, self.seed)
        return SubsetProblem(rows, self.layout, self.candidates, self.estimator.l2)

    @cached_property
    def _start(self) -> np.ndarray:
        """(parameters,): the weights of the field of all rows, for all candidates."""
        return self._problem.start_from(self.tested_field.pairs, self.tested_field.theta)

    @cached_property
    def separate(self) -> SeparateFits:
        """The fits of the groups by themselves."""
        return SeparateFits.of(self._problem, self.rows.numbers, self.estimator.l1_, self._start)

    def _test(self, comparison: Comparison) -> PermutationTest:
        return PermutationTest(
            comparison,
            self._problem.rows,
            self.layout,
            self.candidates,
            CandidateEdges.of(self.rows.schema, self.candidates),
            self.rows.numbers,
            self.estimator.l1_,
            self.estimator.l2,
            self.seed,
            self.separate,
            self._start,
        )

    def test(
        self, engine: Engine, checkpoint: str | os.PathLike[str] | None, progress: Callable[[int, int], None] | None
    ) -> tuple[PermutationResult, ...]:
        """Return the results of the tests of all pairs of groups, and of all groups if there are more than two."""
        count = self.rows.n_groups
        wanted = list(combinations(range(count), 2)) + ([tuple(range(count))] if count > 2 else [])
        saved = [self._saved(checkpoint, number) for number in range(len(wanted))]
        results, total = [], self.permutations * len(wanted)
        for number, compared in enumerate(wanted):
            before = number * self.permutations

            def advance(done: int, _: int, before: int = before) -> None:
                if progress is not None:
                    progress(before + done, total)

            test = self._test(Comparison(compared, number))
            results.append(test.run(self.permutations, engine, saved[number], advance))
        for file in saved:
            if file is not None:
                file.path.unlink(missing_ok=True)
        return tuple(results)

    def _saved(self, checkpoint: str | os.PathLike[str] | None, number: int) -> CheckpointFile | None:
        if checkpoint is None:
            return None
        facts = np.array([self.estimator.l1_, self.estimator.l2, self.seed, self.permutations, number])
        pooled = self.estimator.field_
        given = self.groups.numbers, facts, self.candidates, pooled.features, pooled.theta
        mark = fingerprint(DenseDataset.single(self.rows.table), *given)
        return CheckpointFile(make_folder(checkpoint) / f"comparison-{number}.safetensors", mark)

    def finish(
        self,
        fit: JointFit,
        path: tuple[DifferencePenalty, ...],
        results: tuple[PermutationResult, ...],
        adjust: Adjustment,
    ) -> GroupComparison:
        """Return the result of the comparison."""
        unconverged = sum(result.unconverged for result in results)
        if not fit.converged or unconverged:
            warnings.warn(
                f"The fit of the groups stopped with an optimality violation of {fit.violation:.3g}, and "
                f"{unconverged:,} fits of the tests before they converged. Raise l1 or l2.",
                ConvergenceWarning,
                stacklevel=3,
            )
        fields = {label: self._group_estimator(fit, k) for k, label in enumerate(self.groups.labels)}
        plain = [field.field_ for field in fields.values()]
        tested = self.permutations > 0
        kind = self.estimator.kind_
        return GroupComparison(
            groups=self.groups.labels,
            sizes=self.groups.sizes,
            fields=fields,
            pooled=self.estimator,
            l1=fit.options.l1,
            l1_difference=fit.options.l1_difference,
            path=path,
            tables=make_tables(self.groups.labels, plain, self.candidates, results, adjust, kind, tested=tested),
            permutations=self.permutations,
            adjustment=adjust,
            results=results,
            hidden_cells=int((self.tested.codes() < 0).sum() - (self.rows.table.codes() < 0).sum()),
        )

    def _group_estimator(self, fit: JointFit, group: int) -> MarkovField:
        """Return a fitted estimator of one group."""
        result = fit.result
        record = FitRecord(
            version=sparsefield.__version__,
            n_rows=self.groups.sizes[group],
            l1=float(fit.options.l1),
            objective=float(result.objective),
            kkt_violation=float(fit.violation),
            converged=bool(fit.converged),
            mc_error=None if np.isnan(result.mc_error) else float(result.mc_error),
            iterations=result.iterations,
        )
        estimator: Any = clone(self.estimator)
        estimator.set_params(l1=float(fit.options.l1))
        named = hasattr(self.estimator, "feature_names_in_")
        estimator._restore(
            replace(fit.group_field(group), record=record), {"kind": self.estimator.kind_, "named": named}
        )
        return estimator


def _file_names(labels: Sequence[Label]) -> list[str]:
    """Return names of files for groups, each of them once."""
    names: list[str] = []
    for label in labels:
        name = "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in str(label)).strip(".") or "group"
        taken = sum(other.lower() == name.lower() for other in names)
        names.append(f"{name}-{len(names) + 1}" if taken else name)
    return names
