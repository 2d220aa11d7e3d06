"""The penalties on the weights (Eq. 5): L1, alone or over the groups of an edge, and L2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

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
    """(features,): factors of l1; 1 for all features beyond the end."""
    groups: np.ndarray | None = None
    """(features,): keys of the groups of features; None for the L1 norm."""
    _spreads: dict[int, tuple[NonsmoothPenalty, np.ndarray]] = field(default_factory=dict, init=False, compare=False)
    """What was computed for a number of parameters; every step needs it several times."""

    def nonsmooth(self, size: int) -> NonsmoothPenalty:
        """Return the part that is not differentiable at 0, for ``size`` parameters, biases first."""
        return self._of_size(size)[0]

    def l1_of(self, size: int) -> np.ndarray:
        """Return the L1 strength of each parameter (size,), biases first."""
        return self._of_size(size)[0].strengths

    def l2_of(self, size: int) -> np.ndarray:
        """Return the L2 strength of each parameter (size,), biases first."""
        return self._of_size(size)[1]

    def value(self, theta: np.ndarray) -> float:
        nonsmooth, l2 = self._of_size(len(theta))
        return nonsmooth.value(theta) + float(0.5 * (l2 @ np.square(theta)))

    def _of_size(self, size: int) -> tuple[NonsmoothPenalty, np.ndarray]:
        """Return the nonsmooth part, and the L2 strengths; these arrays are read-only."""
        if size not in self._spreads:
            found = self._nonsmooth(size), self._spread(self.l2, size)
            found[0].strengths.flags.writeable = found[1].flags.writeable = False
            self._spreads[size] = found
        return self._spreads[size]

    def _nonsmooth(self, size: int) -> NonsmoothPenalty:
        vector, n = self._spread(self.l1, size), len(self.on_biases)
        vector[n : n + len(self.factors)] *= self.factors[: max(size - n, 0)]
        groups = None
        if self.groups is not None:
            features = np.unique(self.groups[: max(size - n, 0)], return_inverse=True)[1]
            groups = np.concatenate([np.arange(min(n, size)), n + features])
        return NonsmoothPenalty(vector, groups)

    def _spread(self, strength: float, size: int) -> np.ndarray:
        vector = np.full(size, float(strength))
        vector[: len(self.on_biases)] *= self.on_biases
        return vector
