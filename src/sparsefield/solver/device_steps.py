"""Steps of orthant-wise L-BFGS on a device of torch, where the vectors of a working set stay between two changes of it.

The steps are those of `sparsefield.solver.owlqn` for the L1 norm. The compact form of the two-loop recursion works
on products of all vectors of the memory, so that a step waits for the device twice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sparsefield.compute.torch_engine import import_torch
from sparsefield.objectives.curvature import MIN_DIAGONAL
from sparsefield.objectives.torch_evaluator import Tensor, TorchEvaluator, send
from sparsefield.solver.owlqn import (
    MAX_CHANGE,
    MAX_TRIALS,
    MIN_CURVATURE,
    SUFFICIENT_DECREASE,
    Point,
    backtracking_factor,
)
from sparsefield.solver.working_set import WorkingSet


def _mirrored(name: str) -> Any:
    """Return a property that is read from the device where it has changed there, and sent again where it is set."""

    def read(self: DeviceWorkingSet) -> Any:
        self._read_point()
        return vars(self)[name]

    def write(self: DeviceWorkingSet, value: Any) -> None:
        self._read_point()
        self._steps = None
        vars(self)[name] = value

    return property(read, write)


class DeviceWorkingSet(WorkingSet):
    """A working set without groups, whose weights are on a device while steps are taken: it is its own optimizer."""

    problem: TorchEvaluator
    _steps: DeviceSteps | None = None
    """The point on the device."""
    point, theta, loss_gradient = _mirrored("point"), _mirrored("theta"), _mirrored("loss_gradient")

    def _read_point(self) -> None:
        if self._steps is not None and self._steps.moved:
            steps, self._steps.moved = self._steps, False
            x, gradient, theta, slopes = (part.cpu().numpy() for part in steps.point[:4])
            vars(self).update(point=Point(x, steps.summary[0], gradient), theta=theta, loss_gradient=slopes)
            self.loss = steps.summary[1]
            self.problem.set_point(self.graphs, theta)

    @property
    def summary(self) -> tuple[float, float, float, int]:
        return super().summary if self._steps is None else self._steps.summary

    def is_optimal_within(self, tolerance: float) -> bool:
        return super().is_optimal_within(tolerance) if self._steps is None else self._steps.violation <= tolerance

    def step(self, tolerance: float = 0.0) -> bool:
        """Take one step; return False where no step lowers the objective."""
        with self.problem.table.memory():
            self._steps = self._steps or DeviceSteps(self)
            return self._steps.step()


class Trial(NamedTuple):
    """A point in the optimizer's coordinates, and the objective there."""

    coordinates: Tensor
    gradient: Tensor
    theta: Tensor
    loss_gradient: Tensor
    slope: Tensor
    """The pseudo-gradient."""
    numbers: Tensor = None
    """Objective, loss, L1 norm of theta, number of active features, violation, and a sum that is finite if all is."""


