"""This module contains the training loop: impute, score candidates, add the best, optimize; then certify."""

from __future__ import annotations

import os
from copy import copy
from dataclasses import asdict, replace

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Dataset
from sparsefield.induction import InductionRule, Proposals
from sparsefield.inference import InferenceMethod
from sparsefield.model import IterationRecord, pad_features
from sparsefield.objectives import (
    EM,
    AnyObjective,
    Evaluator,
    LikelihoodObjective,
    make_evaluator,
)
from sparsefield.solver.batch_sizes import BatchSizes, adapt_growth
from sparsefield.solver.candidate_selection import EXACT, FEW_CANDIDATES, SINGLE_PRECISION, Candidates, no_proposals
from sparsefield.solver.checkpoint import Arrays, Checkpoint, Facts, fingerprint
from sparsefield.solver.fit_state import FitCallbacks, FitResult, FitState, TrainingOptions, WarmStart
from sparsefield.solver.monte_carlo_em import treat_missing
from sparsefield.solver.penalty import Penalty
from sparsefield.solver.training_log import TrainingLog
from sparsefield.solver.working_problem import WorkingProblem
from sparsefield.solver.working_set import WorkingSet

MAX_STEPS_WITHOUT_PROGRESS = 3
"""The paper's rule: an optimization ends after this many steps in a row with little change."""

MAX_ROUGH_SCORINGS = 1
"""Scorings of candidates, at most, between draws of completions before these are averaged."""

MAX_IDLE_ROUNDS = 4
"""Rounds of the certificate without progress: the gradient of `cd` is not that of its loss, so it may not converge."""

MIN_DECREASE = 1e-7
"""A round makes progress by a smaller violation or, while violators remain, by an objective that is lower by this
share: small batches take many rounds."""

INNER_TOLERANCE = 0.2
"""The working set need not be more exact than this share of the violation among the other candidates."""

SINGLE_PRECISION_ERROR = 1e-6
"""Rounding errors of gradients in single precision, at most, as a share of the weight of all rows."""

MANY_NEW, ROUGH_TOLERANCE, SMALL_CHANGES = 0.5, 5.0, 0.01
"""Where scoring all candidates takes as long as several steps, the working set should be at its optimum when the
certificate begins, and `SMALL_CHANGES` times the tolerance counts as little change. But where more than the share
`MANY_NEW` of the working set is new, others will follow: `ROUGH_TOLERANCE` times the allowed violation suffices."""


