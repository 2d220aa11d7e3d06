"""Steps of orthant-wise L-BFGS on a device of torch, where the vectors of a working set stay between two changes of it.

The steps are those of `sparsefield.solver.owlqn` for the L1 norm. The two-loop recursion works on the products of all
vectors of the memory, so that a step waits for the device twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsefield.compute.torch_engine import import_torch
from sparsefield.objectives.curvature import MIN_DIAGONAL
from sparsefield.objectives.torch_evaluator import Tensor, TorchEvaluator, send
from sparsefield.solver.owlqn import (
    MAX_CHANGE,
    MAX_TRIALS,
    MIN_CURVATURE,
    SUFFICIENT_DECREASE,
    OrthantLBFGS,
    Point,
    backtracking_factor,
)
from sparsefield.solver.working_set import WorkingSet


class DeviceMemory(OrthantLBFGS):
    """A memory of steps and changes of the gradient that are tensors."""

    def grow(self, count: int) -> None:
        torch = import_torch()
        histories: list[list[Any]] = [self.s_history, self.y_history]
        for history in histories:
            history[:] = [torch.cat([vector, vector.new_zeros(count)]) for vector in history]

    def keep(self, positions: np.ndarray) -> None:
        if self.s_history:
            super().keep(send(positions, self.s_history[0].device))


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

    def new_memory(self) -> DeviceMemory:
        return DeviceMemory(self.problem.memory)

    def _read_point(self) -> None:
        """Read the point from the device, if it has moved there."""
        if self._steps is not None and self._steps.moved:
            steps, self._steps.moved = self._steps, False
            found = [part.cpu().numpy() for part in (steps.x, steps.gradient, steps.theta, steps.loss_gradient)]
            vars(self)["point"] = Point(found[0], steps.value, found[1])
            vars(self)["theta"], vars(self)["loss_gradient"], self.loss = found[2], found[3], steps.loss
            self.problem.set_point(self.graphs, found[2])

    @property
    def summary(self) -> tuple[float, float, float, int]:
        return super().summary if self._steps is None or not self._steps.moved else self._steps.summary

    def is_optimal_within(self, tolerance: float) -> bool:
        if self._steps is None or not self._steps.moved:
            return super().is_optimal_within(tolerance)
        return self._steps.violation <= tolerance

    def step(self, tolerance: float = 0.0) -> bool:
        """Take one step; return False where no step lowers the objective."""
        with self.problem.table.memory():
            if self._steps is None:
                self._steps = DeviceSteps(self)
            return self._steps.step(self.memory)


class DeviceSteps:
    """The point of a working set on a device, its objective, and steps to others.

    Attributes
    ----------
    x, gradient : in the optimizer's coordinates, as in `Point`
    theta, loss_gradient : as in `WorkingSet`
    value, loss, violation : of the objective, the loss, and optimality in these coordinates
    summary : see `WorkingSet.summary`
    moved : whether the working set has not read the point yet
    """

    def __init__(self, working_set: DeviceWorkingSet) -> None:
        self._table, self._arcs, self._torch = working_set.problem.table, working_set.graphs, import_torch()
        device, point, penalty = self._table.device, working_set.point, working_set.penalty
        parametrization, arcs, self._n = working_set.parametrization, self._arcs, working_set.n_biases
        self.x, self.gradient = send(point.coordinates, device), send(point.gradient, device)
        self._strengths, self._l2 = send(penalty.nonsmooth.strengths, device), send(penalty.l2_strengths, device)
        self._means, variances = send(parametrization.means, device), send(parametrization.variances, device)
        self._centered = send(parametrization.centered.astype(np.float64), device)
        self._target = arcs.places // self._table.n_columns
        means, free = self._means[arcs.source], self._centered[self._target]
        self._mean_of_arc = means * free
        self._spread = variances[arcs.source] + (means * (1.0 - free)).square()
        self.value, self.moved = float(point.value), False

    def _objective(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return objective and loss (1,), the gradient in coordinates, theta, and the gradient of the loss."""
        table, n, theta = self._table, self._n, x.clone()
        shift = table.sums(self._arcs, x[self._arcs.parameter], slice(0, n), self._means[:, None])[:, 0]
        theta[:n] -= shift * self._centered
        loss, slope = table.evaluate(self._arcs, theta)
        plain = slope + self._l2 * theta
        value = loss + self._strengths @ theta.abs() + 0.5 * (self._l2 @ theta.square())
        gradient = plain.clone()
        gradient[n:] -= table.sum_arcs(self._arcs, self._mean_of_arc * plain[:n][self._target])
        return value, loss, gradient, theta, slope

    def _pseudo_gradient(self, x: Tensor, gradient: Tensor) -> Tensor:
        at_zero = gradient.sign() * (gradient.abs() - self._strengths).clamp(min=0.0)
        return self._torch.where(x != 0.0, gradient + x.sign() * self._strengths, at_zero)

    def step(self, memory: OrthantLBFGS) -> bool:
        """Take one step; return False where no step lowers the objective."""
        torch, x, n = self._torch, self.x, self._n
        slope = self._pseudo_gradient(x, self.gradient)
        variances = self._table.variances
        of_arcs = self._table.sum_arcs(self._arcs, variances[self._target] * self._spread)
        scale = 1.0 / (torch.cat([variances, of_arcs]) + self._l2 + MIN_DIAGONAL)
        orthant, penalized = torch.where(x == 0.0, -slope, x), self._strengths > 0.0
        while True:
            direction, length = self._direction(memory, slope, scale), 1.0
            for _ in range(MAX_TRIALS):
                trial = x + length * direction
                trial[penalized & (trial * orthant <= 0.0)] = 0.0
                value, loss, gradient, theta, loss_gradient = self._objective(trial)
                step, change = trial - x, gradient - self.gradient
                violation = self._pseudo_gradient(trial, gradient).abs().max()
                numbers = [
                    slope @ step,
                    theta.abs().sum(),
                    (theta[n:] != 0.0).sum(),
                    violation,
                    gradient.isfinite().all(),
                ]
                numbers = torch.stack([value[0], loss[0], *numbers, step @ change, change @ change]).tolist()
                tried, loss, predicted, norm, active, violation, finite, curvature, square = numbers
                if predicted >= 0.0:
                    length *= 0.5
                elif finite and tried <= self.value + SUFFICIENT_DECREASE * predicted:
                    if curvature > MIN_CURVATURE * max(square, 1e-300):
                        memory.append(step, change)
                    self.x, self.gradient, self.theta, self.loss_gradient = trial, gradient, theta, loss_gradient
                    self.value, self.loss, self.violation, self.moved = tried, loss, violation, True
                    self.summary = tried, loss, norm, int(active)
                    return True
                else:
                    length *= backtracking_factor(self.value, predicted, tried)
            if not memory.s_history:
                self._objective(x)  # the errors of the last evaluation are those of the point
                return False
            memory.forget()

    def _direction(self, memory: OrthantLBFGS, slope: Tensor, scale: Tensor) -> Tensor:
        """Return the direction of `OrthantLBFGS`, whose two loops need nothing but products of its vectors."""
        torch, x, direction = self._torch, self.x, scale * slope
        if memory.s_history:
            free = (x != 0.0) | (slope != 0.0)
            s, y = torch.stack(memory.s_history) * free, torch.stack(memory.y_history) * free
            right, m = torch.cat([y, slope[None]]).T, len(s)
            products = torch.cat([s @ right, (y * scale) @ right, y.square().sum(dim=1).expand(m + 1, m).T])
            of_s, of_y, squares = np.split(products.cpu().numpy(), 3)
            kept = [k for k in range(m) if of_s[k, k] > MIN_CURVATURE * max(squares[k, 0], 1e-300)]
            alpha, beta = np.zeros(m), np.zeros(m)
            for k in reversed(kept):
                alpha[k] = (of_s[k, m] - of_s[k, :m] @ alpha) / of_s[k, k]
            gamma = of_s[kept[-1], kept[-1]] / of_y[kept[-1], kept[-1]] if kept else 1.0
            for k in kept:
                rest = gamma * (of_y[k, m] - of_y[k, :m] @ alpha) + of_s[:k, k] @ beta[:k]
                beta[k] = alpha[k] - rest / of_s[k, k]
            device = slope.device
            direction = gamma * scale * (slope - send(alpha, device) @ y) + send(beta, device) @ s
        direction = direction.neg().clamp(-MAX_CHANGE, MAX_CHANGE)
        uphill = direction * slope >= 0.0
        direction[(self._strengths > 0.0) & (x == 0.0) & uphill] = 0.0
        return torch.where(uphill & (direction @ slope >= 0.0), 0.0, direction)
