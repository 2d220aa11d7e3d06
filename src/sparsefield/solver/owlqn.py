"""Orthant-wise L-BFGS (Andrew and Gao 2007) for parameters that may be added between steps, and its penalties (Eq. 5).

Groups of parameters that are penalized by their norm are treated like single ones: a group that would leave the
half-space of its last values, or of its descent direction, is set to 0. For a single parameter that is its orthant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

SUFFICIENT_DECREASE = 1e-4
"""Share of the predicted decrease that a step must achieve (Armijo)."""
MAX_TRIALS = 30
MIN_CURVATURE = 1e-10
MAX_CHANGE = 3.0
"""Largest change of a parameter in a step. Where probabilities are close to 0 or 1 the loss is flat, and a few
parameters would change by thousands and slow down all others."""

Transform = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class NonsmoothPenalty:
    """A penalty that is not differentiable at 0: the sum over groups of the norm of strengths x parameters.

    Without groups it is the L1 norm: every parameter is a group by itself.
    """

    strengths: np.ndarray
    """(parameters,): 0 for parameters without penalty."""
    groups: np.ndarray | None = None
    """(parameters,): number of the group of each parameter; None for the L1 norm."""

    def value(self, theta: np.ndarray) -> float:
        if self.groups is None:
            return float(self.strengths @ np.abs(theta))
        return float(np.sqrt(np.bincount(self.groups, np.square(self.strengths * theta))).sum())

    def sum_groups(self, values: np.ndarray) -> np.ndarray:
        """Return for each parameter the sum of values over its group."""
        return values if self.groups is None else np.bincount(self.groups, values)[self.groups]

    def at_zero(self, theta: np.ndarray) -> np.ndarray:
        """Return which penalized parameters belong to a group at 0."""
        return (self.strengths > 0.0) & (self.sum_groups(np.abs(theta)) == 0.0)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return the gradient for the groups away from 0, and 0 for the others."""
        if self.groups is None:
            return np.sign(theta) * self.strengths
        squares = np.square(self.strengths)
        norms = np.sqrt(self.sum_groups(squares * np.square(theta)))
        return np.divide(squares * theta, norms, out=np.zeros(len(theta)), where=norms > 0.0)

    def pseudo_gradient(self, theta: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return a small subgradient of loss + penalty: 0 exactly where the optimality conditions hold."""
        if self.groups is None:
            at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - self.strengths, 0.0)
            return np.where(theta != 0.0, gradient + np.sign(theta) * self.strengths, at_zero)
        excess = np.maximum(1.0 - 1.0 / np.maximum(self.scaled_norms(gradient), 1.0), 0.0)
        return np.where(self.at_zero(theta), excess * gradient, gradient + self.gradient(theta))

    def scaled_norms(self, gradient: np.ndarray) -> np.ndarray:
        """Return the norm of gradient / strengths over the group of each parameter: above 1, a group leaves 0.

        It is infinite without a penalty.
        """
        scaled = np.divide(gradient, self.strengths, out=np.full(len(gradient), np.inf), where=self.strengths > 0.0)
        return np.sqrt(self.sum_groups(np.square(scaled)))

    def restrict_at_zero(self, direction: np.ndarray, slope: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Return the direction in which groups at 0 change along their steepest descent, or not at all.

        In other directions the norm of a group may rise faster than the loss falls. A group of one parameter has two
        directions only.
        """
        zero = self.at_zero(theta)
        if self.groups is None:
            direction[zero & (direction * slope >= 0.0)] = 0.0
            return direction
        squares = np.square(self.strengths)
        ray = np.divide(-slope, squares, out=np.zeros(len(slope)), where=zero)
        along, length = self.sum_groups(direction * ray), self.sum_groups(np.square(ray))
        factor = np.divide(np.maximum(along, 0.0), length, out=np.zeros(len(slope)), where=length > 0.0)
        return np.where(zero, factor * ray, direction)

    def vanishing(self, theta: np.ndarray, gradient: np.ndarray, precondition: Transform) -> np.ndarray:
        """Return which parameters belong to a group that, by a quadratic model of the loss, has its optimum at 0.

        A group of one parameter reaches 0 by itself when a step crosses it.
        """
        if self.groups is None:
            return np.zeros(len(theta), dtype=bool)
        at_origin = gradient - theta * np.maximum(1.0 / precondition(np.ones(len(theta))) - self.curvature(theta), 0.0)
        return (self.strengths > 0.0) & (theta != 0.0) & (self.scaled_norms(at_origin) <= 1.0)

    def curvature(self, theta: np.ndarray) -> np.ndarray:
        """Return the second derivative for each parameter of a group away from 0, and 0 for the others."""
        if self.groups is None:
            return np.zeros(len(theta))
        squares, moments = np.square(self.strengths), np.square(self.strengths * theta)
        norms = np.sqrt(self.sum_groups(moments))
        rest = np.maximum(1.0 - np.divide(moments, norms**2, out=np.ones(len(theta)), where=norms > 0.0), 0.0)
        return np.divide(squares * rest, norms, out=np.zeros(len(theta)), where=norms > 0.0)

    def curvature_change(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Return the change of the gradient for the groups that are away from 0 at both points.

        The gradient of the L1 norm does not change there.
        """
        if self.groups is None:
            return np.zeros(len(before))
        change = self.gradient(after) - self.gradient(before)
        return np.where(self.at_zero(before) | self.at_zero(after), 0.0, change)


@dataclass(frozen=True)
class Penalty:
    """The penalty l1 |theta|_1 + l2 |theta|^2 / 2, added to a loss that is a sum over rows.

    With groups, |theta|_1 is replaced by the sum over groups of their Euclidean norms.
    """

    l1: float
    l2: float
    on_biases: np.ndarray
    """(states,) bool: which biases are penalized."""
    factors: np.ndarray = field(default_factory=lambda: np.empty(0))
    """(features,): factors of l1."""
    l2_factors: np.ndarray = field(default_factory=lambda: np.empty(0))
    """(features,): factors of l2."""
    groups: np.ndarray | None = None
    """(features,): keys of the groups of features; None for the L1 norm."""

    @cached_property
    def nonsmooth(self) -> NonsmoothPenalty:
        """The part that is not differentiable at 0, for all parameters, biases first."""
        n, groups = len(self.on_biases), None
        if self.groups is not None:
            groups = np.concatenate([np.arange(n), n + np.unique(self.groups, return_inverse=True)[1]])
        return NonsmoothPenalty(self.l1 * np.concatenate([self.on_biases, self.factors]), groups)

    @cached_property
    def l2_strengths(self) -> np.ndarray:
        """The L2 strength of each parameter, (parameters,), biases first."""
        return self.l2 * np.concatenate([self.on_biases, self.l2_factors])

    @property
    def bias_strengths(self) -> np.ndarray:
        """The L1 strength of each bias, (states,)."""
        return self.nonsmooth.strengths[: len(self.on_biases)]

    def value(self, theta: np.ndarray) -> float:
        return self.nonsmooth.value(theta) + float(0.5 * (self.l2_strengths @ np.square(theta)))


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

    Directions are computed from the memory of the parameters that may change only: the inverse Hessian of all
    parameters is not that of some of them, and its directions are poor ones once others stay at 0.
    """

    def __init__(self, memory: int = 10) -> None:
        self._memory = memory
        self.s_history: list[np.ndarray] = []
        self.y_history: list[np.ndarray] = []

    def grow(self, count: int) -> None:
        """Append parameters, of whose curvature nothing is known yet."""
        zeros = np.zeros(count)
        self.s_history = [np.concatenate([s, zeros]) for s in self.s_history]
        self.y_history = [np.concatenate([y, zeros]) for y in self.y_history]

    def keep(self, positions: np.ndarray) -> None:
        """Drop all parameters but those at the given positions, and steps without positive curvature in these.

        With such steps the recursion gives no descent direction.
        """
        pairs = ((s[positions], y[positions]) for s, y in zip(self.s_history, self.y_history, strict=True))
        curved = [(s, y) for s, y in pairs if _is_curved(s, y)]
        self.s_history, self.y_history = [s for s, _ in curved], [y for _, y in curved]

    def forget(self) -> None:
        self.s_history, self.y_history = [], []

    def step(
        self,
        point: Point,
        penalty: NonsmoothPenalty,
        precondition: Transform,
        evaluate: Callable[[np.ndarray], tuple[float, np.ndarray]],
    ) -> Point | None:
        """Take one step from ``point``; return None when no step lowers the objective.

        ``precondition`` multiplies a gradient by a positive approximation of the inverse Hessian. The last call of
        ``evaluate`` is always at the point returned.
        """
        slope = penalty.pseudo_gradient(point.coordinates, point.gradient)
        while True:
            direction = self._direction(slope, point.coordinates, penalty, precondition)
            vanishing = penalty.vanishing(point.coordinates, point.gradient, precondition)
            reached = self._search(point, penalty, slope, direction, vanishing, evaluate)
            if reached is not None:
                curvature = penalty.curvature_change(point.coordinates, reached.coordinates)
                self.remember(reached.coordinates - point.coordinates, reached.gradient - point.gradient + curvature)
                return reached
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
            length *= backtracking_factor(point.value, predicted, value)
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
        pairs, free = zip(self.s_history, self.y_history, strict=True), (coordinates != 0.0) | (slope != 0.0)
        if free.all():
            return [(s, y, float(s @ y)) for s, y in pairs]
        masked = ((s * free, y * free) for s, y in pairs)
        return [(s, y, float(s @ y)) for s, y in masked if _is_curved(s, y)]

    def remember(self, step: np.ndarray, gradient_change: np.ndarray) -> None:
        """Learn from the change of the gradient over a step."""
        if _is_curved(step, gradient_change):
            self.append(step, gradient_change)

    def append(self, step: np.ndarray, gradient_change: np.ndarray) -> None:
        """Remember a step of positive curvature, and forget the oldest of too many."""
        self.s_history.append(step)
        self.y_history.append(gradient_change)
        if len(self.s_history) > self._memory:
            self.s_history.pop(0)
            self.y_history.pop(0)


def _is_curved(step: np.ndarray, gradient_change: np.ndarray) -> bool:
    """Return whether the objective has positive curvature along a step."""
    return bool(step @ gradient_change > MIN_CURVATURE * max(gradient_change @ gradient_change, 1e-300))


def backtracking_factor(value: float, predicted: float, tried: float) -> float:
    """Return the factor of the next step length: the minimum of the interpolating parabola, within [0.1, 0.5]."""
    if not np.isfinite(tried):
        return 0.1
    excess = tried - value - predicted
    return float(np.clip(-predicted / (2.0 * excess), 0.1, 0.5)) if excess > 0.0 else 0.5
