"""Resampled rows: weights of fixed features that are estimated again, many resamples at a time, and new selections.

A resample is a weighting of the rows. Its optimum is near that of all rows, so steps that use the Hessian of all rows
converge fast, and a batch of resamples shares its matrix products. A resample that converges slowly gets Newton steps
with its own Hessian.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsefield.analysis.refit import Estimate, RefitProblem, minimize, pseudo_inverse
from sparsefield.compute import Threads
from sparsefield.data import DenseDataset, weigh_rows
from sparsefield.estimators import FieldEstimator
from sparsefield.estimators.training import make_path, training_options
from sparsefield.model import Field, pad_features
from sparsefield.solver import WarmStart
from sparsefield.solver.checkpoint import CheckpointFile

BATCH = 128
"""Resamples that share matrix products. Results depend on it by rounding errors, so it is always the same."""

MAX_BATCH_NUMBERS = 2**24
"""Size of the largest array of a batch; tables of many rows have smaller batches."""

TOLERANCE = 0.01
"""Newton steps end where the decrement, about the distance from the optimum in standard errors, is below this."""

SHARED_TOLERANCE = 0.02
"""Shared steps end with one of at most this length in standard errors. Then less than a hundredth of a standard error
is left in most tables, and a few hundredths where rare states or collinear columns leave directions flat."""

MAX_SHARED_STEPS = 30

MIN_PROGRESS = 0.8
"""A resample whose steps shorten by less than this factor in two steps gets Newton steps of its own."""

MEMORY = 4
"""Steps that are remembered."""

RIDGE = 1e-8
"""Added to the least squares over remembered steps, as a share of their size."""

BATCHES_BETWEEN_SAVES, FITS_BETWEEN_SAVES = 8, 10

Weighting = Callable[[int], np.ndarray]
"""Returns the factors (rows,) of the weights of the rows in the resample with a given number."""

Progress = Callable[[int, int], None]


def resampled_rows(n_rows: int, seed: int) -> Weighting:
    """Return how often each row is drawn in bootstrap resamples of as many rows, with replacement."""

    def draw(number: int) -> np.ndarray:
        rng = np.random.default_rng((seed, number))
        return np.bincount(rng.integers(0, n_rows, n_rows), minlength=n_rows).astype(float)

    return draw


def dropped_rows(n_rows: int, share: float, seed: int) -> Weighting:
    """Return factors that are 0 for a share of the rows, drawn without replacement, and 1 for the others."""

    def draw(number: int) -> np.ndarray:
        factors = np.ones(n_rows)
        rng = np.random.default_rng((seed, number))
        factors[rng.choice(n_rows, round(share * n_rows), replace=False)] = 0.0
        return factors

    return draw


class StepMemory:
    """The latest steps of many resamples, which correct the Hessian that they share (Anderson acceleration).

    A plain step assumes that the gradient changes by the shared Hessian times the change of the parameters. How it
    did change along the latest steps is known, and what it says is used for the part of the gradient that it explains,
    by least squares in the norm of the shared Hessian.
    """

    def __init__(self) -> None:
        self._last: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        self._changes: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def advance(self, thetas: np.ndarray, gradient: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Return the next parameters (parameters, resamples), from gradients and plain steps at the present ones."""
        now = thetas, gradient, step
        if self._last is not None:
            change = tuple(new - old for new, old in zip(now, self._last, strict=True))
            self._changes = [*self._changes, change][-MEMORY:]
        self._last = now
        if not self._changes:
            return thetas - step
        moves, turns, steps = (np.stack(part) for part in zip(*self._changes, strict=True))
        products = np.einsum("apr,bpr->rab", turns, steps)
        size = np.einsum("raa->r", products)[:, None, None]
        right = np.einsum("apr,pr->ra", turns, step)
        factors = np.linalg.solve(products + RIDGE * size * np.eye(len(moves)), right[..., None])[..., 0]
        return thetas - step - np.einsum("ra,apr->pr", factors, moves - steps)

    def keep(self, kept: np.ndarray) -> None:
        """Forget the resamples outside of a mask."""
        assert self._last is not None
        last, changes = self._last, self._changes
        self._last = last[0][:, kept], last[1][:, kept], last[2][:, kept]
        self._changes = [(a[:, kept], b[:, kept], c[:, kept]) for a, b, c in changes]


