"""The coordinates in which the optimiser works."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Coordinates"]


@dataclass(frozen=True)
class Coordinates:
    """Centred coordinates: a pair weight acts on deviations from the mean, w (q - mean); unary weights absorb the rest.

    In the plain coordinates a pair weight also shifts its two unary weights, which makes for long narrow valleys; in
    centred ones its gradient is the sum of error x signal alone, the decomposition of Eq. 13. Both describe the same
    field. A unary weight that its penalty holds at 0 stays plain, so that it can stay there; all others are centred.
    """

    means: np.ndarray
    """(columns,): of q0."""
    variances: np.ndarray
    """(columns,): of q0."""
    centred: np.ndarray
    """(states,): bool."""

    def to_theta(self, point: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """Plain weights of a point."""
        theta = point.copy()
        theta[: len(self.centred)] -= self._shift(point, pairs)
        return theta

    def from_theta(self, theta: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        point = theta.copy()
        point[: len(self.centred)] += self._shift(theta, pairs)
        return point

    def from_plain_gradient(self, gradient: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """The gradient in these coordinates, from that of the plain weights."""
        out = gradient.copy()
        out[len(self.centred) :] -= self._rank_one(gradient, pairs)
        return out

    def to_plain_gradient(self, gradient: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        out = gradient.copy()
        out[len(self.centred) :] += self._rank_one(gradient, pairs)
        return out

    def inverse_curvature(self, pairs: np.ndarray, uncertainty: np.ndarray, l2: np.ndarray) -> np.ndarray:
        """A rough diagonal: how unsure the field is of a state x how much the other end of the pair moves."""
        unsure = np.zeros(len(self.means))
        unsure[: len(uncertainty)] = uncertainty
        plain = np.ones(len(self.means))
        plain[: len(self.centred)] = ~self.centred
        a, b = pairs[:, 0], pairs[:, 1]
        move_b = self.variances[b] + plain[a] * self.means[b] ** 2
        move_a = self.variances[a] + plain[b] * self.means[a] ** 2
        curvature = np.concatenate([uncertainty, unsure[a] * move_b + unsure[b] * move_a])
        return 1.0 / (curvature + l2 + 1e-2)

    def _rank_one(self, gradient: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """(pairs,): E[B] g_A + E[A] g_B, the last two terms of Eq. 13, for the centred ends."""
        a, b = pairs[:, 0], pairs[:, 1]
        unary = np.zeros(len(self.means))
        unary[: len(self.centred)] = gradient[: len(self.centred)] * self.centred
        return self.means[b] * unary[a] + self.means[a] * unary[b]

    def _shift(self, vector: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """(states,): what the pair weights, acting on the means, add to each centred unary weight."""
        size, weights = len(self.means), vector[len(self.centred) :]
        a, b = pairs[:, 0], pairs[:, 1]
        shift = np.bincount(a, self.means[b] * weights, size) + np.bincount(b, self.means[a] * weights, size)
        return shift[: len(self.centred)] * self.centred
