"""Folds of a choice of l1: paths that are learned without held-out data, and scores of their fields on these data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Dataset, Layout, deduplicate_rows, hold_out_cells, row_folds
from sparsefield.data.table import rebuild_table
from sparsefield.errors import DataError
from sparsefield.inference import ShortGibbs, infer_marginals, score_rows
from sparsefield.model import Field
from sparsefield.model.field import condition_on_covariates
from sparsefield.objectives import PseudoLikelihood
from sparsefield.solver.checkpoint import CheckpointFile
from sparsefield.solver.owlqn import NonsmoothPenalty
from sparsefield.solver.path import Path
from sparsefield.solver.solver_options import EBIC, HeldOut, SelectionCriterion
from sparsefield.solver.state import PathPoint, State, WarmStart
from sparsefield.solver.working_set import make_field

MIN_ROWS = 50
"""Plain tables with fewer rows, and linked tables, hold out cells instead of rows."""

HIDDEN_SHARE, MANY_CELLS, MOST_CELLS = 0.25, 4_000, 100_000
"""Share of the known cells of held-out rows that are hidden at a time where cells are missing; other shares are hidden
in turn, until copies of the rows have so many cells; and cells of the held-out rows of a fold that are used at most."""

FEW_FOLDS, MANY_ROWS = 3, 1_000
"""Folds in which values of l1 are compared if there are so many rows. More folds lower the standard error of a
comparison, and the choice of the worse one of two values costs less than a fifth of it on average."""

SEARCHED_CELLS, SEARCHED_ROWS = 2_000_000, 10_000
"""Target cells of one dense table in which l1 is chosen, and rows at least: of a larger table there is a sample."""

BATCHES = 10
"""Number of batches in which the held-out data of a fold are scored; the differences of two fields between batches give
the standard error of their comparison."""

Scores = tuple[np.ndarray, np.ndarray]
"""Scores of batches of held-out data, of which larger is better, and how much each of them counts."""


@dataclass(frozen=True)
class SelectionOptions:
    """The options of a choice of l1."""

    criterion: SelectionCriterion = field(default_factory=HeldOut)
    kkt_tol: float = 0.01
    tol: float = 1e-6
    seed: int = 0
    n_threads: int = 1
    """Threads that share the folds; with more than one, the engine has a single thread."""
    refit_l2: float | None = None
    """The l2 of a refit without L1, if there will be one: held-out data then score the refitted fields, since few
    refitted features may predict better than many that are shrunk."""


class Fold:
    """The path of one fold, whose fields are scored on the data that were held out.

    Parameters
    ----------
    path, score : the path, and the function that scores its current field
    ahead : whether candidates are added before they are needed, as `Path.step_to` explains
    file : where finished points are saved; those of an interrupted selection are not computed again
    """

    def __init__(
        self, path: Path, score: Callable[[Path], Scores], *, ahead: bool = True, file: CheckpointFile | None = None
    ) -> None:
        self._path, self._score, self._ahead, self._file = path, score, ahead, file
        self._arrays, self._facts = (None if file is None else file.load()) or ({}, {})
        self.points = {float(name): self._load(name) for name in self._facts.get("points", [])}
        """By l1."""
        self._last: float | None = None
        """The l1 of the current field of the path, if there is one."""

    def begin(self) -> float:
        """Fit the field without pairs, and return the smallest l1 that selects nothing."""
        if not self.points:
            self._path.run()
            self._facts, self._last = {"l1_max": self._path.l1_max(), "points": []}, np.inf
        return float(self._facts["l1_max"])

    def fit(self, l1: float, other: Fold | None = None) -> PathPoint:
        """Return the point at some l1, which is learned once.

        The fit starts from the current weights, if their l1 is larger, or from the point at the nearest l1. A fold
        without points takes that of another fold, which has seen the held-out data of this one: it takes
        two steps, or these data would show.
        """
        if l1 in self.points:
            return self.points[l1]
        points = self.points or ({} if other is None else other.points)
        start = None
        if points and not (self._last is not None and self._last > l1):
            nearest = min(points, key=lambda at: (round(abs(np.log(at / l1)), 6), -at))
            start = WarmStart.from_field(points[nearest].field)
        if start is not None and not self.points:
            self._path.step_to(l1, start, ahead=self._ahead)
            start = None
        fitted = self._path.step_to(l1, start, ahead=self._ahead).field
        scores, weights = self._score(self._path)
        self.points[l1], self._last = PathPoint(l1, scores, fitted, weights), l1
        self._save(repr(l1), self.points[l1])
        return self.points[l1]

    def _save(self, name: str, point: PathPoint) -> None:
        if self._file is not None:
            arrays = {"theta": point.field.theta, "features": point.field.features}
            arrays |= {"scores": point.scores, "weights": point.weights}
            self._arrays |= {f"{name} {key}": array for key, array in arrays.items()}
            self._facts.setdefault("points", []).append(name)
            self._file.save(self._arrays, self._facts)

    def _load(self, name: str) -> PathPoint:
        keys = ("theta", "features", "scores", "weights")
        theta, features, scores, weights = (self._arrays[f"{name} {key}"] for key in keys)
        biases, own = np.split(theta, [len(theta) - len(features)])
        return PathPoint(float(name), scores, make_field(self._path.layout, biases, features, own), weights)


class FoldGrid:
    """Fits of folds at values of l1, each of which is learned once.

    Parameters
    ----------
    first : the first fold, after `Fold.begin`; others start from its weights
    n_folds : number of folds
    open_fold : ``open_fold(k)`` returns another fold
    values : (values,), falling
    threads : for the other folds, or None
    hear : called with the first fold's points, and with those of all folds
    n_few : number of folds in which values are compared; all, by default, decide about the field without pairs, too
    """

    def __init__(
        self,
        first: Fold,
        n_folds: int,
        open_fold: Callable[[int], Fold],
        values: np.ndarray,
        threads: ThreadPoolExecutor | None,
        hear: Callable[[PathPoint], None],
        n_few: int | None = None,
    ) -> None:
        self._folds, self._n_folds, self._open_fold = [first], n_folds, open_fold
        self._n_few = n_folds if n_few is None else min(n_few, n_folds)
        self._values, self._threads, self._hear = values.tolist(), threads, hear
        self._heard: set[int] = set()

    def __len__(self) -> int:
        return len(self._values)

    def lead(self, index: int) -> PathPoint:
        """Return the first fold's point at a value."""
        point = self._folds[0].fit(self._values[index])
        if index not in self._heard:
            self._heard.add(index)
            self._hear(point)
        return point

    def pool(self, indices: Iterable[int], *, few: bool = False) -> None:
        """Fit all folds, or few of them, at some values."""
        n_folds = self._n_few if few else self._n_folds
        new = [index for index in sorted(indices) if self._n_fitted(index) < n_folds]
        for index in new:
            self.lead(index)
        if n_folds == 1 or not new:
            return
        while len(self._folds) < n_folds:
            self._folds.append(self._open_fold(len(self._folds)))
        first, values = self._folds[0], [self._values[index] for index in new]

        def fit(fold: Fold) -> list[PathPoint]:
            return [fold.fit(l1, first) for l1 in values]

        waiting = [(fold, self._threads and self._threads.submit(fit, fold)) for fold in self._folds[1:n_folds]]
        for fold, task in reversed(waiting):  # this thread helps with those that have not begun
            if task is None or task.cancel():
                fit(fold)
        for _, task in waiting:
            if task is not None and not task.cancelled():
                task.result()
        for index in new:
            self._hear(self.point(index))

    def point(self, index: int) -> PathPoint:
        """Return the point of all folds that have been fitted at a value; its field is that of the first."""
        points = [fold.points[self._values[index]] for fold in self._folds if self._values[index] in fold.points]
        scores, weights = (np.concatenate(part) for part in zip(*((p.scores, p.weights) for p in points), strict=True))
        return PathPoint(self._values[index], scores, points[0].field, weights)

    def path(self) -> dict[int, PathPoint]:
        """Return the points of all values that were tried.

        Where the first fold alone was fitted, the scores of the others are estimates: those at the nearest value,
        changed by as much as the mean score of the first fold.
        """
        first = self._folds[0].points
        tried = [index for index, l1 in enumerate(self._values) if l1 in first]
        pooled = [index for index in tried if self._n_fitted(index) >= self._n_few] or tried
        points = {}
        for index in tried:
            near = min(pooled, key=lambda other: abs(other - index))
            own, there, every = first[self._values[index]], first[self._values[near]], self.point(near)
            others = every.scores[len(own.scores) :] + (own.score - there.score)
            points[index] = PathPoint(own.l1, np.concatenate([own.scores, others]), own.field, every.weights)
        return points

    def _n_fitted(self, index: int) -> int:
        return sum(self._values[index] in fold.points for fold in self._folds)


