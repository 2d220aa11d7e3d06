"""This module defines the coordinates in which the optimizer works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sparsefield.data import Arcs

__all__ = ["CenteredParametrization"]

Translation = Callable[[np.ndarray], np.ndarray]

SMALLEST = 1e-2
"""Smallest curvature of a parameter, which bounds the length of steps."""


@dataclass(frozen=True)
class CenteredParametrization:
    """Centered coordinates: a pair weight acts on deviations from the mean, and unary weights absorb the rest.

    In the plain coordinates a pair weight also shifts its two unary weights, which makes for long narrow valleys; in
    centered ones its gradient is the sum of error x signal alone, the decomposition of Eq. 13. Both describe the same
    field. A unary weight that its penalty holds at 0 stays plain, so that it can stay there; all others are centered.
    """

    means: np.ndarray
    """(columns,): of q0."""
    variances: np.ndarray
    """(columns,): of q0."""
    centered: np.ndarray
    """(states,): bool."""

    def to_theta(self, point: np.ndarray, arcs: Arcs) -> np.ndarray:
        """Return the plain weights of a point."""
        theta = point.copy()
        theta[: len(self.centered)] -= self._shift(point, arcs)
        return theta

    def from_theta(self, theta: np.ndarray, arcs: Arcs) -> np.ndarray:
        point = theta.copy()
        point[: len(self.centered)] += self._shift(theta, arcs)
        return point

    def from_plain_gradient(self, gradient: np.ndarray, arcs: Arcs) -> np.ndarray:
        """The gradient in these coordinates, from that of the plain weights."""
        out = gradient.copy()
        out[len(self.centered) :] -= self._rank_one(gradient, arcs)
        return out

    def to_plain_gradient(self, gradient: np.ndarray, arcs: Arcs) -> np.ndarray:
        out = gradient.copy()
        out[len(self.centered) :] += self._rank_one(gradient, arcs)
        return out

    def turn_into(self, other: CenteredParametrization, arcs: Arcs) -> tuple[Translation, Translation]:
        """How a move, and how a change of gradient, reads in coordinates that centre other unary weights.

        Only the arcs of weights that changed sides matter, and these are few.
        """
        change = other.centered.astype(np.int64) - self.centered
        those = np.flatnonzero(change[arcs.target])
        target, feature = arcs.target[those], arcs.feature[those]
        factor, n = change[target] * self.means[arcs.source[those]], len(self.centered)

        def move(vector: np.ndarray) -> np.ndarray:
            out = vector.copy()
            out[:n] += np.bincount(target, factor * vector[n:][feature], n)
            return out

        def turn(vector: np.ndarray) -> np.ndarray:
            out = vector.copy()
            np.subtract.at(out[n:], feature, factor * vector[target])
            return out

        return move, turn

    def preconditioner(
        self, arcs: Arcs, uncertainty: np.ndarray, shared: np.ndarray | None, l2: np.ndarray
    ) -> Callable[[np.ndarray], np.ndarray]:
        """A rough inverse of the second derivatives, as a function that multiplies a gradient with it.

        ``uncertainty`` is p (1 - p) of a state summed over rows; ``shared``, of an arc's target summed over the rows in
        which the source is on (a source of 0 and 1). Without it the two are taken to be independent, and the inverse
        is that of a diagonal. With it, a pair weight is also freed of its overlap with the two unary weights: where
        the target is uncertain, the source may be on far more often than on average.
        """
        target, source, feature = arcs[:3]
        n_pairs = len(l2) - len(uncertainty)
        free = self.centered[target]
        mean = self.means[source] * free
        if shared is None:
            moves = uncertainty[target] * (self.variances[source] + (self.means[source] - mean) ** 2)
            diagonal = np.concatenate([uncertainty, np.bincount(feature, moves, n_pairs)])
            scale = 1.0 / (diagonal + l2 + SMALLEST)
            return lambda gradient: scale * gradient
        centre = np.where(free, shared / (uncertainty[target] + SMALLEST), 0.0)
        diagonal = np.concatenate([uncertainty, np.bincount(feature, shared * (1.0 - centre), n_pairs)])
        scale, shift = 1.0 / (diagonal + l2 + SMALLEST), centre - mean

        def multiply(gradient: np.ndarray) -> np.ndarray:
            turned = gradient.copy()
            turned[len(uncertainty) :] -= np.bincount(feature, shift * gradient[target], n_pairs)
            turned *= scale
            turned[: len(uncertainty)] -= np.bincount(
                target, shift * turned[len(uncertainty) :][feature], len(uncertainty)
            )
            return turned

        return multiply

    def _rank_one(self, gradient: np.ndarray, arcs: Arcs) -> np.ndarray:
        """(pairs,): E[B] g_A + E[A] g_B, the last two terms of Eq. 13, for the centered ends."""
        target, source, feature = arcs[:3]
        unary = gradient[: len(self.centered)] * self.centered
        return np.bincount(feature, self.means[source] * unary[target], len(gradient) - len(unary))

    def _shift(self, vector: np.ndarray, arcs: Arcs) -> np.ndarray:
        """(states,): what the pair weights, acting on the means, add to each centered unary weight."""
        target, source, feature = arcs[:3]
        weights = vector[len(self.centered) :][feature]
        return np.bincount(target, self.means[source] * weights, len(self.centered)) * self.centered