@dataclass(frozen=True)
class Resampling:
    """Estimates of the parameters from resampled rows."""

    problem: RefitProblem
    estimate: Estimate
    """The optimum for all rows."""
    weighting: Weighting
    share: float = 1.0
    """Weight of the rows of a resample as a share of that of all rows."""

    def draw(
        self, count: int, n_jobs: int | None, progress: Progress | None = None, saved: CheckpointFile | None = None
    ) -> np.ndarray:
        """Return the estimated weights (count, features) of resamples 0, 1, ...; results do not depend on threads.

        ``saved`` keeps the finished resamples, so that an interrupted run can be continued.
        """
        done = None if saved is None else saved.load()
        found = np.empty((0, len(self.estimate.theta) - self.problem.n_biases)) if done is None else done[0]["draws"]
        starts = range(len(found), count, self.batch_size)
        with Threads(n_jobs) as engine:
            batches = engine.stream(lambda start: self._solve(start, min(start + self.batch_size, count)), starts)
            unfinished = 0
            for number, (batch, converged) in enumerate(batches, start=1):
                found, unfinished = np.concatenate([found, batch]), unfinished + int((~converged).sum())
                if progress is not None:
                    progress(len(found), count)
                if saved is not None and (number % BATCHES_BETWEEN_SAVES == 0 or len(found) == count):
                    saved.save({"draws": found}, {})
        if unfinished:
            warnings.warn(
                f"The estimates from {unfinished:,} of {count:,} resamples did not converge: raise l2 or l1.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return found

    @property
    def batch_size(self) -> int:
        """Number of resamples in a batch; it depends on the data alone."""
        schema = self.problem.layout.schemas[0]
        widest = max((len(variable.states) for variable in schema.targets), default=1)
        return int(np.clip(MAX_BATCH_NUMBERS // max(widest * self.problem.n_rows, 1), 1, BATCH))

    def _solve(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the estimated weights of some resamples, (resamples, features), and which converged."""
        problem = self.problem
        weights = np.stack([self.weighting(number) for number in range(start, stop)], axis=1)
        weights *= problem.rows.weight[:, None]
        starts = problem.starts(self.estimate.theta, weights)
        thetas, converged = self._shared_steps(weights, starts)
        for k in np.flatnonzero(~converged):
            # Rows that were not drawn count for nothing, and are most of them where large shares are dropped.
            rows = np.flatnonzero(weights[:, k])
            part, weight = problem.subset(rows), weights[rows, k]
            points = starts[:, k], thetas[:, k]
            losses = [part.evaluate(point, weight)[0] for point in points]
            found = minimize(part, points[int(np.argmin(losses))], weight, TOLERANCE)
            thetas[:, k], converged[k] = found.theta, found.converged
        return thetas[problem.n_biases :].T, converged

    def _shared_steps(self, weights: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the parameters (parameters, resamples) after steps with a common Hessian, and which converged."""
        count = weights.shape[1]
        narrow = weights.astype(np.float32)
        thetas = starts.copy()
        converged, going, earlier = np.zeros(count, dtype=bool), np.arange(count), np.full((2, count), np.inf)
        memory = StepMemory()
        for _ in range(MAX_SHARED_STEPS):
            gradient = self.problem.batch_gradient(thetas[:, going], np.ascontiguousarray(narrow[:, going]))
            step = self._inverse @ gradient
            new = memory.advance(thetas[:, going], gradient, step)
            move = new - thetas[:, going]
            # Rows that a resample lost leave it flatter than the shared Hessian says. Then the plain step is too short,
            # and only the remembered steps show how far the optimum is.
            squares = np.maximum((gradient * step).sum(axis=0), (move * (self._hessian @ move)).sum(axis=0))
            length = np.sqrt(np.maximum(squares, 0.0))
            thetas[:, going] = new
            converged[going] = length <= SHARED_TOLERANCE
            kept = (length > SHARED_TOLERANCE) & (length <= MIN_PROGRESS * earlier[0])
            earlier, going = np.stack([earlier[1], length])[:, kept], going[kept]
            memory.keep(kept)
            if not len(going):
                break
        return thetas, converged

    @cached_property
    def _hessian(self) -> np.ndarray:
        """The Hessian that resamples share, (parameters, parameters), with the penalty."""
        return self.share * self.estimate.hessian + np.diag(self.problem.l2)

    @cached_property
    def _inverse(self) -> np.ndarray:
        return pseudo_inverse(self._hessian)


def count_from(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Return the progress of a part of all resamples, after ``before`` others."""
    return None if progress is None else lambda done, _: progress(before + done, total)


def learn_again(
    estimator: FieldEstimator, rows: DenseDataset, l1: float, weighting: Weighting, numbers: range
) -> Iterator[Field]:
    """Yield the fields that are learned from resamples with some numbers, each from the fitted one.

    Results do not depend on threads.
    """
    options, start = training_options(estimator, l1), WarmStart.from_field(estimator.field_)

    def learn(number: int) -> Field:
        factors = weighting(number)
        drawn = np.flatnonzero(factors)
        resample = weigh_rows(rows.subset(drawn), factors[drawn])
        with Threads(1) as engine:
            return make_path(estimator, resample, options, engine, start=start).run().field

    with Threads(estimator.n_jobs) as engine:
        yield from engine.stream(learn, numbers)


def select_again(
    estimator: FieldEstimator,
    rows: DenseDataset,
    weighting: Weighting,
    count: int,
    progress: Progress | None = None,
    saved: CheckpointFile | None = None,
) -> np.ndarray:
    """Return which features of a field resamples 0, 1, ... select at the same l1, bool, (count, features).

    ``saved`` keeps the finished resamples, so that an interrupted run can be continued.
    """
    field, done = estimator.field_, None if saved is None else saved.load()
    selected = [] if done is None else list(done[0]["selected"].astype(bool))
    for learned in learn_again(estimator, rows, estimator.l1_, weighting, range(len(selected), count)):
        width = max(field.features.shape[1], learned.features.shape[1])
        own, others = (field.layout.keys(pad_features(each.features, width)) for each in (field, learned))
        selected.append(np.isin(own, others))
        if progress is not None:
            progress(len(selected), count)
        if saved is not None and (len(selected) % FITS_BETWEEN_SAVES == 0 or len(selected) == count):
            saved.save({"selected": np.array(selected, dtype=np.uint8)}, {})
    return np.array(selected, dtype=bool).reshape(len(selected), len(field.features))
