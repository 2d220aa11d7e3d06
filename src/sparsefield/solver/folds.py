"""Folds of a choice of l1: data that are held out, and the scores of fields that are learned without them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import (
    Dataset,
    Layout,
    deduplicate_rows,
    hold_out_cells,
    row_folds,
)
from sparsefield.errors import DataError
from sparsefield.inference import InferenceMethod, infer_marginals, score_rows
from sparsefield.model import Field
from sparsefield.model.label_field import condition_on_covariates
from sparsefield.objectives import PseudoLikelihood
from sparsefield.solver.path import BatchScores, Path, Scorer
from sparsefield.solver.penalty import NonsmoothPenalty
from sparsefield.solver.solver_options import EBIC, HeldOut, SelectionCriterion
from sparsefield.solver.state import State

MIN_ROWS = 50
"""Plain tables with fewer rows, and linked tables, hold out cells instead of rows."""

BATCHES = 10
"""Number of batches in which the held-out data of a fold are scored; the differences of two fields between batches give
the standard error of their comparison."""

PATH_LENGTH, SMALLEST_RATIO, EXTENSION = 33, 1e-4, 16
"""Values of l1, the last of them as a share of the first, and values at most that follow, by the same factor, while the
score still rises."""

STEP = SMALLEST_RATIO ** (1.0 / (PATH_LENGTH - 1))

PATIENCE, LONG_PATIENCE = 3, 8
"""Values of l1 in a row without a better score that end the path, as they almost always do; and for a longer view."""


@dataclass(frozen=True)
class SelectionOptions:
    """The options of a choice of l1."""

    criterion: SelectionCriterion = field(default_factory=HeldOut)
    path_length: int = PATH_LENGTH
    """Values of l1 on the path; more follow while scores still rise."""
    patience: int | None = PATIENCE
    kkt_tol: float = 0.01
    seed: int = 0
    n_threads: int = 1
    """Threads that share the folds; with more than one, the engine has a single thread."""
    refit_l2: float | None = None
    """The l2 of a refit without L1, if there will be one: held-out data then score the refitted fields, since few
    refitted features may predict better than many that are shrunk."""


@dataclass(frozen=True)
class SelectionFold:
    """A dataset to learn from, and the scorer of its fields."""

    dataset: Dataset
    score: Scorer


@dataclass(frozen=True)
class SelectionPlan:
    """The folds of a choice of l1."""

    folds: Sequence[Callable[[], SelectionFold]]
    """Functions that return the folds, most of which may never be needed."""
    scale: float
    """Factor from the l1 of the folds, which have fewer rows, to that of all rows."""
    criterion: SelectionCriterion
    """The criterion that is used: EBIC where too little could be held out."""


def make_folds(
    dataset: Dataset,
    inference: InferenceMethod,
    engine: Engine,
    options: SelectionOptions,
    groups: np.ndarray | None = None,
) -> SelectionPlan:
    """Return the folds of a dataset; EBIC has one, which has all rows."""
    criterion = options.criterion
    if isinstance(criterion, HeldOut):
        if not dataset.tables:  # they are on a cluster
            raise held_out_refusal()
        plan = _hold_out(dataset, criterion, inference, engine, options, groups)
        if plan is not None:
            return plan
        warnings.warn(
            "There are too few cells to hold some out, so l1 is selected by EBIC. Pass selection='ebic' (--selection "
            "ebic) to accept this, or a number as l1 (--l1).",
            stacklevel=6,
        )
    used = criterion if isinstance(criterion, EBIC) else EBIC()
    fold = SelectionFold(deduplicate_rows(dataset), partial(_score_by_ebic, gamma=used.gamma))
    return SelectionPlan([lambda: fold], 1.0, used)


def held_out_refusal() -> DataError:
    """Return the error for rows that cannot be held out, because they are on a cluster."""
    return DataError(
        "l1='auto' with selection='heldout' needs all rows in the memory of this process: pass selection='ebic', or a "
        "number as l1."
    )


def _hold_out(
    dataset: Dataset,
    criterion: HeldOut,
    inference: InferenceMethod,
    engine: Engine,
    options: SelectionOptions,
    groups: np.ndarray | None,
) -> SelectionPlan | None:
    """Hold out rows or cells; None where there are too few."""
    rng = np.random.default_rng(options.seed)
    if not dataset.is_dense or groups is not None or (dataset.is_single and dataset.n_rows >= MIN_ROWS):
        n_folds = _n_folds(dataset, criterion, groups)
        held_out = [rows for rows in row_folds(dataset, criterion.share_of(n_folds), n_folds, rng, groups) if len(rows)]
        if sum(map(len, held_out)) >= BATCHES:
            return _row_plan(dataset, held_out, criterion, engine, options, groups)
        if not dataset.is_dense or groups is not None:
            raise DataError(
                f"l1='auto' needs {BATCHES} rows to hold out, and finds {sum(map(len, held_out))} of {dataset.n_rows}: "
                "pass selection='ebic', or a number as l1."
            )
    return _cell_plan(dataset, criterion, inference, engine, options, rng)


def _n_folds(dataset: Dataset, criterion: HeldOut, groups: np.ndarray | None) -> int:
    """Return the number of folds of rows: at most one for each group."""
    n_rows = int(np.count_nonzero(dataset.row_weights > 0.0))
    n_folds = criterion.n_folds(n_rows)
    if groups is None:
        return min(n_folds, max(n_rows, 1))
    n_groups = len(np.unique(groups[dataset.row_weights > 0.0]))
    if n_groups < 2:
        raise DataError(
            "groups= has one group only, so no group can be held out: leave groups out (--group), or pass a number as "
            "l1 (--l1)."
        )
    return min(n_folds, n_groups)


# -- rows --------------------------------------------------------------------------------------------------------------


def _row_plan(
    dataset: Dataset,
    held_out: Sequence[np.ndarray],
    criterion: HeldOut,
    engine: Engine,
    options: SelectionOptions,
    groups: np.ndarray | None,
) -> SelectionPlan:
    """Learn from the other rows. The noise in a gradient, and the l1 that suppresses it, grow with the root of rows."""

    def make(rows: np.ndarray) -> SelectionFold:
        rest = dataset.subset(np.setdiff1d(np.arange(dataset.n_rows), rows))
        scorer = _RowScorer(dataset.subset(rows), _batches(rows, groups), engine, options)
        return SelectionFold(deduplicate_rows(rest), scorer)

    total = sum(dataset.total_weights)
    weight = total - float(np.mean([dataset.row_weights[rows].sum() for rows in held_out]))
    scale = float(np.sqrt(total / max(weight, np.finfo(float).tiny)))
    return SelectionPlan([partial(make, rows) for rows in held_out], scale, criterion)


def _batches(rows: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Return the batch of each held-out row, (rows,).

    Every tenth row is in the same batch, which covers all times and places if rows are in such an order. Rows of the
    same group, which are not independent, are in the same batch.
    """
    units = np.arange(len(rows)) if groups is None else np.unique(groups[rows], return_inverse=True)[1]
    return units % BATCHES


