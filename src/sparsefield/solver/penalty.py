"""L1 and L2 on the weights (Eq. 5)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

__all__ = ["Penalty"]


@dataclass(frozen=True)
class Penalty:
    """l1 |theta|_1 + l2 |theta|^2 / 2, beside a loss that is a sum over rows."""

    l1: float
    l2: float
    on_unary: np.ndarray
    """(states,) bool: which unary weights are penalized."""
    factors: np.ndarray = field(default_factory=lambda: np.empty(0))
    """(features,): by how much the l1 of each is multiplied; 1 for all beyond the end."""

    def with_l1(self, l1: float) -> Penalty:
        return replace(self, l1=l1)

    def on(self, factors: np.ndarray) -> Penalty:
        """The same penalty on other features."""
        return replace(self, factors=factors)

    def l1_of(self, size: int) -> np.ndarray:
        """(size,): the L1 strength on each parameter, unary ones first."""
        vector, n = self._spread(self.l1, size), len(self.on_unary)
        vector[n : n + len(self.factors)] *= self.factors[: max(size - n, 0)]
        return vector

    def l2_of(self, size: int) -> np.ndarray:
        return self._spread(self.l2, size)

    def value(self, theta: np.ndarray) -> float:
        size = len(theta)
        return float(self.l1_of(size) @ np.abs(theta) + 0.5 * (self.l2_of(size) @ np.square(theta)))

    def _spread(self, strength: float, size: int) -> np.ndarray:
        vector = np.full(size, float(strength))
        vector[: len(self.on_unary)] *= self.on_unary
        return vector


def pseudo_gradient(theta: np.ndarray, gradient: np.ndarray, l1: np.ndarray) -> np.ndarray:
    """The steepest one-sided derivative of loss + l1 |theta|: 0 exactly where the optimality conditions hold."""
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0)
    return np.where(theta != 0.0, gradient + np.sign(theta) * l1, at_zero)
