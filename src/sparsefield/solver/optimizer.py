"""Optimizer of a working set: orthant-wise L-BFGS steps, and proximal Newton steps while these gain more."""

from __future__ import annotations

import numpy as np

from sparsefield.kernels.proximal_newton import newton_step
from sparsefield.kernels.regression_hessians import NewtonSystem
from sparsefield.objectives.curvature import MIN_DIAGONAL
from sparsefield.solver.owlqn import MAX_CHANGE, SUFFICIENT_DECREASE, Point
from sparsefield.solver.policy import MIN_CONTRACTION, MODEL_TOLERANCE
from sparsefield.solver.working_set import WorkingSet

MAX_PASSES = 1000
"""Passes of coordinate descent over the parameters of a Newton model, at most."""

ROUNDING = 1e-13
"""Share of the objective by which a Newton step may raise it: near an optimum, rounding errors are larger than what a
step gains."""


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
            self._changes, self._model, self._cost = working_set.changes, None, None
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