def final_field(path: Path, options: SelectionOptions) -> Field:
    """Return the current field as the fit would return it, which may be after a refit."""
    return path.state.working_set.field if options.refit_l2 is None else path.refitted(options.refit_l2)


@dataclass(frozen=True)
class _RowScorer:
    """Scores a field by the pseudo-log-likelihood of rows per unit of weight: each known cell is hidden in turn."""

    dataset: Dataset
    batches: np.ndarray
    """(rows,)"""
    engine: Engine
    options: SelectionOptions

    def __call__(self, path: Path) -> BatchScores:
        """Return the scores of all batches that have weight."""
        found, weights = final_field(path, self.options), self.dataset.row_weights
        totals = np.bincount(self.batches, weights)
        dataset = self.dataset
        if found.schema.has_sparse_covariates:
            found, dataset = condition_on_covariates(found, dataset.covariates, dataset.tables[0])
        if dataset.is_dense:
            scores = np.bincount(self.batches, weights * score_rows(found, dataset, self.engine))
        else:
            scores = np.array([self._score_sparse(found, k) for k in range(len(totals))])
        weighed = totals > 0.0
        return BatchScores(scores[weighed] / totals[weighed], totals[weighed])

    def _score_sparse(self, field: Field, batch: int) -> float:
        dataset = self.dataset.subset(np.flatnonzero(self.batches == batch))
        problem = PseudoLikelihood().make_problem(dataset, self.engine)
        return -problem.evaluate(problem.compile(field.layout.arcs(field.features)), field.theta)[0]


