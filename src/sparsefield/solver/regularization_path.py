"""This module follows the regularization path: fits at falling values of l1, each from the weights of the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from sparsefield.data import Layout
from sparsefield.model import Field
from sparsefield.solver.fit_state import FitResult, PathPoint
from sparsefield.solver.penalty import NonsmoothPenalty
from sparsefield.solver.trainer import Trainer

Result = TypeVar("Result")

EMPTY_FIELD_L1 = 1e12
"""An l1 at which the field has no pairs."""

PATH_KKT_TOLERANCE = 0.05
"""Violation, as a share of l1, that is allowed for a field on the path, which is only scored."""

MAX_SPARSE_PAIRS = 1_000_000
"""Pairs of a sparse table that are added at one value of l1."""

MIN_L1 = 1e-6
"""Smaller gradients are rounding errors."""


class PathTrainer:
    """Continues a trainer after its `Trainer.run`, from the weights that it has reached.

    Parameters
    ----------
    trainer : the trainer, which this one changes
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    def step_to(self, l1: float) -> FitResult:
        """Fit approximately at a smaller l1: score all candidates once, add, optimize.

        Between two values of l1 gradients rarely change faster than l1 itself (the strong rule of Tibshirani et al.),
        so candidates within that distance of the new l1 are added. The next step adds what was missed.
        """
        trainer = self.trainer
        if trainer.options.max_order > 2:
            return self.fit_at(l1)  # many conjunctions look useful until a few of them are added
        last = trainer.options.l1
        near = max(2.0 * l1 - last, 0.5 * l1) if last < 2.0 * l1 else l1
        trainer.set_l1(l1)
        if trainer.fixed_candidates:
            return trainer.optimize_with(np.empty((0, 2), dtype=np.int64), near)
        found = trainer.violators(None if trainer.evaluator.keeps_errors else MAX_SPARSE_PAIRS, l1=near)
        return trainer.optimize_with(found.features, near)

    def fit_at(self, l1: float) -> FitResult:
        """Fit at another l1, with a certificate."""
        self.trainer.set_l1(l1)
        return self.trainer.certify()

    def l1_max(self) -> float:
        """Return the smallest l1 that leaves every feature at 0, after a fit that did; 0 for independent columns."""
        trainer = self.trainer
        if trainer.fixed_candidates:
            gradient, n = trainer.problem.loss_gradient, trainer.layout.n_target_columns
            penalty = replace(trainer.problem.penalty, l1=1.0).nonsmooth(len(gradient))
            return float(penalty.scaled_norms(gradient)[n:].max(initial=0.0))
        l1 = max(trainer.evaluator.total_weights, default=0.0)
        while l1 > MIN_L1:
            found = trainer.violators(1, l1=l1)
            if len(found):
                return float(found.score.max())
            l1 *= 0.5
        return 0.0

    def refit_without_l1(self, kept: np.ndarray, l2: float) -> Field:
        """Fit some features of the working set, a mask, by L2 alone, and nothing else."""
        self.trainer.drop_l1(kept, l2)
        return self.fit_at(0.0).field

    def branch(self) -> PathTrainer:
        """Return a copy whose steps leave this one unchanged."""
        return PathTrainer(self.trainer.branch())


MakeTrainer = Callable[[float, float], Trainer]
"""``make(l1, kkt_tol)`` returns a trainer."""


@dataclass(frozen=True)
class BatchScores:
    """Scores of batches of held-out data, (batches,), and how much each of them counts; larger is better."""

    values: np.ndarray
    weights: np.ndarray


Scorer = Callable[[PathTrainer], BatchScores]
"""Scores the current field of a path."""


class PathFold:
    """The path of one fold: a trainer, and the scorer of its fields."""

    def __init__(self, path: PathTrainer, score: Scorer) -> None:
        self.path, self.score = path, score

    def begin(self) -> float:
        """Fit the field without pairs, and return the smallest l1 that selects nothing."""
        self.path.trainer.run()
        return self.path.l1_max()

    def proceed(self, l1: float) -> tuple[FitResult, BatchScores]:
        """Fit at a smaller l1, and score the field."""
        return self.path.step_to(l1), self.score(self.path)


OpenFold = Callable[[int, PathTrainer, Scorer], PathFold]
"""``open_fold(number, path, score)`` returns a fold."""


def open_path_fold(number: int, path: PathTrainer, score: Scorer) -> PathFold:
    """Return a fold of which nothing is saved."""
    return PathFold(path, score)


EndOfPath = Callable[[Sequence[PathPoint]], bool]
"""Returns whether a path ends after some points."""


