"""Centered parametrization, in which the optimizer works."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sparsefield.data import Arcs
from sparsefield.objectives import Problem
from sparsefield.objectives.curvature import MIN_DIAGONAL
from sparsefield.solver.owlqn import Transform


@dataclass(frozen=True)
class CenteredParametrization:
    """Centered coordinates: a pair weight acts on deviations from the mean, and biases absorb the rest.

    Without it a pair weight also shifts its two biases, which makes the problem ill-conditioned. With it the
    gradient of a pair is the sum of error x signal alone, the decomposition of Eq. 13. Both describe the same
    field. Biases with a penalty stay plain, since it may hold them at 0.
    """

    means: np.ndarray
    """(columns,): of q0."""
    variances: np.ndarray
    """(columns,): of q0."""
    centered: np.ndarray
    """(states,): bool."""

    def to_theta(self, point: np.ndarray, arcs: Arcs) -> np.ndarray:
        """Return the weights at a point."""
        theta = point.copy()
        theta[: len(self.centered)] -= self._shift(point, arcs)
        return theta

    def from_theta(self, theta: np.ndarray, arcs: Arcs) -> np.ndarray:
        """Return the point with given weights."""
        point = theta.copy()
        point[: len(self.centered)] += self._shift(theta, arcs)
        return point

    def from_plain_gradient(self, gradient: np.ndarray, arcs: Arcs) -> np.ndarray:
        """Return the gradient in this parametrization, from that of the weights."""
        # E[B] g_A + E[A] g_B, the last two terms of Eq. 13, for the centered ends.
        out, n = gradient.copy(), len(self.centered)
        biases = gradient[:n] * self.centered
        out[n:] -= np.bincount(arcs.feature, self.means[arcs.source] * biases[arcs.target], len(gradient) - n)
        return out

    def curvature(self, arcs: Arcs, bias_hessian: np.ndarray, n_pairs: int) -> np.ndarray:
        """Return the diagonal of the Hessian, where target and source of each arc are independent."""
        target, source, feature = arcs[:3]
        spread = self.variances[source] + (self.means[source] * ~self.centered[target]) ** 2
        return np.concatenate([bias_hessian, np.bincount(feature, bias_hessian[target] * spread, n_pairs)])

    def preconditioner(
        self, arcs: Arcs, bias_hessian: np.ndarray, shared: np.ndarray | None, of_penalty: np.ndarray
    ) -> Transform:
        """Return a function that multiplies a gradient by an approximation of the inverse Hessian.

        ``of_penalty`` is the second derivative of the penalty for each parameter. ``bias_hessian`` is p (1 - p) of a
        state, summed over rows; ``shared`` is p (1 - p) of the target of an arc, summed over the rows in which its
        binary source is on. Without it, target and source are assumed independent, and the approximation is diagonal.
        With it, the covariance of a pair weight with its two biases is removed, too: where the target is uncertain, the
        source may be on far more often than on average.
        """
        (target, source, feature), n = arcs[:3], len(bias_hessian)
        n_pairs = len(of_penalty) - n
        if shared is None:
            scale = 1.0 / (self.curvature(arcs, bias_hessian, n_pairs) + of_penalty + MIN_DIAGONAL)
            return lambda gradient: scale * gradient
        free = self.centered[target]
        center = np.where(free, shared / (bias_hessian[target] + MIN_DIAGONAL), 0.0)
        diagonal = np.concatenate([bias_hessian, np.bincount(feature, shared * (1.0 - center), n_pairs)])
        scale, shift = 1.0 / (diagonal + of_penalty + MIN_DIAGONAL), center - self.means[source] * free

        def multiply(gradient: np.ndarray) -> np.ndarray:
            out = gradient.copy()
            out[n:] -= np.bincount(feature, shift * gradient[target], n_pairs)
            out *= scale
            out[:n] -= np.bincount(target, shift * out[n:][feature], n)
            return out

        return multiply

    def _shift(self, vector: np.ndarray, arcs: Arcs) -> np.ndarray:
        """Return the sum of pair weights times means (states,) that is added to each centered bias."""
        target, source, feature = arcs[:3]
        weights = vector[len(self.centered) :][feature]
        return np.bincount(target, self.means[source] * weights, len(self.centered)) * self.centered


class ConjunctionMoments:
    """Mean and variance of each conjunction when it was added; fixed, since the optimizer remembers its steps."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._known = problem, dict[bytes, tuple[float, float]]()

    def extend(self, parametrization: CenteredParametrization, arcs: Arcs) -> CenteredParametrization:
        """Return the parametrization with the moments of the conjunctions of some arcs after those of the columns."""
        keys, n = [row.tobytes() for row in arcs.conjunctions], self._problem.layout.n_columns
        new = [k for k, key in enumerate(keys) if key not in self._known]
        if new:
            moments = zip(new, *self._problem.moments_of(arcs.conjunctions[new]), strict=True)
            self._known |= {keys[k]: (float(mean), float(variance)) for k, mean, variance in moments}
        means, variances = np.array([self._known[key] for key in keys]).reshape(-1, 2).T
        means, variances = np.r_[parametrization.means[:n], means], np.r_[parametrization.variances[:n], variances]
        return replace(parametrization, means=means, variances=variances)
