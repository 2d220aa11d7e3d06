"""The training loop: fill gaps, score candidates, let the best in, take a step; then certify."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sparsefield import policy
from sparsefield.data import Table
from sparsefield.engines import Threads
from sparsefield.field import Field, compile_graph
from sparsefield.induction import Grafting, InductionRule, Scored, pair_keys, select
from sparsefield.inference import InferenceMethod
from sparsefield.learning.owlqn import OrthantLBFGS, Point
from sparsefield.learning.penalty import Penalty, pseudo_gradient
from sparsefield.learning.trace import Progress, Step
from sparsefield.objectives import Evaluator, Objective

__all__ = ["Learned", "Options", "learn"]

CALM_STEPS = 3
"""The paper's rule: this many iterations in a row with little change end an optimisation."""


@dataclass(frozen=True)
class Options:
    """How to learn. See `MarkovField` for what each means to a user."""

    l1: float = 2.0
    l2: float = 1.0
    penalize_unary: bool = True
    batch_size: int | Literal["auto"] = "auto"
    steps_per_batch: int | Literal["auto", "converge"] = "auto"
    stages: Literal[1, 2] = 1
    certify: bool = True
    max_iter: int = 500
    tol: float = 1e-5
    kkt_tol: float = policy.KKT_TOLERANCE


@dataclass(frozen=True)
class Learned:
    """A field, and how learning went."""

    field: Field
    steps: tuple[Step, ...]
    objective: float
    kkt_violation: float
    converged: bool


def learn(
    table: Table,
    *,
    rule: InductionRule,
    objective: Objective,
    inference: InferenceMethod,
    options: Options,
    engine: Threads,
    progress: Progress | None = None,
) -> Learned:
    """Learn a field from a table."""
    return _Trainer(table, rule, objective, inference, options, engine, progress).run()


