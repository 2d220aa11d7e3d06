"""This module schedules Monte Carlo EM: rounds of completions and steps, and the completions of the final objective."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np

from sparsefield.inference import InferenceMethod
from sparsefield.objectives import EM, DenseEvaluator, Evaluator
from sparsefield.objectives.em_options import FINAL_FACTOR
from sparsefield.solver.missing_treatment import ClampedBeliefs, MissingCells
from sparsefield.solver.working_problem import WorkingProblem

SWEEPS = 1
"""Gibbs sweeps between two draws."""

ROUNDS = 8
"""Rounds over which weights are averaged, before the final objective is drawn at the averages."""

SHARE_OF_FINAL = float(np.sqrt(ROUNDS / (ROUNDS + FINAL_FACTOR)))
"""The optimum of the final objective differs from the averages by the noise of both; this is the share of its own."""

DRIFT_DECREASE = 0.4
"""Weights are on their way while the halves of a window differ by less than this share of the difference before."""

MAX_ROUNDS = 200
"""Rounds at most, after which the error is reported as it is."""

MAX_STEPS_PER_ROUND = 5
STEP_SHRINKAGE = 0.4
"""A round ends after so many steps, or when the next step would be shorter than the first one by this factor: a round
need not be at an optimum."""

ROUGH_ROUNDS = 2
"""Draws of completions before candidates are scored again, and for each value of l1 on a path."""


@dataclass
class EMState:
    """The state of the rounds between two stages of the training loop."""

    copies: int
    """Completions of an incomplete row in a round."""
    rounds: int = 0
    """Rounds since the schedule began."""
    final: bool = False
    """Whether the completions are those of the final objective, which do not change any more."""
    drift: float = np.inf
    """Distance between the halves of the last window, in standard errors."""
    first_step: float = np.inf
    """Length of the first step of the round, as predicted, in standard errors."""
    value_at_average: float = np.inf
    """The final objective at the averaged weights."""
    error: float = np.nan
    """Monte Carlo error of the averaged weights, in standard errors."""


class MonteCarloEM(MissingCells):
    """Alternates completions of incomplete rows, given the weights, with steps of the optimizer on the completed rows.

    Weights of the rounds are averaged over a window. Then the rows are completed once more at the averages, by more
    completions. These are fixed: the optimum of their pseudo-likelihood is the result, with its certificate, if it is
    as close to the averages as the options demand; otherwise further rounds follow.
    """

    present = True
    max_rounds = MAX_ROUNDS + 1
    rounds_on_path = ROUGH_ROUNDS

    def __init__(self, problem: WorkingProblem, evaluator: DenseEvaluator, options: EM) -> None:
        super().__init__(problem, evaluator)
        self._rows, self._options = evaluator, options
        self._state = EMState(options.copies)
        self._window: list[np.ndarray] = []
        self._average = np.empty(0)
        """Averaged weights at which the final completions were drawn."""
        self._features = problem.working_set.features
        """Features of the field at the last draw."""

    @property
    def error(self) -> float:
        return self._state.error

    @property
    def is_drawing(self) -> bool:
        return not self._state.final

    def branch(self, problem: WorkingProblem) -> Self:
        twin = super().branch(problem)
        twin._state, twin._window = replace(self._state), list(self._window)
        return twin

    def begin(self, theta: np.ndarray, *, warm: bool) -> None:
        self._draw(theta, self._state.copies)

    def restart(self) -> None:
        self._state = EMState(self._state.copies)
        self._window = []

    def round_is_over(self, steps: int, *, rough: bool) -> bool:
        if self._state.final:
            return False
        return steps >= MAX_STEPS_PER_ROUND or self._next_step() <= STEP_SHRINKAGE * self._state.first_step

    def may_drop(self, *, converging: bool) -> bool:
        return False  # weights of several rounds are averaged

    def replace(self) -> bool:
        if self._state.final:
            return False
        self._draw(self._problem.theta, self._state.copies)
        self._problem.evaluate_again()
        self._state.first_step = self._next_step()
        return True

    def next_round(self) -> bool:
        state, options = self._state, self._options
        if state.final:
            return False
        self._window.append(self._problem.theta)
        state.rounds += 1
        if len(self._window) < ROUNDS:
            return self.replace()
        theta = np.mean(self._window, axis=0)
        drift = self._drift()
        if options.max_error < drift < DRIFT_DECREASE * state.drift and state.rounds < MAX_ROUNDS:
            self._window, state.drift = [], drift
            return self.replace()
        # The final objective is a better round: it may be as far from the averages as they are from each other.
        self._draw(theta, FINAL_FACTOR * state.copies)
        self._problem.move_to(theta)
        if state.rounds < MAX_ROUNDS and SHARE_OF_FINAL * self._next_step() > options.max_error:
            self._raise_copies()
            self._window, state.drift, state.first_step = [], np.inf, self._next_step()
            return True
        state.final, state.value_at_average, self._average = True, self._problem.point.value, theta
        return True

    def _drift(self) -> float:
        """Return the distance between the means of the halves of the window, in standard errors."""
        half = ROUNDS // 2
        return self._distance(np.mean(self._window[half:], axis=0), np.mean(self._window[:half], axis=0))

    def _next_step(self) -> float:
        """Return the length of a Newton step from the present weights, in standard errors, if weights were independent.

        It predicts the distance of the optimum, which takes far longer to compute.
        """
        problem = self._problem
        coordinates = problem.point.coordinates
        slope = problem.pseudo_gradient()
        used = (coordinates != 0.0) | (slope != 0.0)
        steps = np.square(slope) / np.maximum(problem.curvature(), np.finfo(float).tiny)
        return float(np.sqrt(np.mean(steps[used]))) if used.any() else 0.0

    def _raise_copies(self) -> None:
        state = self._state
        if 2 * FINAL_FACTOR * state.copies <= self._options.max_copies:
            state.copies *= 2

    def accept(self) -> bool:
        state, options = self._state, self._options
        if not state.final:
            return True
        theta = self._problem.theta
        # Features that the certificate has added since then are the last ones.
        average = np.concatenate([self._average, np.zeros(len(theta) - len(self._average))])
        state.error = SHARE_OF_FINAL * self._distance_by_value(state.value_at_average, theta, average)
        if state.error <= options.max_error or state.rounds >= MAX_ROUNDS:
            return True
        self._raise_copies()
        state.final, self._window = False, [theta]
        return False

    def observed_loss(self) -> float:
        problem = self._problem
        return self._rows.observed_loss(problem.working_set.graphs, problem.theta)

    def observed_weights(self) -> np.ndarray:
        return self._rows.observed_weights()

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        window = np.array(self._window) if self._window else np.empty((0, 0))
        arrays = {"em_window": window, "em_average": self._average, "em_features": self._features}
        return self._rows.source.state() | arrays, asdict(self._state)

    def restore(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
        self._state, self._window = EMState(**facts), list(arrays["em_window"])
        self._average = arrays["em_average"]
        self.restore_rows(arrays)

    def restore_rows(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._features = arrays["em_features"]
        layout = self._problem.working_set.layout
        self._rows.restore_rows(self._rows.compile(layout.arcs(self._features)), arrays)

    def _draw(self, theta: np.ndarray, copies: int) -> None:
        working_set = self._problem.working_set
        self._features = working_set.features
        self._rows.draw_completions(working_set.graphs, theta, copies, SWEEPS)

    def _distance_by_value(self, value: float, theta: np.ndarray, average: np.ndarray) -> float:
        """Return the distance of the averages from the optimum, by the values of the final objective at both.

        Near an optimum the difference is half the square of the distance in standard errors, in which weights need not
        be independent: those that hardly matter, because others take their place, hardly count.
        """
        used = int(((theta != 0.0) | (average != 0.0)).sum())
        return float(np.sqrt(2.0 * max(value - self._problem.point.value, 0.0) / max(used, 1)))

    def _distance(self, one: np.ndarray, other: np.ndarray) -> float:
        """Return the root mean square of the difference between two vectors of weights, in standard errors."""
        used = (one != 0.0) | (other != 0.0)
        if not used.any():
            return 0.0
        difference = self._problem.coordinates_of(one) - self._problem.coordinates_of(other)
        return float(np.sqrt(np.mean((np.square(difference) * self._problem.curvature())[used])))


def treat_missing(problem: WorkingProblem, evaluator: Evaluator, missing: EM | InferenceMethod) -> MissingCells:
    """Return how missing cells are treated: by `EM`, or by beliefs of an inference method."""
    if not evaluator.source.has_missing or not isinstance(evaluator, DenseEvaluator):
        return MissingCells(problem, evaluator)
    if isinstance(missing, EM):
        return MonteCarloEM(problem, evaluator, missing)
    return ClampedBeliefs(problem, evaluator)
