"""Missing cells during a fit: clamped beliefs, as in the paper, or Monte Carlo EM over completions of the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparsefield.data import Arcs
from sparsefield.errors import DataError
from sparsefield.inference import InferenceMethod
from sparsefield.objectives import EM
from sparsefield.objectives.training_rows import FINAL_FACTOR
from sparsefield.solver.policy import AVERAGED, EM_ROUNDS, ROUGH_ROUNDS, STEPS_PER_ROUND
from sparsefield.solver.working_set import WorkingSet

MAX_BELIEF_CHANGE, MAX_IMPUTATIONS = 1e-3, 30
"""Imputed values have converged when another imputation changes no belief by more; and imputations in a row at most."""

MAX_PATH_COUNTS = 8
"""Imputations of a fit with triangles or cycles, whose numbers of paths take long; cells then stay as they are."""

MARGIN = 0.5
"""Half as many completions do if the Monte Carlo error predicted for them is below this share of the largest."""

Advance = Callable[[int | None], None]
"""Takes at most so many steps of the optimizer, or with None goes on to the optimum."""


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
    is_final = True
    """Whether cells are not replaced any more."""
    error = 0.0
    """Monte Carlo error of the weights, in standard errors (root mean square); NaN if it is not known."""

    def __init__(self, working_set: WorkingSet, *, on_path: bool = False) -> None:
        self._working_set, self._on_path = working_set, on_path

    def begin(self, theta: np.ndarray, *, warm: bool) -> None:
        """Replace missing cells at plain weights, before the first evaluation; ``warm`` weights are worth using."""

    def restart(self) -> None:
        """Begin again, after a change of penalties."""

    def refresh(self) -> bool:
        """Replace missing cells at the current weights; return whether the objective has changed so that it matters."""
        return False

    def alternate(self, advance: Advance, *, exact: bool) -> None:
        """Go on to the optimum, and replace cells in between: a few times, or until they do not change any more."""
        advance(None)

    def accept(self) -> bool:
        """Return whether the optimum is exact enough; otherwise cells have been replaced, and more rounds follow."""
        return True

    def observed_loss(self) -> float:
        """Return minus the sum over observed cells of ln p(cell | all other observed cells) at the current weights."""
        return self._working_set.loss

    def observed_weights(self) -> np.ndarray:
        """Return the weight of the rows in which the variable of each state is observed, (states,)."""
        return self._total_weights()

    def observed_shares(self, arcs: Arcs, n_features: int) -> np.ndarray:
        """Return the share of the rows with an observed target in which a feature's other columns are observed too.

        The data say about a weight what these rows say, and hardly more: completed rows would say too much. That the
        target is observed, Wald statistics take into account already. Shares, (features,), are geometric means over the
        targets of a feature.
        """
        tiny = np.finfo(float).tiny
        shares = np.maximum(self.observed_weights() / np.maximum(self._total_weights(), tiny), tiny)
        ends = np.maximum(np.bincount(arcs.feature, minlength=n_features), 1)
        return np.exp(np.bincount(arcs.feature, np.log(shares)[arcs.target], minlength=n_features) * (ends - 1) / ends)

    def _total_weights(self) -> np.ndarray:
        """Return the weight of the rows of the table of each state, (states,)."""
        sizes = [schema.n_target_columns for schema in self._working_set.layout.schemas]
        return np.repeat(np.asarray(self._working_set.problem.total_weights), sizes)


class ClampedBeliefs(MissingCells):
    """Missing cells hold the beliefs of an inference method given all observed cells: q0 of the paper.

    The loss stands for that of observed cells, although beliefs depend on the cells that they help to predict.
    """

    present, is_final = True, False
    error = float("nan")

    def __init__(self, working_set: WorkingSet, *, on_path: bool = False) -> None:
        super().__init__(working_set, on_path=on_path)
        self._left = MAX_PATH_COUNTS if working_set.layout.path_views else np.inf

    def begin(self, theta: np.ndarray, *, warm: bool) -> None:
        if warm:
            self._impute(theta)

    def refresh(self) -> bool:
        self._left -= 1
        if self._left < 0:
            return False
        change = self._impute(self._working_set.theta)
        self._working_set.evaluate_again()
        return change > MAX_BELIEF_CHANGE

    def alternate(self, advance: Advance, *, exact: bool) -> None:
        exact = exact and not self._on_path
        for _ in range(MAX_IMPUTATIONS if exact else ROUGH_ROUNDS):
            advance(None if exact else STEPS_PER_ROUND)
            if not self.refresh():
                break
        advance(None)

    def _impute(self, theta: np.ndarray) -> float:
        problem: Any = self._working_set.problem
        return problem.source.impute(problem.weights_of_field(self._working_set.graphs, theta))


class MonteCarloEM(MissingCells):
    """Alternates completions of incomplete rows, given the weights, with steps of the optimizer on the completed rows.

    Weights of the last rounds are averaged. Then the rows are completed once more at the averages, by more completions.
    These are fixed: the optimum of their pseudo-likelihood is the result, with its certificate, if it is as close to
    the averages as the options demand; otherwise further rounds with more completions follow.
    """

    present = is_random = True

    def __init__(self, working_set: WorkingSet, options: EM, *, on_path: bool = False) -> None:
        super().__init__(working_set, on_path=on_path)
        self._options, self._copies = options, options.copies
        self._average, self._value_at_average = np.empty(0), np.inf
        """Averaged weights at which the final completions were drawn, and the final objective there."""
        self._share = 1.0
        """The optimum of the final objective differs from the averages by the noise of both: the share of its own."""
        self.restart()

    def restart(self) -> None:
        self.is_final, self.error, self._last_error = False, float("nan"), np.inf

    def begin(self, theta: np.ndarray, *, warm: bool) -> None:
        self._draw(theta, self._copies)

    def refresh(self) -> bool:
        if not self.is_final:
            self._draw(self._working_set.theta, self._copies)
            self._working_set.evaluate_again()
        return not self.is_final

    def alternate(self, advance: Advance, *, exact: bool) -> None:
        working_set, final = self._working_set, self.is_final
        if not final and (self._on_path or not exact):
            for _ in range(1 if self._on_path else ROUGH_ROUNDS):
                advance(STEPS_PER_ROUND)
                self.refresh()
            advance(None)
            return
        far = np.inf
        while not final:
            window: list[np.ndarray] = []
            while len(window) < EM_ROUNDS:
                if window:
                    self.refresh()
                advance(STEPS_PER_ROUND)
                window.append(working_set.theta)
            # The final objective is a better round: it may be as far from the averages as they are from each other.
            self._average = np.mean(window[EM_ROUNDS - AVERAGED :], axis=0)
            for factor in (FINAL_FACTOR // 2, FINAL_FACTOR):
                self._draw(self._average, factor * self._copies)
                working_set.move_to(self._average)
                self._share = float(np.sqrt(AVERAGED / (AVERAGED + factor)))
                step = self._share * self._next_step()
                if step <= MARGIN * self._options.max_error:
                    break
            self._value_at_average = working_set.point.value
            final = step <= self._options.max_error or not self._may_improve(step)
            if final:  # the first steps show where strong dependences hid how far the optimum is
                advance(STEPS_PER_ROUND)
                before, far = far, self._distance()
                final = not self._options.max_error < far < 0.9 * before
            self.is_final = final
        advance(None)

    def accept(self) -> bool:
        if not self.is_final:
            return True
        self.error = self._distance()
        if self.error <= self._options.max_error or not self._may_improve(self.error):
            return True
        self.is_final = False
        self.refresh()
        return False

    def observed_loss(self) -> float:
        problem: Any = self._working_set.problem
        return problem.source.observed_loss(problem.weights_of_field(self._working_set.graphs, self._working_set.theta))

    def observed_weights(self) -> np.ndarray:
        problem: Any = self._working_set.problem
        return problem.source.observed_weights()

    def _draw(self, theta: np.ndarray, copies: int) -> None:
        problem: Any = self._working_set.problem
        problem.draw(self._working_set.graphs, theta, copies)

    def _distance(self) -> float:
        """Return the distance from the averages to the present weights, in standard errors of the result.

        Near an optimum the difference of values is half the square of the distance in standard errors, in which
        weights that hardly matter, because others take their place, hardly count.
        """
        theta = self._working_set.theta  # features that the certificate has added since then are the last ones
        average = np.concatenate([self._average, np.zeros(len(theta) - len(self._average))])
        used = max(int(((theta != 0.0) | (average != 0.0)).sum()), 1)
        gain = max(self._value_at_average - self._working_set.point.value, 0.0)
        return self._share * float(np.sqrt(2.0 * gain / used))

    def _may_improve(self, error: float) -> bool:
        """Return whether further rounds may reduce the error: with twice the completions, or as the last ones did."""
        improving, self._last_error = error < 0.5 * self._last_error, error
        source: Any = self._working_set.problem.source
        if 2 * FINAL_FACTOR * self._copies <= min(self._options.max_copies, source.max_copies):
            self._copies *= 2
            return True
        return improving

    def _next_step(self) -> float:
        """Return the length of a Newton step from the present weights, in standard errors, if weights were independent.

        It predicts the distance of the optimum, which takes far longer to compute. Penalized weights stop at 0.
        """
        working_set = self._working_set
        slope, start = working_set.pseudo_gradient(), working_set.point.coordinates
        curvature = np.maximum(working_set.curvature(), np.finfo(float).tiny)
        step = slope / curvature
        stops = (start * (start - step) < 0.0) & (working_set.penalty.nonsmooth.strengths > 0.0)
        squares = curvature * np.square(np.where(stops, start, step))
        used = (start != 0.0) | (slope != 0.0)
        return float(np.sqrt(np.mean(squares[used]))) if used.any() else 0.0


def treat_missing(
    working_set: WorkingSet, missing: EM | InferenceMethod | None, *, on_path: bool = False
) -> MissingCells:
    """Return how missing cells are treated: by `EM`, by beliefs of an inference method, or None where there are none.

    Raises
    ------
    DataError
        If cells are missing, and the problem can neither replace them nor sum them out.
    """
    treatment = getattr(working_set.problem, "missing_cells", "refused")
    if missing is not None and treatment == "refused":
        raise DataError(
            f"Cells are missing, and {type(working_set.problem).__name__} cannot treat them: fill them first (impute), "
            "drop their rows, or use objective='pl'."
        )
    if missing is None or treatment != "replaced":
        return MissingCells(working_set, on_path=on_path)
    if isinstance(missing, EM):
        return MonteCarloEM(working_set, missing, on_path=on_path)
    return ClampedBeliefs(working_set, on_path=on_path)
