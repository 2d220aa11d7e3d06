"""Choice of l1 along the path: by held-out data, with as few fits as the comparison needs, or by EBIC.

The first fold follows the path in large steps until its score falls. Few folds are then fitted at the values near its
best one only, and at further ones while the best of them may lie beyond.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Dataset
from sparsefield.errors import SelectionWarning
from sparsefield.model import PathRow
from sparsefield.solver.checkpoint import SelectionCheckpoint
from sparsefield.solver.folds import FEW_FOLDS, MANY_ROWS, Fold, FoldGrid, SelectionOptions, ebic_costs, make_folds
from sparsefield.solver.path import Path
from sparsefield.solver.solver_options import EBIC, HeldOut
from sparsefield.solver.state import FitCallbacks, FitResult, PathPoint

PATH_LENGTH, STEP = 49, 1e-4 ** (1 / 32)
"""Values of l1 at most, and the factor from one to the next."""

PATIENCE, LONG_PATIENCE = 3, 8
"""Values of l1 in a row without a better score that end the path, as they almost always do; and for a longer view."""

PATH_KKT_TOLERANCE, SEARCH_KKT_TOLERANCE = 0.05, 0.2
"""Violation, as a share of l1, that is allowed for a field on a path, and for one that is only compared on held-out
data: its score differs from that of the exact field by far less than a standard error of the comparison."""

SEARCH_TOLERANCE = 1e-5
"""Share of the objective that steps have to gain for a field that is only compared on held-out data. With a tenth,
12,000 features of 31 columns take twice as many steps, and their score changes by a fifth of such a standard error."""

EMPTY_STANDARD_ERRORS, EMPTY_MARGIN = 2.5, 4.0 / 3.0
"""How much worse than the best the empty field may be if cells are missing, in standard errors; otherwise one. Such
rows say less: with half of the cells of 20 fair coins missing, one standard error selects dozens of edges in some
tables. The smallest l1 that selects nothing is raised by the margin: with other completions it would select something.
"""

EMPTY_FIELD_L1 = 1e12
"""An l1 at which the field has no pairs."""

STRIDE = 2
"""Values of l1 by which folds proceed at a time; between them scores are almost quadratic."""

CLEARLY_WORSE = 3.0
"""Standard errors of a difference that hardly ever occur by chance."""

NOT_BETTER = 1.5
"""Standard errors of a difference in the first fold beyond which all folds together will not select the worse l1. With
1, the choice in a table of weak dependences varies by half as much again from seed to seed."""


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
        errors = [standard_error(point.scores, point.weights) for point in self.path]
        return tuple(
            PathRow(
                float(point.l1 * self.scale),
                len(point.field.features),
                point.score,
                None if np.isnan(error) else error,
                selected=k == self.selected,
            )
            for k, (point, error) in enumerate(zip(self.path, errors, strict=True))
        )


def select_l1(
    dataset: Dataset,
    make: Callable[..., Path],
    engine: Engine,
    options: SelectionOptions,
    callbacks: FitCallbacks | None = None,
    groups: np.ndarray | None = None,
    checkpoint: SelectionCheckpoint | None = None,
    *,
    whole_path: bool = False,
) -> PathSelection:
    """Choose l1 on the regularization path.

    Parameters
    ----------
    make : ``make(dataset, first=first, **changes)`` returns a path with changes of `TrainingOptions`; ``first`` is true
        for the first fold
    callbacks : ``on_path_point`` is called after each value of l1
    groups : (rows,) numbers of groups, whose rows are held out together
    checkpoint : where finished points are saved
    whole_path : whether all folds are fitted at all values, until scores have fallen for long
    """
    plan = make_folds(dataset, engine, options, groups)
    criterion, n_folds = plan.criterion, len(plan.folds)
    held_out, min_improvement = isinstance(criterion, HeldOut), criterion.min_improvement
    kkt_tol = max(options.kkt_tol, SEARCH_KKT_TOLERANCE if held_out else PATH_KKT_TOLERANCE)
    tol = max(options.tol, SEARCH_TOLERANCE) if held_out else options.tol

    def open_fold(k: int) -> Fold:
        part, score = plan.folds[k]()
        path = make(part, first=k == 0, l1=EMPTY_FIELD_L1, kkt_tol=kkt_tol, tol=tol)
        file = None if checkpoint is None else checkpoint.file(str(k))
        return Fold(path, score, ahead=not held_out, file=file)

    def hear(point: PathPoint) -> None:
        if callbacks is not None:
            callbacks.path_point(replace(point, l1=point.l1 * plan.scale))

    n_threads = min(options.n_threads, n_folds) - 1
    with ThreadPoolExecutor(n_threads, "sparsefield-fold") if n_threads > 0 else nullcontext() as threads:
        first = open_fold(0)
        values = _values_of_l1(first.begin(), max(dataset.total_weights) / plan.scale if held_out else None)
        n_few = FEW_FOLDS if dataset.n_rows >= MANY_ROWS else None
        grid = FoldGrid(first, n_folds, open_fold, values, threads, hear, n_few)
        chosen = 0
        if isinstance(criterion, HeldOut):
            tolerated = EMPTY_STANDARD_ERRORS if dataset.has_missing else 1.0
            chosen, rises = search_l1(grid, tolerated, min_improvement)
        if whole_path or not held_out:
            patience = LONG_PATIENCE if whole_path else PATIENCE
            followed, ended = _follow(grid, patience, chosen + 1, min_improvement)
            points = dict(enumerate(followed))
        else:
            points = grid.path()
        if not held_out:
            chosen, rises = int(np.argmax([point.score for point in followed])), not ended
    scale = plan.scale if len(values) > 1 else 1.0  # all columns are independent, at any l1
    l1 = points[chosen].l1 * scale
    if rises:
        warnings.warn(
            f"The score still rises at the end of the regularization path, l1 = {l1:.3g}: the data support a smaller "
            f"l1. Pass one as a number, such as l1={0.1 * l1:.1g} (--l1), and compare the scores of other rows.",
            SelectionWarning,
            stacklevel=5,
        )
    if chosen == 0 and dataset.has_missing:
        l1 *= EMPTY_MARGIN
    return PathSelection(l1, list(points).index(chosen), tuple(points.values()), criterion.name, scale)


def _values_of_l1(l1_max: float, unit: float | None) -> np.ndarray:
    """Return values of l1, which fall by equal factors, from one that selects nothing; a single one if all do.

    With a unit, that of all rows, they are the unit times powers of the step, so that they are the same for all
    divisions into folds: which of them is selected depends less on the seed than a value would that varies itself.
    """
    if l1_max <= 0.0:
        return np.ones(1)
    if unit is not None:
        l1_max = unit * STEP ** math.floor(math.log(l1_max / unit) / math.log(STEP))
    return l1_max * STEP ** np.arange(PATH_LENGTH)


def _follow(grid: FoldGrid, patience: int, min_length: int, min_improvement: float) -> tuple[list[PathPoint], bool]:
    """Return the points of all folds, value by value, until ``patience`` of them in a row are no better than the best.

    Also whether there were so many; otherwise all values, or the only one, were followed.
    """
    path, best, worse = [], 0, 0
    for k in range(len(grid)):
        grid.pool([k])
        path.append(grid.point(k))
        better = k == 0 or is_better(path[k], path[best], min_improvement)
        best, worse = (k, 0) if better else (best, worse + 1)
        if len(path) >= min_length and worse >= patience:
            return path, True
    return path, len(path) < PATH_LENGTH


# -- the search --------------------------------------------------------------------------------------------------------


def search_l1(grid: FoldGrid, empty_standard_errors: float = 1.0, min_improvement: float = 0.0) -> tuple[int, bool]:
    """Return the index of the best field, or of the empty one where it is about as good, and whether scores still rise.

    Scores rise if the best value is the smallest.

    Parameters
    ----------
    empty_standard_errors : how many standard errors the field without features may be worse, if it is to be selected
    min_improvement : share by which a score must be higher than that of a larger l1 to count as better
    """
    best = _pooled_best(grid, _lead_to_fall(grid, min_improvement), min_improvement)
    chosen = best
    # Other folds are asked about the field without features unless the first one is sure.
    if best > 0 and is_as_good(grid.lead(0), grid.lead(best), CLEARLY_WORSE):
        grid.pool([0, best])
        chosen = 0 if is_as_good(grid.point(0), grid.point(best), empty_standard_errors) else best
    return chosen, 1 < len(grid) == best + 1


def _lead_to_fall(grid: FoldGrid, min_improvement: float) -> int:
    """Follow the path of the first fold until its score falls, and return the index of its best.

    Strides are double while the score clearly rises. Where it no longer does, the value in between is tried before
    smaller ones, whose fields take longer.
    """
    best, top, index, step = 0, grid.lead(0), STRIDE, STRIDE
    while index < len(grid):
        point = grid.lead(index)
        if is_better(point, top, min_improvement):
            between, clearly = index - STRIDE, not is_as_good(top, point, CLEARLY_WORSE)
            if not clearly and between > best and not is_better(point, grid.lead(between), min_improvement):
                return between
            step = 2 * STRIDE if clearly else STRIDE
            best, top = index, point
        else:
            # Where features clearly help, a fall is no accident, and the fields that follow take the longest to learn.
            helps = not is_as_good(grid.lead(0), top, CLEARLY_WORSE)
            if index - best >= PATIENCE or not is_as_good(point, top, 1.0 if helps else CLEARLY_WORSE):
                break
        index += step
    return best


def _pooled_best(grid: FoldGrid, lead: int, min_improvement: float) -> int:
    """Return the index of the best score of all folds, by strides from that of the first one, ``lead``."""
    near = sorted({max(lead - STRIDE, 0), lead})
    while True:
        grid.pool(near, few=True)
        best = near[0]
        for k in near[1:]:
            best = k if is_better(grid.point(k), grid.point(best), min_improvement) else best
        beyond = min(best + STRIDE, len(grid) - 1)
        before = max(best - STRIDE, 0)
        if best == near[0] > 0 and is_as_good(grid.lead(before), grid.lead(best), NOT_BETTER):
            near.insert(0, before)
        elif best == near[-1] < beyond and is_as_good(grid.lead(beyond), grid.lead(best), NOT_BETTER):
            near.append(beyond)
        else:
            return best


def is_better(point: PathPoint, other: PathPoint, min_improvement: float) -> bool:
    return point.score > other.score + min_improvement * abs(other.score)


def is_as_good(point: PathPoint, best: PathPoint, standard_errors: float = 1.0) -> bool:
    """Return whether a point is worse than the best by at most some standard errors of the difference.

    All points are scored on the same data, so differences are far more certain than scores.
    """
    difference = best.scores - point.scores
    error = standard_error(difference, best.weights) if len(difference) > 1 else 0.0
    return bool(np.average(difference, weights=best.weights) <= standard_errors * error)


def standard_error(values: np.ndarray, weights: np.ndarray) -> float:
    """Return the standard error of the weighted mean of independent values; NaN for a single one."""
    if len(values) < 2:
        return float("nan")
    shares = weights / weights.sum()
    residuals = shares * (values - shares @ values)
    return float(np.sqrt(len(values) / (len(values) - 1) * np.square(residuals).sum()))


# -- refits ------------------------------------------------------------------------------------------------------------


def prune_by_wald(path: Path, l2: float, gamma: float = EBIC().gamma) -> FitResult:
    """Refit the active features without L1, and drop those that EBIC does not support, repeatedly.

    A feature is kept when its Wald statistic exceeds the EBIC cost of one of its ends; the smaller cost counts. Edges
    that are penalized as groups are all kept.
    """
    state, working_set = path.state, path.state.working_set
    problem: Any = state.problem
    refitted = path.refit_without_l1(working_set.active, l2)
    costs = ebic_costs(state.layout, state.missing.observed_weights(), gamma)
    for _ in range(0 if working_set.grouped else 5):
        weights, arcs = working_set.theta[working_set.n_biases :], working_set.arcs
        required = np.full(len(weights), np.inf)
        np.minimum.at(required, arcs.feature, costs[arcs.target])
        supported = problem.wald_statistics(weights) * state.missing.observed_shares(arcs, len(weights)) > required
        if supported.all():
            break
        refitted = path.refit_without_l1(supported, l2)
    return refitted