# -- division of the data ----------------------------------------------------------------------------------------------


FoldRows = tuple[Dataset, Callable[[Path], Scores]]


class SelectionPlan(NamedTuple):
    """The folds of a choice of l1."""

    folds: Sequence[Callable[..., FoldRows]]
    """Functions that return a dataset to learn from, and the scorer of its fields; most may never be needed."""
    scale: float
    """Factor from the l1 of the folds, which have fewer rows, to that of all rows."""
    criterion: SelectionCriterion
    """The criterion that is used: EBIC where too little could be held out."""


def make_folds(
    dataset: Dataset, engine: Engine, options: SelectionOptions, groups: np.ndarray | None = None
) -> SelectionPlan:
    """Return the folds of a dataset; EBIC has one, which has all rows."""
    criterion = options.criterion
    if isinstance(criterion, HeldOut):
        if not dataset.tables:  # they are on a cluster
            raise held_out_refusal()
        plan = _hold_out(dataset, criterion, engine, options, groups)
        if plan is not None:
            return plan
        warnings.warn(
            "There are too few cells to hold some out, so l1 is selected by EBIC. Pass selection='ebic' (--selection "
            "ebic) to accept this, or a number as l1 (--l1).",
            stacklevel=6,
        )
    used = criterion if isinstance(criterion, EBIC) else EBIC()

    def score(path: Path) -> Scores:
        return np.array([-ebic(path.state, used.gamma)]), np.ones(1)

    return SelectionPlan([lambda: (deduplicate_rows(dataset), score)], 1.0, used)


