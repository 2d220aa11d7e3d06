"""This module follows the regularization path: fits at falling values of l1, each from the weights of the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from sparsefield.data import Layout
from sparsefield.model import Field
from sparsefield.solver.candidate_selection import EXACT, SINGLE_PRECISION
from sparsefield.solver.fit_state import FitResult, PathPoint, WarmStart
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


def warm_start(field: Field) -> WarmStart:
    """Return the weights of a field as those to start from."""
    return WarmStart(field.biases, field.features, field.theta[len(field.biases) :])


class PathTrainer:
    """Continues a trainer after its `Trainer.run`, from the weights that it has reached.

    Parameters
    ----------
    trainer : the trainer, which this one changes
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    def step_to(self, l1: float, start: WarmStart | None = None, *, ahead: bool = True) -> FitResult:
        """Fit approximately at another l1, from the last weights or from given ones: score all candidates once, add.

        Between two values of l1 gradients rarely change faster than l1 itself (the strong rule of Tibshirani et al.),
        so candidates within that distance of a smaller l1 are added, unless ``ahead`` is false: most of them are not
        needed, and weights that are about to leave 0 hardly matter. The next step adds what was missed.
        """
        trainer, last = self.trainer, self.trainer.options.l1
        if start is None:
            trainer.set_l1(l1)
        else:
            trainer.start_at(start, l1)
        if trainer.options.max_order > 2:
            return trainer.certify()  # many conjunctions look useful until a few of them are added
        near = max(2.0 * l1 - last, 0.5 * l1) if ahead and l1 < last < 2.0 * l1 else l1
        if trainer.fixed_candidates:
            return trainer.optimize_with(np.empty((0, 2), dtype=np.int64), near)
        limit = None if trainer.evaluator.keeps_errors else MAX_SPARSE_PAIRS
        found = trainer.violators(limit, l1=near, rule=SINGLE_PRECISION if trainer.problem.single_precision else EXACT)
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


@dataclass(frozen=True)
class BatchScores:
    """Scores of batches of held-out data, (batches,), and how much each of them counts; larger is better."""

    values: np.ndarray
    weights: np.ndarray


Scorer = Callable[[PathTrainer], BatchScores]
"""Scores the current field of a path."""


Learner = Callable[[float], tuple[PathTrainer, Scorer]]
"""``learner(kkt_tol)`` returns the trainer of a fold, at an l1 that selects nothing, and its scorer."""


class PathFold:
    """The path of one fold: a trainer, and the scorer of its fields.

    Parameters
    ----------
    ahead : whether candidates are added before they are needed, as `PathTrainer.step_to` explains
    """

    def __init__(self, path: PathTrainer, score: Scorer, *, ahead: bool = True) -> None:
        self.path, self.score, self.ahead = path, score, ahead

    def begin(self) -> float:
        """Fit the field without pairs, and return the smallest l1 that selects nothing."""
        self.path.trainer.run()
        return self.path.l1_max()

    def proceed(self, l1: float, start: Field | None = None, *, exact: bool = False) -> tuple[FitResult, BatchScores]:
        """Fit at another l1, from the last weights or from those of a field, and score the field.

        The weights of another fold have seen the held-out data of this one, so that fits that start from them have to
        be exact.
        """
        return self._fit(l1, start, exact=exact), self.score(self.path)

    def _fit(self, l1: float, start: Field | None, *, exact: bool) -> FitResult:
        found = self.path.step_to(l1, None if start is None else warm_start(start), ahead=self.ahead)
        return self.path.trainer.certify() if exact else found


class OpenFold(Protocol):
    """A function that returns the fold of a number."""

    def __call__(self, number: int, path: PathTrainer, score: Scorer, *, ahead: bool = True) -> PathFold: ...


def open_path_fold(number: int, path: PathTrainer, score: Scorer, *, ahead: bool = True) -> PathFold:
    """Return a fold of which nothing is saved."""
    return PathFold(path, score, ahead=ahead)


EndOfPath = Callable[[Sequence[PathPoint]], bool]
"""Returns whether a path ends after some points."""


def follow_path(
    learners: Sequence[Learner],
    *,
    first: float | None = None,
    count: int,
    step: float,
    kkt_tol: float,
    ends: EndOfPath,
    n_threads: int = 1,
    open_fold: OpenFold = open_path_fold,
) -> Iterator[PathPoint]:
    """Yield fields at falling values of l1, each ``step`` times the last.

    Parameters
    ----------
    learners : one for each fold
        All are fitted at the same values of l1, and their scores are pooled.
    first : the first value; None takes the smallest that selects nothing in the first fold
    count : number of values at most
    ends : called after each point with all points so far
    n_threads : number of threads that share the folds; the result does not depend on it
    open_fold : returns the fold of a number, which may continue an interrupted selection
    """
    tolerance = max(kkt_tol, PATH_KKT_TOLERANCE)
    folds = [open_fold(k, *learner(tolerance)) for k, learner in enumerate(learners)]
    points: list[PathPoint] = []

    def begin(k: int) -> float:
        return folds[k].begin()

    def proceed(k: int, l1: float) -> tuple[FitResult, BatchScores]:
        return folds[k].proceed(l1)

    with open_pool(min(n_threads, len(folds)) - 1) as pool:
        l1_max = for_each_fold(begin, len(folds), pool)[0]
        for l1 in path_values(l1_max if first is None else first, count, step).tolist():
            fits, found = zip(*for_each_fold(partial(proceed, l1=l1), len(folds), pool), strict=True)
            scores, weights = (np.concatenate([getattr(f, name) for f in found]) for name in ("values", "weights"))
            points.append(PathPoint(l1, scores, fits[0], weights))
            yield points[-1]
            if ends(points):
                return


def open_pool(n_threads: int) -> AbstractContextManager[ThreadPoolExecutor | None]:
    """Return threads beside the current one, if any."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="sparsefield-fold") if n_threads > 0 else nullcontext()


def for_each_fold(function: Callable[[int], Result], count: int, pool: ThreadPoolExecutor | None) -> list[Result]:
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
