"""Search for the l1 that predicts held-out data best, with as few fits as the comparison needs.

The first fold follows the regularization path in large steps until its score falls. All folds are then fitted at the
values near its best one only, and further ones while the best of them, or the sparsest that is as good, may lie beyond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparsefield.solver.path import FoldGrid
from sparsefield.solver.state import PathPoint

STRIDE = 2
"""Values of l1 by which the first fold proceeds at a time, until a quadratic through its scores bends down."""

CLEARLY_WORSE = 3.0
"""Standard errors of a difference that hardly ever occur by chance."""

NOT_SPARSER, NOT_DENSER = 2.5, 1.5
"""Standard errors of a difference from the best value, in the first fold, beyond which a larger or a smaller l1 will
not be selected by all folds together. A smaller one would have to be better by a standard error."""

LEAD_PATIENCE, PATIENCE = 3, 2
"""Values of l1 without a better score that end the path of the first fold, and the search of all folds below it."""


@dataclass(frozen=True)
class SearchResult:
    """The values of l1 that were tried, and which of them was selected."""

    path: tuple[PathPoint, ...]
    """Falling values. Where the first fold alone was fitted, the scores of the others are estimates: those at the
    nearest value, changed by as much as the mean score of the first fold."""
    selected: int
    rises_at_the_end: bool
    """Whether the best value is the smallest that was allowed."""


def search_l1(grid: FoldGrid, empty_standard_errors: float = 1.0, min_improvement: float = 0.0) -> SearchResult:
    """Return the sparsest field that predicts about as well as the best one: worse by at most one standard error.

    Parameters
    ----------
    empty_standard_errors : how many standard errors the field without features may be worse, if it is to be selected
    min_improvement : share by which a score must be higher than that of a larger l1 to count as better
    """
    lead = _climb(grid, _lead_to_fall(grid, min_improvement), min_improvement)
    best = _pooled_best(grid, lead, min_improvement)
    chosen = _sparsest_good(grid, best, lead)
    if chosen > 0 and _selects_nothing(grid, best, empty_standard_errors):
        chosen = 0
    path = grid.path()
    selected = next(k for k, point in enumerate(path) if point.l1 == grid.value(chosen))
    return SearchResult(path, selected, 1 < len(grid) == best + 1)


def is_better(point: PathPoint, other: PathPoint, min_improvement: float) -> bool:
    return point.score > other.score + min_improvement * abs(other.score)


def _climb(grid: FoldGrid, index: int, min_improvement: float) -> int:
    """Return an index at which the first fold's score is higher than at both neighbors."""
    while index + 1 < len(grid) and is_better(grid.lead(index + 1), grid.lead(index), min_improvement):
        index += 1
    while index > 0 and not is_better(grid.lead(index), grid.lead(index - 1), min_improvement):
        index -= 1
    return index


def _pooled_best(grid: FoldGrid, lead: int, min_improvement: float) -> int:
    """Return the index of the best score of all folds, near that of the first one, ``lead``.

    Other folds are fitted only where the first one leaves doubt.
    """
    best, k, idle = lead, lead + 1, 0
    while idle < PATIENCE and k < len(grid) and is_as_good(grid.lead(k), grid.lead(lead), NOT_DENSER):
        grid.pool([best, k])
        point, top = grid.point(k), grid.point(best)
        if not is_as_good(point, top):
            break
        better = is_better(point, top, min_improvement)
        best, idle, k = (k, 0, k + 1) if better else (best, idle + 1, k + 1)
    while best > 0 and is_as_good(grid.lead(best - 1), grid.lead(lead), NOT_SPARSER):
        grid.pool([best - 1, best])
        if is_better(grid.point(best), grid.point(best - 1), min_improvement):
            break
        best -= 1
    return best


def _sparsest_good(grid: FoldGrid, best: int, lead: int) -> int:
    """Return the first index whose score is about as good as the best, by growing steps and then by bisection."""

    def is_good(k: int) -> bool:
        if not is_as_good(grid.lead(k), grid.lead(lead), NOT_SPARSER):
            return False
        grid.pool([k, best])
        return is_as_good(grid.point(k), grid.point(best))

    good, bad, step = best, -1, 1
    while good > 0 and bad < 0:
        k = max(good - step, 0)
        good, bad, step = (k, bad, 2 * step) if is_good(k) else (good, k, step)
    while good - bad > 1:
        k = (good + bad) // 2
        good, bad = (k, bad) if is_good(k) else (good, k)
    return good


def _selects_nothing(grid: FoldGrid, best: int, standard_errors: float) -> bool:
    """Return whether the field without features is good enough; other folds are asked unless the first one is sure."""
    if not is_as_good(grid.lead(0), grid.lead(best), CLEARLY_WORSE):
        return False
    grid.pool([0, best])
    return is_as_good(grid.point(0), grid.point(best), standard_errors)


def _lead_to_fall(grid: FoldGrid, min_improvement: float) -> int:
    """Follow the path of the first fold until its score falls, and return the index near which it is highest."""
    tried, best, index = [0], 0, 0
    top = grid.lead(0)
    while index + 1 < len(grid):
        index = min(index + (1 if _bends_down(grid, tried) else STRIDE), len(grid) - 1)
        point = grid.lead(index)
        tried.append(index)
        if is_better(point, top, min_improvement):
            best, top = index, point
            continue
        # Where features clearly help, a fall is no accident, and the fields that follow take the longest to learn.
        helps = not is_as_good(grid.lead(0), top, CLEARLY_WORSE)
        if index - best >= LEAD_PATIENCE or not is_as_good(point, top, 1.0 if helps else CLEARLY_WORSE):
            break
    return _vertex(grid, tried, best)


def _bends_down(grid: FoldGrid, tried: Sequence[int]) -> bool:
    """Return whether a quadratic through the last three scores would be lower after the next stride."""
    if len(tried) < 3:
        return False
    scores = [grid.lead(k).score for k in tried[-3:]]
    quadratic = np.polyfit(np.array(tried[-3:]) - tried[-1], scores, 2)
    return bool(np.polyval(quadratic, STRIDE) < scores[-1])


def _vertex(grid: FoldGrid, tried: Sequence[int], best: int) -> int:
    """Return the index at which a quadratic through the best score and its neighbors is highest."""
    k = tried.index(best)
    if not 0 < k < len(tried) - 1:
        return best
    near = tried[k - 1 : k + 2]
    bend, slope, _ = np.polyfit(np.array(near) - best, [grid.lead(i).score for i in near], 2)
    return best if bend >= 0.0 else int(np.clip(round(best - 0.5 * slope / bend), near[0], near[-1]))


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
