"""This module chooses l1: it compares the scores of fields along the regularization path."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Arcs, Dataset
from sparsefield.errors import SelectionWarning
from sparsefield.inference import InferenceMethod
from sparsefield.model import Field, PathRow
from sparsefield.objectives import DenseEvaluator
from sparsefield.solver.fit_state import FitCallbacks, PathPoint
from sparsefield.solver.regularization_path import OpenFold, PathTrainer, ebic_costs, follow_path, open_path_fold
from sparsefield.solver.selection_folds import PATH_LENGTH, PATIENCE, SelectionOptions, make_folds
from sparsefield.solver.solver_options import EBIC, SelectionCriterion
from sparsefield.solver.trainer import Trainer


class MakePathTrainer(Protocol):
    """A function that returns a trainer; callbacks hear of the iterations of the first fold."""

    def __call__(self, dataset: Dataset, l1: float, kkt_tol: float, *, first: bool) -> Trainer: ...


SMALLEST_RATIO = 1e-4
"""The last value of l1 as a share of the first; each value is three quarters of the one before."""
EXTENSION = 16
"""Values of l1 at most that follow, by the same factor, while the score still rises at the end of the path."""
LONG_PATIENCE = 8
"""Patience for a view of the path beyond the choice."""

CLEARLY_WORSE = 3.0
"""A field on held-out data that is worse than the best by more than this number of standard errors of the difference
ends the path as well: those that follow are worse still, and take the longest to learn."""

EMPTY_STANDARD_ERRORS = 2.0
"""How much worse than the best the empty field may be if cells are missing, in standard errors; otherwise one. Such
rows say less: with half of the cells of 20 fair coins missing, one standard error selects dozens of edges in some
tables."""

EMPTY_MARGIN = 4.0 / 3.0
"""Factor on the smallest l1 that selects nothing, if it is chosen: with other completions it would select something."""

MAX_PRUNINGS = 5


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
            features, error = len(point.fit.field.features), standard_error(point.scores, point.weights)
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
    groups: np.ndarray | None = None,
    open_fold: OpenFold = open_path_fold,
) -> PathSelection:
    """Follow the regularization path and choose l1.

    Parameters
    ----------
    make : ``make(dataset, l1, kkt_tol, first)`` returns a trainer; ``first`` is true for the first fold
    callbacks : ``on_path_point`` is called after each value of l1
    groups : (rows,) numbers of groups, whose rows are held out together
    open_fold : returns a fold, as `SelectionCheckpoint.open_fold` does for one that can be continued
    """
    plan = make_folds(sample, inference, engine, options, groups)
    path, criterion = [], plan.criterion
    points = follow_path(
        [(partial(make, fold.dataset, first=k == 0), fold.score) for k, fold in enumerate(plan.folds)],
        count=options.path_length + EXTENSION,
        step=SMALLEST_RATIO ** (1.0 / (PATH_LENGTH - 1)),
        kkt_tol=options.kkt_tol,
        ends=partial(_ends, criterion=criterion, options=options),
        n_threads=options.n_threads,
        open_fold=open_fold,
    )
    for point in points:
        path.append(point)
        if callbacks is not None:
            callbacks.path_point(replace(point, l1=point.l1 * plan.scale))
    if len(path) == options.path_length + EXTENSION and _rises_at_the_end(path, criterion):
        _warn_still_rising(path[-1].l1 * plan.scale)
    selected = _choose(path, criterion, EMPTY_STANDARD_ERRORS if sample.has_missing else 1.0)
    scale = plan.scale if len(path) > 1 else 1.0  # all columns are independent, at any l1
    l1 = path[selected].l1 * scale
    if selected == 0 and sample.has_missing:
        l1 *= EMPTY_MARGIN
    return PathSelection(l1, selected, tuple(path), criterion.name, scale)


# -- the end of the path -----------------------------------------------------------------------------------------------


def _ends(path: Sequence[PathPoint], criterion: SelectionCriterion, options: SelectionOptions) -> bool:
    """Return whether a path ends here, because scores fall or because its last value of l1 is reached."""
    if options.patience is None:
        return len(path) >= options.path_length
    if _length(path, options.patience, criterion, early=options.patience <= PATIENCE) is not None:
        return True
    return len(path) >= options.path_length and not _rises_at_the_end(path, criterion)


def _rises_at_the_end(path: Sequence[PathPoint], criterion: SelectionCriterion) -> bool:
    """Return whether the last points of a path are better than all before, and so may be those that would follow."""
    return len(path) > 1 and _length(path, PATIENCE, criterion) is None


def _length(path: Sequence[PathPoint], patience: int, criterion: SelectionCriterion, early: bool = True) -> int | None:
    """Return after how many points scores fall; None if never.

    That is where ``patience`` points in a row were no better than the best before or, with ``early``, where a point is
    clearly worse on held-out data.
    """
    best, worse = path[0], 0
    for k, point in enumerate(path):
        better = k == 0 or point.score > best.score + criterion.min_improvement * abs(best.score)
        best, worse = (point, 0) if better else (best, worse + 1)
        if worse >= patience or (early and worse and _is_clearly_worse(point, best)):
            return k + 1
    return None


def _is_clearly_worse(point: PathPoint, best: PathPoint) -> bool:
    return len(point.scores) > 1 and not is_as_good(point, best, CLEARLY_WORSE)


def _warn_still_rising(l1: float) -> None:
    warnings.warn(
        f"The score still rises at the end of the regularization path, l1 = {l1:.3g}: the data support a smaller l1. "
        f"Pass one as a number, such as l1={0.1 * l1:.1g} (--l1), and compare the scores of other rows.",
        SelectionWarning,
        stacklevel=6,
    )


# -- the choice --------------------------------------------------------------------------------------------------------


def _choose(path: Sequence[PathPoint], criterion: SelectionCriterion, empty_standard_errors: float = 1.0) -> int:
    """Return the choice of a path with the ordinary patience, however long this one is."""
    visited = path[: _length(path, PATIENCE, criterion)]
    best = int(np.argmax([point.score for point in visited]))
    if criterion.name != "heldout":
        return best
    return 0 if is_as_good(visited[0], visited[best], empty_standard_errors) else sparsest_good(visited, best)


def sparsest_good(path: Sequence[PathPoint], best: int) -> int:
    """Return the first, sparsest point that is worse than the best by at most a standard error of the difference."""
    return next((k for k, point in enumerate(path[:best]) if is_as_good(point, path[best])), best)


def is_as_good(point: PathPoint, best: PathPoint, standard_errors: float = 1.0) -> bool:
    """Return whether a point is worse than the best by at most some standard errors of the difference.

    All points are scored on the same data, so differences are far more certain than scores.
    """
    difference = best.scores - point.scores
    error = standard_error(difference, best.weights) if len(difference) > 1 else 0.0
    return bool(np.average(difference, weights=best.weights) <= standard_errors * error)


def standard_error(values: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the standard error of the weighted mean of independent values; NaN for a single one."""
    if len(values) < 2:
        return float("nan")
    shares = np.full(len(values), 1.0 / len(values)) if weights is None else weights / weights.sum()
    residuals = shares * (values - shares @ values)
    return float(np.sqrt(len(values) / (len(values) - 1) * np.square(residuals).sum()))


# -- pruning -----------------------------------------------------------------------------------------------------------


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
