"""This module holds out data for the choice of l1, fold by fold, and scores fields that are learned without them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import (
    CovariateDataset,
    Dataset,
    DenseDataset,
    LocalDataset,
    deduplicate_rows,
    hold_out_cells,
    row_folds,
)
from sparsefield.errors import DataError
from sparsefield.inference import InferenceMethod, infer_marginals, score_rows
from sparsefield.model import Field, condition_on_covariates
from sparsefield.objectives import PseudoLikelihood
from sparsefield.solver.path import BatchScores, Path, Scorer, ebic
from sparsefield.solver.solver_options import EBIC, HeldOut, SelectionCriterion

MIN_ROWS = 50
"""Plain tables with fewer rows, and linked tables, hold out cells instead of rows."""

BATCHES = 10
"""Number of batches in which the held-out data of a fold are scored; the differences of two fields between batches give
the standard error of their comparison."""

PATH_LENGTH = 33
PATIENCE = 3
"""Values of l1 in a row without a better score that end the path, as they almost always do."""


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
    sample: Dataset,
    inference: InferenceMethod,
    engine: Engine,
    options: SelectionOptions,
    groups: np.ndarray | None = None,
) -> SelectionPlan:
    """Return the folds of a dataset; EBIC has one, which has all rows."""
    criterion = options.criterion
    if isinstance(criterion, HeldOut):
        if not sample.is_local:
            raise held_out_refusal()
        plan = _hold_out(sample.local(), criterion, inference, engine, options, groups)
        if plan is not None:
            return plan
        warnings.warn(
            "There are too few cells to hold some out, so l1 is selected by EBIC. Pass selection='ebic' (--selection "
            "ebic) to accept this, or a number as l1 (--l1).",
            stacklevel=6,
        )
    used = criterion if isinstance(criterion, EBIC) else EBIC()
    fold = SelectionFold(deduplicate_rows(sample), partial(_score_by_ebic, gamma=used.gamma))
    return SelectionPlan([lambda: fold], 1.0, used)


def held_out_refusal() -> DataError:
    """Return the error for rows that cannot be held out, because they are on a cluster."""
    return DataError(
        "l1='auto' with selection='heldout' needs all rows in the memory of this process: pass selection='ebic', or a "
        "number as l1."
    )


def _hold_out(
    sample: LocalDataset,
    criterion: HeldOut,
    inference: InferenceMethod,
    engine: Engine,
    options: SelectionOptions,
    groups: np.ndarray | None,
) -> SelectionPlan | None:
    """Hold out rows or cells; None where there are too few."""
    rng = np.random.default_rng(options.seed)
    if sample.kind == "sparse" or groups is not None or (sample.is_plain and sample.n_rows >= MIN_ROWS):
        n_folds = _n_folds(sample, criterion, groups)
        held_out = [rows for rows in row_folds(sample, criterion.share_of(n_folds), n_folds, rng, groups) if len(rows)]
        if sum(map(len, held_out)) >= BATCHES:
            return _row_plan(sample, held_out, criterion, engine, options, groups)
        if sample.kind == "sparse" or groups is not None:
            raise DataError(
                f"l1='auto' needs {BATCHES} rows to hold out, and finds {sum(map(len, held_out))} of {sample.n_rows}: "
                "pass selection='ebic', or a number as l1."
            )
    assert sample.kind == "dense"
    return _cell_plan(sample, criterion, inference, engine, options, rng)


def _n_folds(sample: LocalDataset, criterion: HeldOut, groups: np.ndarray | None) -> int:
    """Return the number of folds of rows: at most one for each group."""
    n_rows = int(np.count_nonzero(sample.row_weights > 0.0))
    n_folds = criterion.n_folds(n_rows)
    if groups is None:
        return min(n_folds, max(n_rows, 1))
    n_groups = len(np.unique(groups[sample.row_weights > 0.0]))
    if n_groups < 2:
        raise DataError(
            "groups= has one group only, so no group can be held out: leave groups out (--group), or pass a number as "
            "l1 (--l1)."
        )
    return min(n_folds, n_groups)


# -- rows --------------------------------------------------------------------------------------------------------------


def _row_plan(
    sample: LocalDataset,
    held_out: Sequence[np.ndarray],
    criterion: HeldOut,
    engine: Engine,
    options: SelectionOptions,
    groups: np.ndarray | None,
) -> SelectionPlan:
    """Learn from the other rows. The noise in a gradient, and the l1 that suppresses it, grow with the root of rows."""

    def make(rows: np.ndarray) -> SelectionFold:
        rest = sample.subset(np.setdiff1d(np.arange(sample.n_rows), rows))
        scorer = _RowScorer(sample.subset(rows), _batches(rows, groups), engine, options)
        return SelectionFold(deduplicate_rows(rest), scorer)

    total = sum(sample.total_weights)
    weight = total - float(np.mean([sample.row_weights[rows].sum() for rows in held_out]))
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

    sample: LocalDataset
    batches: np.ndarray
    """(rows,)"""
    engine: Engine
    options: SelectionOptions

    def __call__(self, path: Path) -> BatchScores:
        """Return the scores of all batches that have weight."""
        found, weights = final_field(path, self.options), self.sample.row_weights
        totals = np.bincount(self.batches, weights)
        sample = self.sample
        if isinstance(sample, CovariateDataset):
            found, sample = condition_on_covariates(found, sample.covariates, sample.labels)
        if isinstance(sample, DenseDataset):
            scores = np.bincount(self.batches, weights * score_rows(found, sample, self.engine))
        else:
            scores = np.array([self._score_sparse(found, k) for k in range(len(totals))])
        weighed = totals > 0.0
        return BatchScores(scores[weighed] / totals[weighed], totals[weighed])

    def _score_sparse(self, field: Field, batch: int) -> float:
        sample = self.sample.subset(np.flatnonzero(self.batches == batch))
        problem = PseudoLikelihood().make_problem(sample, self.engine)
        return -problem.evaluate(problem.compile(field.layout.arcs(field.features)), field.theta)[0]


def _score_by_ebic(path: Path, gamma: float) -> BatchScores:
    return BatchScores(np.array([-ebic(path.state, gamma)]), np.ones(1))


# -- cells -------------------------------------------------------------------------------------------------------------


def _cell_plan(
    sample: DenseDataset,
    criterion: HeldOut,
    inference: InferenceMethod,
    engine: Engine,
    options: SelectionOptions,
    rng: np.random.Generator,
) -> SelectionPlan | None:
    """Learn from the other cells; None where there are too few."""
    folds = []
    codes = [table.codes() for table in sample.tables]
    n_folds = _n_cell_folds(sample, criterion)
    share = criterion.share_of(n_folds)
    for train, hidden in hold_out_cells(sample, share, n_folds, rng):
        if sum(int(cells.sum()) for cells in hidden) < BATCHES:
            return None
        cells = codes, hidden, [rng.integers(0, BATCHES, one.shape) for one in codes]
        folds.append(SelectionFold(train, _CellScorer(train, cells, inference, engine, options)))
    return SelectionPlan([partial(_same, fold) for fold in folds], float(np.sqrt(1.0 / (1.0 - share))), criterion)


def _same(fold: SelectionFold) -> SelectionFold:
    return fold


def _n_cell_folds(sample: DenseDataset, criterion: HeldOut) -> int:
    return 1 if criterion.folds == "auto" else criterion.folds


@dataclass(frozen=True)
class _CellScorer:
    """Scores a field by the mean log-probability of the values of cells that are missing in a sample."""

    sample: DenseDataset
    cells: tuple[Sequence[np.ndarray], ...]
    """Table by table, (targets, rows) each: the values of all cells, which of them to score, their batches."""
    inference: InferenceMethod
    engine: Engine
    options: SelectionOptions

    def __call__(self, path: Path) -> BatchScores:
        """Return the scores of all batches that have cells."""
        found = infer_marginals(final_field(path, self.options), self.sample, self.inference, self.engine)
        total, count = np.zeros(BATCHES), np.zeros(BATCHES)
        for table, beliefs, codes, scored, batches in zip(self.sample.tables, found.values, *self.cells, strict=True):
            offsets = table.schema.coding.state_offsets
            for v in range(len(codes)):
                rows = np.flatnonzero(scored[v])
                truth = np.log(np.maximum(beliefs[offsets[v] + codes[v, rows], rows], 1e-12))
                np.add.at(total, batches[v, rows], truth)
                np.add.at(count, batches[v, rows], 1.0)
        return BatchScores(total[count > 0] / count[count > 0], count[count > 0])