def follow_path(
    learners: Sequence[tuple[MakeTrainer, Scorer]],
    *,
    count: int,
    step: float,
    kkt_tol: float,
    ends: EndOfPath,
    n_threads: int = 1,
    open_fold: OpenFold = open_path_fold,
) -> Iterator[PathPoint]:
    """Yield fields at falling values of l1, from the smallest that selects nothing, each ``step`` times the last.

    Parameters
    ----------
    learners : sequence of (make, score)
        One for each fold; all are fitted at the same values of l1, and their scores are pooled.
    count : number of values at most
    ends : called after each point with all points so far
    n_threads : number of threads that share the folds; the result does not depend on it
    open_fold : returns the fold of a number, which may continue an interrupted selection
    """
    tolerance = max(kkt_tol, PATH_KKT_TOLERANCE)
    folds = [
        open_fold(k, PathTrainer(make(EMPTY_FIELD_L1, tolerance)), score) for k, (make, score) in enumerate(learners)
    ]
    points: list[PathPoint] = []

    def begin(k: int) -> float:
        return folds[k].begin()

    def proceed(k: int, l1: float) -> tuple[FitResult, BatchScores]:
        return folds[k].proceed(l1)

    with _open_pool(min(n_threads, len(folds)) - 1) as pool:
        for l1 in path_values(max(_for_each_fold(begin, len(folds), pool)), count, step).tolist():
            fits, found = zip(*_for_each_fold(partial(proceed, l1=l1), len(folds), pool), strict=True)
            scores, weights = (np.concatenate([getattr(f, name) for f in found]) for name in ("values", "weights"))
            points.append(PathPoint(l1, scores, fits[0], weights))
            yield points[-1]
            if ends(points):
                return


def _open_pool(n_threads: int) -> AbstractContextManager[ThreadPoolExecutor | None]:
    """Return threads beside the current one, if any."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="sparsefield-fold") if n_threads > 0 else nullcontext()


def _for_each_fold(function: Callable[[int], Result], count: int, pool: ThreadPoolExecutor | None) -> list[Result]:
    """Return what a function returns for each fold.

    The first fold, whose iterations callbacks hear of, is always that of the current thread, which then helps with
    those that have not begun.
    """
    waiting = {} if pool is None else {k: pool.submit(function, k) for k in range(1, count)}
    found = {0: function(0)}
    for k in reversed(range(1, count)):
        if k not in waiting or waiting[k].cancel():
            found[k] = function(k)
    return [found[k] if k in found else waiting[k].result() for k in range(count)]


def path_values(first: float, count: int, step: float) -> np.ndarray:
    """Return values of l1, (count,), that fall by equal factors; a single one for independent columns."""
    return first * step ** np.arange(count) if first > 0.0 else np.ones(1)


def ebic(trainer: Trainer, gamma: float) -> float:
    """Return the extended Bayesian information criterion of the current field; smaller is better.

    It is the sum over states of the EBIC of one regression each: 2 x loss, and a cost for each end of a feature.
    Where edges are penalized as groups, almost all of whose weights are small, an edge counts as many features as its
    weights amount to: (sum of sizes)^2 / sum of squares, of weights x penalty factors.
    """
    problem, n = trainer.problem, trainer.layout.n_target_columns
    arcs, counted = problem.working_set.arcs, problem.active.astype(np.float64)
    if problem.working_set.grouped:
        sizes = np.abs(problem.theta[n:]) * problem.working_set.penalty_factors
        penalty = NonsmoothPenalty(
            np.ones(len(sizes)), problem.working_set.numbered_groups(problem.working_set.features)
        )
        total, squares = penalty.sum_groups(sizes), penalty.sum_groups(np.square(sizes))
        counted = np.divide(sizes * total, squares, out=np.zeros(len(sizes)), where=squares > 0.0)
    ends = np.bincount(arcs.target, counted[arcs.feature], minlength=n)
    costs = ebic_costs(trainer.layout, trainer.missing.observed_weights(), gamma)
    return float(2.0 * trainer.missing.observed_loss() + ends @ costs)


def ebic_costs(layout: Layout, weights: np.ndarray, gamma: float) -> np.ndarray:
    """Return the cost of one end of a feature at each state, (states,): ln(weight) + 2 gamma ln(possible columns).

    ``weights`` (states,) is the weight of the rows in which the variable of each state is observed.
    """
    parts = []
    for schema, width in zip(layout.schemas, layout.widths, strict=True):
        own = np.repeat(np.diff(schema.target_offsets), np.diff(schema.target_offsets))
        parts.append(2.0 * gamma * np.log(np.maximum(int(width) - own, 1)))
    return np.log(np.maximum(weights, 1.0)) + np.concatenate(parts)
