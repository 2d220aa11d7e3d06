"""This module searches for the l1 that predicts held-out data best, with as few fits as the comparison needs.

The first fold follows the regularization path in large steps until its score falls. All folds are then fitted at the
values near its best one only, and further ones while the best of them, or the sparsest that is as good, may lie beyond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from sparsefield.solver.path import BatchScores, PathFold, for_each_fold
from sparsefield.solver.score_comparison import is_as_good
from sparsefield.solver.state import FitResult, PathPoint

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


class FoldGrid:
    """Fits of folds at values of l1, each of which is learned once.

    Parameters
    ----------
    first : the first fold, after `PathFold.begin`; others start from its weights
    n_folds : number of folds
    open_fold : ``open_fold(k)`` returns another fold
    values : (values,), falling
    threads : for the other folds, or None
    hear : called with the first fold's points, and with those of all folds
    """

    def __init__(
        self,
        first: PathFold,
        n_folds: int,
        open_fold: Callable[[int], PathFold],
        values: np.ndarray,
        threads: ThreadPoolExecutor | None,
        hear: Callable[[PathPoint], None],
    ) -> None:
        self._folds, self._open_fold, self._values, self._threads = {0: first}, open_fold, values, threads
        self._hear = hear
        self._fits: list[dict[int, tuple[FitResult, BatchScores]]] = [{} for _ in range(n_folds)]
        self._last: list[int | None] = [-1] + [None] * (n_folds - 1)
        """Index of each fold's last fit; -1 where only `PathFold.begin` was called."""

    def __len__(self) -> int:
        return len(self._values)

    def lead(self, index: int) -> PathPoint:
        """Return the first fold's point at a value."""
        if index not in self._fits[0]:
            self._fit(0, index)
            self._hear(self._point([0], index))
        return self._point([0], index)

    def pool(self, indices: Iterable[int]) -> None:
        """Fit all folds at some values."""
        new = [index for index in sorted(indices) if index not in self.pooled()]
        for index in new:
            self.lead(index)
        if len(self._fits) > 1 and new:
            if len(self._folds) == 1:
                self._folds |= {k: self._open_fold(k) for k in range(1, len(self._fits))}
            for_each_fold(lambda k: [self._fit(k, index) for index in new], len(self._fits), self._threads)
            for index in new:
                self._hear(self.point(index))

    def pooled(self) -> list[int]:
        """Return the values at which all folds have been fitted, falling."""
        return sorted(set.intersection(*(set(fits) for fits in self._fits)))

    def point(self, index: int) -> PathPoint:
        """Return the point of all folds that have been fitted at a value."""
        return self._point([k for k, fits in enumerate(self._fits) if index in fits], index)

    def value(self, index: int) -> float:
        """Return the l1 of an index."""
        return float(self._values[index])

    def path(self) -> tuple[PathPoint, ...]:
        """Return the points of all values that were tried."""
        pooled = self.pooled() or list(self._fits[0])
        return tuple(self.point(k) if k in pooled else self._estimate(k, pooled) for k in sorted(self._fits[0]))

    def _estimate(self, index: int, pooled: Sequence[int]) -> PathPoint:
        near = min(pooled, key=lambda k: abs(k - index))
        own, there, everything = self.lead(index), self.lead(near), self.point(near)
        scores = everything.scores + (own.score - there.score)
        return PathPoint(own.l1, np.concatenate([own.scores, scores[len(own.scores) :]]), own.fit, everything.weights)

    def _point(self, folds: Iterable[int], index: int) -> PathPoint:
        found = [self._fits[k][index][1] for k in folds]
        scores, weights = (np.concatenate([getattr(f, name) for f in found]) for name in ("values", "weights"))
        return PathPoint(float(self._values[index]), scores, self._fits[0][index][0], weights)

    def _fit(self, fold: int, index: int) -> None:
        if index in self._fits[fold]:
            return
        start, l1 = self._start(fold, index), float(self._values[index])
        exact = fold > 0 and not self._fits[fold]
        self._fits[fold][index] = self._folds[fold].proceed(l1, None if start is None else start.field, exact=exact)
        self._last[fold] = index

    def _start(self, fold: int, index: int) -> FitResult | None:
        """Return the fit to start from; None goes on from the last one, which had a larger l1.

        That is the fold's own fit at the nearest value or, where it has none, that of the first fold.
        """
        last, fits = self._last[fold], self._fits[fold] or self._fits[0]
        if last is not None and last < index:
            return None
        return fits[min(fits, key=lambda k: (abs(k - index), k))][0]


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


def _is_better(point: PathPoint, other: PathPoint, min_improvement: float) -> bool:
    return point.score > other.score + min_improvement * abs(other.score)


def _climb(grid: FoldGrid, index: int, min_improvement: float) -> int:
    """Return an index at which the first fold's score is higher than at both neighbors."""
    while index + 1 < len(grid) and _is_better(grid.lead(index + 1), grid.lead(index), min_improvement):
        index += 1
    while index > 0 and not _is_better(grid.lead(index), grid.lead(index - 1), min_improvement):
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
        better = _is_better(point, top, min_improvement)
        best, idle, k = (k, 0, k + 1) if better else (best, idle + 1, k + 1)
    while best > 0 and is_as_good(grid.lead(best - 1), grid.lead(lead), NOT_SPARSER):
        grid.pool([best - 1, best])
        if _is_better(grid.point(best), grid.point(best - 1), min_improvement):
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
        if _is_better(point, top, min_improvement):
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
