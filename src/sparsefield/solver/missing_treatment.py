"""This module says how the training loop treats missing cells: there are none, or they hold clamped beliefs.

`sparsefield.solver.monte_carlo_em` has the third way, completions of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Self

import numpy as np

from sparsefield.objectives import DenseEvaluator, Evaluator
from sparsefield.solver.working_problem import WorkingProblem

MAX_BELIEF_CHANGE = 1e-3
"""Imputed values have converged when another imputation changes no belief by more."""

MAX_IMPUTATIONS = 30
"""Imputations during one optimization; the next round of the certificate continues from there."""

ROUGH_ROUNDS = 2
STEPS_PER_ROUND = 4
"""Imputations, and steps before each, while other candidates violate optimality: these change beliefs again, so that
neither an optimum between imputations nor converged beliefs are worth their time."""


class MissingCells:
    """Replaces missing cells between the steps of the optimizer; this class is for rows that have none.

    A replacement changes the objective, so that the optimizer continues.
    """

    present = False
    """Whether rows have missing cells, other than those of latent variables."""
    error = 0.0
    """Monte Carlo error of the weights, in standard errors (root mean square); NaN if it is not known."""
    is_drawing = False
    """Whether the next replacement is drawn at random, so that the objective changes at any weights."""
    max_rounds = 0
    """Replacements during one optimization, at most."""
    rounds_on_path = 0
    """The same for each value of l1 on a path."""
    rough_rounds: int | None = None
    """The same while candidates outside the working set violate optimality; None if this makes no difference."""

    def __init__(self, problem: WorkingProblem, evaluator: Evaluator) -> None:
        self._problem, self._evaluator = problem, evaluator

    def branch(self, problem: WorkingProblem) -> Self:
        """Return a copy for a copy of the problem; both share the rows."""
        twin = copy(self)
        twin._problem = problem
        return twin

    def begin(self, theta: np.ndarray, *, warm: bool) -> None:
        """Replace missing cells at given weights, before the first evaluation; ``warm`` weights are worth using."""

    def restart(self) -> None:
        """Start the schedule again, after a change of penalties."""

    def round_is_over(self, steps: int, *, rough: bool) -> bool:
        """Return whether so many steps since the last replacement are enough, though they are not at an optimum.

        After ``rough`` rounds the certificate adds features, or optimizes further.
        """
        return False

    def may_drop(self, *, converging: bool) -> bool:
        """Return whether inactive features may be dropped from the working set.

        ``converging`` says that violations of optimality are still large, and that the last round made progress.
        """
        return True

    def replace(self) -> bool:
        """Replace missing cells at the current weights; return whether the optimizer has to continue."""
        return False

    def next_round(self) -> bool:
        """Do the same while weights of the rounds are averaged, up to the final objective."""
        return self.replace()

    def accept(self) -> bool:
        """Return whether the optimum of the final objective is exact enough; otherwise more rounds follow."""
        return True

    def observed_loss(self) -> float:
        """Return minus the sum over observed cells of ln p(cell | all other observed cells) at the current weights."""
        return self._problem.loss

    def observed_weights(self) -> np.ndarray:
        """Return the weight of the rows in which the variable of each state is observed, (states,)."""
        sizes = [schema.n_target_columns for schema in self._problem.working_set.layout.schemas]
        return np.repeat(np.asarray(self._evaluator.total_weights), sizes)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return what `restore` needs: arrays and plain values."""
        return {}, {}

    def restore(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
        """Continue from a saved state, before the problem does."""
        self.restore_rows(arrays)

    def restore_rows(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Bring back the rows of a saved state."""


class ClampedBeliefs(MissingCells):
    """Missing cells hold the beliefs of an inference method given all observed cells, as in the paper.

    The loss stands for that of observed cells, although beliefs depend on the cells that they help to predict.
    """

    present = True
    error = float("nan")
    max_rounds = rounds_on_path = MAX_IMPUTATIONS
    rough_rounds = ROUGH_ROUNDS

    def __init__(self, problem: WorkingProblem, evaluator: DenseEvaluator) -> None:
        super().__init__(problem, evaluator)
        self._rows = evaluator

    def begin(self, theta: np.ndarray, *, warm: bool) -> None:
        if warm:
            self._rows.impute_missing(self._problem.working_set.graphs, theta)

    def round_is_over(self, steps: int, *, rough: bool) -> bool:
        return rough and steps >= STEPS_PER_ROUND

    def may_drop(self, *, converging: bool) -> bool:
        # An imputation changes the objective, so that a dropped feature might return again and again.
        return converging

    def replace(self) -> bool:
        problem = self._problem
        change = self._rows.impute_missing(problem.working_set.graphs, problem.theta)
        problem.evaluate_again()
        return change > MAX_BELIEF_CHANGE

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return self._rows.source.state(), {}

    def restore_rows(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._rows.restore_rows(self._problem.working_set.graphs, arrays)