class DeviceSteps:
    """The point of a working set on a device, its objective, and steps to others.

    Attributes
    ----------
    vectors : the last steps and changes of the gradient, (2, steps, parameters)
    point : where the last step ended
    summary, violation : there, see `WorkingSet.summary`; the violation is that in the optimizer's coordinates
    moved : whether the working set has not read the point yet
    """

    def __init__(self, working_set: DeviceWorkingSet) -> None:
        self._table, self._arcs, self._torch = working_set.problem.table, working_set.graphs, import_torch()
        device, penalty = self._table.device, working_set.penalty
        parametrization, arcs, self._n = working_set.parametrization, self._arcs, working_set.n_biases
        self._strengths, self._l2 = send(penalty.nonsmooth.strengths, device), send(penalty.l2_strengths, device)
        self._penalized, self._ridge = self._strengths > 0.0, self._l2 + MIN_DIAGONAL
        self._means, variances = send(parametrization.means, device), send(parametrization.variances, device)
        self._centered = send(parametrization.centered.astype(np.float64), device)
        self._target = arcs.places // self._table.n_columns
        means, free = self._means[arcs.source], self._centered[self._target]
        self._mean_of_arc = means * free
        self._spread = variances[arcs.source] + (means * (1.0 - free)).square()
        self.summary, self.violation, self.moved = working_set.summary, np.inf, False
        x, gradient = send(working_set.point.coordinates, device), send(working_set.point.gradient, device)
        self.point = Trial(x, gradient, x, gradient, self._pseudo_gradient(x, gradient))
        self.vectors, self._memory = x.new_zeros(2, 0, len(x)), working_set.problem.memory

    def _evaluate(self, x: Tensor) -> Trial:
        table, arcs, n, theta, norm = self._table, self._arcs, self._n, x.clone(), self._torch.linalg.vector_norm
        arcs.set_weights(x)
        theta[:n] -= arcs.sums(slice(0, n), self._means[:, None])[:, 0] * self._centered
        loss, loss_gradient = table.evaluate(arcs, theta)
        gradient, sizes = loss_gradient + self._l2 * theta, theta.abs()
        value = loss[0] + self._strengths @ sizes + 0.5 * (self._l2 @ theta.square())
        gradient[n:] -= arcs.sum_features(self._mean_of_arc * gradient[self._target])
        slope = self._pseudo_gradient(x, gradient)
        numbers = [value, loss[0], sizes.sum(), norm(theta[n:], 0), norm(slope, self._torch.inf), gradient.sum()]
        return Trial(x, gradient, theta, loss_gradient, slope, self._torch.stack(numbers))

    def _pseudo_gradient(self, x: Tensor, gradient: Tensor) -> Tensor:
        at_zero = gradient - self._torch.clamp(gradient, -self._strengths, self._strengths)
        return self._torch.where(x != 0.0, gradient + x.sign() * self._strengths, at_zero)

    def _scale(self) -> Tensor:
        variances = self._table.variances
        of_features = self._arcs.sum_features(variances[self._target] * self._spread)
        return 1.0 / (self._torch.cat([variances, of_features]) + self._ridge)

    def step(self) -> bool:
        """Take one step; return False where no step lowers the objective."""
        torch, x, slope, value = self._torch, self.point.coordinates, self.point.slope, self.summary[0]
        at_zero = x == 0.0
        orthant = torch.where(at_zero, -slope, x)
        while True:
            direction, length = self._direction(at_zero), 1.0
            for _ in range(MAX_TRIALS):
                trial = torch.add(x, direction, alpha=length)
                found = self._evaluate(trial.masked_fill_(self._penalized & (trial * orthant <= 0.0), 0.0))
                vectors = torch.stack([slope, trial - x, found.gradient - self.point.gradient])
                numbers = torch.cat([found.numbers, (vectors @ vectors.T).view(-1)]).tolist()
                tried, loss, norm, active, violation, checked = numbers[:6]
                predicted, curvature, square = numbers[7], numbers[11], numbers[14]
                if predicted >= 0.0:
                    length *= 0.5
                elif np.isfinite(checked) and tried <= value + SUFFICIENT_DECREASE * predicted:
                    if curvature > MIN_CURVATURE * max(square, 1e-300):
                        self.vectors = torch.cat([self.vectors, vectors[1:, None]], dim=1)[:, -self._memory :]
                    self.point, self.violation, self.moved = found, violation, True
                    self.summary = tried, loss, norm, int(active)
                    return True
                else:
                    length *= backtracking_factor(value, predicted, tried)
            self._evaluate(x)  # the errors of the last evaluation are those of the point
            if not self.vectors.shape[1]:
                return False
            self.vectors = self.vectors[:, :0]

    def _direction(self, at_zero: Tensor) -> Tensor:
        """Return the direction of `OrthantLBFGS`, whose two loops need no more than products of its vectors."""
        torch, slope, scale = self._torch, self.point.slope, self._scale()
        direction, (s, y) = -slope * scale, self.vectors * (~at_zero | (slope != 0.0))
        vectors, m = torch.cat([s, y * scale, y]), len(s)
        of_s, of_y, squares = np.split((vectors @ torch.cat([y, slope[None]]).T).cpu().numpy(), 3)
        kept = np.flatnonzero(np.diag(of_s) > MIN_CURVATURE * np.maximum(np.diag(squares), 1e-300))
        if len(kept):  # Byrd, Nocedal and Schnabel (1994)
            products, curvatures = of_s[np.ix_(kept, kept)], of_y[np.ix_(kept, kept)]
            gamma, upper = products[-1, -1] / curvatures[-1, -1], np.triu(products)
            of_changes, coefficients = np.linalg.solve(upper, of_s[kept, m]), np.zeros(3 * m)
            middle = np.diag(np.diag(products)) + gamma * curvatures
            coefficients[kept] = -np.linalg.solve(upper.T, middle @ of_changes - gamma * of_y[kept, m])
            coefficients[m + kept] = gamma * of_changes
            direction = gamma * direction + send(coefficients, slope.device) @ vectors
        uphill = direction.clamp_(-MAX_CHANGE, MAX_CHANGE) * slope >= 0.0
        direction.masked_fill_(self._penalized & at_zero & uphill, 0.0)
        return direction.masked_fill_(uphill & (direction @ slope >= 0.0), 0.0)