def held_out_refusal() -> DataError:
    """Return the error for rows that cannot be held out, because they are on a cluster."""
    return DataError("selection='heldout' needs all rows in this process: pass selection='ebic', or a number as l1.")


def _hold_out(
    dataset: Dataset, criterion: HeldOut, engine: Engine, options: SelectionOptions, groups: np.ndarray | None
) -> SelectionPlan | None:
    """Hold out rows or cells; None where there are too few."""
    rng = np.random.default_rng(options.seed)
    if not dataset.is_dense or groups is not None or (dataset.is_single and dataset.n_rows >= MIN_ROWS):
        searched, rows = dataset, np.flatnonzero(dataset.row_weights > 0.0)
        most = max(SEARCHED_CELLS // max(dataset.layout.n_targets, 1), SEARCHED_ROWS)
        if dataset.is_dense and groups is None and len(rows) > most:
            searched = dataset.subset(np.sort(rng.choice(rows, most, replace=False)))
        held_out = _held_out_rows(searched, criterion, rng, groups)
        count = sum(map(len, held_out))
        if count >= BATCHES:
            # The noise in a gradient, and the l1 that suppresses it, grow with the root of the number of rows.
            weights = searched.row_weights
            weight = weights.sum() - float(np.mean([weights[rows].sum() for rows in held_out]))
            scale = float(np.sqrt(sum(dataset.total_weights) / max(weight, np.finfo(float).tiny)))
            folds = [partial(_row_fold, searched, rows, engine, options, groups) for rows in held_out]
            return SelectionPlan(folds, scale, criterion)
        if not dataset.is_dense or groups is not None:
            raise DataError(
                f"l1='auto' needs {BATCHES} rows to hold out, and finds {count} of {dataset.n_rows}: pass "
                "selection='ebic', or a number as l1."
            )
    return cell_folds(dataset, criterion, engine, options, rng)


def cell_folds(
    dataset: Dataset, criterion: HeldOut, engine: Engine, options: SelectionOptions, rng: np.random.Generator
) -> SelectionPlan | None:
    """Return folds of hidden cells, whose functions take beliefs of an earlier fit; None where there are too few."""
    n_folds = 1 if criterion.folds == "auto" else criterion.folds
    share = criterion.share_of(n_folds)
    folds = []
    for train, hidden in hold_out_cells(dataset, share, n_folds, rng):
        if sum(int(cells.sum()) for cells in hidden) < BATCHES:
            return None
        codes = [table.codes() for table in dataset.tables]
        cells = HiddenCells(train, codes, hidden, [rng.integers(0, BATCHES, table.shape) for table in codes])
        scorer = partial(score_cells, cells=cells, engine=engine, options=options)
        folds.append(partial(_cell_fold, train, scorer))
    return SelectionPlan(folds, float(np.sqrt(1.0 / (1.0 - share))), criterion)


def _cell_fold(train: Dataset, scorer: Callable[[Path], Scores], beliefs: Sequence[np.ndarray] = ()) -> FoldRows:
    """Return rows with hidden cells, whose ``beliefs`` are those of an earlier fit (target columns, rows) by block."""
    for (_, block), values in zip(train.blocks(), beliefs, strict=False):
        block.beliefs[: len(values)] = values
    return train.with_sums(), scorer


def _held_out_rows(
    dataset: Dataset, criterion: HeldOut, rng: np.random.Generator, groups: np.ndarray | None
) -> list[np.ndarray]:
    """Return the rows that each fold holds out; there is at most one fold for each group."""
    weighted = dataset.row_weights > 0.0
    n_units = max(int(weighted.sum()), 1)
    n_folds = criterion.n_folds(n_units)
    if groups is not None:
        n_units = len(np.unique(groups[weighted]))
        if n_units < 2:
            raise DataError("groups= has only one group: leave groups out (--group), or pass l1 (--l1).")
    n_folds = min(n_folds, n_units)
    return [rows for rows in row_folds(dataset, criterion.share_of(n_folds), n_folds, rng, groups) if len(rows)]


def _row_fold(
    dataset: Dataset, rows: np.ndarray, engine: Engine, options: SelectionOptions, groups: np.ndarray | None
) -> tuple[Dataset, Callable[[Path], Scores]]:
    rest, held_out = dataset.subset(np.setdiff1d(np.arange(dataset.n_rows), rows)), dataset.subset(rows)
    # Every tenth row is in the same batch, which covers all times and places if rows are in such an order. Rows of the
    # same group, which are not independent, are in the same batch.
    units = np.arange(len(rows)) if groups is None else np.unique(groups[rows], return_inverse=True)[1]
    batches = units % BATCHES
    if dataset.is_dense and dataset.has_missing:
        n_used = min(len(rows), MOST_CELLS // dataset.layout.n_targets + 1)
        some = np.linspace(0, len(rows) - 1, n_used).astype(np.int64)
        cells = _hide_cells(held_out.subset(some), batches[some])
        return rest, partial(score_cells, cells=cells, engine=engine, options=options)
    score = partial(score_row_batches, dataset=held_out, batches=batches, engine=engine, options=options)
    return deduplicate_rows(rest), score


class HiddenCells(NamedTuple):
    """A dataset in which cells are hidden, to be predicted from the others."""

    dataset: Dataset
    codes: Sequence[np.ndarray]
    """Table by table, (targets, rows): those of all cells."""
    hidden: Sequence[np.ndarray]
    """(targets, rows) bool"""
    batches: Sequence[np.ndarray]
    """(targets, rows) or (rows,): numbers of batches."""


def _hide_cells(dataset: Dataset, batches: np.ndarray) -> HiddenCells:
    """Hide parts of the known cells, the same ones for every l1; each part has copies of the rows."""
    (table,), (width,) = dataset.tables, dataset.layout.widths
    codes, n_parts = table.codes(), round(1 / HIDDEN_SHARE)
    part_of_cell = (np.random.default_rng(0).random(codes.shape) * n_parts).astype(np.int64)
    used = range(min(n_parts, -(-MANY_CELLS // codes.size)))
    hidden = np.concatenate([(part_of_cell == part) & (codes >= 0) for part in used], axis=1)
    rows, codes = np.tile(np.arange(table.n_rows), len(used)), np.tile(codes, len(used))
    shown = rebuild_table(table, np.where(hidden, -1, codes), rows, int(width))
    return HiddenCells(dataset.with_tables([shown]), [codes], [hidden], [batches[rows]])


# -- scores ------------------------------------------------------------------------------------------------------------


def final_field(path: Path, options: SelectionOptions) -> Field:
    """Return the current field as the fit would return it, which may be after a refit."""
    return path.state.working_set.field if options.refit_l2 is None else path.refitted(options.refit_l2)


def score_row_batches(
    path: Path, *, dataset: Dataset, batches: np.ndarray, engine: Engine, options: SelectionOptions
) -> Scores:
    """Score a field by the pseudo-log-likelihood of rows per unit of weight: each known cell is hidden in turn.

    ``batches`` are the numbers of the batches of all rows, (rows,); those without weight are left out.
    """
    field, weights = final_field(path, options), dataset.row_weights
    totals = np.bincount(batches, weights)
    if field.schema.has_sparse_covariates:
        field, dataset = condition_on_covariates(field, dataset.covariates, dataset.tables[0])
    if dataset.is_dense:
        scores = np.bincount(batches, weights * score_rows(field, dataset, engine))
    else:
        scores = np.empty(len(totals))
        for batch in range(len(totals)):
            problem = PseudoLikelihood().make_problem(dataset.subset(np.flatnonzero(batches == batch)), engine)
            graph = problem.compile(field.layout.arcs(field.features))
            scores[batch] = -problem.evaluate(graph, field.theta)[0]
    weighed = totals > 0.0
    return scores[weighed] / totals[weighed], totals[weighed]


def score_cells(path: Path, *, cells: HiddenCells, engine: Engine, options: SelectionOptions) -> Scores:
    """Score a field by the mean log-probability of hidden cells given the others."""
    field, dataset = final_field(path, options), cells.dataset
    if dataset.has_expected_sums:  # as they are in the rows that the field was learned from, which are the same
        problem: Any = path.state.problem
        blocks = iter(problem.source.blocks)
        parts = (replace(table, blocks=tuple(next(blocks) for _ in table.blocks)) for table in dataset.tables)
        dataset = replace(dataset, tables=tuple(parts))
    marginals = infer_marginals(field, dataset, ShortGibbs(), engine)
    total, count = np.zeros(BATCHES), np.zeros(BATCHES)
    for table, beliefs, codes, hidden, batches in zip(cells.dataset.tables, marginals.values, *cells[1:], strict=True):
        v, rows = np.nonzero(hidden)
        states = table.schema.coding.state_offsets[v] + codes[v, rows]
        weights, of_cell = table.weight()[rows], np.broadcast_to(batches, codes.shape)[v, rows]
        total += np.bincount(of_cell, weights * np.log(np.maximum(beliefs[states, rows], 1e-12)), BATCHES)
        count += np.bincount(of_cell, weights, BATCHES)
    return total[count > 0] / count[count > 0], count[count > 0]


def ebic(state: State, gamma: float) -> float:
    """Return the extended Bayesian information criterion of the current field; smaller is better.

    It is the sum over states of the EBIC of one regression each: 2 x loss, and a cost for each end of a feature.
    Where edges are penalized as groups, almost all of whose weights are small, an edge counts as many features as its
    weights amount to: (sum of sizes)^2 / sum of squares, of weights x penalty factors.
    """
    working_set = state.working_set
    n, arcs, counted = working_set.n_biases, working_set.arcs, working_set.active.astype(np.float64)
    if working_set.edges is not None:
        sizes = np.abs(working_set.theta[n:]) * working_set.penalty_factors
        penalty = NonsmoothPenalty(np.ones(len(sizes)), np.unique(working_set.edges, return_inverse=True)[1])
        total, squares = penalty.sum_groups(sizes), penalty.sum_groups(np.square(sizes))
        counted = np.divide(sizes * total, squares, out=np.zeros(len(sizes)), where=squares > 0.0)
    ends = np.bincount(arcs.target, counted[arcs.feature], minlength=n)
    costs = ebic_costs(state.layout, state.missing.observed_weights(), gamma)
    return float(2.0 * state.missing.observed_loss() + ends @ costs)


def ebic_costs(layout: Layout, weights: np.ndarray, gamma: float) -> np.ndarray:
    """Return the cost of one end of a feature at each state, (states,): ln(weight) + 2 gamma ln(possible columns).

    ``weights`` (states,) is the weight of the rows in which the variable of each state is observed.
    """
    parts = []
    for schema, width in zip(layout.schemas, layout.widths, strict=True):
        own = np.repeat(np.diff(schema.target_offsets), np.diff(schema.target_offsets))
        parts.append(2.0 * gamma * np.log(np.maximum(int(width) - own, 1)))
    return np.log(np.maximum(weights, 1.0)) + np.concatenate(parts)
