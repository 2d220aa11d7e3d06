"""Path: fits at falling values of l1, each from the weights of the last."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Dataset, Layout
from sparsefield.induction import InductionRule
from sparsefield.inference import InferenceMethod
from sparsefield.model import Field, pad_features
from sparsefield.objectives import EM, Objective
from sparsefield.solver.candidates import EXACT, SINGLE_PRECISION, score
from sparsefield.solver.checkpoint import Checkpoint, fingerprint
from sparsefield.solver.fit import Goal, add_features, certify, drop_inactive, fit, optimize
from sparsefield.solver.penalty import NonsmoothPenalty
from sparsefield.solver.state import FitCallbacks, FitResult, PathPoint, State, TrainingOptions, WarmStart

Result = TypeVar("Result")

EMPTY_FIELD_L1 = 1e12
"""An l1 at which the field has no pairs."""

PATH_KKT_TOLERANCE = 0.05
"""Violation, as a share of l1, that is allowed for a field on the path, which is only scored."""

MAX_SPARSE_PAIRS = 1_000_000
"""Pairs of a sparse table that are added at one value of l1."""

MIN_L1 = 1e-6
"""Smaller gradients are rounding errors."""


class Path:
    """Fits of one dataset along l1, each from the weights of the last.

    Parameters
    ----------
    dataset : compiled tables
    rule, objective, missing, options : of the fits
    engine : where rows are evaluated
    callbacks : called after each step
    checkpoint : folder of the state of an interrupted fit, from which `run` goes on
    start : initial features and weights of `run`
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        rule: InductionRule,
        objective: Objective,
        missing: EM | InferenceMethod,
        options: TrainingOptions,
        engine: Engine,
        callbacks: FitCallbacks | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        start: WarmStart | None = None,
    ) -> None:
        self.rule, self._start = rule, start
        self._checkpoint = None
        if checkpoint is not None:
            self._checkpoint = Checkpoint(checkpoint, fingerprint(dataset, rule, objective, missing, options))
        self.state = State(dataset, objective, missing, options, engine, callbacks, start)
        self.state.fixed = rule.fixed_candidates

    @property
    def options(self) -> TrainingOptions:
        return self.state.options

    @property
    def layout(self) -> Layout:
        return self.state.layout

    def run(self) -> FitResult:
        """Fit at the first l1, from the start, or from the checkpoint where there is one."""
        if self._checkpoint is None:
            return fit(self.state, self.rule, self._start)
        saved = self._checkpoint.load()
        start = self._start
        if saved is not None:
            start = replace(saved.start, latent=start is not None and start.latent)
            self.state.continue_log(saved.records)
        self.state.save = self._checkpoint.save
        result = fit(self.state, self.rule, start)
        self.state.save = None
        self._checkpoint.clear()
        return result

    def fit_at(self, l1: float) -> FitResult:
        """Fit at another l1, with a certificate."""
        self.state.set_penalty(l1)
        return certify(self.state)

    def step_to(
        self, l1: float, start: WarmStart | None = None, *, ahead: bool = True, exact: bool = False
    ) -> FitResult:
        """Fit approximately at another l1, from the last weights or from given ones: score all candidates once, add.

        Between two values of l1 gradients rarely change faster than l1 itself (the strong rule of Tibshirani et al.),
        so candidates within that distance of a smaller l1 are added, unless ``ahead`` is false: most of them are not
        needed, and weights that are about to leave 0 hardly matter. The next step adds what was missed, or, with
        ``exact``, a certificate does.
        """
        state, last = self.state, self.options.l1
        state.set_penalty(l1, start=start)
        if start is not None and state.fixed:
            pairs = self.rule.start(self.layout)
            pairs = pairs[~np.isin(self.layout.keys(pairs), state.working_set.pair_keys)]
            add_features(state, pad_features(pairs, self.options.max_order))
        if self.options.max_order > 2:
            return certify(state)  # many conjunctions look useful until a few of them are added
        if not state.fixed:
            near = max(2.0 * l1 - last, 0.5 * l1) if ahead and l1 < last < 2.0 * l1 else l1
            rule = SINGLE_PRECISION if state.working_set.single_precision else EXACT
            proposals = score(state, rule, None if state.problem.keeps_errors else MAX_SPARSE_PAIRS, l1=near)
            drop_inactive(state)
            add_features(state, proposals.features, near)
        optimize(state, Goal("path", *state.missing.schedule()))
        return certify(state) if exact else state.result()

    def l1_max(self) -> float:
        """Return the smallest l1 that leaves every feature at 0, after a fit that did; 0 for independent columns."""
        state, working_set = self.state, self.state.working_set
        if state.fixed:
            penalty = replace(working_set.penalty, l1=1.0).nonsmooth(len(working_set.theta))
            return float(penalty.scaled_norms(working_set.loss_gradient)[working_set.n_biases :].max(initial=0.0))
        l1 = max(state.problem.total_weights, default=0.0)
        while l1 > MIN_L1:
            proposals = score(state, EXACT, 1, l1=l1)
            if len(proposals):
                return float(proposals.score.max())
            l1 *= 0.5
        return 0.0

    def refit_without_l1(self, mask: np.ndarray, l2: float) -> FitResult:
        """Fit some features of the working set, by a mask, with L2 alone, and nothing else from now on."""
        state = self.state
        state.fixed = True
        state.options = replace(state.options, kkt_tol=state.options.allowed_violation, certify=True)
        state.working_set.keep(mask)
        state.set_penalty(0.0, l2)
        return certify(state)

    def refitted(self, l2: float) -> Field:
        """Return the field with its features estimated again without L1; the path goes on as if nothing had been."""
        problem, twin = self.state.problem, copy(self)
        twin.state, rows = self.state.branch(), copy(problem.source)
        field = twin.refit_without_l1(twin.state.working_set.active, l2).field
        problem.source = rows
        return field


@dataclass(frozen=True)
class BatchScores:
    """Scores of batches of held-out data, (batches,), and how much each of them counts; larger is better."""

    values: np.ndarray
    weights: np.ndarray


Scorer = Callable[[Path], BatchScores]
"""Scores the current field of a path."""


Learner = Callable[[float], tuple[Path, Scorer]]
"""``learner(kkt_tol)`` returns the trainer of a fold, at an l1 that selects nothing, and its scorer."""


class PathFold:
    """The path of one fold, and the scorer of its fields.

    Parameters
    ----------
    ahead : whether candidates are added before they are needed, as `Path.step_to` explains
    """

    def __init__(self, path: Path, score: Scorer, *, ahead: bool = True) -> None:
        self.path, self.score, self.ahead = path, score, ahead

    def begin(self) -> float:
        """Fit the field without pairs, and return the smallest l1 that selects nothing."""
        self.path.run()
        return self.path.l1_max()

    def proceed(self, l1: float, start: Field | None = None, *, exact: bool = False) -> tuple[FitResult, BatchScores]:
        """Fit at another l1, from the last weights or from those of a field, and score the field.

        The weights of another fold have seen the held-out data of this one, so that fits that start from them have to
        be exact.
        """
        warm = None if start is None else WarmStart.from_field(start)
        return self.path.step_to(l1, warm, ahead=self.ahead, exact=exact), self.score(self.path)


class OpenFold(Protocol):
    """A function that returns the fold of a number."""

    def __call__(self, number: int, path: Path, score: Scorer, *, ahead: bool = True) -> PathFold: ...


def open_path_fold(number: int, path: Path, score: Scorer, *, ahead: bool = True) -> PathFold:
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
