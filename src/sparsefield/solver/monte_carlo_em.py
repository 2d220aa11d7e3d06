"""This module schedules Monte Carlo EM: rounds of completions and steps, and the completions of the final objective."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from sparsefield.objectives import EM, DenseEvaluator
from sparsefield.solver.working_problem import WorkingProblem

SWEEPS = 1
"""Gibbs sweeps between two draws."""

ROUNDS = 8
"""Rounds over which weights are averaged, before the final objective is drawn at the averages."""

FINAL_FACTOR = 4
"""The final objective has this many times the completions of a round."""

MAX_ROUNDS = 200
"""Rounds at most, after which the error is reported as it is."""


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


class MonteCarloEM:
    """Alternates completions of incomplete rows, given the weights, with steps of the optimizer on the completed rows.

    Weights of the rounds are averaged over a window. Where its halves agree, to a share of the standard errors, the
    rows are completed once more at the averages, by more completions. These are fixed: the optimum of their
    pseudo-likelihood is the result, with its certificate.
    """

    def __init__(self, problem: WorkingProblem, evaluator: DenseEvaluator, options: EM) -> None:
        self._problem, self._evaluator, self._options = problem, evaluator, options
        self.state = EMState(options.copies)
        self._window: list[np.ndarray] = []
        self._average = np.empty(0)
        """Averaged weights at which the final completions were drawn."""
        self._features = problem.working_set.features
        """Features of the field at the last draw."""

    @property
    def error(self) -> float:
        """Monte Carlo error of the weights, in standard errors (root mean square)."""
        return self.state.error

    @property
    def is_final(self) -> bool:
        """Whether the completions are those of the final objective."""
        return self.state.final

    @property
    def max_rounds(self) -> int:
        """Number of rounds, at most, until completions are final."""
        return MAX_ROUNDS + 1

    def branch(self, problem: WorkingProblem) -> MonteCarloEM:
        """Return a copy for a copy of the problem; both share the rows."""
        twin = copy(self)
        twin._problem, twin.state = problem, replace(self.state)
        return twin

    def restart(self) -> None:
        """Begin anew, after a change of penalties or features."""
        self.state = EMState(self.state.copies)
        self._window = []

    def draw_at(self, theta: np.ndarray) -> None:
        """Complete the rows at given weights, before the first evaluation."""
        self._draw(theta, self.state.copies)

    def draw(self) -> bool:
        """Complete the rows at the current weights, unless the completions are final; return whether it did."""
        if self.state.final:
            return False
        self._draw(self._problem.theta, self.state.copies)
        self._problem.evaluate_again()
        return True

    def next_round(self) -> bool:
        """Complete the rows for the next round, or for the final objective; return False where these are final."""
        state = self.state
        if state.final:
            return False
        self._window.append(self._problem.theta)
        state.rounds += 1
        if len(self._window) < ROUNDS:
            return self.draw()
        # The final objective is a better round: it may lie as far from the averages as they do from each other.
        theta = np.mean(self._window[-ROUNDS:], axis=0)
        state.final, self._average = True, theta
        self._draw(theta, FINAL_FACTOR * state.copies)
        self._problem.move_to(theta)
        return True

    def accept(self) -> bool:
        """Return whether the optimum of the final objective is exact enough; otherwise go on with further rounds."""
        state, options = self.state, self._options
        theta = self._problem.theta
        # Features that the certificate has added since then are the last ones.
        average = np.concatenate([self._average, np.zeros(len(theta) - len(self._average))])
        state.error = self._distance(theta, average)
        if state.error <= options.max_error or state.rounds >= MAX_ROUNDS:
            return True
        if 2 * FINAL_FACTOR * state.copies <= options.max_copies:
            state.copies *= 2
        state.final, self._window = False, [self._problem.theta]
        return False

    def observed_loss(self) -> float:
        """Return minus the sum over observed cells of ln p(cell | all other observed cells) at the current weights."""
        problem = self._problem
        return self._evaluator.observed_loss(problem.working_set.graphs, problem.theta)

    def observed_weights(self) -> np.ndarray:
        """Return the weight of the rows in which the variable of each state is observed, (states,)."""
        return self._evaluator.observed_weights()

    def _draw(self, theta: np.ndarray, copies: int) -> None:
        working_set = self._problem.working_set
        self._features = working_set.features
        self._evaluator.draw_completions(working_set.graphs, theta, copies, SWEEPS)

    def _distance(self, one: np.ndarray, other: np.ndarray) -> float:
        """Return the root mean square of the difference between two vectors of weights, in standard errors."""
        used = (one != 0.0) | (other != 0.0)
        if not used.any():
            return 0.0
        difference = self._problem.coordinates_of(one) - self._problem.coordinates_of(other)
        return float(np.sqrt(np.mean((np.square(difference) * self._problem.curvature())[used])))

    def saved(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return what `restore` needs: arrays and plain values."""
        window = np.array(self._window) if self._window else np.empty((0, 0))
        return {"em_window": window, "em_average": self._average, "em_features": self._features}, asdict(self.state)

    def restore(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
        """Continue from a saved state, before the problem does."""
        self.state, self._window = EMState(**facts), list(arrays["em_window"])
        self._average = arrays["em_average"]

    def restore_rows(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Bring back the completions of a saved state."""
        self._features = arrays["em_features"]
        layout = self._problem.working_set.layout
        self._evaluator.restore_rows(self._evaluator.compile(layout.arcs(self._features)), arrays)
