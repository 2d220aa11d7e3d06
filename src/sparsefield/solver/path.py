"""Path: fits at falling values of l1, each from the weights of the last; and paths of several folds side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Dataset, Layout
from sparsefield.induction import InductionRule
from sparsefield.inference import InferenceMethod
from sparsefield.model import Field
from sparsefield.objectives import EM, Objective
from sparsefield.solver.checkpoint import Checkpoint, CheckpointFile, fingerprint
from sparsefield.solver.fit import (
    EXACT,
    SINGLE_PRECISION,
    Goal,
    add_features,
    add_start,
    begin,
    drop_inactive,
    fit,
    optimize,
    score,
)
from sparsefield.solver.state import FitCallbacks, FitResult, PathPoint, State, TrainingOptions, WarmStart

Result = TypeVar("Result")

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
            return self._fit(self._start)
        saved = self._checkpoint.load()
        start = self._start
        if saved is not None:
            start = replace(saved.start, latent=start is not None and start.latent)
            self.state.continue_log(saved.records)
        self.state.save = self._checkpoint.save
        result = self._fit(start)
        self.state.save = None
        self._checkpoint.clear()
        return result

    def _fit(self, start: WarmStart | None) -> FitResult:
        begin(self.state, self.rule, start)
        return fit(self.state, None if self.state.fixed else self.rule)

    def fit_at(self, l1: float) -> FitResult:
        """Fit at another l1, with a certificate."""
        self.state.set_penalty(l1)
        return fit(self.state)

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
            add_start(state, self.rule)
        if self.options.max_order > 2:
            return fit(state)  # many conjunctions look useful until a few of them are added
        if not state.fixed:
            near = max(2.0 * l1 - last, 0.5 * l1) if ahead and l1 < last < 2.0 * l1 else l1
            rule = SINGLE_PRECISION if state.working_set.single_precision else EXACT
            proposals = score(state, rule, None if state.problem.keeps_errors else MAX_SPARSE_PAIRS, l1=near)
            drop_inactive(state)
            add_features(state, proposals.features, near)
        optimize(state, Goal("path", *state.missing.schedule()))
        return fit(state) if exact else state.result()

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
        return fit(state)

    def refitted(self, l2: float) -> Field:
        """Return the field with its features estimated again without L1; the path goes on as if nothing had been."""
        problem, twin = self.state.problem, copy(self)
        twin.state, rows = self.state.branch(), copy(problem.source)
        field = twin.refit_without_l1(twin.state.working_set.active, l2).field
        problem.source = rows
        return field


class BatchScores(NamedTuple):
    """Scores of batches of held-out data, (batches,), and how much each of them counts; larger is better."""

    values: np.ndarray
    weights: np.ndarray


Scorer = Callable[[Path], BatchScores]
"""Scores the current field of a path."""

_FIELD_ARRAYS = ("biases", "pairs", "weights", "conjunctions", "conjunction_weights")
_FIT_FACTS = ("objective", "kkt_violation", "converged", "mc_error")


class Fold:
    """The path of one fold, whose fields are scored on the data that were held out.

    Parameters
    ----------
    path, score : the path, and the scorer of its fields
    ahead : whether candidates are added before they are needed, as `Path.step_to` explains
    file : where finished points are saved; those of an interrupted selection are not computed again, and the path goes
        on from the weights of the last of them
    """

    def __init__(self, path: Path, score: Scorer, *, ahead: bool = True, file: CheckpointFile | None = None) -> None:
        self.path, self.score, self.ahead, self._file = path, score, ahead, file
        self._arrays, self._facts = (None if file is None else file.load()) or ({}, {"points": {}})
        self._last = self._facts.get("last")
        """Name of the saved point from which the path goes on, if it was interrupted."""

    def begin(self) -> float:
        """Fit the field without pairs, and return the smallest l1 that selects nothing."""
        if "l1_max" not in self._facts or self._last is None:
            self.path.run()
            self._facts["l1_max"] = self.path.l1_max()
            self._save()
        return float(self._facts["l1_max"])

    def proceed(self, l1: float, start: Field | None = None, *, exact: bool = False) -> tuple[FitResult, BatchScores]:
        """Fit at another l1, from the last weights or from those of a field, and score the field.

        The weights of another fold have seen the held-out data of this one, so that fits that start from them have to
        be exact.
        """
        name = repr(l1)
        if name in self._facts["points"]:
            return self._load(name)
        if start is None and self._last is not None:
            start = self._load(self._last)[0].field
        self._last = None
        warm = None if start is None else WarmStart.from_field(start)
        fit = self.path.step_to(l1, warm, ahead=self.ahead, exact=exact)
        scores = self.score(self.path)
        if self._file is not None:
            arrays = {key: getattr(fit.field, key) for key in _FIELD_ARRAYS}
            arrays |= {"scores": scores.values, "score weights": scores.weights}
            self._arrays |= {f"{name} {key}": array for key, array in arrays.items()}
            self._facts["points"][name] = {key: float(getattr(fit, key)) for key in _FIT_FACTS}
            self._facts["last"] = name
            self._save()
        return fit, scores

    def _save(self) -> None:
        if self._file is not None:
            self._file.save(self._arrays, self._facts)

    def _load(self, name: str) -> tuple[FitResult, BatchScores]:
        objective, violation, converged, mc_error = (self._facts["points"][name][key] for key in _FIT_FACTS)
        biases, *features = (self._arrays[f"{name} {key}"] for key in _FIELD_ARRAYS)
        pairs, weights, conjunctions, conjunction_weights = features
        field = Field(self.path.layout, biases, pairs, weights, conjunctions, conjunction_weights)
        fit = FitResult(field, (), objective, violation, bool(converged), mc_error)
        return fit, BatchScores(*(self._arrays[f"{name} {key}"] for key in ("scores", "score weights")))


class FoldGrid:
    """Fits of folds at values of l1, each of which is learned once.

    Parameters
    ----------
    first : the first fold, after `Fold.begin`; others start from its weights
    n_folds : number of folds
    open_fold : ``open_fold(k)`` returns another fold
    values : (values,), falling
    threads : for the other folds, or None
    hear : called with the first fold's points, and with those of all folds
    """

    def __init__(
        self,
        first: Fold,
        n_folds: int,
        open_fold: Callable[[int], Fold],
        values: np.ndarray,
        threads: ThreadPoolExecutor | None,
        hear: Callable[[PathPoint], None],
    ) -> None:
        self._folds, self._open_fold, self._values, self._threads = {0: first}, open_fold, values, threads
        self._hear = hear
        self._fits: list[dict[int, tuple[FitResult, BatchScores]]] = [{} for _ in range(n_folds)]
        self._last: list[int | None] = [-1] + [None] * (n_folds - 1)
        """Index of each fold's last fit; -1 where only `Fold.begin` was called."""

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
        batches = [self._fits[k][index][1] for k in folds]
        scores, weights = (np.concatenate(parts) for parts in zip(*batches, strict=True))
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


def open_pool(n_threads: int) -> AbstractContextManager[ThreadPoolExecutor | None]:
    """Return threads beside the current one, if any."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="sparsefield-fold") if n_threads > 0 else nullcontext()


def for_each_fold(function: Callable[[int], Result], count: int, pool: ThreadPoolExecutor | None) -> list[Result]:
    """Return what a function returns for each fold.

    The first fold, whose iterations callbacks hear of, is always that of the current thread, which then helps with
    those that have not begun.
    """
    waiting = {} if pool is None else {k: pool.submit(function, k) for k in range(1, count)}
    results = {0: function(0)}
    for k in reversed(range(1, count)):
        if k not in waiting or waiting[k].cancel():
            results[k] = function(k)
    return [results[k] if k in results else waiting[k].result() for k in range(count)]


def path_values(first: float, count: int, step: float) -> np.ndarray:
    """Return values of l1, (count,), that fall by equal factors; a single one for independent columns."""
    return first * step ** np.arange(count) if first > 0.0 else np.ones(1)
