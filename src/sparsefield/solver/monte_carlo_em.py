"""This module schedules Monte Carlo EM: rounds of completions and steps, and the completions of the final objective."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np

from sparsefield.inference import InferenceMethod
from sparsefield.objectives import EM, DenseEvaluator, Evaluator
from sparsefield.solver.missing_cells import ClampedBeliefs, MissingCells
from sparsefield.solver.working_problem import WorkingProblem

SWEEPS = 1
"""Gibbs sweeps between two draws."""

ROUNDS = 8
"""Rounds over which weights are averaged, before the final objective is drawn at the averages."""

FINAL_FACTOR = 4
"""The final objective has this many times the completions of a round."""

MAX_ROUNDS = 200
"""Rounds at most, after which the error is reported as it is."""

STEPS_PER_ROUND = 1
"""Steps between two draws of completions: these need not be at an optimum."""

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

    def round_is_over(self, steps: int) -> bool:
        return not self._state.final and steps >= STEPS_PER_ROUND

    def replace(self) -> bool:
        if self._state.final:
            return False
        self._draw(self._problem.theta, self._state.copies)
        self._problem.evaluate_again()
        return True

    def next_round(self) -> bool:
        state = self._state
        if state.final:
            return False
        self._window.append(self._problem.theta)
        state.rounds += 1
        if len(self._window) < ROUNDS:
            return self.replace()
        # The final objective is a better round: it may lie as far from the averages as they do from each other.
        theta = np.mean(self._window[-ROUNDS:], axis=0)
        state.final, self._average = True, theta
        self._draw(theta, FINAL_FACTOR * state.copies)
        self._problem.move_to(theta)
        return True

    def accept(self) -> bool:
        state, options = self._state, self._options
        if not state.final:
            return True
        theta = self._problem.theta
        # Features that the certificate has added since then are the last ones.
        average = np.concatenate([self._average, np.zeros(len(theta) - len(self._average))])
        state.error = self._distance(theta, average)
        if state.error <= options.max_error or state.rounds >= MAX_ROUNDS:
            return True
        if 2 * FINAL_FACTOR * state.copies <= options.max_copies:
            state.copies *= 2
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
