"""Working set: the features that the optimizer works on, in centered coordinates, and the objective at them (Eq. 5)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sparsefield.data import Arcs, Layout
from sparsefield.model import Field
from sparsefield.objectives import Problem
from sparsefield.objectives.curvature import MIN_DIAGONAL
from sparsefield.solver.owlqn import NonsmoothPenalty, OrthantLBFGS, Penalty, Point, Transform
from sparsefield.solver.policy import LATENT_PENALTY_FACTOR, MAX_INACTIVE, TrainingOptions


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


class WorkingSet:
    """Features, their weights in the optimizer's coordinates, and loss, penalties and gradient at this point.

    Parameters
    ----------
    problem : computes the loss and its gradient
    options : of the fit; those of penalties, conjunctions and coordinates count here
    protected : (features, columns), features that are never dropped: those of latent variables

    Attributes
    ----------
    features : (features, columns), -1 where there are fewer
    theta : (parameters,), plain weights: biases, then those of the features; not to be modified
    loss_gradient : (parameters,), gradient of the loss with respect to theta
    penalty_factors : (features,), factors of l1
    edges : (features,) or None, keys of the edges that are penalized by their norm; None for L1
    arcs, graphs : the features as arcs of the layout, and as the problem compiled them
    pair_keys, conjunction_keys : sorted keys of the pairs, and of the features of more than two columns
    """

    def __init__(self, problem: Problem, options: TrainingOptions, protected: np.ndarray | None = None) -> None:
        self.problem, self.layout, self._options = problem, problem.layout, options
        # The weight of a state without an example would diverge to minus infinity without a penalty.
        unseen = np.concatenate([np.empty(0, dtype=bool), *(schema.unseen for schema in self.layout.schemas)])
        self.penalty = Penalty(options.l1, options.l2, unseen | options.penalize_biases)
        self.grouped = options.penalty == "group"
        """Whether the features of an edge are penalized by their norm."""
        self.n_biases = self.layout.n_target_columns
        self.memory = OrthantLBFGS(problem.memory)
        self.parametrization = CenteredParametrization(np.empty(0), np.empty(0), np.empty(0, dtype=bool))
        self.point = Point(np.empty(0), np.nan, np.empty(0))
        self.loss, self.theta, self.loss_gradient = np.nan, np.empty(0), np.empty(0)
        self._protected_keys = np.empty(0) if protected is None else self.layout.keys(protected)
        self._moments = ConjunctionMoments(problem)
        self.changes = 0
        """How often the objective has changed: its features, rows or penalties."""
        self.set_features(np.empty((0, options.max_order), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.features)

    @property
    def summary(self) -> tuple[float, float, float, int]:
        """The objective, the loss, the L1 norm of theta, and the number of active features."""
        norm, active = float(np.abs(self.theta).sum()), int(np.count_nonzero(self.active))
        return float(self.point.value), float(self.loss), norm, active

    @property
    def active(self) -> np.ndarray:
        """(features,): which features have a weight other than 0."""
        return self.theta[self.n_biases :] != 0.0

    @property
    def field(self) -> Field:
        """The field of the active features."""
        biases, weights = np.split(self.theta, [self.n_biases])
        active = np.flatnonzero(weights)
        active = active[np.argsort(self.layout.keys(self.features[active]), kind="stable")]
        return make_field(self.layout, biases.copy(), self.features[active], weights[active])

    # -- the point -----------------------------------------------------------------------------------------------

    def start_at(self, theta: np.ndarray) -> None:
        """Begin at plain weights, with coordinates that are centered at the means of the data."""
        self.memory = OrthantLBFGS(self.problem.memory)
        self.parametrization = CenteredParametrization(*self.problem.moments(), self._which_are_centered())
        if len(self.arcs.conjunctions):
            self.parametrization = self._moments.extend(self.parametrization, self.arcs)
        self.move_to(theta)

    def move_to(self, theta: np.ndarray) -> None:
        """Move to plain weights, after a change of rows."""
        self.changes += 1
        self.evaluate_at(self.coordinates_of(theta))

    def evaluate_at(self, coordinates: np.ndarray) -> None:
        """Move to a point in the optimizer's coordinates."""
        self.point = Point(coordinates, *self.objective(coordinates))

    def set_penalty(self, l1: float, l2: float) -> None:
        """Change the penalties; the caller evaluates again."""
        theta, self.penalty = self.theta, replace(self.penalty, l1=l1, l2=l2)
        centered = self._which_are_centered()
        if len(theta) and not np.array_equal(centered, self.parametrization.centered):
            self.parametrization = replace(self.parametrization, centered=centered)
            self.memory.forget()
            self.point = replace(self.point, coordinates=self.coordinates_of(theta))

    def evaluate_again(self) -> None:
        """Evaluate at the current point, after a change of penalties or rows."""
        self.changes += 1
        self.evaluate_at(self.point.coordinates)

    def coordinates_of(self, theta: np.ndarray) -> np.ndarray:
        """Return plain weights in the optimizer's coordinates."""
        return self.parametrization.from_theta(theta, self.arcs)

    def objective(self, coordinates: np.ndarray) -> tuple[float, np.ndarray]:
        """Return loss and penalties (Eq. 5) at a point, and the gradient of all but the L1 terms with a kink.

        `theta`, `loss` and `loss_gradient` are then those of this point.
        """
        self.theta = self.parametrization.to_theta(coordinates, self.arcs)
        self.loss, self.loss_gradient = self.problem.evaluate(self.graphs, self.theta)
        gradient = self.loss_gradient + self.penalty.l2_strengths * self.theta
        return self.loss + self.penalty.value(self.theta), self.parametrization.from_plain_gradient(gradient, self.arcs)

    def _which_are_centered(self) -> np.ndarray:
        """Return which biases are centered, (states,): those without a penalty, which may hold others at 0."""
        return self._options.centered & (self.penalty.bias_strengths == 0.0)

    # -- optimality ----------------------------------------------------------------------------------------------

    def pseudo_gradient(self) -> np.ndarray:
        """Return a small subgradient of the objective, in the optimizer's coordinates."""
        return self.penalty.nonsmooth.pseudo_gradient(self.point.coordinates, self.point.gradient)

    def is_optimal_within(self, tolerance: float) -> bool:
        """Return whether no parameter violates its optimality condition by more, in the optimizer's coordinates."""
        return bool(np.abs(self.pseudo_gradient()).max(initial=0.0) <= tolerance)

    def violation(self) -> float:
        """Return the largest violation of an optimality condition within the working set, in plain weights."""
        gradient = self.loss_gradient + self.penalty.l2_strengths * self.theta
        slope = self.penalty.nonsmooth.pseudo_gradient(self.theta, gradient)
        return float(np.abs(slope).max(initial=0.0))

    def curvature(self) -> np.ndarray:
        """Return the approximate second derivative of the loss for each of the optimizer's coordinates."""
        return self.parametrization.curvature(self.arcs, self.problem.bias_hessian(), len(self))

    def preconditioner(self) -> Transform:
        """Return a function that multiplies a gradient by an approximation of the inverse Hessian."""
        l2 = self.penalty.l2_strengths
        scaling = self.problem.preconditioner(self.graphs, l2)
        if scaling is not None:
            return scaling
        hessians = self.problem.bias_hessian(), self.problem.arc_hessian(self.graphs)
        own = l2 + self.penalty.nonsmooth.curvature(self.point.coordinates)
        return self.parametrization.preconditioner(self.arcs, *hessians, own)

    # -- features ------------------------------------------------------------------------------------------------

    def add_features(self, features: np.ndarray, min_gradient: float | None = None) -> int:
        """Add features with weight 0 and return their number.

        With ``min_gradient``, only those are added whose exact gradient exceeds it times their penalty factor: others,
        which an inexact score proposed, would only cost time. Scores of edges are exact, and features that complete an
        edge are needed whatever their gradients.
        """
        n, arcs = self.n_biases, self.layout.arcs(features)
        gradient = self.problem.gradient(self.problem.compile(arcs), n + len(features))
        if min_gradient is not None and not self.grouped:
            norms = NonsmoothPenalty(self.penalty_factors_of(features)).scaled_norms(gradient[n:])
            large = np.flatnonzero(norms > min_gradient)
            if len(large) < len(features):
                features, gradient = features[large], np.concatenate([gradient[:n], gradient[n:][large]])
                arcs = self.layout.arcs(features)
        self.loss_gradient = np.concatenate([self.loss_gradient, gradient[n:]])
        gradient[:n] = self.point.gradient[:n]
        added = self._moments.extend(self.parametrization, arcs).from_plain_gradient(gradient, arcs)[n:]
        self.set_features(np.concatenate([self.features, features]))
        zeros = np.zeros(len(features))
        coordinates, self.theta = (np.concatenate([x, zeros]) for x in (self.point.coordinates, self.theta))
        self.point = Point(coordinates, self.point.value, np.concatenate([self.point.gradient, added]))
        self.memory.grow(len(features))
        return len(features)

    def drop_inactive(self) -> None:
        """Drop features at 0 that satisfy their optimality condition, where they are many: each costs time."""
        penalty = self.penalty.nonsmooth
        needed = ~penalty.at_zero(self.theta) | (penalty.scaled_norms(self.loss_gradient) > 1.0)
        needed = needed[self.n_biases :] | self.are_protected(self.features)
        if needed.sum() < (1.0 - MAX_INACTIVE) * len(needed):
            self.keep(needed)

    def keep(self, mask: np.ndarray) -> None:
        """Keep only the features of a mask, with their weights."""
        positions = np.concatenate([np.arange(self.n_biases), self.n_biases + np.flatnonzero(mask)])
        self.set_features(self.features[mask])
        self.point = Point(self.point.coordinates[positions], self.point.value, self.point.gradient[positions])
        self.theta, self.loss_gradient = self.theta[positions], self.loss_gradient[positions]
        self.memory.keep(positions)

    def set_features(self, features: np.ndarray) -> None:
        """Replace all features, (features, columns); the caller sets the point."""
        self.changes += 1
        self.features, self.arcs = features, self.layout.arcs(features)
        self.graphs = self.problem.compile(self.arcs)
        self.penalty_factors = self.penalty_factors_of(features)
        self.edges = self.layout.edge_keys(features[:, :2]) if self.grouped else None
        ridge = self.layout.l2_factors(features)
        self.penalty = replace(self.penalty, factors=self.penalty_factors, l2_factors=ridge, groups=self.edges)
        higher = have_higher_order(features)
        self.pair_keys = np.sort(self.layout.keys(features[~higher, :2]))
        self.conjunction_keys = np.sort(self.layout.keys(features[higher]))
        if features.shape[1] > 2:
            self.parametrization = self._moments.extend(self.parametrization, self.arcs)

    def penalty_factors_of(self, features: np.ndarray) -> np.ndarray:
        """Return the factors, (features,), by which l1 is multiplied.

        There are so many conjunctions that some look useful by chance, so each column beyond two raises the factor.
        Pairs of levels have a larger factor than pairs of scores; under the likelihood, pairs of targets have half of
        it. Where edges are penalized as groups, their degrees of freedom raise the factor.
        """
        factors = self._options.order_penalty ** ((features >= 0).sum(axis=1) - 2.0)
        factors *= self.problem.penalty_factors(features)
        if self.grouped:
            factors *= self.layout.edge_factors(features[:, :2])
        factors[self.are_protected(features)] *= LATENT_PENALTY_FACTOR
        return factors

    def are_protected(self, features: np.ndarray) -> np.ndarray:
        """Return whether features are those of latent variables, (features,)."""
        return np.isin(self.layout.keys(features), self._protected_keys)


def have_higher_order(features: np.ndarray) -> np.ndarray:
    """Return whether features have more than two columns, (features,)."""
    return features[:, 2] >= 0 if features.shape[1] > 2 else np.zeros(len(features), dtype=bool)


def make_field(layout: Layout, biases: np.ndarray, features: np.ndarray, weights: np.ndarray) -> Field:
    """Return the field of pairs and conjunctions, (features, columns)."""
    higher = have_higher_order(features)
    field = Field(layout, biases, features[~higher, :2], weights[~higher])
    if not higher.any():
        return field
    return replace(field, conjunctions=features[higher], conjunction_weights=weights[higher])