def _score_by_ebic(path: Path, gamma: float) -> BatchScores:
    return BatchScores(np.array([-ebic(path.state, gamma)]), np.ones(1))


# -- cells -------------------------------------------------------------------------------------------------------------


def _cell_plan(
    dataset: Dataset,
    criterion: HeldOut,
    inference: InferenceMethod,
    engine: Engine,
    options: SelectionOptions,
    rng: np.random.Generator,
) -> SelectionPlan | None:
    """Learn from the other cells; None where there are too few."""
    folds = []
    codes = [table.codes() for table in dataset.tables]
    n_folds = _n_cell_folds(dataset, criterion)
    share = criterion.share_of(n_folds)
    for train, hidden in hold_out_cells(dataset, share, n_folds, rng):
        if sum(int(cells.sum()) for cells in hidden) < BATCHES:
            return None
        cells = codes, hidden, [rng.integers(0, BATCHES, one.shape) for one in codes]
        folds.append(SelectionFold(train, _CellScorer(train, cells, inference, engine, options)))
    return SelectionPlan([partial(_same, fold) for fold in folds], float(np.sqrt(1.0 / (1.0 - share))), criterion)


def _same(fold: SelectionFold) -> SelectionFold:
    return fold


def _n_cell_folds(dataset: Dataset, criterion: HeldOut) -> int:
    return 1 if criterion.folds == "auto" else criterion.folds


@dataclass(frozen=True)
class _CellScorer:
    """Scores a field by the mean log-probability of the values of cells that are missing in a dataset."""

    dataset: Dataset
    cells: tuple[Sequence[np.ndarray], ...]
    """Table by table, (targets, rows) each: the values of all cells, which of them to score, their batches."""
    inference: InferenceMethod
    engine: Engine
    options: SelectionOptions

    def __call__(self, path: Path) -> BatchScores:
        """Return the scores of all batches that have cells."""
        found = infer_marginals(final_field(path, self.options), self.dataset, self.inference, self.engine)
        total, count = np.zeros(BATCHES), np.zeros(BATCHES)
        for table, beliefs, codes, scored, batches in zip(self.dataset.tables, found.values, *self.cells, strict=True):
            offsets = table.schema.coding.state_offsets
            for v in range(len(codes)):
                rows = np.flatnonzero(scored[v])
                truth = np.log(np.maximum(beliefs[offsets[v] + codes[v, rows], rows], 1e-12))
                np.add.at(total, batches[v, rows], truth)
                np.add.at(count, batches[v, rows], 1.0)
        return BatchScores(total[count > 0] / count[count > 0], count[count > 0])


def ebic(state: State, gamma: float) -> float:
    """Return the extended Bayesian information criterion of the current field; smaller is better.

    It is the sum over states of the EBIC of one regression each: 2 x loss, and a cost for each end of a feature.
    Where edges are penalized as groups, almost all of whose weights are small, an edge counts as many features as its
    weights amount to: (sum of sizes)^2 / sum of squares, of weights x penalty factors.
    """
    working_set = state.working_set
    n, arcs, counted = working_set.n_biases, working_set.arcs, working_set.active.astype(np.float64)
    if working_set.grouped:
        sizes = np.abs(working_set.theta[n:]) * working_set.penalty_factors
        penalty = NonsmoothPenalty(np.ones(len(sizes)), working_set.numbered_edges())
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
