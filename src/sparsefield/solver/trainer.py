"""The training loop: fill gaps, score candidates, let the best in, take a step; then certify."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Dataset
from sparsefield.induction import (
    Grafting,
    InductionRule,
    Proposals,
    all_expandable,
    choose_proposals,
    combine,
    merge,
    score_expansions,
)
from sparsefield.inference import InferenceMethod
from sparsefield.model import Field, IterationRecord, widen
from sparsefield.objectives import Evaluator, Objective, make_evaluator
from sparsefield.solver.checkpoint import Checkpoint, fingerprint
from sparsefield.solver.conjunction_moments import ConjunctionMoments
from sparsefield.solver.fit_state import FitResult, FitState, TrainingOptions, WarmStart
from sparsefield.solver.owlqn import OrthantLBFGS, Point
from sparsefield.solver.parametrization import CenteredParametrization
from sparsefield.solver.penalty import Penalty, pseudo_gradient

__all__ = ["Trainer"]

LEAST_BATCH = 50
"""The paper's batch; the certificate lets in at least as many at a time."""

CALM_STEPS = 3
"""The paper's rule: this many iterations in a row with little change end an optimization."""

STRAGGLERS = 0.02
"""When fewer candidates than this share of the features are worth it, the exact pass of the certificate takes over."""

SETTLED = 1e-3
"""Gaps have settled when another filling moves no belief by more."""

MAX_FILLINGS = 30
"""Fillings of one optimization; the next round of the certificate goes on from there."""

IDLE_ROUNDS = 4
"""Rounds of the certificate that may bring no progress: the gradient of `cd` is not that of its loss, so it may never
get there."""

PROGRESS = 1e-7
"""Progress is a smaller violation or, while there are violators to let in, an objective that is lower by this share:
small batches take many rounds."""

SLACK = 0.1
"""While candidates outside miss optimality by much, those inside may miss it by this share of that."""

SLACK_BEFORE_LOOKING = 5.0
"""Where a look at all candidates takes as long as several steps: how far from optimal, in allowed violations, the
features at hand may be at the first look of the certificate."""

DEAD_WEIGHT = 0.1
"""Features at 0 that have no reason to leave it are let go when they are more than this share."""

LATENT_PENALTY_FACTOR = 0.1
"""Share of l1 that a weight of a hidden state bears: it stands for many weights between columns, which bear all of it.
Of 0, 0.03, 0.1, 0.3 and 1 the small ones score about alike, and 0.1 lets go of states that the data do not call for."""


