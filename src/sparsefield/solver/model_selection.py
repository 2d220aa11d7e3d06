"""This module chooses l1: it scores fields along the regularization path by held-out data or by EBIC."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Arcs, Dataset, DenseDataset, LocalDataset, deduplicate_rows, hold_out_cells, row_folds
from sparsefield.errors import DataError
from sparsefield.inference import InferenceMethod, infer_marginals, score_observed
from sparsefield.model import Field, PathRow
from sparsefield.objectives import OBJECTIVES, DenseEvaluator, make_evaluator
from sparsefield.solver.fit_state import FitCallbacks, PathPoint
from sparsefield.solver.regularization_path import PathTrainer, Scorer, ebic, ebic_costs, follow_path, path_length
from sparsefield.solver.solver_options import EBIC, HeldOut, SelectionCriterion
from sparsefield.solver.trainer import Trainer

PATH_LENGTH = 33
SMALLEST_RATIO = 1e-4
"""The last value of l1 as a share of the first; each value is three quarters of the one before."""
PATIENCE = 3
"""Values of l1 in a row without a better score that end the path, as they almost always do."""
LONG_PATIENCE = 8
"""Patience for a view of the path beyond the choice."""

MIN_ROWS = 200
"""Plain tables with fewer rows, and linked tables, hold out cells instead of rows."""

GROUPS = 10
"""Number of groups in which held-out data are scored; their differences give the standard error of a comparison."""

EMPTY_STANDARD_ERRORS = 2.0
"""How much worse than the best the empty field may be if cells are missing, in standard errors; otherwise one. Such
rows say less: with half of the cells of 20 fair coins missing, one standard error selects dozens of edges in some
tables."""

EMPTY_MARGIN = 4.0 / 3.0
"""Factor on the smallest l1 that selects nothing, if it is chosen: with other completions it would select something."""

MAX_PRUNINGS = 5

TrainingFold = tuple[Dataset, Scorer]
"""A dataset to learn from, and the scorer of its fields."""

MakePathTrainer = Callable[[Dataset, float, float], Trainer]
"""``make(dataset, l1, kkt_tol)`` returns a trainer."""


@dataclass(frozen=True)
class SelectionOptions:
    """The options of a choice of l1."""

    criterion: SelectionCriterion = field(default_factory=HeldOut)
    path_length: int = PATH_LENGTH
    patience: int | None = PATIENCE
    kkt_tol: float = 0.01
    seed: int = 0
    refit_l2: float | None = None
    """The l2 of a refit without L1, if there will be one: held-out data then score the refitted fields, since few
    refitted features may predict better than many that are shrunk."""


@dataclass(frozen=True)
class PathSelection:
    """The selected l1, and the path from which it was selected."""

    l1: float
    """For all rows."""
    selected: int
    """Index of the selected point on the path."""
    path: tuple[PathPoint, ...]
    criterion: str
    """Name of the criterion that was used: EBIC also where too few cells could be held out."""
    scale: float = 1.0
    """Factor from l1 on the path, which had fewer rows, to l1 for all rows."""

    def rows(self) -> tuple[PathRow, ...]:
        """Return a row for each value of l1."""
        found = []
        for k, point in enumerate(self.path):
            scores, features = point.scores, len(point.fit.field.features)
            error = float(scores.std(ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else np.nan
            found.append(
                PathRow(float(point.l1 * self.scale), features, point.score, error, selected=k == self.selected)
            )
        return tuple(found)


def select_l1(
    sample: Dataset,
    make: MakePathTrainer,
    inference: InferenceMethod,
    engine: Engine,
    options: SelectionOptions,
    callbacks: FitCallbacks | None = None,
) -> PathSelection:
    """Follow the regularization path and choose l1.

    Parameters
    ----------
    make : ``make(dataset, l1, kkt_tol)`` returns a trainer
    callbacks : ``on_path_point`` is called after each value of l1
    """
    folds, scale, criterion = _folds(sample, inference, engine, options)
    path = []
    points = follow_path(
        [(partial(make, train), score) for train, score in folds],
        count=options.path_length,
        ratio=SMALLEST_RATIO,
        kkt_tol=options.kkt_tol,
        patience=options.patience,
        min_improvement=criterion.min_improvement,
    )
    for point in points:
        path.append(point)
        if callbacks is not None:
            callbacks.path_point(replace(point, l1=point.l1 * scale))
    selected = _choose(path, criterion, EMPTY_STANDARD_ERRORS if sample.has_missing else 1.0)
    scale = scale if len(path) > 1 else 1.0  # all columns are independent, at any l1
    l1 = path[selected].l1 * scale
    if selected == 0 and sample.has_missing:
        l1 *= EMPTY_MARGIN
    return PathSelection(l1, selected, tuple(path), criterion.name, scale)


def _choose(path: list[PathPoint], criterion: SelectionCriterion, empty_standard_errors: float = 1.0) -> int:
    """Return the choice of a path with the ordinary patience, however long this one is."""
    visited = path[: path_length([point.score for point in path], PATIENCE, criterion.min_improvement)]
    best = int(np.argmax([point.score for point in visited]))
    if criterion.name != "heldout":
        return best
    return 0 if _is_as_good(visited[0], visited[best], empty_standard_errors) else sparsest_good(visited, best)


def sparsest_good(path: list[PathPoint], best: int) -> int:
    """Return the first, sparsest point that is worse than the best by at most a standard error of the difference."""
    return next((k for k, point in enumerate(path[:best]) if _is_as_good(point, path[best])), best)


def _is_as_good(point: PathPoint, best: PathPoint, standard_errors: float = 1.0) -> bool:
    """Return whether a point is worse than the best by at most some standard errors of the difference.

    All points are scored on the same data, so differences are far more certain than scores.
    """
    difference = best.scores - point.scores
    error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else 0.0
    return bool(difference.mean() <= standard_errors * error)


def prune_by_wald(path: PathTrainer, l2: float, gamma: float = EBIC().gamma) -> Field:
    """Refit the active features without L1, and drop those that EBIC does not support, repeatedly.

    A feature is kept when its Wald statistic exceeds the EBIC cost of one of its ends; the smaller cost counts. Where
    edges are penalized as groups, all features of an edge are tested together.
    """
    trainer, problem = path.trainer, path.trainer.problem
    if not isinstance(trainer.evaluator, DenseEvaluator):
        raise TypeError("weights of a sparse table have no Wald statistics")
    refitted = path.refit_without_l1(problem.active, l2)
    costs = ebic_costs(trainer.layout, trainer.missing.observed_weights(), gamma)
    for _ in range(MAX_PRUNINGS):
        weights, working_set = problem.theta[problem.n_target_columns :], problem.working_set
        arcs, groups = working_set.arcs, working_set.numbered_groups(working_set.features)
        required = np.full(len(weights), np.inf)
        np.minimum.at(required, arcs.feature, costs[arcs.target])
        statistics, degrees = trainer.evaluator.wald_statistics(arcs, weights, groups)
        kept = statistics * _observed_shares(trainer, arcs, len(weights)) > degrees * required
        if kept.all():
            break
        refitted = path.refit_without_l1(kept, l2)
    return refitted


def _observed_shares(trainer: Trainer, arcs: Arcs, n_features: int) -> np.ndarray:
    """Return the share of the rows with an observed target in which the other columns of a feature are observed too.

    The data say about a weight what these rows say, and hardly more: completed rows would say too much. That the target
    is observed, Wald statistics take into account already. Shares are geometric means over the targets of a feature.
    """
    sizes = [schema.n_target_columns for schema in trainer.layout.schemas]
    totals = np.repeat(np.maximum(trainer.evaluator.total_weights, np.finfo(float).tiny), sizes)
    logs = np.log(np.maximum(trainer.missing.observed_weights() / totals, np.finfo(float).tiny))[arcs.target]
    ends = np.maximum(np.bincount(arcs.feature, minlength=n_features), 1)
    return np.exp(np.bincount(arcs.feature, logs, minlength=n_features) * (ends - 1) / ends)


def held_out_refusal() -> DataError:
    """Return the error for rows that cannot be held out, because they are on a cluster or come block by block."""
    return DataError(
        "l1='auto' with selection='heldout' needs all rows in the memory of this process: pass selection='ebic', or a "
        "number as l1."
    )


def _folds(
    sample: Dataset, inference: InferenceMethod, engine: Engine, options: SelectionOptions
) -> tuple[Sequence[TrainingFold], float, SelectionCriterion]:
    """Return the folds, the factor from their l1 to that of all rows, and the criterion: EBIC if too little is left.

    The noise in a gradient grows with the square root of the number of cells in its sum, and so does the l1 that
    suppresses it.
    """
    criterion = options.criterion
    if isinstance(criterion, HeldOut):
        if not sample.is_local:
            raise held_out_refusal()
        found = _held_out_folds(sample.local(), criterion, inference, engine, options)
        if found is not None:
            return *found, criterion
        warnings.warn(
            "There are too few cells to hold some out, so l1 is selected by EBIC. Pass selection='ebic' (--selection "
            "ebic) to accept this, or a number as l1 (--l1).",
            stacklevel=6,
        )
    used = criterion if isinstance(criterion, EBIC) else EBIC()
    return [(deduplicate_rows(sample), lambda path: np.array([-ebic(path.trainer, used.gamma)]))], 1.0, used


def _held_out_folds(
    sample: LocalDataset, criterion: HeldOut, inference: InferenceMethod, engine: Engine, options: SelectionOptions
) -> tuple[Sequence[TrainingFold], float] | None:
    """Hold out rows or cells; None where there are too few."""
    rng = np.random.default_rng(options.seed)
    if sample.kind == "sparse" or (sample.is_plain and sample.n_rows >= MIN_ROWS):
        held_out = row_folds(sample, criterion.share, criterion.folds, rng)
        if min(map(len, held_out)) >= GROUPS:
            return _row_folds(sample, held_out, engine, options)
        if sample.kind == "sparse":
            raise DataError(
                f"l1='auto' needs {GROUPS} rows to hold back, and finds {min(map(len, held_out))} of {sample.n_rows}: "
                "take selection='ebic', or give l1 a number."
            )
    folds = []
    codes = [table.codes() for table in sample.tables]
    for train, hidden in hold_out_cells(sample, criterion.share, criterion.folds, rng):
        if sum(int(cells.sum()) for cells in hidden) < GROUPS:
            return None
        cells = codes, hidden, [rng.integers(0, GROUPS, one.shape) for one in codes]
        folds.append((train, _CellScorer(train, cells, inference, engine, options)))
    return folds, float(np.sqrt(1.0 / (1.0 - criterion.share)))


def _row_folds(
    sample: LocalDataset,
    held_out: Sequence[np.ndarray],
    engine: Engine,
    options: SelectionOptions,
) -> tuple[Sequence[TrainingFold], float]:
    folds, weights = [], []
    for rows in held_out:
        rest = sample.subset(np.setdiff1d(np.arange(sample.n_rows), rows))
        # Every tenth row, so that each group covers all times and places where rows are in such an order.
        groups = [sample.subset(rows[k::GROUPS]) for k in range(GROUPS)]
        folds.append((deduplicate_rows(rest), partial(_score_rows, groups=groups, engine=engine, options=options)))
        weights.append(sum(rest.total_weights))
    weight = max(float(np.mean(weights)), np.finfo(float).tiny)
    return folds, float(np.sqrt(sum(sample.total_weights) / weight))


def _final(path: PathTrainer, options: SelectionOptions) -> Field:
    """Return the current field as the fit would return it, which may be after a refit."""
    if options.refit_l2 is None:
        return path.trainer.problem.field
    twin, rows = path.branch(), path.trainer.missing.state()[0]
    field = twin.refit_without_l1(twin.trainer.problem.active, options.refit_l2)
    path.trainer.missing.restore_rows(rows)
    return field


def _score_rows(
    path: PathTrainer, groups: Sequence[LocalDataset], engine: Engine, options: SelectionOptions
) -> np.ndarray:
    """Return the pseudo-log-likelihood per unit of weight, (groups,): each known cell is hidden in turn."""
    field, totals = _final(path, options), []
    dense = [sample for sample in groups if isinstance(sample, DenseDataset)]
    if len(dense) == len(groups):
        totals = score_observed(field, dense, engine)
    else:
        for sample in groups:
            evaluator = make_evaluator(sample, OBJECTIVES["pl"](), engine)
            totals.append(-evaluator.evaluate(evaluator.compile(field.layout.arcs(field.features)), field.theta)[0])
    return np.array([total / sum(sample.total_weights) for total, sample in zip(totals, groups, strict=True)])


@dataclass(frozen=True)
class _CellScorer:
    """Scores a field by the mean log-probability of the values of cells that are missing in a sample."""

    sample: DenseDataset
    cells: tuple[Sequence[np.ndarray], ...]
    """Table by table, (targets, rows) each: the values of all cells, which of them to score, their groups."""
    inference: InferenceMethod
    engine: Engine
    options: SelectionOptions

    def __call__(self, path: PathTrainer) -> np.ndarray:
        """Return the scores of all groups that have cells."""
        found = infer_marginals(_final(path, self.options), self.sample, self.inference, self.engine)
        total, count = np.zeros(GROUPS), np.zeros(GROUPS)
        for table, beliefs, codes, scored, groups in zip(self.sample.tables, found.values, *self.cells, strict=True):
            offsets = table.schema.coding.state_offsets
            for v in range(len(codes)):
                rows = np.flatnonzero(scored[v])
                truth = np.log(np.maximum(beliefs[offsets[v] + codes[v, rows], rows], 1e-12))
                np.add.at(total, groups[v, rows], truth)
                np.add.at(count, groups[v, rows], 1.0)
        return total[count > 0] / count[count > 0]
