"""Choice of l1 along the path, by held-out data or by EBIC."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Arcs, Dataset
from sparsefield.errors import SelectionWarning
from sparsefield.inference import InferenceMethod
from sparsefield.model import PathRow
from sparsefield.objectives import DenseEvaluator
from sparsefield.solver.checkpoint import SelectionCheckpoint
from sparsefield.solver.folds import (
    EXTENSION,
    PATIENCE,
    STEP,
    SelectionOptions,
    SelectionPlan,
    ebic_costs,
    make_folds,
)
from sparsefield.solver.l1_search import SearchResult, is_better, search_l1, standard_error
from sparsefield.solver.path import Fold, FoldGrid, Path, open_pool, path_values
from sparsefield.solver.solver_options import EBIC, SelectionCriterion
from sparsefield.solver.state import FitCallbacks, FitResult, PathPoint, State

PATH_KKT_TOLERANCE, SEARCH_KKT_TOLERANCE = 0.05, 0.2
"""Violation, as a share of l1, that is allowed for a field on a path, and for one that is only compared on held-out
data: its score differs from that of the exact field by far less than a standard error of the comparison."""

EMPTY_STANDARD_ERRORS, EMPTY_MARGIN = 2.0, 4.0 / 3.0
"""How much worse than the best the empty field may be if cells are missing, in standard errors; otherwise one. Such
rows say less: with half of the cells of 20 fair coins missing, one standard error selects dozens of edges in some
tables. The smallest l1 that selects nothing is raised by the margin: with other completions it would select something.
"""

EMPTY_FIELD_L1 = 1e12
"""An l1 at which the field has no pairs."""


class MakePath(Protocol):
    """A function that returns a path; callbacks hear of the iterations of the first fold."""

    def __call__(self, dataset: Dataset, l1: float, kkt_tol: float, *, first: bool) -> Path: ...


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
            l1, features = float(point.l1 * self.scale), len(point.fit.field.features)
            error = standard_error(point.scores, point.weights)
            found.append(
                PathRow(l1, features, point.score, None if np.isnan(error) else error, selected=k == self.selected)
            )
        return tuple(found)


def select_l1(
    dataset: Dataset,
    make: MakePath,
    inference: InferenceMethod,
    engine: Engine,
    options: SelectionOptions,
    callbacks: FitCallbacks | None = None,
    groups: np.ndarray | None = None,
    checkpoint: SelectionCheckpoint | None = None,
) -> PathSelection:
    """Choose l1 on the regularization path.

    Parameters
    ----------
    make : ``make(dataset, l1, kkt_tol, first)`` returns a path; ``first`` is true for the first fold
    callbacks : ``on_path_point`` is called after each value of l1
    groups : (rows,) numbers of groups, whose rows are held out together
    checkpoint : where finished points are saved
    """
    plan = make_folds(dataset, inference, engine, options, groups)
    count, held_out = options.path_length + EXTENSION, plan.criterion.name == "heldout"
    kkt_tol = SEARCH_KKT_TOLERANCE if held_out else PATH_KKT_TOLERANCE

    def hear(point: PathPoint) -> None:
        if callbacks is not None:
            callbacks.path_point(replace(point, l1=point.l1 * plan.scale))

    def open_fold(k: int, kkt_tol: float = kkt_tol, ahead: bool = not held_out, saved: bool = True) -> Fold:
        part = plan.folds[k]()
        path = make(part.dataset, EMPTY_FIELD_L1, max(options.kkt_tol, kkt_tol), first=k == 0)
        file = checkpoint.file(str(k)) if saved and checkpoint is not None else None
        return Fold(path, part.score, ahead=ahead, file=file)

    first, n_folds = open_fold(0), len(plan.folds)
    with open_pool(min(options.n_threads, n_folds) - 1) as pool:
        if held_out:
            values = _lattice(first.begin(), max(dataset.total_weights) / plan.scale, count)
            grid = FoldGrid(first, n_folds, open_fold, values, pool, hear)
            tolerated = EMPTY_STANDARD_ERRORS if dataset.has_missing else 1.0
            result = search_l1(grid, tolerated, plan.criterion.min_improvement)
            if options.patience != PATIENCE:  # a longer view of the path is wanted
                view = partial(open_fold, kkt_tol=PATH_KKT_TOLERANCE, ahead=True, saved=False)
                chosen = int(np.searchsorted(-values, -result.path[result.selected].l1))
                first = view(0)
                first.begin()
                grid = FoldGrid(first, n_folds, view, path_values(values[0], count, STEP), pool, lambda point: None)
                result = replace(result, path=_follow(grid, plan, options, hear, chosen + 1), selected=chosen)
        else:
            values = path_values(first.begin(), count, STEP)
            path = _follow(FoldGrid(first, 1, open_fold, values, None, lambda point: None), plan, options, hear)
            tried = path[: _length(path, PATIENCE, plan.criterion)]
            best = int(np.argmax([point.score for point in tried]))
            result = SearchResult(path, best, len(path) == count and _rises_at_the_end(path, plan.criterion))
    scale = plan.scale if len(result.path) > 1 else 1.0  # all columns are independent, at any l1
    l1 = result.path[result.selected].l1 * scale
    if result.rises_at_the_end:
        _warn_still_rising(l1)
    if result.selected == 0 and dataset.has_missing:
        l1 *= EMPTY_MARGIN
    return PathSelection(l1, result.selected, result.path, plan.criterion.name, scale)


def _lattice(l1_max: float, unit: float, count: int) -> np.ndarray:
    """Return values of l1, (count,), from the last one that selects nothing: a unit times powers of the step.

    The unit is that of all rows, so that the values are the same for all divisions into folds: which of them is
    selected depends less on the seed than a value would that varies itself.
    """
    if l1_max <= 0.0:
        return np.ones(1)
    first = math.floor(math.log(l1_max / unit) / math.log(STEP))
    return path_values(unit * STEP**first, count, STEP)


def _follow(
    grid: FoldGrid,
    plan: SelectionPlan,
    options: SelectionOptions,
    hear: Callable[[PathPoint], None],
    min_length: int = 1,
) -> tuple[PathPoint, ...]:
    """Return the points of all folds, value by value, until scores fall."""
    path: list[PathPoint] = []
    for k in range(len(grid)):
        grid.pool([k])
        path.append(grid.point(k))
        hear(path[-1])
        if _ends(path, plan.criterion, options, min_length):
            break
    return tuple(path)


def _ends(path: Sequence[PathPoint], criterion: SelectionCriterion, options: SelectionOptions, min_length: int) -> bool:
    """Return whether a path ends here, because scores fall or because its last value of l1 is reached."""
    if len(path) < min_length:
        return False
    if options.patience is None:
        return len(path) >= options.path_length
    if _length(path, options.patience, criterion) is not None:
        return True
    return len(path) >= options.path_length and not _rises_at_the_end(path, criterion)


def _rises_at_the_end(path: Sequence[PathPoint], criterion: SelectionCriterion) -> bool:
    """Return whether the last points of a path are better than all before, and so may be those that would follow."""
    return len(path) > 1 and _length(path, PATIENCE, criterion) is None


def _length(path: Sequence[PathPoint], patience: int, criterion: SelectionCriterion) -> int | None:
    """Return after how many points ``patience`` in a row were no better than the best before; None if never."""
    best, worse = path[0], 0
    for k, point in enumerate(path):
        better = k == 0 or is_better(point, best, criterion.min_improvement)
        best, worse = (point, 0) if better else (best, worse + 1)
        if worse >= patience:
            return k + 1
    return None


def _warn_still_rising(l1: float) -> None:
    warnings.warn(
        f"The score still rises at the end of the regularization path, l1 = {l1:.3g}: the data support a smaller l1. "
        f"Pass one as a number, such as l1={0.1 * l1:.1g} (--l1), and compare the scores of other rows.",
        SelectionWarning,
        stacklevel=6,
    )


def prune_by_wald(path: Path, l2: float, gamma: float = EBIC().gamma) -> FitResult:
    """Refit the active features without L1, and drop those that EBIC does not support, repeatedly.

    A feature is kept when its Wald statistic exceeds the EBIC cost of one of its ends; the smaller cost counts. Where
    edges are penalized as groups, all features of an edge are tested together.
    """
    state, working_set = path.state, path.state.working_set
    if not isinstance(state.problem, DenseEvaluator):
        raise TypeError("weights of a sparse table have no Wald statistics")
    refitted = path.refit_without_l1(working_set.active, l2)
    costs = ebic_costs(state.layout, state.missing.observed_weights(), gamma)
    for _ in range(5):
        weights, arcs = working_set.theta[working_set.n_biases :], working_set.arcs
        required = np.full(len(weights), np.inf)
        np.minimum.at(required, arcs.feature, costs[arcs.target])
        statistics, degrees = state.problem.wald_statistics(arcs, weights, working_set.numbered_edges())
        supported = statistics * _observed_shares(state, arcs, len(weights)) > degrees * required
        if supported.all():
            break
        refitted = path.refit_without_l1(supported, l2)
    return refitted


def _observed_shares(state: State, arcs: Arcs, n_features: int) -> np.ndarray:
    """Return the share of the rows with an observed target in which the other columns of a feature are observed too.

    The data say about a weight what these rows say, and hardly more: completed rows would say too much. That the target
    is observed, Wald statistics take into account already. Shares are geometric means over the targets of a feature.
    """
    sizes = [schema.n_target_columns for schema in state.layout.schemas]
    totals = np.repeat(np.maximum(state.problem.total_weights, np.finfo(float).tiny), sizes)
    logs = np.log(np.maximum(state.missing.observed_weights() / totals, np.finfo(float).tiny))[arcs.target]
    ends = np.maximum(np.bincount(arcs.feature, minlength=n_features), 1)
    return np.exp(np.bincount(arcs.feature, logs, minlength=n_features) * (ends - 1) / ends)
