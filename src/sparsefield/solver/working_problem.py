"""This module defines the penalized objective over the working set, and the point that the optimizer has reached."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from sparsefield.model import Field
from sparsefield.objectives import Evaluator
from sparsefield.objectives.curvature import MIN_DIAGONAL
from sparsefield.solver.owlqn import MAX_CHANGE, SUFFICIENT_DECREASE, OrthantLBFGS, Point, Transform
from sparsefield.solver.parametrization import CenteredParametrization, ConjunctionMoments
from sparsefield.solver.penalty import NonsmoothPenalty, Penalty
from sparsefield.solver.proximal_newton import NewtonModel
from sparsefield.solver.working_set import WorkingSet

MAX_INACTIVE = 0.1
"""Inactive features are dropped when they are more than this share of the working set."""

ZERO = 1e-12
"""Biases below this count as 0."""

MIN_CONTRACTION = 0.1
"""The first step of a Newton model typically reduces the violation of optimality to this share. The model is used again
while it is no slower than new ones would be, whose Hessians take time."""

ROUNDING = 1e-13
"""Share of the objective by which a Newton step may raise it: near an optimum, rounding errors are larger than what a
step gains."""

MODEL_SHARE = 0.3
"""Share of the tolerance of an optimization up to which a Newton model is minimized."""

MAX_HALVINGS = 10
"""Newton steps are halved at most this many times before the model is dropped."""


class WorkingProblem:
    """Loss and penalties as a function of the weights of the working set, in centered coordinates.

    Parameters
    ----------
    evaluator : computes the loss and its gradient
    working_set : the features
    penalty : L1 and L2
    centered : False keeps the plain coordinates, to measure the effect of centering
    """

    def __init__(
        self, evaluator: Evaluator, working_set: WorkingSet, penalty: Penalty, *, centered: bool = True
    ) -> None:
        self.evaluator, self.working_set, self.penalty = evaluator, working_set, penalty
        self.single_precision = False
        """Whether the objective is evaluated in single precision, where its evaluator has that."""
        self.n_target_columns = working_set.layout.n_target_columns
        self.optimizer = OrthantLBFGS()
        self.parametrization = CenteredParametrization(np.empty(0), np.empty(0), np.empty(0, dtype=bool))
        self.point = Point(np.empty(0), np.nan, np.empty(0))
        self.loss = np.nan
        self.loss_gradient = np.empty(0)
        """Gradient of the loss with respect to the plain weights, at the current point."""
        self._centered = centered
        self._place: tuple[Any, Any, Any] = None, None, None
        """Coordinates, parametrization and arcs of the weights that were computed last."""
        self._theta = np.empty(0)
        self._evaluated = working_set.features, np.empty(0)
        """Features and plain weights of the last evaluation; with others, errors would be rounded differently."""
        self._nonsmooth: tuple[Any, Any, Any] = None, None, None
        """Penalty, centered biases, and the nonsmooth penalty that was computed of them last."""
        self._cost: float | None = None
        """The cost of a Newton model with the present features and rows, once it is known."""
        self._model: NewtonModel | None = None
        self._steps = 0
        """Steps of the optimizer since the working set or the rows changed, or since the last Newton model."""
        self._gained = 0.0
        """By how much these steps have lowered the objective."""
        self._newton_first = False
        """Whether a Newton model has lowered it by more: then they come first."""
        self._rows: object = None
        """The rows of the model and of these steps."""
        self._moments = ConjunctionMoments(evaluator, working_set.layout.n_columns)
        self.set_features(working_set.features)

    @property
    def theta(self) -> np.ndarray:
        """Plain weights at the current point: biases, then those of the working set; not to be modified."""
        return self._to_theta(self.point.coordinates)

    @property
    def active(self) -> np.ndarray:
        """(features,): which features of the working set have a weight other than 0."""
        return self.theta[self.n_target_columns :] != 0.0

    @property
    def field(self) -> Field:
        """The field of the active features."""
        theta, working_set = self.theta, self.working_set
        biases, weights = theta[: self.n_target_columns], theta[self.n_target_columns :]
        kept = np.flatnonzero(weights)
        kept = kept[np.argsort(working_set.layout.keys(working_set.features[kept]), kind="stable")]
        higher = working_set.have_higher_order(working_set.features[kept])
        pairs, conjunctions = kept[~higher], kept[higher]
        field = Field(working_set.layout, biases.copy(), working_set.features[pairs, :2], weights[pairs])
        if len(conjunctions):
            features, chosen = working_set.features[conjunctions], weights[conjunctions]
            field = replace(field, conjunctions=features, conjunction_weights=chosen)
        return field

    # -- the point -----------------------------------------------------------------------------------------------

    def start_at(self, theta: np.ndarray) -> None:
        """Begin at plain weights, with coordinates that are centered at the means of the data."""
        self.optimizer = OrthantLBFGS()
        self.parametrization = CenteredParametrization(*self.evaluator.moments(), self._to_center(theta))
        if len(self.working_set.arcs.conjunctions):
            self.parametrization = self._moments.extend(self.parametrization, self.working_set.arcs)
        self.evaluate_at(self.parametrization.from_theta(theta, self.working_set.arcs))

    def evaluate_at(self, coordinates: np.ndarray) -> None:
        """Move to a point, given in the optimizer's coordinates."""
        self.point = Point(coordinates, *self._objective(coordinates))

    def evaluate_again(self) -> None:
        """Evaluate at the current point, after a change of penalties or of imputed values."""
        self._model, self._steps, self._gained = None, 0, 0.0
        self.evaluate_at(self.point.coordinates)

    def move_to(self, theta: np.ndarray) -> None:
        """Move to given plain weights."""
        self.evaluate_at(self.coordinates_of(theta))

    def coordinates_of(self, theta: np.ndarray) -> np.ndarray:
        """Return plain weights in the optimizer's coordinates."""
        return self.parametrization.from_theta(theta, self.working_set.arcs)

    def curvature(self) -> np.ndarray:
        """Return the approximate second derivative of the loss for each of the optimizer's coordinates."""
        arcs, n_pairs = self.working_set.arcs, len(self.working_set)
        return self.parametrization.curvature(arcs, self.evaluator.bias_hessian(), n_pairs)

    def step(self, tolerance: float = 0.0) -> bool:
        """Take one step; return False where no step lowers the objective.

        Steps are those of L-BFGS until they have taken as long as the Hessian of a Newton model would: by then the
        problem has turned out to be hard. Newton steps follow until they no longer converge fast. Where they gained
        more than the steps before them, they come first from then on. A violation of optimality below ``tolerance`` is
        not worth any effort.
        """
        self._notice_new_rows()
        before, cost = self.point.value, self._newton_cost()
        due = self._steps >= cost or (self._newton_first and self._steps == 0 and cost < np.inf)
        fresh = self._model is None and due
        if fresh:
            self._build_model(self.theta)
        if self._model is not None and self._newton_step(MODEL_SHARE * tolerance, fresh):
            return True
        self._steps += 1
        moved = self._quasi_newton_step()
        self._gained += before - self.point.value
        return moved

    def _notice_new_rows(self) -> None:
        """Drop the Newton model if missing cells have been replaced since."""
        if self._rows is not self.evaluator.source.rows:
            self._rows, self._model, self._cost = self.evaluator.source.rows, None, None
            self._steps, self._gained = 0, 0.0

    def _newton_cost(self) -> float:
        """Return the cost of a Newton model, in steps; infinite where there is none."""
        if self._cost is None:
            grouped = self.working_set.groups is not None
            self._cost = np.inf if grouped else self.evaluator.hessian_cost(self.working_set.graphs)
        return self._cost

    def _build_model(self, theta: np.ndarray) -> None:
        free = self.penalty.l1_of(self.n_target_columns) == 0.0
        self._model = NewtonModel(theta, self.evaluator.regression_hessians(self.working_set.graphs, theta, free))
        self._steps = 0

    def _newton_step(self, tolerance: float, fresh: bool) -> bool:
        """Take a step to the minimum of the Newton model; return False, without a step, where it raises the objective.

        The model is kept for the next step only if the violation of optimality falls fast.
        """
        assert self._model is not None
        model, before, theta = self._model, self.point, self.theta
        l2, penalty = self.penalty.l2_of(len(theta)), self.penalty.nonsmooth(len(theta))
        gradient, violation = self.loss_gradient + l2 * theta, self.violation()
        step = model.step(theta, gradient, penalty, l2 + MIN_DIAGONAL, MAX_CHANGE, tolerance)
        predicted = float(gradient @ step) + penalty.value(theta + step) - penalty.value(theta)
        self._model = None
        for length in 0.5 ** np.arange(MAX_HALVINGS) if predicted < 0.0 else ():
            coordinates = self.coordinates_of(theta + length * step)
            value, slope = self._objective(coordinates)
            required = SUFFICIENT_DECREASE * length * predicted + ROUNDING * abs(before.value)
            if value <= before.value + required and np.isfinite(slope).all():
                self.point = Point(coordinates, value, slope)
                self.optimizer.remember(coordinates - before.coordinates, slope - before.gradient)
                self.recenter()
                converges = self.violation() <= MIN_CONTRACTION ** (1.0 / (1.0 + self._newton_cost())) * violation
                if fresh:
                    better = before.value - value > self._gained > 0.0
                    # Without L-BFGS steps to compare with, a model that is slow here may be fast at the next point.
                    first = better or (self._newton_first and self._gained == 0.0)
                    self._steps = 0 if better or (first and converges) else 1
                    self._newton_first = first
                self._model, self._gained = model if converges else None, 0.0
                return True
        self._newton_first = False
        self.evaluate_at(before.coordinates)
        return False

    def _quasi_newton_step(self) -> bool:
        before = self.point
        found = self.optimizer.step(
            before, self.nonsmooth_penalty(), self._preconditioner(), self._objective, self._stop_at_zero
        )
        if found is None:
            self.evaluate_at(before.coordinates)
            return False
        self.point = found
        self.recenter()
        return True

    def recenter(self) -> None:
        """Change coordinates of biases that reached 0 or left it, also in the memory of the optimizer."""
        theta, arcs, old = self.theta.copy(), self.working_set.arcs, self.parametrization
        theta[: self.n_target_columns][np.abs(theta[: self.n_target_columns]) < ZERO] = 0.0
        new = replace(old, centered=self._to_center(theta))
        if np.array_equal(new.centered, old.centered):
            return
        self.parametrization = new
        self.optimizer.transform(*old.transforms_to(new, arcs))
        gradient = self._smooth_gradient(self.loss_gradient, theta)
        self.point = Point(new.from_theta(theta, arcs), self.point.value, gradient)

    # -- optimality ----------------------------------------------------------------------------------------------

    def nonsmooth_penalty(self) -> NonsmoothPenalty:
        """Return the penalty of the parameters that the optimizer has to treat as not differentiable at 0."""
        penalty, centered = self.penalty.nonsmooth(len(self.point.coordinates)), self.parametrization.centered
        if self._nonsmooth[0] is not penalty or self._nonsmooth[1] is not centered:
            strengths = penalty.strengths.copy()
            strengths[: self.n_target_columns][centered] = 0.0
            strengths.flags.writeable = False
            self._nonsmooth = penalty, centered, replace(penalty, strengths=strengths)
        return self._nonsmooth[2]

    def pseudo_gradient(self) -> np.ndarray:
        """Return a small subgradient of the objective, in the optimizer's coordinates."""
        return self.nonsmooth_penalty().pseudo_gradient(self.point.coordinates, self.point.gradient)

    def is_optimal_within(self, tolerance: float) -> bool:
        """Return whether no parameter violates its optimality condition by more, in the optimizer's coordinates."""
        return bool(np.abs(self.pseudo_gradient()).max(initial=0.0) <= tolerance)

    def violation(self) -> float:
        """Return the largest violation of an optimality condition within the working set, in plain weights."""
        theta = self.theta
        gradient = self.loss_gradient + self.penalty.l2_of(len(theta)) * theta
        slope = self.penalty.nonsmooth(len(theta)).pseudo_gradient(theta, gradient)
        return float(np.abs(slope).max(initial=0.0))

    # -- the working set -----------------------------------------------------------------------------------------

    def add_features(self, features: np.ndarray, min_gradient: float | None = None) -> int:
        """Add features with weight 0 and return their number.

        With ``min_gradient``, only those are added whose exact gradient exceeds it times their penalty factor. Scores
        of edges are exact, and features that complete an edge are needed whatever their gradients.
        """
        n, working_set = self.n_target_columns, self.working_set
        arcs = working_set.layout.arcs(features)
        gradient = self.evaluator.gradient(self.evaluator.compile(arcs), n + len(features))
        if min_gradient is not None and not working_set.grouped:
            penalty = NonsmoothPenalty(working_set.penalty_factors_of(features))
            kept = np.flatnonzero(penalty.scaled_norms(gradient[n:]) > min_gradient)
            features, gradient = features[kept], np.concatenate([gradient[:n], gradient[n:][kept]])
            arcs = working_set.layout.arcs(features)
        self.loss_gradient = np.concatenate([self.loss_gradient, gradient[n:]])
        gradient[:n] = self.point.gradient[:n]
        added = self._moments.extend(self.parametrization, arcs).from_plain_gradient(gradient, arcs)[n:]
        self.set_features(np.concatenate([working_set.features, features]))
        coordinates = np.concatenate([self.point.coordinates, np.zeros(len(features))])
        self.point = Point(coordinates, self.point.value, np.concatenate([self.point.gradient, added]))
        self.optimizer.grow(len(features))
        return len(features)

    def drop_inactive(self) -> None:
        """Drop features at 0 that satisfy their optimality condition, where they are many: each costs time."""
        n, theta = self.n_target_columns, self.theta
        penalty = self.penalty.nonsmooth(len(theta))
        needed = penalty.scaled_norms(self.loss_gradient) > 1.0
        kept = (~penalty.at_zero(theta) | needed)[n:] | self.working_set.protected
        if kept.sum() < (1.0 - MAX_INACTIVE) * len(kept):
            self.keep(kept)

    def keep(self, kept: np.ndarray) -> None:
        """Keep only the features of a mask, with their weights."""
        n = self.n_target_columns
        positions = np.concatenate([np.arange(n), n + np.flatnonzero(kept)])
        self.set_features(self.working_set.features[kept])
        self.point = Point(self.point.coordinates[positions], self.point.value, self.point.gradient[positions])
        self.loss_gradient = self.loss_gradient[positions]
        self.optimizer.keep(positions)

    def set_features(self, features: np.ndarray) -> None:
        """Replace the features of the working set; the caller sets the point."""
        self.working_set.set_features(features)
        self._model, self._cost, self._steps, self._gained = None, None, 0, 0.0
        self.penalty = replace(self.penalty, factors=self.working_set.penalty_factors, groups=self.working_set.groups)
        if features.shape[1] > 2:
            self.parametrization = self._moments.extend(self.parametrization, self.working_set.arcs)

    # -- copies --------------------------------------------------------------------------------------------------

    def branch(self) -> WorkingProblem:
        """Return a copy that shares the evaluator; steps of the copy leave this problem unchanged."""
        twin = copy(self)
        twin.optimizer, twin.working_set = self.optimizer.branch(), copy(self.working_set)
        return twin

    def state(self) -> dict[str, np.ndarray]:
        """Return what `restore` needs, except for the value of the objective."""
        self._notice_new_rows()
        return {
            "pairs": self.working_set.features,
            "theta": self.point.coordinates,
            "evaluated_pairs": self._evaluated[0],
            "evaluated_theta": self._evaluated[1],
            "gradient": self.point.gradient,
            "centered": self.parametrization.centered,
            "means": self.parametrization.means,
            "variances": self.parametrization.variances,
            "loss_gradient": self.loss_gradient,
            "steps": np.array([self._steps, self._newton_first]),
            "gained": np.array([self._gained]),
            "single_precision": np.array([self.single_precision]),
            "model_theta": np.empty(0) if self._model is None else self._model.theta,
            **self.evaluator.state(self.working_set.graphs),
            **self.optimizer.state(),
        }

    def restore(self, state: Mapping[str, np.ndarray], value: float) -> None:
        """Continue from a saved state, to the bit."""
        saved = replace(self.parametrization, means=state["means"], variances=state["variances"])
        self._moments.recall(saved, self.working_set.layout.arcs(state["pairs"]))
        self.set_features(state["pairs"])
        self.parametrization = replace(self.parametrization, centered=state["centered"])
        self.optimizer.restore(state)
        self.single_precision = bool(state["single_precision"][0])
        # The evaluation restores the errors of the point; everything else is taken from the saved state.
        self._evaluated = state["evaluated_pairs"], state["evaluated_theta"]
        self.evaluator.single_precision = self.single_precision
        graphs, theta = self.working_set.graphs, self._to_theta(state["theta"])
        if self.evaluator.keeps_errors:
            graphs = self.evaluator.compile(self.working_set.layout.arcs(state["evaluated_pairs"]))
            theta = state["evaluated_theta"]
        self.loss, _ = self.evaluator.evaluate(graphs, theta)
        self.evaluator.restore(self.working_set.graphs, state)
        self.loss_gradient = state["loss_gradient"]
        self.point = Point(state["theta"], value, state["gradient"])
        self._rows = self.evaluator.source.rows
        if len(state["model_theta"]):
            self._build_model(state["model_theta"])
        self._steps, self._newton_first = int(state["steps"][0]), bool(state["steps"][1])
        self._gained = float(state["gained"][0])

    # -- for the optimizer ---------------------------------------------------------------------------------------

    def _objective(self, coordinates: np.ndarray) -> tuple[float, np.ndarray]:
        theta = self._to_theta(coordinates)
        self._evaluated, self.evaluator.single_precision = (self.working_set.features, theta), self.single_precision
        self.loss, self.loss_gradient = self.evaluator.evaluate(self.working_set.graphs, theta)
        return self.loss + self.penalty.value(theta), self._smooth_gradient(self.loss_gradient, theta)

    def _to_theta(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the plain weights at a point, which are kept until they are needed at another one."""
        last, parametrization, arcs = self._place, self.parametrization, self.working_set.arcs
        if last[0] is not coordinates or last[1] is not parametrization or last[2] is not arcs:
            self._place = coordinates, parametrization, arcs
            self._theta = parametrization.to_theta(coordinates, arcs)
        return self._theta

    def _smooth_gradient(self, loss_gradient: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Return the gradient, in the optimizer's coordinates, of all but the L1 terms that have a kink."""
        gradient = loss_gradient + self.penalty.l2_of(len(theta)) * theta
        n, centered = self.n_target_columns, self.parametrization.centered
        gradient[:n] += np.where(centered, self.penalty.l1_of(n) * np.sign(theta[:n]), 0.0)
        return self.parametrization.from_plain_gradient(gradient, self.working_set.arcs)

    def _to_center(self, theta: np.ndarray) -> np.ndarray:
        """Return which biases to center, (states,): those without a penalty, or away from 0."""
        biases = theta[: self.n_target_columns]
        return self._centered & ((biases != 0.0) | (self.penalty.l1_of(len(biases)) == 0.0))

    def _stop_at_zero(self, coordinates: np.ndarray) -> np.ndarray:
        """Keep penalized, centered biases from changing sign within a step."""
        n = self.n_target_columns
        penalized = self.parametrization.centered & (self.penalty.l1_of(n) > 0.0)
        if not penalized.any():
            return coordinates
        before = self.theta[:n]
        after = self.parametrization.to_theta(coordinates, self.working_set.arcs)[:n]
        crossed = penalized & (before * after < 0.0)
        coordinates[:n][crossed] -= after[crossed]
        return coordinates

    def _preconditioner(self) -> Transform:
        evaluator = self.evaluator
        bias_hessian = evaluator.bias_hessian(), evaluator.arc_hessian(self.working_set.graphs)
        own = self.penalty.l2_of(len(self.point.coordinates))
        own = own + self.nonsmooth_penalty().curvature(self.point.coordinates)
        return self.parametrization.preconditioner(self.working_set.arcs, *bias_hessian, own)