class _Trainer:
    def __init__(
        self,
        table: Table,
        rule: InductionRule,
        objective: Objective,
        inference: InferenceMethod,
        options: Options,
        engine: Threads,
        progress: Progress | None,
    ) -> None:
        self.schema = table.schema
        self.rule, self.inference, self.options, self.engine = rule, inference, options, engine
        self.progress = progress
        self.evaluator = Evaluator(table, objective, engine)
        self.penalty = Penalty(options.l1, options.l2, self.schema.n_states, options.penalize_unary)
        self.optimiser = OrthantLBFGS()
        self.moments = self.evaluator.second_moments()
        self.steps: list[Step] = []
        self.scoring_seconds = 0.0
        self.started = time.perf_counter()
        self.calm, self.fills, self.tol = 0, 0, options.tol
        self.pairs = np.empty((0, 2), dtype=np.int64)
        self.ever_induced = np.empty(0, dtype=np.int64)
        self.loss = np.nan

    # -- the plot ------------------------------------------------------------------------------------------------

    def run(self) -> Learned:
        self._begin()
        if self.options.stages == 2:
            self._optimise("unary")
        start = self.rule.start(self.schema)
        if len(start):
            self._admit(start)
        if not self.rule.closed:
            self._induce()
        self._optimise("optimise")
        violation, converged = self._certify()
        return self._result(violation, converged)

    def _begin(self) -> None:
        """Unary weights at the log-odds of the training frequencies; no pairs."""
        theta = np.zeros(self.schema.n_states)
        for variable, first in zip(self.schema.targets, self.schema.state_offsets[:-1], strict=True):
            share = np.maximum(variable.column_frequencies, 1e-6)
            theta[first : first + variable.width] = np.log(share / max(variable.frequencies[variable.base], 1e-6))
        self.graph = compile_graph(self.schema, self.pairs)
        self._evaluate_at(theta)

    def _induce(self) -> None:
        """Let a batch in, take a step or a few, and again, until no candidate stands out."""
        while self._iterations_left():
            found = self._score(self.rule, self.ever_induced)
            if not len(found):
                return
            self._admit(select(found, self._batch_size(found)).pairs)
            if self.options.steps_per_batch == "converge":
                self._optimise("induce")
            else:
                for _ in range(self._steps_per_batch()):
                    if not self._step("induce"):
                        break

    def _optimise(self, phase: str) -> None:
        """Steps until the paper's rule calls a halt, and gaps have settled."""
        self.calm = 0
        while self._iterations_left():
            moved = self._step(phase)
            if moved and self.calm < CALM_STEPS:
                continue
            if not self._refill_gaps():
                return

    def _certify(self) -> tuple[float, bool]:
        """Look at every candidate; let in what violates optimality, and go on, until nothing does by much."""
        allowed = self.options.kkt_tol * (self.options.l1 if self.options.l1 > 0 else 1.0)
        stuck = 0
        while True:
            found = self._violators()
            inside = self._violation_inside()
            worst = max(inside, float(np.abs(found.gradient).max(initial=self.options.l1)) - self.options.l1)
            if worst <= allowed or not self.options.certify or not self._iterations_left() or stuck > 3:
                return worst, worst <= allowed
            before = self.point.value
            violators = found.take(np.flatnonzero(np.abs(found.gradient) > self.options.l1 + 0.1 * allowed))
            if len(violators):
                self._admit(select(violators, max(self._batch_size(violators), 50)).pairs)
            if inside > 0.5 * allowed:
                self.tol *= 0.1
            self._optimise("certify")
            stuck = stuck + 1 if self.point.value >= before else 0

    def _result(self, violation: float, converged: bool) -> Learned:
        theta = self.point.theta
        unary, weights = theta[: self.schema.n_states], theta[self.schema.n_states :]
        kept = np.flatnonzero(weights)
        kept = kept[np.argsort(pair_keys(self.schema, self.pairs[kept]), kind="stable")]
        field = Field(self.schema, unary.copy(), self.pairs[kept], weights[kept])
        return Learned(field, tuple(self.steps), self.point.value, violation, converged)

    # -- its parts -----------------------------------------------------------------------------------------------

    def _objective(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        loss, gradient = self.evaluator.evaluate(self.graph, theta)
        self.loss = loss
        return loss + self.penalty.value(theta), gradient + self.penalty.l2_of(len(theta)) * theta

    def _evaluate_at(self, theta: np.ndarray) -> None:
        value, gradient = self._objective(theta)
        self.point = Point(theta, value, gradient)

    def _step(self, phase: str) -> bool:
        """One step of the optimiser; False when it found no way down."""
        before = self.point
        size = len(before.theta)
        found = self.optimiser.step(before, self.penalty.l1_of(size), self._scale(), self._objective)
        if found is None:
            self._evaluate_at(before.theta)
        else:
            self.point = found
        self._note(phase)
        norm, old = np.abs(self.point.theta).sum(), np.abs(before.theta).sum()
        calm = abs(before.value - self.point.value) <= self.tol * max(abs(self.point.value), 1.0)
        calm &= abs(norm - old) <= 10 * self.tol * max(norm, 1.0)
        self.calm = self.calm + 1 if calm else 0
        return found is not None

    def _admit(self, pairs: np.ndarray) -> None:
        """New pairs join with weight 0; the errors at hand give their gradient without another pass."""
        self.pairs = np.concatenate([self.pairs, pairs])
        self.ever_induced = np.union1d(self.ever_induced, pair_keys(self.schema, pairs))
        self.graph = compile_graph(self.schema, self.pairs)
        theta = np.concatenate([self.point.theta, np.zeros(len(pairs))])
        gradient = self.evaluator.gradient(self.graph, len(theta)) + self.penalty.l2_of(len(theta)) * theta
        self.point = Point(theta, self.point.value, gradient)
        self.optimiser.grow(len(pairs))
        self.calm = 0

    def _score(self, rule: InductionRule, known: np.ndarray) -> Scored:
        started = time.perf_counter()
        contrast = self.evaluator.contrast()
        found = rule.score(contrast, self.schema, self.options.l1, known, self.engine)
        self.scoring_seconds += time.perf_counter() - started
        return found

    def _violators(self) -> Scored:
        if self.rule.closed:
            return self.rule.score(self.evaluator.contrast(), self.schema, 0.0, self.ever_induced, self.engine)
        return self._score(Grafting(), np.sort(pair_keys(self.schema, self.pairs)))

    def _violation_inside(self) -> float:
        slope = pseudo_gradient(self.point.theta, self.point.gradient, self.penalty.l1_of(len(self.point.theta)))
        return float(np.abs(slope).max(initial=0.0))

    def _refill_gaps(self) -> bool:
        """Re-estimate hidden cells; True when they moved enough for the optimiser to go on."""
        if not self.evaluator.has_gaps or self.fills >= 30:
            return False
        self.fills += 1
        change = self.evaluator.fill_gaps(self.inference, self.graph, self.point.theta)
        self._evaluate_at(self.point.theta)
        self.calm = 0
        return change > 1e-3

    def _scale(self) -> np.ndarray:
        """Inverse of a rough diagonal curvature: how uncertain a state is x how much the other end moves."""
        states = self.schema.n_states
        weight, moments = self.evaluator.total_weight, self.moments
        spread = np.zeros(self.schema.n_columns)
        spread[:states] = moments[:states] * (1.0 - moments[:states])
        a, b = self.pairs[:, 0], self.pairs[:, 1]
        curvature = np.concatenate([spread[:states], spread[a] * moments[b] + spread[b] * moments[a]])
        return 1.0 / (weight * curvature + self.options.l2 + 1e-3)

    def _batch_size(self, found: Scored) -> int:
        if self.options.batch_size != "auto":
            return int(self.options.batch_size)
        return max(50, self.schema.n_states)

    def _steps_per_batch(self) -> int:
        if self.options.steps_per_batch == "auto":
            return 1
        return int(self.options.steps_per_batch)

    def _iterations_left(self) -> bool:
        return len(self.steps) < self.options.max_iter

    def _note(self, phase: str) -> None:
        theta = self.point.theta
        step = Step(
            iteration=len(self.steps) + 1,
            objective=self.point.value,
            loss=self.loss,
            l1_norm=float(np.abs(theta).sum()),
            features=len(self.pairs),
            active=int(np.count_nonzero(theta[self.schema.n_states :])),
            induced=len(self.ever_induced),
            phase=phase,
            seconds=time.perf_counter() - self.started,
            scoring_seconds=self.scoring_seconds,
        )
        self.steps.append(step)
        if self.progress is not None:
            self.progress(step)
