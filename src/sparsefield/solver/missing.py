"""Missing cells during a fit: clamped beliefs, as in the paper, or Monte Carlo EM over completions of the rows."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from sparsefield.errors import DataError
from sparsefield.inference import InferenceMethod
from sparsefield.objectives import EM, DenseEvaluator
from sparsefield.objectives.training_rows import FINAL_FACTOR
from sparsefield.solver.policy import EM_ROUNDS, ROUGH_ROUNDS
from sparsefield.solver.working_set import WorkingSet

MAX_BELIEF_CHANGE = 1e-3
"""Imputed values have converged when another imputation changes no belief by more."""

SHARE_OF_FINAL = float(np.sqrt(EM_ROUNDS / (EM_ROUNDS + FINAL_FACTOR)))
"""The optimum of the final objective differs from the averages by the noise of both; this is the share of its own."""

MAX_EM_ROUNDS = 200
"""Rounds at most, after which the Monte Carlo error is reported as it is."""


class MissingCells:
    """Replaces missing cells between the steps of the optimizer; this class is for rows that have none.

    A replacement changes the objective, so that the optimizer continues.

    Parameters
    ----------
    working_set : at whose weights cells are replaced
    on_path : whether the field is one of many on a path, so that replacements need not have converged
    """

    present = False
    """Whether rows have missing cells, other than those of latent variables."""
    is_random = False
    """Whether replacements are drawn at random, so that each one changes the objective."""
    error = 0.0
    """Monte Carlo error of the weights, in standard errors (root mean square); NaN if it is not known."""

    def __init__(self, working_set: WorkingSet, *, on_path: bool = False) -> None:
        self._working_set, self._on_path = working_set, on_path

    def branch(self, working_set: WorkingSet) -> Self:
        """Return a copy for a copy of the working set; both share the rows."""
        twin = copy(self)
        twin._working_set = working_set
        return twin

    def begin(self, theta: np.ndarray, *, warm: bool) -> None:
        """Replace missing cells at plain weights, before the first evaluation; ``warm`` weights are worth using."""

    def restart(self) -> None:
        """Start the schedule again, after a change of penalties."""

    def schedule(self, *, loose: bool = False, settled: bool = True) -> tuple[int, bool]:
        """Return how many replacements the next optimization may make, and whether these are to converge.

        It is ``loose`` while other candidates violate optimality, and not ``settled`` if these are many.
        """
        return 0, False

    def round_is_over(self, steps: int, *, converging: bool) -> bool:
        """Return whether so many steps since the last replacement are enough, though they are not at an optimum."""
        return False

    def may_drop(self, *, progressing: bool) -> bool:
        """Return whether inactive features may be dropped from the working set.

        ``progressing`` says that violations of optimality are still large, and that the last round reduced them.
        """
        return True

    def refresh(self, scorings: int = 0) -> bool:
        """Replace missing cells at the current weights; return whether the objective has changed so that it matters.

        ``scorings`` is how many times all candidates have been scored since the certificate began.
        """
        return False

    def next_round(self) -> bool:
        """Replace missing cells in a schedule that converges: return whether the optimizer has to continue."""
        return self.refresh()

    def accept(self) -> bool:
        """Return whether the optimum is exact enough; otherwise cells have been replaced, and more rounds follow."""
        return True

    def observed_loss(self) -> float:
        """Return minus the sum over observed cells of ln p(cell | all other observed cells) at the current weights."""
        return self._working_set.loss

    def observed_weights(self) -> np.ndarray:
        """Return the weight of the rows in which the variable of each state is observed, (states,)."""
        sizes = [schema.n_target_columns for schema in self._working_set.layout.schemas]
        return np.repeat(np.asarray(self._working_set.problem.total_weights), sizes)


class ClampedBeliefs(MissingCells):
    """Missing cells hold the beliefs of an inference method given all observed cells: q0 of the paper.

    The loss stands for that of observed cells, although beliefs depend on the cells that they help to predict.
    """

    present = True
    error = float("nan")

    def __init__(self, working_set: WorkingSet, problem: DenseEvaluator, *, on_path: bool = False) -> None:
        super().__init__(working_set, on_path=on_path)
        self._problem = problem

    def begin(self, theta: np.ndarray, *, warm: bool) -> None:
        if warm:
            self._problem.impute_missing(self._working_set.graphs, theta)

    def schedule(self, *, loose: bool = False, settled: bool = True) -> tuple[int, bool]:
        # Candidates that are about to be added change beliefs again, so that converged ones are not worth their time.
        return (ROUGH_ROUNDS, False) if loose else (30, not self._on_path)

    def round_is_over(self, steps: int, *, converging: bool) -> bool:
        return not converging and steps >= 4

    def may_drop(self, *, progressing: bool) -> bool:
        # An imputation changes the objective, so that a dropped feature might return again and again.
        return progressing

    def refresh(self, scorings: int = 0) -> bool:
        change = self._problem.impute_missing(self._working_set.graphs, self._working_set.theta)
        self._working_set.evaluate_again()
        return change > MAX_BELIEF_CHANGE


@dataclass
class EMState:
    """The state of the rounds of Monte Carlo EM."""

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

    present = is_random = True

    def __init__(self, working_set: WorkingSet, problem: DenseEvaluator, options: EM, *, on_path: bool = False) -> None:
        super().__init__(working_set, on_path=on_path)
        self._problem, self._options = problem, options
        self._state = EMState(options.copies)
        self._window: list[np.ndarray] = []
        self._average = np.empty(0)
        """Averaged weights at which the final completions were drawn."""

    @property
    def error(self) -> float:
        return self._state.error

    def branch(self, working_set: WorkingSet) -> Self:
        twin = super().branch(working_set)
        twin._state, twin._window = replace(self._state), list(self._window)
        return twin

    def begin(self, theta: np.ndarray, *, warm: bool) -> None:
        self._draw(theta, self._state.copies)

    def restart(self) -> None:
        self._state = EMState(self._state.copies)
        self._window = []

    def schedule(self, *, loose: bool = False, settled: bool = True) -> tuple[int, bool]:
        if self._on_path:  # completions continue from those of the last l1
            return 1, False
        return (MAX_EM_ROUNDS + 1, True) if self._state.final or settled else (ROUGH_ROUNDS, False)

    def round_is_over(self, steps: int, *, converging: bool) -> bool:
        # A round need not be at an optimum: five steps, or one that is much shorter than the first, suffice.
        return not self._state.final and (steps >= 5 or self._next_step() <= 0.4 * self._state.first_step)

    def may_drop(self, *, progressing: bool) -> bool:
        return False  # weights of several rounds are averaged

    def refresh(self, scorings: int = 0) -> bool:
        if self._state.final or (self._on_path and scorings >= ROUGH_ROUNDS):
            return False
        self._draw(self._working_set.theta, self._state.copies)
        self._working_set.evaluate_again()
        self._state.first_step = self._next_step()
        return True

    def next_round(self) -> bool:
        state, options = self._state, self._options
        if state.final:
            return False
        self._window.append(self._working_set.theta)
        state.rounds += 1
        if len(self._window) < EM_ROUNDS:
            return self.refresh()
        theta, drift = np.mean(self._window, axis=0), self._drift()
        # Weights are on their way while the halves of a window come closer.
        if options.max_error < drift < 0.4 * state.drift and state.rounds < MAX_EM_ROUNDS:
            self._window, state.drift = [], drift
            return self.refresh()
        # The final objective is a better round: it may be as far from the averages as they are from each other.
        self._draw(theta, FINAL_FACTOR * state.copies)
        self._working_set.move_to(theta)
        if state.rounds < MAX_EM_ROUNDS and SHARE_OF_FINAL * self._next_step() > options.max_error:
            self._raise_copies()
            self._window, state.drift, state.first_step = [], np.inf, self._next_step()
            return True
        state.final, state.value_at_average, self._average = True, self._working_set.point.value, theta
        return True

    def accept(self) -> bool:
        state, working_set = self._state, self._working_set
        if not state.final:
            return True
        # Features that the certificate has added since then are the last ones.
        theta = working_set.theta
        average = np.concatenate([self._average, np.zeros(len(theta) - len(self._average))])
        # Near an optimum the difference of values is half the square of the distance in standard errors, in which
        # weights that hardly matter, because others take their place, hardly count.
        used = max(int(((theta != 0.0) | (average != 0.0)).sum()), 1)
        distance = np.sqrt(2.0 * max(state.value_at_average - working_set.point.value, 0.0) / used)
        state.error = SHARE_OF_FINAL * float(distance)
        if state.error <= self._options.max_error or state.rounds >= MAX_EM_ROUNDS:
            return True
        self._raise_copies()
        state.final, self._window = False, [theta]
        self.refresh()
        return False

    def observed_loss(self) -> float:
        return self._problem.observed_loss(self._working_set.graphs, self._working_set.theta)

    def observed_weights(self) -> np.ndarray:
        return self._problem.observed_weights()

    def _draw(self, theta: np.ndarray, copies: int) -> None:
        self._problem.draw_completions(self._working_set.graphs, theta, copies, sweeps=1)

    def _raise_copies(self) -> None:
        if 2 * FINAL_FACTOR * self._state.copies <= self._options.max_copies:
            self._state.copies *= 2

    def _next_step(self) -> float:
        """Return the length of a Newton step from the present weights, in standard errors, if weights were independent.

        It predicts the distance of the optimum, which takes far longer to compute.
        """
        working_set = self._working_set
        slope = working_set.pseudo_gradient()
        used = (working_set.point.coordinates != 0.0) | (slope != 0.0)
        steps = np.square(slope) / np.maximum(working_set.curvature(), np.finfo(float).tiny)
        return float(np.sqrt(np.mean(steps[used]))) if used.any() else 0.0

    def _drift(self) -> float:
        """Return the distance between the means of the halves of the window, in standard errors (root mean square)."""
        half, working_set = EM_ROUNDS // 2, self._working_set
        early, late = np.mean(self._window[:half], axis=0), np.mean(self._window[half:], axis=0)
        used = (early != 0.0) | (late != 0.0)
        if not used.any():
            return 0.0
        difference = working_set.coordinates_of(late) - working_set.coordinates_of(early)
        return float(np.sqrt(np.mean((np.square(difference) * working_set.curvature())[used])))


def treat_missing(
    working_set: WorkingSet, missing: EM | InferenceMethod, *, has_missing: bool, on_path: bool = False
) -> MissingCells:
    """Return how missing cells are treated: by `EM`, or by beliefs of an inference method, where there are any.

    Raises
    ------
    DataError
        If cells are missing, and the problem can neither replace them nor sum them out.
    """
    problem: Any = working_set.problem
    treatment = getattr(problem, "missing_cells", "refused")
    if has_missing and treatment == "refused":
        raise DataError(
            f"Cells are missing, and {type(problem).__name__} cannot treat them: fill them first (impute), drop their "
            "rows, or use objective='pl'."
        )
    if not has_missing or treatment != "replaced":
        return MissingCells(working_set, on_path=on_path)
    if isinstance(missing, EM):
        return MonteCarloEM(working_set, problem, missing, on_path=on_path)
    return ClampedBeliefs(working_set, problem, on_path=on_path)
