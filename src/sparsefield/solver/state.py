"""State of a fit, with the options, the warm start, the result and the callbacks that go with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from sparsefield.inference import InferenceMethod
from sparsefield.model import Field, IterationRecord, pad_features
from sparsefield.objectives import EM, Problem
from sparsefield.solver.missing import treat_missing
from sparsefield.solver.optimizer import Optimizer
from sparsefield.solver.policy import TrainingOptions
from sparsefield.solver.working_set import WorkingSet


@dataclass(frozen=True)
class WarmStart:
    """Initial weights: those of a similar fit, or of latent variables, whose states would remain equal from zero."""

    biases: np.ndarray
    """(states,)"""
    features: np.ndarray
    """(features, columns)"""
    weights: np.ndarray
    """(features,)"""
    latent: bool = False
    """Whether the features are all pairs of columns with a latent state. They are never dropped."""

    @classmethod
    def from_field(cls, field: Field) -> WarmStart:
        """Start from the weights of a field."""
        return cls(field.biases, field.features, field.theta[len(field.biases) :])


@dataclass(frozen=True)
class FitResult:
    """A field and the outcome of its fit."""

    field: Field
    iterations: tuple[IterationRecord, ...]
    objective: float
    kkt_violation: float
    converged: bool
    mc_error: float = 0.0
    """Monte Carlo error of the weights, in standard errors; 0 without missing cells, NaN if it is not known."""


@dataclass(frozen=True)
class PathPoint:
    """A field on a regularization path."""

    l1: float
    scores: np.ndarray
    """One score or several, such as those of batches of held-out rows; larger is better."""
    field: Field
    """Of several folds, that of the first."""
    weights: np.ndarray
    """How much each score counts."""

    @property
    def score(self) -> float:
        """Mean of the scores."""
        return float(np.average(self.scores, weights=self.weights))


@dataclass(frozen=True)
class FitCallbacks:
    """Set functions that are called during a fit; None calls nothing."""

    on_iteration: Callable[[IterationRecord], None] | None = None
    """Called after each step of the optimizer; while l1 is selected, those of the first fold."""
    on_path_point: Callable[[PathPoint], None] | None = None
    """Called after each value of l1 that was tried."""

    def iteration(self, record: IterationRecord) -> None:
        """Pass on a step of the optimizer."""
        if self.on_iteration is not None:
            self.on_iteration(record)

    def path_point(self, point: PathPoint) -> None:
        """Pass on a value of l1 that was tried."""
        if self.on_path_point is not None:
            self.on_path_point(point)


class State:
    """Features, weights and counters of a fit; `sparsefield.solver.fit.fit` takes it from one optimum to the next.

    Attributes
    ----------
    problem : loss, gradient and scores of the objective on the dataset
    working_set : features, weights, and the penalized objective at them
    missing : the treatment of missing cells
    fixed : whether all candidates are in the working set, so that none can be added
    records : one for each step of the optimizer
    tolerance : violation of optimality within the working set at which an optimization ends
    objective_tol : relative change of the objective below which a step counts as idle
    idle_steps, idle_rounds : steps with little change in a row, and rounds of the certificate without progress
    stalled : whether the last step could not lower the objective
    scorings : number of exact scorings of all candidates
    smallest_violation, lowest_objective : of all rounds of the certificate, with which the next one is compared
    """

    def __init__(
        self,
        problem: Problem,
        options: TrainingOptions,
        callbacks: FitCallbacks | None = None,
        start: WarmStart | None = None,
        missing: EM | InferenceMethod | None = None,
    ) -> None:
        self.problem, self.layout, self.options = problem, problem.layout, options
        protected = start.features if start is not None and start.latent else None
        if problem.device is not None and options.penalty == "l1":
            from sparsefield.solver.device_steps import DeviceWorkingSet

            self.working_set = self._optimizer = DeviceWorkingSet(problem, options, protected)
        else:
            self.working_set = WorkingSet(problem, options, protected)
            self._optimizer = Optimizer(self.working_set)
        self.missing = treat_missing(self.working_set, missing, on_path=options.rough)
        self._callbacks = callbacks or FitCallbacks()
        self.fixed = False
        self.records: list[IterationRecord] = []
        self.scoring_seconds = 0.0
        self._started = time.perf_counter()
        self.save: Callable[[State], None] | None = None
        """Called after each step: a checkpoint."""
        self._reset()

    def _reset(self) -> None:
        self.tolerance, self.objective_tol = self.options.inner_tolerance, self.options.tol
        self.idle_steps, self.stalled, self.scorings = 0, False, 0
        self.forget_progress()

    def begin(self, start: WarmStart | None = None) -> None:
        """Set biases to the log-odds of the training frequencies, without pairs, or use a warm start."""
        working_set = self.working_set
        if start is None:
            weights = zip(self.layout.schemas, self.problem.total_weights, strict=True)
            biases = [schema.initial_biases(0.5 / max(weight, 1.0)) for schema, weight in weights]
            theta = np.concatenate([np.empty(0), *biases])
        else:
            theta = np.concatenate([start.biases, start.weights])
            working_set.set_features(pad_features(start.features, self.options.max_order))
        self.missing.begin(theta, warm=start is not None)
        if start is not None and start.latent:
            # Computes beliefs of latent cells, whose moments are needed next.
            self.problem.evaluate(working_set.graphs, theta)
        working_set.start_at(theta)

    def set_penalty(self, l1: float, l2: float | None = None, start: WarmStart | None = None) -> None:
        """Change the penalties, and keep the weights or begin at others."""
        l2 = self.options.l2 if l2 is None else l2
        self.options = replace(self.options, l1=l1, l2=l2)
        self.working_set.set_penalty(l1, l2)
        self._reset()
        self.records = []
        self.missing.restart()
        if start is None:
            self.working_set.evaluate_again()
        else:
            self.begin(start)

    @property
    def iterations_left(self) -> bool:
        return len(self.records) < self.options.max_iter

    def step(self, phase: str) -> bool:
        """Take one step of the optimizer and record it; return False where no step lowers the objective."""
        working_set, tol = self.working_set, self.objective_tol
        old_value, _, old_norm, _ = working_set.summary
        moved = self._optimizer.step(self.tolerance if self.options.certify else 0.0)
        value, loss, norm, active = working_set.summary
        still = abs(old_value - value) <= tol * max(abs(value), 1.0)
        still = still and abs(norm - old_norm) <= 10 * tol * max(norm, 1.0)
        self.idle_steps, self.stalled = self.idle_steps + 1 if still else 0, not moved
        record = IterationRecord(
            iteration=len(self.records) + 1,
            objective=value,
            loss=loss,
            l1_norm=norm,
            features=len(working_set),
            active=active,
            phase=phase,
            seconds=time.perf_counter() - self._started,
            scoring_seconds=self.scoring_seconds,
        )
        self.records.append(record)
        if self.save is not None:
            self.save(self)
        self._callbacks.iteration(record)
        return moved

    @contextmanager
    def scoring(self) -> Iterator[None]:
        """Count the time of a block as scoring."""
        started = time.perf_counter()
        yield
        self.scoring_seconds += time.perf_counter() - started

    def continue_log(self, records: list[IterationRecord]) -> None:
        """Continue the records of an interrupted fit."""
        self.records = records
        if records:
            self.scoring_seconds = records[-1].scoring_seconds or 0.0
            self._started = time.perf_counter() - (records[-1].seconds or 0.0)

    def forget_progress(self) -> None:
        """Compare the next round of the certificate with none before."""
        self.idle_rounds, self.smallest_violation = 0, np.inf
        self.lowest_objective = float(np.finfo(float).max)

    def result(self, violation: float = np.nan, *, converged: bool = False) -> FitResult:
        """Return the present field."""
        working_set = self.working_set
        value, error = working_set.point.value, self.missing.error
        return FitResult(working_set.field, tuple(self.records), value, violation, converged, error)