class Trainer:
    """Learns a field from a dataset; `run` does everything.

    The loop consists of stages, each a batch, a step or a round of the certificate. Between two stages the state of the
    fit can be saved, and a fit that continues from a saved state ends with the same bits.
    """

    def __init__(
        self,
        sample: Dataset,
        *,
        rule: InductionRule,
        objective: AnyObjective,
        missing: EM | InferenceMethod,
        options: TrainingOptions,
        engine: Engine,
        callbacks: FitCallbacks | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        start: WarmStart | None = None,
    ) -> None:
        self.layout = sample.layout
        self.rule, self.options, self.fixed_candidates = rule, options, rule.fixed_candidates
        self._warm_start = start
        self._checkpoint = None
        if checkpoint is not None:
            self._checkpoint = Checkpoint(checkpoint, fingerprint(sample, rule, objective, missing, options))
        self.evaluator: Evaluator = make_evaluator(sample, objective, engine, missing)
        # The weight of a state without an example would diverge to minus infinity without a penalty.
        unseen = [schema.unseen for schema in self.layout.schemas]
        penalty = Penalty(options.l1, options.l2, np.concatenate(unseen) | options.penalize_biases)
        working_set = WorkingSet(
            self.layout,
            self.evaluator,
            max_order=options.max_order,
            order_penalty=options.order_penalty,
            protected_pairs=start.features if start is not None and start.latent else None,
            grouped=options.penalty == "group" and sample.kind != "sparse",  # an edge of binary variables is one pair
            by_likelihood=isinstance(objective, LikelihoodObjective),
        )
        self.problem = WorkingProblem(self.evaluator, working_set, penalty, centered=options.centered)
        self.missing = treat_missing(self.problem, self.evaluator, missing)
        self.log = TrainingLog(engine, callbacks or FitCallbacks())
        self.state = FitState(objective_tol=options.tol, kkt_tolerance=0.5 * self.allowed_violation)

    @property
    def allowed_violation(self) -> float:
        """Violation of the optimality conditions with which a fit counts as converged."""
        return self.options.kkt_tol * (self.options.l1 if self.options.l1 > 0 else 1.0)

    def run(self) -> FitResult:
        """Learn from the start, or from the checkpoint where there is one."""
        saved = self._checkpoint.load() if self._checkpoint is not None else None
        if saved is None:
            self._initialize()
        else:
            self.resume_from(*saved)
        return self._loop()

    # -- for paths -----------------------------------------------------------------------------------------------

    def set_l1(self, l1: float) -> None:
        """Change l1 and keep the weights."""
        self._restart_with(l1)
        self.problem.evaluate_again()
        self.problem.recenter()

    def start_at(self, start: WarmStart, l1: float) -> None:
        """Begin at other weights, instead of `run`, with another l1."""
        self._restart_with(l1)
        self._warm_start = start
        self._initialize()
        if self.fixed_candidates:
            self._start()

    def _restart_with(self, l1: float) -> None:
        self.options = replace(self.options, l1=l1)
        self.problem.penalty = replace(self.problem.penalty, l1=l1)
        self.problem.single_precision = self._begins_in_single_precision()
        self.state.steps_without_progress, self.state.objective_tol = 0, self.options.tol
        self.log.records = []
        self.missing.restart()

    def drop_l1(self, kept: np.ndarray, l2: float) -> None:
        """Keep only some features, by a mask, and penalize them by L2 alone; no other feature can be added."""
        allowed = self.allowed_violation
        self.fixed_candidates, self._checkpoint = True, None  # the checkpoint belongs to the fit with L1
        self.problem.keep(kept)
        self.options = replace(self.options, l1=0.0, l2=l2, kkt_tol=allowed, certify=True)
        self.problem.penalty = replace(self.problem.penalty, l1=0.0, l2=l2)

    def optimize_with(self, candidates: np.ndarray, min_gradient: float) -> FitResult:
        """Add those candidates whose gradient exceeds a bound, and optimize without a certificate."""
        self._drop_inactive()
        if len(candidates):
            self._add_features(candidates, min_gradient)
        self.state.kkt_tolerance = 0.5 * self.allowed_violation
        self._start_optimization("path", next_stage="end", rounds=self.missing.rounds_on_path)
        return self._loop()

    def certify(self) -> FitResult:
        """Continue with the certificate from the current weights."""
        self.state = FitState(
            stage="certify",
            objective_tol=self.state.objective_tol,
            kkt_tolerance=self.state.kkt_tolerance,
            steps_without_progress=self.state.steps_without_progress,
            stalled=self.state.stalled,
        )
        return self._loop()

    def branch(self) -> Trainer:
        """Return a copy at the same point, without a checkpoint, whose steps leave this trainer unchanged.

        Both share the evaluator, whose errors are those of the last evaluation by either: `set_l1` evaluates first.
        """
        twin = copy(self)
        twin.problem, twin.log, twin.state = self.problem.branch(), copy(self.log), replace(self.state)
        twin._checkpoint, twin.missing = None, self.missing.branch(twin.problem)
        return twin

    def violators(self, limit: int | None = None, l1: float | None = None, rule: InductionRule = EXACT) -> Proposals:
        """Return candidates outside the working set that violate optimality; a rule with fixed candidates has none."""
        return no_proposals(self.options.max_order) if self.fixed_candidates else self._score(rule, limit, l1=l1)

    # -- stages --------------------------------------------------------------------------------------------------

    def _loop(self) -> FitResult:
        stages = {"start": self._start, "induce": self._induce, "optimize": self._optimize, "certify": self._certify}
        while self.state.stage != "end":
            stages[self.state.stage]()
            if self._checkpoint is not None and self._checkpoint.due():
                self._checkpoint.save(*self.snapshot())
        if self._checkpoint is not None:
            self._checkpoint.clear()
        problem, state = self.problem, self.state
        records, value = tuple(self.log.records), problem.point.value
        return FitResult(problem.field, records, value, state.violation, state.converged, self.missing.error)

    def _begins_in_single_precision(self) -> bool:
        """Return whether a certificate, which is in double precision, follows, and rounding errors are far below it."""
        error = SINGLE_PRECISION_ERROR * max(self.evaluator.total_weights, default=0.0)
        return self.options.certify and self.evaluator.has_single_precision and self.allowed_violation > error

    def _initialize(self) -> None:
        """Set biases to the log-odds of the training frequencies, without pairs, or use the warm start."""
        self.problem.single_precision = self._begins_in_single_precision()
        parts = [np.empty(0)]
        for schema, weight in zip(self.layout.schemas, self.evaluator.total_weights, strict=True):
            rare = 0.5 / max(weight, 1.0)
            parts.append(schema.initial_biases(rare))
        theta = np.concatenate(parts)
        if self._warm_start is not None:
            theta = np.concatenate([self._warm_start.biases, self._warm_start.weights])
            self.problem.set_features(pad_features(self._warm_start.features, self.options.max_order))
        self.missing.begin(theta, warm=self._warm_start is not None)
        if self._warm_start is not None and self._warm_start.latent:
            # Computes beliefs of latent cells, whose moments are needed next.
            self.evaluator.evaluate(self.problem.working_set.graphs, theta)
        self.problem.start_at(theta)
        if self.options.stages == 2:
            self._start_optimization("biases", next_stage="start")

    def _start(self) -> None:
        """Add the starting pairs of the rule."""
        start = self.rule.start(self.layout)
        if self._warm_start is not None:
            start = start[~np.isin(self.layout.keys(start), self.problem.working_set.pair_keys)]
        if len(start):
            self._add_features(pad_features(start, self.options.max_order))
        if self.fixed_candidates:
            self._end_induction()
        else:
            self.state.stage = "induce"

    def _induce(self) -> None:
        """Add a batch and take one step or several, unless no candidate stands out."""
        proceed = self._iterations_left()
        found = no_proposals(self.options.max_order)
        adapt_growth(self.state, self.problem.active)
        if proceed:
            found = self._score(self.rule, self._sizes.scored, pairs_first=True)
        self._drop_inactive()
        proposed = self._candidates.best(found, self._sizes.of_rule)
        added = self._add_features(proposed) if len(proposed) else 0
        useful = added / max(len(proposed), 1) * len(found)
        few = self.options.certify and useful < self._sizes.last
        near_optimum = self.rule.steps_per_batch == "auto" and self.options.certify
        if not added or (few and not (near_optimum and self.evaluator.keeps_errors)):
            self._end_induction(rough=useful > MANY_NEW * len(self.problem.working_set))
            return
        self.state.optimized = False
        if near_optimum:
            # With the working set near its optimum, fewer features are added that have to be dropped later.
            worst = float(self._candidates.excess(found).max())
            self.state.kkt_tolerance = max(0.5 * self.allowed_violation, INNER_TOLERANCE * worst)
            self._start_optimization("induce", next_stage="certify" if few else "induce", rounds=0)
            return
        if self.rule.steps_per_batch == "converge":
            self._start_optimization("induce", next_stage="induce", rounds=1)
            return
        for _ in range(self._steps_per_batch()):
            if not self._step("induce"):
                break

    def _end_induction(self, *, rough: bool = False) -> None:
        """Go on to the certificate; without one, induction ends where an optimum brings no further candidate.

        An optimization before the certificate ends early if it is ``rough``.
        """
        certify = self.options.certify
        if self.state.optimized or (certify and self.evaluator.keeps_errors):
            self.state.stage = "certify"
        elif not certify and not self.fixed_candidates:
            self.state.optimized = True
            self._start_optimization("optimize", next_stage="induce")
        else:
            self.state.kkt_tolerance = (ROUGH_TOLERANCE if rough else 0.5) * self.allowed_violation
            if certify and not rough:
                self.state.objective_tol = SMALL_CHANGES * self.options.tol
            self._start_optimization("optimize", next_stage="certify")

    def _start_optimization(self, phase: str, *, next_stage: str, rounds: int | None = None) -> None:
        """Optimize next, and replace missing cells some times; None goes on until these have converged."""
        state = self.state
        state.steps_without_progress = state.round_steps = 0
        state.averaging = rounds is None and not self.options.rough
        if rounds is None:
            rounds = self.missing.rounds_on_path if self.options.rough else self.missing.max_rounds
        state.stage, state.phase, state.next_stage, state.rounds_left = "optimize", phase, next_stage, rounds

    def _optimize(self) -> None:
        """Take a step, until the paper's rule or the tolerance ends the optimization and missing cells converged."""
        state = self.state
        if self._iterations_left():
            progress = self._step(state.phase) and state.steps_without_progress < MAX_STEPS_WITHOUT_PROGRESS
            state.round_steps += 1
            # A step takes as long as there are features, whatever their weights; a path adds some ahead of their use.
            if not self.evaluator.keeps_errors and state.phase != "path":
                self._drop_inactive()
            rough = self.options.certify and not state.averaging
            over = state.rounds_left > 0 and self.missing.round_is_over(state.round_steps, rough=rough)
            progress &= not (self.options.certify and self.problem.is_optimal_within(state.kkt_tolerance))
            if progress and not over:
                return
            if state.rounds_left > 0 and (self._replace_missing(averaging=state.averaging) or progress):
                state.rounds_left -= 1
                return
        state.stage = state.next_stage

    def _certify(self) -> None:
        """Score every candidate and add violators of optimality, until the largest violation is small enough."""
        allowed, state, problem = self.allowed_violation, self.state, self.problem
        drawing = self.missing.is_drawing
        if drawing and self.options.rough and state.replacements >= self.missing.rounds_on_path:
            drawing = replaced = False
        else:
            replaced = self._replace_missing()
        state.replacements += 1
        goes_on = self.options.certify and self._iterations_left() and self.evaluator.keeps_errors
        adapt_growth(state, problem.active)
        rough = goes_on and state.kkt_tolerance > allowed
        if not rough:
            self._use_double_precision()
        inside, worst, violators = self._violations(SINGLE_PRECISION if rough else EXACT)
        inexact = problem.single_precision or not self._candidates.always_exact
        if rough and inexact and worst <= allowed and not replaced:
            self._use_double_precision()
            inside, worst, violators = self._violations(EXACT)
        value, lowest = problem.point.value, state.lowest_objective
        lower = len(violators) > 0 and value < lowest - MIN_DECREASE * abs(lowest)
        state.idle_rounds = 0 if worst < 0.9 * state.smallest_violation or lower else state.idle_rounds + 1
        state.smallest_violation = min(state.smallest_violation, worst)
        state.lowest_objective = min(lowest, value)
        state.violation, state.converged = worst, worst <= allowed and not replaced
        stuck = state.idle_rounds > MAX_IDLE_ROUNDS or (not len(violators) and state.stalled)
        stuck &= not replaced
        if stuck and problem.single_precision:  # rounding errors may be the reason
            self._use_double_precision()
            self._forget_progress()
            stuck = False
        if drawing and replaced:
            self._forget_progress()  # the next round has another objective
        if state.converged or not self.options.certify or not self._iterations_left() or stuck:
            if self.missing.accept() or not self._iterations_left():
                state.stage = "end"
                return
            state.converged, state.replacements = False, MAX_ROUGH_SCORINGS
            self._forget_progress()
            self._replace_missing()
            self._start_optimization("certify" if self.options.certify else "optimize", next_stage="certify")
            return
        if len(violators):
            self._drop_inactive()
            self._add_features(self._candidates.best(violators, self._sizes.automatic))
        if inside > 0.5 * allowed:
            state.objective_tol *= 0.1
        few = len(violators) <= FEW_CANDIDATES * len(problem.working_set)
        # While large violations remain outside the working set, an exact optimum inside is wasted effort; a scoring
        # that finds nothing more is, too, where it takes as long as several steps.
        far = len(violators) > 0 and (self.evaluator.keeps_errors or not few)
        state.kkt_tolerance = max(0.5 * allowed, INNER_TOLERANCE * worst if far else 0.0)
        # Completions are averaged once hardly any candidate is left that would change them.
        few |= state.replacements > MAX_ROUGH_SCORINGS
        rounds = self.missing.rough_rounds if state.kkt_tolerance > 0.5 * allowed else None
        rounds = self.missing.rounds_on_path if drawing and not few else rounds
        self._start_optimization("certify", next_stage="certify", rounds=rounds)

    def _violations(self, rule: InductionRule) -> tuple[float, float, Proposals]:
        """Return the largest violation within the working set, that of all candidates, and those to add."""
        limit, allowed = max(self._sizes.scored, self._sizes.automatic), self.allowed_violation
        inside, found = self.problem.violation(), self.violators(limit, rule=rule)
        worst = float(self._candidates.excess(found).max(initial=0.0))
        if worst <= allowed and len(found) >= limit:  # the best scores need not have the largest excess
            found = self.violators(rule=rule)
            worst = float(self._candidates.excess(found).max(initial=0.0))
        return inside, max(inside, worst), self._candidates.above(found, 0.1 * allowed)

    def _use_double_precision(self) -> None:
        """Evaluate again at the current point in double precision, and from now on."""
        if self.problem.single_precision:
            self.problem.single_precision = False
            self.problem.evaluate_again()

    def _forget_progress(self) -> None:
        """Compare the next round of the certificate with none before."""
        state = self.state
        state.idle_rounds, state.smallest_violation, state.lowest_objective = 0, np.inf, np.finfo(float).max

    # -- parts of stages -----------------------------------------------------------------------------------------

    def _step(self, phase: str) -> bool:
        """Take one step of the optimizer; return False where no step lowers the objective."""
        problem, state = self.problem, self.state
        old_value, old_norm = problem.point.value, np.abs(problem.theta).sum()
        moved = problem.step(state.kkt_tolerance if self.options.certify else 0.0)
        state.stalled = not moved
        self.log.add(phase, problem)
        value, norm = problem.point.value, np.abs(problem.theta).sum()
        idle = abs(old_value - value) <= state.objective_tol * max(abs(value), 1.0)
        idle &= abs(norm - old_norm) <= 10 * state.objective_tol * max(norm, 1.0)
        state.steps_without_progress = state.steps_without_progress + 1 if idle else 0
        return moved

    def _replace_missing(self, *, averaging: bool = False) -> bool:
        """Replace missing cells; return True when so much changed that the optimizer has to continue.

        With ``averaging`` this is the next round of Monte Carlo EM, or its final objective.
        """
        if self.missing.present:
            self.state.steps_without_progress = self.state.round_steps = 0
        return self.missing.next_round() if averaging else self.missing.replace()

    def _add_features(self, features: np.ndarray, min_gradient: float | None = None) -> int:
        """Add features; where a certificate follows, only those whose exact gradient exceeds l1, or the given bound.

        The others, which an inexact score proposed, would only cost time.
        """
        min_gradient = self.options.l1 if min_gradient is None else min_gradient
        filtered = self.options.certify and not self.fixed_candidates
        self.state.steps_without_progress = 0
        self.state.last_added = self.problem.add_features(features, min_gradient if filtered else None)
        return self.state.last_added

    def _drop_inactive(self) -> None:
        state = self.state
        converging = state.kkt_tolerance > self.allowed_violation and state.idle_rounds == 0
        if self.options.certify and not self.fixed_candidates and self.missing.may_drop(converging=converging):
            self.problem.drop_inactive()

    @property
    def _candidates(self) -> Candidates:
        return Candidates(self.evaluator, self.problem, self.options)

    @property
    def _sizes(self) -> BatchSizes:
        n_features = len(self.problem.working_set)
        return BatchSizes(self.rule, self.options, self.state, self.layout.n_target_columns, n_features)

    def _score(
        self, rule: InductionRule, limit: int | None, *, pairs_first: bool = False, l1: float | None = None
    ) -> Proposals:
        with self.log.scoring():
            return self._candidates.score(rule, limit, pairs_first=pairs_first, l1=l1)

    def _steps_per_batch(self) -> int:
        return 1 if self.rule.steps_per_batch == "auto" else int(self.rule.steps_per_batch)

    def _iterations_left(self) -> bool:
        return len(self.log.records) < self.options.max_iter

    # -- checkpoint ----------------------------------------------------------------------------------------------

    def snapshot(self) -> tuple[Arrays, Facts]:
        """Return the state of the fit, from which `resume_from` continues to the bit."""
        arrays, missing = self.missing.state()
        facts = {
            "l1": float(self.options.l1),
            "value": self.problem.point.value,
            "state": asdict(self.state),
            "iterations": [record.as_row() for record in self.log.records],
            "seconds": self.log.seconds,
            "scoring_seconds": self.log.scoring_seconds,
            "missing": missing,
        }
        return self.problem.state() | arrays, facts

    def resume_from(self, arrays: Arrays, facts: Facts) -> None:
        """Continue a new trainer from a snapshot of one with the same data and options, but for l1."""
        self._initialize()
        self.options = replace(self.options, l1=facts["l1"])
        self.problem.penalty = replace(self.problem.penalty, l1=facts["l1"])
        self.missing.restore(arrays, facts["missing"])
        self.problem.restore(arrays, facts["value"])
        self.state = FitState(**facts["state"])
        records = [IterationRecord(**row) for row in facts["iterations"]]
        self.log.restore(records, facts["seconds"], facts["scoring_seconds"])
