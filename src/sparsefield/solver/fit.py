"""The training loop: score candidates, add the best, optimize; then certify that no candidate was left out.

`fit` is section 3 of the paper (Lao and Zhu), whose equations it names; the certificate is an addition.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparsefield.induction import InductionRule
from sparsefield.model import pad_features
from sparsefield.solver.candidates import Certificate, best, certificate, excess, score
from sparsefield.solver.policy import (
    FEW_CANDIDATES,
    INNER_TOLERANCE,
    LARGE_GROWTH,
    MANY_NEW,
    MAX_IDLE_ROUNDS,
    MAX_IDLE_STEPS,
    MIN_BATCH,
    MIN_DECREASE,
    MIN_USEFUL,
    ROUGH_TOLERANCE,
    SMALL_CHANGES,
)
from sparsefield.solver.state import FitResult, State, WarmStart


def fit(state: State, rule: InductionRule, start: WarmStart | None = None) -> FitResult:
    """Learn a field from single states, or from the weights of a similar one.

    Parameters
    ----------
    state : problem, options and working set of the fit
    rule : proposes candidates until hardly any stands out; the certificate then scores all of them exactly
    start : initial features and weights; None takes single states at the log-odds of their frequencies
    """
    options, missing, working_set = state.options, state.missing, state.working_set
    state.fixed = rule.fixed_candidates
    useful, at_optimum, inducing = 0.0, False, not state.fixed
    state.begin(start)
    if options.stages == 2:
        optimize(state, Goal("biases", *missing.schedule()))  # "the first stage ... optimizes until convergence"
    pairs = rule.start(state.layout)  # all candidates for Full-L1, none for CFI and Grafting
    pairs = pairs[~np.isin(state.layout.keys(pairs), working_set.pair_keys)]
    add_features(state, pad_features(pairs, options.max_order))

    while inducing and state.iterations_left:
        # Algorithm 1: h, the sums of signal x error, estimates the gradients of Eq. 12 to 14; exact for Grafting.
        proposals = score(state, rule, candidates_to_score(state, rule), pairs_first=True)
        drop_inactive(state)
        batch = best(state, proposals, batch_size(state, rule))  # the top J
        added = add_features(state, batch)
        if not added and not options.certify and not at_optimum:
            # Without a certificate, induction ends where an optimum brings no further candidate.
            optimize(state, Goal("optimize", *missing.schedule()))
            at_optimum = True
            continue
        at_optimum = False
        # Where nearly all candidates are in the working set, the certificate finds the rest at once. While many are
        # left, a working set near its optimum brings fewer features that have to be dropped later.
        useful = added / max(len(batch), 1) * len(proposals)
        few = options.certify and useful < len(working_set) * (1.0 if options.max_order == 2 else FEW_CANDIDATES)
        near_optimum = options.certify and rule.steps_per_batch == "auto"
        if not added or (few and not (near_optimum and state.problem.keeps_errors)):
            break
        if near_optimum:
            state.tolerance = inner_tolerance(state, float(excess(state, proposals).max()))
            optimize(state, Goal("induce"))  # Eq. 5 within the working set
        elif rule.steps_per_batch == "converge":
            optimize(state, Goal("induce", rounds=1))
        else:
            optimize(state, Goal("induce", steps=1 if rule.steps_per_batch == "auto" else int(rule.steps_per_batch)))
        inducing = not few

    if not state.problem.keeps_errors if options.certify else state.fixed:
        # Scoring all candidates takes as long as several steps: the working set is at its optimum before, unless so
        # much of it is new that others will follow.
        rough = options.certify and useful > MANY_NEW * len(working_set)
        state.tolerance = (ROUGH_TOLERANCE if rough else 0.5) * options.allowed_violation
        state.objective_tol *= SMALL_CHANGES if options.certify and not rough else 1.0
        optimize(state, Goal("optimize", *missing.schedule()))
    return certify(state)


def certify(state: State) -> FitResult:
    """Score every candidate exactly, add those that violate optimality, and optimize, until there are none."""
    options, missing, working_set = state.options, state.missing, state.working_set
    allowed, scorings = options.allowed_violation, 0
    state.forget_progress()
    while True:
        replaced = missing.refresh(scorings)  # q0, or completions, at the present weights
        scorings += 1
        rough = options.certify and state.iterations_left and state.problem.keeps_errors and state.tolerance > allowed
        limit = max(candidates_to_score(state), batch_size(state))
        violations = certificate(state, limit, rough=rough)  # the gradients of Eq. 12, minus l1
        converged = violations.worst <= allowed and not replaced
        stuck = is_stuck(state, violations) and not replaced
        if stuck and working_set.use_double_precision():  # rounding errors may be the reason
            stuck = False
            state.forget_progress()
        if replaced and missing.is_random:  # the next round has another objective
            state.forget_progress()
        if converged or stuck or not options.certify or not state.iterations_left:
            if missing.accept() or not state.iterations_left:
                return state.result(violations.worst, converged=converged)
            scorings = 1
            state.forget_progress()
            optimize(state, Goal("certify" if options.certify else "optimize", *missing.schedule()))
            continue
        if len(violations.violators):
            drop_inactive(state)
            add_features(state, best(state, violations.violators, batch_size(state)))
        if violations.inside > 0.5 * allowed:
            state.objective_tol *= 0.1
        few = len(violations.violators) <= FEW_CANDIDATES * len(working_set)
        # While large violations remain outside the working set, an exact optimum inside is wasted effort; a scoring
        # that finds nothing more is, too, where it takes as long as several steps.
        far = len(violations.violators) > 0 and (state.problem.keeps_errors or not few)
        state.tolerance = inner_tolerance(state, violations.worst if far else 0.0)
        loose = state.tolerance > 0.5 * allowed
        # Completions are averaged once hardly any candidate is left that would change them.
        optimize(state, Goal("certify", *missing.schedule(loose=loose, settled=few or scorings > 1)))


class Goal(NamedTuple):
    """How far an optimization of the working set goes."""

    phase: str
    """Its name in the training log."""
    rounds: int = 0
    """How many times missing cells may be replaced."""
    converging: bool = False
    """Whether these replacements are to converge."""
    steps: int | None = None
    """Steps at most; None goes on to `State.tolerance`, or until steps hardly change anything."""


def optimize(state: State, goal: Goal) -> None:
    """Optimize the working set, and replace missing cells in between."""
    options, missing, working_set = state.options, state.missing, state.working_set
    steps = total = state.idle_steps = 0
    rounds = goal.rounds
    while state.iterations_left and total != goal.steps:
        progress = state.step(goal.phase) and state.idle_steps < MAX_IDLE_STEPS
        steps, total = steps + 1, total + 1
        # A step takes as long as there are features, whatever their weights; a path adds some ahead of their use.
        if not state.problem.keeps_errors and goal.phase != "path":
            drop_inactive(state)
        progress = progress and not (options.certify and working_set.is_optimal_within(state.tolerance))
        enough = rounds > 0 and missing.round_is_over(steps, converging=goal.converging or not options.certify)
        if progress and not enough:
            continue
        if rounds == 0:
            return
        changed = missing.next_round() if goal.converging else missing.refresh()
        if missing.present:
            steps = state.idle_steps = 0
        if not (changed or progress):
            return
        rounds -= 1


def add_features(state: State, features: np.ndarray, min_gradient: float | None = None) -> int:
    """Add features and return their number; where a certificate follows, only those whose exact gradient is large.

    It has to exceed l1, or ``min_gradient``; fixed features are added whatever their gradients.
    """
    if not len(features):
        return 0
    min_gradient = state.options.l1 if min_gradient is None else min_gradient
    return state.working_set.add_features(features, min_gradient if state.options.certify and not state.fixed else None)


def drop_inactive(state: State) -> None:
    """Drop features without a weight where they can return, and where their absence does not disturb missing cells."""
    progressing = state.tolerance > state.options.allowed_violation and state.idle_rounds == 0
    if state.options.certify and not state.fixed and state.missing.may_drop(progressing=progressing):
        state.working_set.drop_inactive()


def inner_tolerance(state: State, violation: float) -> float:
    """Return how exact the working set has to be, with this violation among all candidates."""
    return max(0.5 * state.options.allowed_violation, INNER_TOLERANCE * violation)


def batch_size(state: State, rule: InductionRule | None = None) -> int:
    """Return J: that of a rule, or one that grows with the working set, and faster while nearly all are needed."""
    if rule is not None and rule.batch_size != "auto":
        return int(rule.batch_size)
    working_set = state.working_set
    growth = LARGE_GROWTH if working_set.share_of_last_batch >= MIN_USEFUL else 1.0
    return max(MIN_BATCH, int(growth * max(4 * state.layout.n_target_columns, len(working_set))))


def candidates_to_score(state: State, rule: InductionRule | None = None) -> int:
    """Return how many candidates a scoring has to find: as many as are added, or as decide when induction ends."""
    if rule is not None and not state.options.certify and state.options.max_order == 2:
        return batch_size(state, rule)
    return max(batch_size(state, rule), MIN_BATCH, len(state.working_set))


def is_stuck(state: State, violations: Certificate) -> bool:
    """Count a round of the certificate, and return whether too many of them were idle, or no step helps.

    A round makes progress by a smaller violation or, while violators remain, by a lower objective: small batches take
    many rounds.
    """
    value, lowest, worst = state.working_set.point.value, state.lowest_objective, violations.worst
    lower = len(violations.violators) > 0 and value < lowest - MIN_DECREASE * abs(lowest)
    state.idle_rounds = 0 if worst < 0.9 * state.smallest_violation or lower else state.idle_rounds + 1
    state.smallest_violation, state.lowest_objective = min(state.smallest_violation, worst), min(lowest, value)
    return state.idle_rounds > MAX_IDLE_ROUNDS or (not len(violations.violators) and state.stalled)