class Trainer:
    """Learns a field from a mega-sample, be it one table or many; `run` does it all.

    The loop is cut into stages, each a batch, a step or a look at all candidates. Between two stages the whole state of
    the fit can be saved, and a fit that starts from what was saved ends with the same bits.
    """

    def __init__(
        self,
        sample: Dataset,
        *,
        rule: InductionRule,
        objective: Objective,
        inference: InferenceMethod,
        options: TrainingOptions,
        engine: Engine,
        progress: Callable[[IterationRecord], None] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        start: WarmStart | None = None,
    ) -> None:
        self.layout, self.given, self.protected = sample.layout, start, np.zeros(0, dtype=bool)
        self.closed = rule.closed
        """Whether no further feature may join."""
        self.rule, self.inference, self.options, self.engine = rule, inference, options, engine
        self.progress = progress
        self.checkpoint = None
        if checkpoint is not None:
            self.checkpoint = Checkpoint(checkpoint, fingerprint(sample, rule, objective, inference, options))
        self.evaluator: Evaluator = make_evaluator(sample, objective, engine)
        # A state without an example would run off to minus infinity if nothing held it.
        unseen = [(schema.state_shares == 0.0) | (schema.base_shares == 0.0) for schema in self.layout.schemas]
        self.penalty = Penalty(options.l1, options.l2, np.concatenate(unseen) | options.penalize_unary)
        self.optimizer = OrthantLBFGS()
        self.steps: list[IterationRecord] = []
        self.scoring_seconds = 0.0
        self.started = time.perf_counter()
        self.plot = FitState()
        self.calm, self.tol = 0, options.tol
        self.loss, self.stalled, self.slack = np.nan, False, 0.5 * self._allowed_violation
        self.plain = np.empty(0)
        """Gradient of the loss at the point at hand, of the plain weights."""
        self.moments = ConjunctionMoments(self.evaluator, self.layout.n_columns)
        self.coordinates = CenteredParametrization(np.empty(0), np.empty(0), np.empty(0, dtype=bool))
        self._set_features(np.empty((0, options.max_order), dtype=np.int64))

    # -- the plot ------------------------------------------------------------------------------------------------

    def run(self) -> FitResult:
        self._begin()
        self._resume()
        return self._play()

    def _play(self) -> FitResult:
        stages = {"start": self._start, "induce": self._induce, "optimize": self._optimize, "certify": self._certify}
        while self.plot.stage != "end":
            stages[self.plot.stage]()
            if self.checkpoint is not None and self.checkpoint.due():
                self.checkpoint.save(*self._state())
        if self.checkpoint is not None:
            self.checkpoint.clear()
        return self._result()

    def _begin(self) -> None:
        """Unary weights at the log-odds of the training frequencies; no pairs, but those of latent variables."""
        parts = [np.empty(0)]
        for schema, weight in zip(self.layout.schemas, self.evaluator.total_weights, strict=True):
            rare = 0.5 / max(weight, 1.0)
            parts.append(np.log(np.maximum(schema.state_shares, rare) / np.maximum(schema.base_shares, rare)))
        theta = np.concatenate(parts)
        if self.given is not None:
            theta = np.concatenate([self.given.unary, self.given.weights])
            self._set_features(widen(self.given.pairs, self.options.max_order))
            if self.evaluator.has_missing:
                self.evaluator.impute_missing(self.inference, self.graphs, theta)
            self.evaluator.evaluate(self.graphs, theta)  # for beliefs of hidden cells, whose moments come next
        self.coordinates = CenteredParametrization(*self.evaluator.moments(), self._to_centre(theta))
        self._evaluate_at(self.coordinates.from_theta(theta, self.arcs))
        if self.options.stages == 2:
            self._go_optimize("unary", then="start")

    def _start(self) -> None:
        """Let in what the rule starts with."""
        start = self.rule.start(self.layout)
        if self.given is not None:
            start = start[~np.isin(self.layout.keys(start), self.known)]
        if len(start):
            self._add_features(widen(start, self.options.max_order))
        if self.closed:
            self._end_induction()
        else:
            self.plot.stage = "induce"

    def _induce(self) -> None:
        """Let a batch in and take a step or a few, unless no candidate stands out."""
        going_on = self._iterations_left()
        found = self._score(self.rule, self._enough(), pairs_first=True) if going_on else self._nothing()
        self._drop_inactive()
        proposed = choose_proposals(found, self._batch_size()).features
        joined = self._add_features(proposed) if len(proposed) else 0
        worthy = joined / max(len(proposed), 1) * len(found)
        if not joined or (self.options.certify and worthy < STRAGGLERS * len(self.features)):
            self._end_induction()
            return
        self.plot.settled = False
        if self.options.steps_per_batch == "auto" and self.options.certify and self._batches_are_dear:
            # Steps first bring the features at hand near their optimum, so that few join which will have to go again.
            worst = float(self._excess(found).max())
            self.slack = max(0.5 * self._allowed_violation, SLACK * worst)
            self._go_optimize("induce", then="induce", fillings=0)
            return
        if self.options.steps_per_batch == "converge":
            self._go_optimize("induce", then="induce", fillings=1)
            return
        for _ in range(self._steps_per_batch()):
            if not self._step("induce"):
                break

    def _end_induction(self) -> None:
        """Without a certificate induction ends where an optimum of the features at hand brings no further candidate."""
        if self.plot.settled or (self.options.certify and self.evaluator.keeps_errors):
            self.plot.stage = "certify"
        elif not self.options.certify and not self.closed:
            self.plot.settled = True
            self._go_optimize("optimize", then="induce")
        else:
            self.slack = (0.5 if self.evaluator.keeps_errors else SLACK_BEFORE_LOOKING) * self._allowed_violation
            self._go_optimize("optimize", then="certify")

    def _go_optimize(self, phase: str, *, then: str, fillings: int = MAX_FILLINGS) -> None:
        self.calm = 0
        self.plot.stage, self.plot.phase, self.plot.then, self.plot.fillings = "optimize", phase, then, fillings

    def _optimize(self) -> None:
        """A step, until the paper's rule calls a halt, or the features at hand are optimal, and gaps have settled."""
        if self._iterations_left():
            moved = self._step(self.plot.phase)
            if moved and self.calm < CALM_STEPS and not (self.options.certify and self._nearly_optimal()):
                return
            if self.plot.fillings > 0 and self._refill_gaps():
                self.plot.fillings -= 1
                return
        self.plot.stage = self.plot.then

    def _certify(self) -> None:
        """Look at every candidate; let in what violates optimality, and go on, until nothing does by much."""
        allowed, plot = self._allowed_violation, self.plot
        unsettled = self._refill_gaps()
        found = self._violators(self._enough())
        inside = self._violation_inside()
        excess = self._excess(found)
        worst = max(inside, float(excess.max(initial=0.0)))
        violators = found.take(np.flatnonzero(excess > 0.1 * allowed))
        lower = len(violators) > 0 and self.point.value < plot.lowest - PROGRESS * abs(plot.lowest)
        plot.idle = 0 if worst < 0.9 * plot.best or lower else plot.idle + 1
        plot.best, plot.lowest = min(plot.best, worst), min(plot.lowest, self.point.value)
        plot.violation, plot.converged = worst, worst <= allowed and not unsettled
        stuck = plot.idle > IDLE_ROUNDS or (not len(violators) and self.stalled and not unsettled)
        if plot.converged or not self.options.certify or not self._iterations_left() or stuck:
            plot.stage = "end"
            return
        if len(violators):
            self._drop_inactive()
            self._add_features(choose_proposals(violators, max(self._batch_size(), LEAST_BATCH)).features)
        if inside > 0.5 * allowed:
            self.tol *= 0.1
        # While much is missing outside, there is no point in polishing what is inside.
        self.slack = max(0.5 * allowed, SLACK * worst if len(violators) else 0.0)
        self._go_optimize("certify", then="certify")

    @property
    def field(self) -> Field:
        """The field at hand: features with a weight."""
        theta = self.theta
        unary, weights = theta[: self.layout.n_states], theta[self.layout.n_states :]
        kept = np.flatnonzero(weights)
        kept = kept[np.argsort(self.layout.keys(self.features[kept]), kind="stable")]
        higher = self._is_higher(self.features[kept])
        pairs, conjunctions = kept[~higher], kept[higher]
        field = Field(self.layout, unary.copy(), self.features[pairs, :2], weights[pairs])
        if len(conjunctions):
            field = replace(field, conjunctions=self.features[conjunctions], conjunction_weights=weights[conjunctions])
        return field

    def _result(self) -> FitResult:
        return FitResult(self.field, tuple(self.steps), self.point.value, self.plot.violation, self.plot.converged)

    def _state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """All that a fit needs to go on from here: arrays, and plain values."""
        arrays = {
            "pairs": self.features,
            "theta": self.point.theta,
            "gradient": self.point.gradient,
            "centered": self.coordinates.centered,
            "means": self.coordinates.means,
            "variances": self.coordinates.variances,
            "plain": self.plain,
            "missing_beliefs": self.evaluator.missing_beliefs(),
            **self.evaluator.state(self.graphs),
            **self.optimizer.state(),
        }
        facts = {
            "value": self.point.value,
            "calm": self.calm,
            "tol": self.tol,
            "slack": self.slack,
            "stalled": self.stalled,
            "plot": asdict(self.plot),
            "steps": [step.as_row() for step in self.steps],
            "scoring_seconds": self.scoring_seconds,
            "seconds": time.perf_counter() - self.started,
        }
        return arrays, facts

    def _resume(self) -> None:
        """Go on from what was saved, if anything was."""
        saved = self.checkpoint.load() if self.checkpoint is not None else None
        if saved is None:
            return
        arrays, facts = saved
        saved_there = replace(self.coordinates, means=arrays["means"], variances=arrays["variances"])
        self.moments.recall(saved_there, self.layout.arcs(arrays["pairs"]))
        self._set_features(arrays["pairs"])
        self.coordinates = replace(self.coordinates, centered=arrays["centered"])
        self.evaluator.set_missing_beliefs(arrays["missing_beliefs"])
        self.optimizer.restore(arrays)
        # Errors are those of the point; what else was found there is kept to the bit.
        self._evaluate_at(arrays["theta"])
        self.evaluator.restore(self.graphs, arrays)
        self.plain = arrays["plain"]
        self.point = Point(arrays["theta"], facts["value"], arrays["gradient"])
        self.calm, self.tol, self.slack, self.stalled = (facts[k] for k in ("calm", "tol", "slack", "stalled"))
        self.plot = FitState(**facts["plot"])
        self.steps = [IterationRecord(**row) for row in facts["steps"]]
        self.scoring_seconds = facts["scoring_seconds"]
        self.started = time.perf_counter() - facts["seconds"]

    # -- its parts -----------------------------------------------------------------------------------------------

    @property
    def theta(self) -> np.ndarray:
        """Plain weights at the current point."""
        return self.coordinates.to_theta(self.point.theta, self.arcs)

    def _objective(self, place: np.ndarray) -> tuple[float, np.ndarray]:
        theta = self.coordinates.to_theta(place, self.arcs)
        self.loss, self.plain = self.evaluator.evaluate(self.graphs, theta)
        return self.loss + self.penalty.value(theta), self._smooth_gradient(self.plain, theta)

    def _smooth_gradient(self, gradient: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """In the optimizer's coordinates, of all but the kinks: loss, L2, and L1 of unary weights away from 0."""
        plain = gradient + self.penalty.l2_of(len(theta)) * theta
        n, centered = self.layout.n_states, self.coordinates.centered
        plain[:n] += np.where(centered, self.penalty.l1_of(n) * np.sign(theta[:n]), 0.0)
        return self.coordinates.from_plain_gradient(plain, self.arcs)

    def _kinks(self) -> np.ndarray:
        """(parameters,): L1 strength where the optimizer has to mind a kink at 0."""
        kinks = self.penalty.l1_of(len(self.point.theta))
        kinks[: self.layout.n_states][self.coordinates.centered] = 0.0
        return kinks

    def _to_centre(self, theta: np.ndarray) -> np.ndarray:
        """(states,): which unary weights to centre: those that carry no penalty, or are away from its kink."""
        unary = theta[: self.layout.n_states]
        return self.options.centered & ((unary != 0.0) | (self.penalty.l1_of(len(unary)) == 0.0))

    def _halt_at_kink(self, place: np.ndarray) -> np.ndarray:
        """A penalized, centered unary weight may reach 0, but not pass it within a step."""
        n = self.layout.n_states
        before, after = self.theta[:n], self.coordinates.to_theta(place, self.arcs)[:n]
        crossed = self.coordinates.centered & (before * after < 0.0) & (self.penalty.l1_of(n) > 0.0)
        place[:n][crossed] -= after[crossed]
        return place

    def _recenter(self) -> None:
        """Unary weights that came to 0, or left it, change coordinates; so does what the optimizer remembers."""
        theta, arcs, old = self.theta, self.arcs, self.coordinates
        theta[: self.layout.n_states][np.abs(theta[: self.layout.n_states]) < 1e-12] = 0.0
        new = replace(old, centered=self._to_centre(theta))
        if np.array_equal(new.centered, old.centered):
            return
        self.coordinates = new
        self.optimizer.translate(*old.turn_into(new, arcs))
        self.point = Point(new.from_theta(theta, arcs), self.point.value, self._smooth_gradient(self.plain, theta))

    def _evaluate_at(self, place: np.ndarray) -> None:
        self.point = Point(place, *self._objective(place))

    def _step(self, phase: str) -> bool:
        """One step of the optimizer; False when it found no way down."""
        before = self.point
        old = np.abs(self.theta).sum()
        found = self.optimizer.step(before, self._kinks(), self._preconditioner(), self._objective, self._halt_at_kink)
        self.stalled = found is None
        if found is None:
            self._evaluate_at(before.theta)
        else:
            self.point = found
            self._recenter()
        self._note(phase)
        norm = np.abs(self.theta).sum()
        calm = abs(before.value - self.point.value) <= self.tol * max(abs(self.point.value), 1.0)
        calm &= abs(norm - old) <= 10 * self.tol * max(norm, 1.0)
        self.calm = self.calm + 1 if calm else 0
        return found is not None

    def _add_features(self, features: np.ndarray, least: float | None = None) -> int:
        """New features join with weight 0; returns how many. With a certificate to come, only those join whose exact
        gradient lets them leave 0, or exceeds ``least``: what a rough score lets in besides would be carried along for
        nothing."""
        n, arcs = self.layout.n_states, self.layout.arcs(features)
        plain = self.evaluator.gradient(self.evaluator.compile(arcs), n + len(features))
        if self.options.certify and not self.closed:
            least = self.options.l1 if least is None else least
            worthy = np.flatnonzero(np.abs(plain[n:]) > least * self._factors(features))
            features, plain = features[worthy], np.concatenate([plain[:n], plain[n:][worthy]])
            arcs = self.layout.arcs(features)
        self.plain = np.concatenate([self.plain, plain[n:]])
        plain[:n] = self.point.gradient[:n]
        theirs = self.moments.extend(self.coordinates, arcs).from_plain_gradient(plain, arcs)[n:]
        self._set_features(np.concatenate([self.features, features]))
        place = np.concatenate([self.point.theta, np.zeros(len(features))])
        self.point = Point(place, self.point.value, np.concatenate([self.point.gradient, theirs]))
        self.optimizer.grow(len(features))
        self.calm = 0
        return len(features)

    def _drop_inactive(self) -> None:
        """Drop features at 0 whose gradient holds them there: they cost time in every pass, and may come back."""
        # Where gaps are filled anew the objective changes, and what goes might come back again and again.
        if not self.options.certify or self.closed or self.evaluator.has_missing:
            return
        n, theta = self.layout.n_states, self.theta
        alive = (theta[n:] != 0.0) | (np.abs(self.plain[n:]) > self.penalty.l1_of(len(theta))[n:]) | self.protected
        if alive.sum() >= (1.0 - DEAD_WEIGHT) * len(alive):
            return
        self._keep_features(alive)

    def _keep_features(self, alive: np.ndarray) -> None:
        """Drop all features but some, given as a mask; the weights of the others stay."""
        n = self.layout.n_states
        places = np.concatenate([np.arange(n), n + np.flatnonzero(alive)])
        self._set_features(self.features[alive])
        self.point = Point(self.point.theta[places], self.point.value, self.point.gradient[places])
        self.plain = self.plain[places]
        self.optimizer.keep(places)

    def _set_features(self, features: np.ndarray) -> None:
        self.features, self.protected = features, np.zeros(len(features), dtype=bool)
        if self.given is not None:
            self.protected = np.isin(self.layout.keys(features), self.layout.keys(self.given.pairs))
        self.arcs = self.layout.arcs(features)
        self.penalty = self.penalty.on(self._factors(features))
        higher = self._is_higher(features)
        self.known = np.sort(self.layout.keys(features[~higher, :2]))
        self.known_higher = np.sort(self.layout.keys(features[higher]))
        self.graphs = self.evaluator.compile(self.arcs)
        if features.shape[1] > 2:
            self.coordinates = self.moments.extend(self.coordinates, self.arcs)

    def _factors(self, features: np.ndarray) -> np.ndarray:
        """(features,): what multiplies their l1. Of conjunctions there are so many that chance alone makes some look
        useful, so each column beyond two makes it larger; those of latent variables bear little."""
        factors = self.options.order_penalty ** ((features >= 0).sum(axis=1) - 2.0)
        if self.given is not None:
            factors[np.isin(self.layout.keys(features), self.layout.keys(self.given.pairs))] *= LATENT_PENALTY_FACTOR
        return factors

    def _is_higher(self, features: np.ndarray) -> np.ndarray:
        """(features,): whether they have more than two columns."""
        return features[:, 2] >= 0 if features.shape[1] > 2 else np.zeros(len(features), dtype=bool)

    @property
    def _batches_are_dear(self) -> bool:
        """Whether a look at the candidates, or what it lets in, takes as long as several steps."""
        return not self.evaluator.keeps_errors or self.options.max_order > 2

    def _score(self, rule: InductionRule, limit: int | None, *, pairs_first: bool = False) -> Proposals:
        """Candidates worth a weight, of pairs the best ``limit``; with ``pairs_first``, no conjunctions while there are
        pairs to speak of: of these there are fewer, and once they are in, far fewer conjunctions look useful."""
        started = time.perf_counter()
        contrast, width = self.evaluator.contrast(), self.options.max_order
        found = rule.score(contrast, self.layout, self.options.l1, self.known, limit)
        higher = None
        if width > 2 and not (pairs_first and len(found) > STRAGGLERS * len(self.features)):
            rest = self.options.l1, self.known_higher, self.options.order_penalty
            higher = score_expansions(contrast, self.layout, self._lifts(), rule.thresholds, *rest)
        self.scoring_seconds += time.perf_counter() - started
        return combine(found, higher, width)

    def _excess(self, found: Proposals) -> np.ndarray:
        """(candidates,): by how much their gradients go beyond their penalties."""
        return np.abs(found.gradient) - self.options.l1 * self._factors(found.features)

    def _lifts(self) -> np.ndarray:
        """Features that a further column may join: those with a weight, or, where told so, all pairs besides."""
        weights = self.theta[self.layout.n_states :]
        active = self.features[(weights != 0.0) & (self.features[:, -1] < 0)]
        if self.options.lift == "all":
            return np.concatenate(
                [all_expandable(self.layout, self.options.max_order), active[self._is_higher(active)]]
            )
        return active

    def _nothing(self) -> Proposals:
        return combine(merge([]), None, self.options.max_order)

    def _enough(self) -> int:
        """Candidates that need to be looked at: as many as may join, or would matter beside those inside."""
        return max(self._batch_size(), LEAST_BATCH, len(self.features))

    def _violators(self, limit: int | None = None) -> Proposals:
        """Candidates outside the field that miss the optimality conditions; a closed rule has none outside."""
        return self._nothing() if self.closed else self._score(Grafting(), limit)

    @property
    def _allowed_violation(self) -> float:
        return self.options.kkt_tol * (self.options.l1 if self.options.l1 > 0 else 1.0)

    def _nearly_optimal(self) -> bool:
        slope = pseudo_gradient(self.point.theta, self.point.gradient, self._kinks())
        return bool(np.abs(slope).max(initial=0.0) <= self.slack)

    def _violation_inside(self) -> float:
        theta = self.theta
        gradient = self.plain + self.penalty.l2_of(len(theta)) * theta
        slope = pseudo_gradient(theta, gradient, self.penalty.l1_of(len(theta)))
        return float(np.abs(slope).max(initial=0.0))

    def _refill_gaps(self) -> bool:
        """Re-estimate hidden cells; True when they moved enough for the optimizer to go on."""
        if not self.evaluator.has_missing:
            return False
        change = self.evaluator.impute_missing(self.inference, self.graphs, self.theta)
        self._evaluate_at(self.point.theta)
        self.calm = 0
        return change > SETTLED

    def _preconditioner(self) -> Callable[[np.ndarray], np.ndarray]:
        unsure = self.evaluator.uncertainty(), self.evaluator.shared_uncertainty(self.graphs)
        return self.coordinates.preconditioner(self.arcs, *unsure, self.penalty.l2_of(len(self.point.theta)))

    def _batch_size(self) -> int:
        if self.options.batch_size != "auto":
            return int(self.options.batch_size)
        return max(LEAST_BATCH, 4 * self.layout.n_states, len(self.features))

    def _steps_per_batch(self) -> int:
        if self.options.steps_per_batch == "auto":
            return 1
        return int(self.options.steps_per_batch)

    def _iterations_left(self) -> bool:
        return len(self.steps) < self.options.max_iter

    def _note(self, phase: str) -> None:
        theta = self.theta
        step = IterationRecord(
            iteration=len(self.steps) + 1,
            objective=self.point.value,
            loss=self.loss,
            l1_norm=float(np.abs(theta).sum()),
            features=len(self.features),
            active=int(np.count_nonzero(theta[self.layout.n_states :])),
            phase=phase,
            seconds=time.perf_counter() - self.started,
            scoring_seconds=self.scoring_seconds,
            traffic=self.engine.traffic,
        )
        self.steps.append(step)
        if self.progress is not None:
            self.progress(step)
