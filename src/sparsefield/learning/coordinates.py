"""The coordinates in which the optimiser works."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.data import Arcs

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

    def to_theta(self, point: np.ndarray, arcs: Arcs) -> np.ndarray:
        """Plain weights of a point."""
        theta = point.copy()
        theta[: len(self.centred)] -= self._shift(point, arcs)
        return theta

    def from_theta(self, theta: np.ndarray, arcs: Arcs) -> np.ndarray:
        point = theta.copy()
        point[: len(self.centred)] += self._shift(theta, arcs)
        return point

    def from_plain_gradient(self, gradient: np.ndarray, arcs: Arcs) -> np.ndarray:
        """The gradient in these coordinates, from that of the plain weights."""
        out = gradient.copy()
        out[len(self.centred) :] -= self._rank_one(gradient, arcs)
        return out

    def to_plain_gradient(self, gradient: np.ndarray, arcs: Arcs) -> np.ndarray:
        out = gradient.copy()
        out[len(self.centred) :] += self._rank_one(gradient, arcs)
        return out

    def inverse_curvature(self, arcs: Arcs, uncertainty: np.ndarray, l2: np.ndarray) -> np.ndarray:
        """A rough diagonal: how unsure the field is of a state x how much the other end of the pair moves."""
        target, source, feature = arcs
        moves = self.variances[source] + ~self.centred[target] * self.means[source] ** 2
        pairs = np.bincount(feature, uncertainty[target] * moves, len(l2) - len(uncertainty))
        return 1.0 / (np.concatenate([uncertainty, pairs]) + l2 + 1e-2)

    def _rank_one(self, gradient: np.ndarray, arcs: Arcs) -> np.ndarray:
        """(pairs,): E[B] g_A + E[A] g_B, the last two terms of Eq. 13, for the centred ends."""
        target, source, feature = arcs
        unary = gradient[: len(self.centred)] * self.centred
        return np.bincount(feature, self.means[source] * unary[target], len(gradient) - len(unary))

    def _shift(self, vector: np.ndarray, arcs: Arcs) -> np.ndarray:
        """(states,): what the pair weights, acting on the means, add to each centred unary weight."""
        target, source, feature = arcs
        weights = vector[len(self.centred) :][feature]
        return np.bincount(target, self.means[source] * weights, len(self.centred)) * self.centred
