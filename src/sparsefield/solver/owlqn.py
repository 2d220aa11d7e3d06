"""Orthant-wise L-BFGS (Andrew and Gao 2007) for parameters that may be added between steps.

Groups of parameters that are penalized by their norm are treated like single ones: a group that would leave the
half-space of its last values, or of its descent direction, is set to 0. For a single parameter that is its orthant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sparsefield.solver.penalty import NonsmoothPenalty, Transform

SUFFICIENT_DECREASE = 1e-4
"""Share of the predicted decrease that a step must achieve (Armijo)."""
MAX_TRIALS = 30
MIN_CURVATURE = 1e-10
MAX_CHANGE = 3.0
"""Largest change of a parameter in a step. Where probabilities are close to 0 or 1 the loss is flat, and a few
parameters would change by thousands and slow down all others."""


@dataclass(frozen=True)
class Point:
    """A point that the optimizer has reached."""

    coordinates: np.ndarray
    """Parameters of the optimizer, which need not be the weights: see `CenteredParametrization`."""
    value: float
    """Loss and penalties."""
    gradient: np.ndarray
    """Gradient of everything but the nonsmooth penalty."""


class OrthantLBFGS:
    """An optimizer with a memory of the last steps; no step raises the objective, and all values stay finite.

    With ``subspace``, directions are computed from the memory of the parameters that may change only: the inverse
    Hessian of all parameters is not that of some of them, and its directions are poor ones once others stay at 0.
    """

    def __init__(self, memory: int = 10, *, subspace: bool = False) -> None:
        self._memory, self._subspace = memory, subspace
        self.s_history: list[np.ndarray] = []
        self.y_history: list[np.ndarray] = []

    def grow(self, count: int) -> None:
        """Append parameters, of whose curvature nothing is known yet."""
        zeros = np.zeros(count)
        self.s_history = [np.concatenate([s, zeros]) for s in self.s_history]
        self.y_history = [np.concatenate([y, zeros]) for y in self.y_history]

    def keep(self, positions: np.ndarray) -> None:
        """Drop all parameters but those at the given positions."""
        self.s_history = [s[positions] for s in self.s_history]
        self.y_history = [y[positions] for y in self.y_history]
        self._drop_flat()

    def transform(self, step: Transform, gradient: Transform) -> None:
        """Change the coordinates of the memory, by functions of a step and of a change of gradient."""
        self.s_history = [step(s) for s in self.s_history]
        self.y_history = [gradient(y) for y in self.y_history]
        self._drop_flat()

    def branch(self) -> OrthantLBFGS:
        """Return an optimizer with the same memory."""
        twin = OrthantLBFGS(self._memory, subspace=self._subspace)
        twin.s_history, twin.y_history = list(self.s_history), list(self.y_history)
        return twin

    def forget(self) -> None:
        self.s_history, self.y_history = [], []

    def step(
        self,
        point: Point,
        penalty: NonsmoothPenalty,
        precondition: Transform,
        evaluate: Callable[[np.ndarray], tuple[float, np.ndarray]],
        project: Transform,
    ) -> Point | None:
        """Take one step from ``point``; return None when no step lowers the objective.

        ``precondition`` multiplies a gradient by a positive approximation of the inverse Hessian; ``project`` maps a
        trial to one that the caller allows. The last call of ``evaluate`` is always at the point returned.
        """
        slope = penalty.pseudo_gradient(point.coordinates, point.gradient)
        while True:
            direction = self._direction(slope, point.coordinates, penalty, precondition)
            vanishing = penalty.vanishing(point.coordinates, point.gradient, precondition)
            found = self._search(point, penalty, slope, direction, vanishing, evaluate, project)
            if found is not None:
                curvature = penalty.curvature_change(point.coordinates, found.coordinates)
                self.remember(found.coordinates - point.coordinates, found.gradient - point.gradient + curvature)
                return found
            if not self.s_history:
                return None
            self.forget()

    def _search(
        self,
        point: Point,
        penalty: NonsmoothPenalty,
        slope: np.ndarray,
        direction: np.ndarray,
        vanishing: np.ndarray,
        evaluate: Callable[[np.ndarray], tuple[float, np.ndarray]],
        project: Transform,
    ) -> Point | None:
        """Search along a line, by backtracking, within the orthant of ``point`` and its pseudo-gradient.

        The first trial sets ``vanishing`` parameters to 0.
        """
        zero = penalty.at_zero(point.coordinates) if penalty.groups is not None else point.coordinates == 0.0
        orthant = np.where(zero, -slope, point.coordinates)
        length = 1.0
        for _ in range(MAX_TRIALS):
            theta = point.coordinates + length * direction
            theta[(penalty.strengths > 0.0) & (penalty.sum_groups(theta * orthant) <= 0.0)] = 0.0
            if length == 1.0:
                theta[vanishing] = 0.0
            theta = project(theta)
            predicted = float(slope @ (theta - point.coordinates))
            if predicted >= 0.0:  # too many parameters were set to 0; a shorter step sets fewer
                length *= 0.5
                continue
            value, gradient = evaluate(theta)
            if (
                np.isfinite(value)
                and value <= point.value + SUFFICIENT_DECREASE * predicted
                and np.isfinite(gradient).all()
            ):
                return Point(theta, value, gradient)
            length *= _backtracking_factor(point.value, predicted, value)
        return None

    def _direction(
        self, slope: np.ndarray, coordinates: np.ndarray, penalty: NonsmoothPenalty, precondition: Transform
    ) -> np.ndarray:
        """Compute the direction by the two-loop recursion.

        A penalized parameter, or group, at 0 may only change against its own slope; if the result is no descent
        direction, the same holds for every parameter.
        """
        q = slope.copy()
        alphas, pairs = [], self._pairs(slope, coordinates)
        for s, y, product in reversed(pairs):
            alphas.append((s @ q) / product)
            q -= alphas[-1] * y
        if pairs:
            _, y, product = pairs[-1]
            q = precondition(q) * (product / (y @ precondition(y)))
        else:
            q = precondition(q)
        for (s, y, product), alpha in zip(pairs, reversed(alphas), strict=True):
            q += (alpha - (y @ q) / product) * s
        direction = np.clip(-q, -MAX_CHANGE, MAX_CHANGE)
        direction = penalty.restrict_at_zero(direction, slope, coordinates)
        if direction @ slope >= 0.0:
            direction[direction * slope >= 0.0] = 0.0
        return direction

    def _pairs(self, slope: np.ndarray, coordinates: np.ndarray) -> list[tuple[np.ndarray, np.ndarray, float]]:
        """Return steps, gradient changes and their products, in the subspace of what may change."""
        pairs = zip(self.s_history, self.y_history, strict=True)
        if self._subspace:
            free = (coordinates != 0.0) | (slope != 0.0)
            if not free.all():
                masked = ((s * free, y * free) for s, y in pairs)
                found = [(s, y, float(s @ y)) for s, y in masked]
                return [(s, y, product) for s, y, product in found if product > MIN_CURVATURE * max(y @ y, 1e-300)]
        return [(s, y, float(s @ y)) for s, y in pairs]

    def remember(self, step: np.ndarray, gradient_change: np.ndarray) -> None:
        """Learn from the change of the gradient over a step."""
        if not _is_curved(step, gradient_change):
            return
        self.s_history.append(step)
        self.y_history.append(gradient_change)
        if len(self.s_history) > self._memory:
            self.s_history.pop(0)
            self.y_history.pop(0)

    def _drop_flat(self) -> None:
        """Drop pairs without positive curvature, with which the recursion gives no descent direction."""
        pairs = zip(self.s_history, self.y_history, strict=True)
        good = [(s, y) for s, y in pairs if _is_curved(s, y)]
        self.s_history, self.y_history = [s for s, _ in good], [y for _, y in good]


def _is_curved(step: np.ndarray, gradient_change: np.ndarray) -> bool:
    """Return whether the objective has positive curvature along a step."""
    return bool(step @ gradient_change > MIN_CURVATURE * max(gradient_change @ gradient_change, 1e-300))


def _backtracking_factor(value: float, predicted: float, tried: float) -> float:
    """Return the factor of the next step length: the minimum of the interpolating parabola, within [0.1, 0.5]."""
    if not np.isfinite(tried):
        return 0.1
    excess = tried - value - predicted
    return float(np.clip(-predicted / (2.0 * excess), 0.1, 0.5)) if excess > 0.0 else 0.5
