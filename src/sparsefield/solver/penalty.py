"""This module defines the L1 and L2 penalties on the weights (Eq. 5)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Penalty:
    """The penalty l1 |theta|_1 + l2 |theta|^2 / 2, added to a loss that is a sum over rows."""

    l1: float
    l2: float
    on_biases: np.ndarray
    """(states,) bool: which biases are penalized."""
    factors: np.ndarray = field(default_factory=lambda: np.empty(0))
    """(features,): factors of l1; 1 for all features beyond the end."""

    def l1_of(self, size: int) -> np.ndarray:
        """Return the L1 strength of each parameter (size,), biases first."""
        vector, n = self._spread(self.l1, size), len(self.on_biases)
        vector[n : n + len(self.factors)] *= self.factors[: max(size - n, 0)]
        return vector

    def l2_of(self, size: int) -> np.ndarray:
        return self._spread(self.l2, size)

    def value(self, theta: np.ndarray) -> float:
        size = len(theta)
        return float(self.l1_of(size) @ np.abs(theta) + 0.5 * (self.l2_of(size) @ np.square(theta)))

    def _spread(self, strength: float, size: int) -> np.ndarray:
        vector = np.full(size, float(strength))
        vector[: len(self.on_biases)] *= self.on_biases
        return vector


def pseudo_gradient(theta: np.ndarray, gradient: np.ndarray, l1: np.ndarray) -> np.ndarray:
    """Return the subgradient of smallest norm of loss + l1 |theta|: 0 exactly where the optimality conditions hold."""
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0)
    return np.where(theta != 0.0, gradient + np.sign(theta) * l1, at_zero)
