"""State of a fit: its optimizer, by L-BFGS and Newton steps, the warm start, the result and the callbacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsefield.inference import InferenceMethod
from sparsefield.kernels.proximal_newton import newton_step
from sparsefield.kernels.regression_hessians import NewtonSystem
from sparsefield.model import Field, IterationRecord, pad_features
from sparsefield.objectives import EM, Problem
from sparsefield.objectives.curvature import MIN_DIAGONAL
from sparsefield.solver.missing import treat_missing
from sparsefield.solver.owlqn import MAX_CHANGE, SUFFICIENT_DECREASE, Point
from sparsefield.solver.policy import MIN_CONTRACTION, MODEL_TOLERANCE, TrainingOptions
from sparsefield.solver.working_set import WorkingSet

MAX_PASSES = 1000
"""Passes of coordinate descent over the parameters of a Newton model, at most."""

ROUNDING = 1e-13
"""Share of the objective by which a Newton step may raise it: near an optimum, rounding errors are larger than what a
step gains."""


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


listeners: ContextVar[FitCallbacks | None] = ContextVar("listeners", default=None)
"""Functions that are called during fits without callbacks of their own."""


class Optimizer:
    """One step after the other on a working set, in centered coordinates.

    Steps are those of L-BFGS until they have taken as long as the Hessian of a Newton model would: by then the problem
    has turned out to be hard. Newton steps follow until they no longer converge fast. Where they gained more than the
    steps before them, they come first from then on.

    Parameters
    ----------
    working_set : which the steps change
    """

    def __init__(self, working_set: WorkingSet) -> None:
        self.working_set = working_set
        self._changes = -1
        """`WorkingSet.changes` at which the counters that follow began."""
        self._model: NewtonSystem | None = None
        self._graphs: Any = None
        """Those of the features that the model has."""
        self._cost: float | None = None
        """The cost of a Newton model, in steps; infinite where there is none, as for groups of features."""
        self._steps, self._gained = 0, 0.0
        """L-BFGS steps since the last Newton model, and by how much they have lowered the objective."""
        self._newton_first = False
        """Whether Newton models come first, because the last one lowered the objective by more."""

    def step(self, tolerance: float = 0.0) -> bool:
        """Take one step; return False where no step lowers the objective.

        A violation of optimality below ``tolerance`` is not worth any effort.
        """
        working_set = self.working_set
        if self._changes != working_set.changes:
            self._changes, self._cost = working_set.changes, None
            if self._graphs is not working_set.graphs:  # other draws of missing cells hardly change a Hessian
                self._graphs, self._model = working_set.graphs, None
                self._steps, self._gained = 0, 0.0
        if self._cost is None:
            self._cost = np.inf if working_set.grouped else working_set.problem.hessian_cost(working_set.graphs)
        before, cost = working_set.point, self._cost
        fresh = self._model is None and (self._steps >= cost or (self._newton_first and self._steps == 0))
        if fresh and cost < np.inf:
            free = working_set.penalty.bias_strengths == 0.0
            self._model = working_set.problem.newton_system(working_set.graphs, working_set.theta, free)
            self._steps = 0
        if self._model is not None and self._newton_step(tolerance, cost, fresh):
            return True
        self._steps += 1
        scaling, penalty = working_set.preconditioner(), working_set.penalty.nonsmooth
        point = working_set.memory.step(before, penalty, scaling, working_set.objective)
        if point is None:
            working_set.evaluate_at(before.coordinates)
            return False
        self._gained += before.value - point.value
        working_set.point = point
        return True

    def _newton_step(self, tolerance: float, cost: float, fresh: bool) -> bool:
        """Take a step to the minimum of the Newton model; return False, without a step, where it raises the objective.

        The model is kept for the next step only if the violation of optimality falls as fast as with new ones, whose
        Hessians take time. It is minimized up to a third of the tolerance.
        """
        assert self._model is not None
        working_set, model = self.working_set, self._model
        before, theta = working_set.point, working_set.theta
        l2, penalty = working_set.penalty.l2_strengths, working_set.penalty.nonsmooth
        gradient, violation = working_set.loss_gradient + l2 * theta, working_set.violation()
        ridge, exactness = l2 + MIN_DIAGONAL, (MODEL_TOLERANCE, 0.3 * tolerance, MAX_PASSES)
        step = newton_step(model, theta, gradient, penalty.strengths, ridge, MAX_CHANGE, *exactness)
        predicted = float(gradient @ step) + penalty.value(theta + step) - penalty.value(theta)
        self._model = None
        for length in 0.5 ** np.arange(10) if predicted < 0.0 else ():
            coordinates = working_set.coordinates_of(theta + length * step)
            value, slope = working_set.objective(coordinates)
            required = SUFFICIENT_DECREASE * length * predicted + ROUNDING * abs(before.value)
            if value <= before.value + required and np.isfinite(slope).all():
                working_set.point = Point(coordinates, value, slope)
                working_set.memory.remember(coordinates - before.coordinates, slope - before.gradient)
                converges = working_set.violation() <= MIN_CONTRACTION ** (1.0 / (1.0 + cost)) * violation
                if fresh:
                    better = before.value - value > self._gained > 0.0
                    # Without L-BFGS steps to compare with, a model that is slow here may be fast at the next point.
                    first = better or (self._newton_first and self._gained == 0.0)
                    self._steps = 0 if better or (first and converges) else 1
                    self._newton_first = first
                self._model, self._gained = model if converges else None, 0.0
                return True
        self._newton_first = False
        working_set.evaluate_at(before.coordinates)
        return False


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
        protected = pad_features(start.features, options.max_order) if start is not None and start.latent else None
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
