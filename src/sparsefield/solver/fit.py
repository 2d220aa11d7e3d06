"""The training loop: score candidates, add the best, optimize; then certify that no candidate was left out.

`fit` is section 3 of the paper (Lao and Zhu), whose equations it names; the certificate is an addition.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sparsefield.induction import (
    CFI,
    Grafting,
    InductionRule,
    Proposals,
    all_expandable,
    best_proposals,
    concatenate_proposals,
    score_expansions,
)
from sparsefield.model import pad_features
from sparsefield.objectives.objective import PairQuery
from sparsefield.solver.policy import (
    FEW_CANDIDATES,
    INNER_TOLERANCE,
    LARGE_GROWTH,
    MAX_IDLE_ROUNDS,
    MAX_IDLE_STEPS,
    MIN_DECREASE,
    MIN_USEFUL,
)
from sparsefield.solver.state import FitResult, State, WarmStart
from sparsefield.solver.working_set import have_higher_order

EXACT, ROUGH = Grafting(), CFI(threshold=1e-12)
"""Rules that score all candidates, in 64 bits, or in 32, which takes half the time: enough to find features to add, not
to certify that there are none."""


def fit(state: State, rule: InductionRule | None = None) -> FitResult:
    """Add features and optimize their weights until no candidate would improve the fit.

    Parameters
    ----------
    state : features and weights to start from, see `begin`
    rule : proposes candidates until hardly any stands out; the certificate, which scores all of them exactly, follows,
        or comes first with None
    """
    at_optimum = False
    while rule is not None:
        proposals = score(state, rule, candidates_to_score(state, rule), pairs_first=True)  # Algorithm 1
        added, useful = add_best(state, proposals, batch_size(state, rule))  # the top J
        if added == 0 and (at_optimum or state.options.certify):
            break
        optimize(state, goal_of_induction(state, rule, proposals, useful))  # Eq. 5 within the working set
        if not state.iterations_left or has_few(state, rule, useful):
            break
        at_optimum = added == 0
    while True:
        checked = certificate(state)  # the gradient of every candidate, Eq. 12 and 14, minus l1
        if is_finished(state, checked):
            return state.result(checked.worst, converged=checked.converged)
        _, useful = add_best(state, checked.violators, batch_size(state))
        optimize(state, goal_of_certificate(state, checked.violators, useful))


def begin(state: State, rule: InductionRule, start: WarmStart | None = None) -> None:
    """Set biases to the log-odds of frequencies, or all weights to a start, and add the pairs that a rule starts with.

    Those are all candidates for Full-L1 and a fixed graph, and none for CFI and Grafting.
    """
    state.begin(start)
    state.fixed = rule.fixed_candidates
    if state.options.stages == 2:  # "the first stage ... optimizes until convergence"
        optimize(state, Goal("biases", *state.missing.schedule()))
    add_start(state, rule)
    if state.fixed:
        optimize(state, Goal("optimize", *state.missing.schedule()))


def add_start(state: State, rule: InductionRule) -> None:
    """Add the pairs that a rule starts with."""
    pairs = rule.start(state.layout)
    pairs = pairs[~np.isin(state.layout.keys(pairs), state.working_set.pair_keys)]
    add_features(state, pad_features(pairs, state.options.max_order))


# -- the working set ---------------------------------------------------------------------------------------------------


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


def goal_of_induction(state: State, rule: InductionRule, proposals: Proposals, useful: float) -> Goal:
    """Return how far to optimize after a batch of a rule."""
    if not state.options.certify or rule.steps_per_batch != "auto":
        if not useful:
            return Goal("optimize", *state.missing.schedule())
        steps = {"auto": 1, "converge": state.options.max_iter}.get(str(rule.steps_per_batch), rule.steps_per_batch)
        return Goal("induce", steps=int(steps))
    loosen(state, rule, excess(state, proposals).max(initial=0.0), useful)
    return Goal("induce")


def goal_of_certificate(state: State, violators: Proposals, useful: float) -> Goal:
    """Return how far to optimize after the certificate has added violators."""
    violation = excess(state, violators).max(initial=0.0)
    loosen(state, None, max(violation, state.working_set.violation()) if len(violators) else violation, useful)
    # Completions are averaged once hardly any candidate is left that would change them.
    settled = useful <= FEW_CANDIDATES * len(state.working_set) or state.scorings > 1
    return Goal("certify", *state.missing.schedule(loose=state.is_loose, settled=settled))


def loosen(state: State, rule: InductionRule | None, violation: float, useful: float) -> None:
    """Set the tolerance within the working set, by the violation among the other candidates.

    While that is large, an exact optimum is wasted effort; a scoring that finds nothing more is, too, where it takes as
    long as several steps.
    """
    loose = state.problem.keeps_errors or not has_few(state, rule, useful)
    state.tolerance = max(state.options.inner_tolerance, INNER_TOLERANCE * violation if loose else 0.0)


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


def add_best(state: State, proposals: Proposals, count: int) -> tuple[int, float]:
    """Add the best proposals; return their number, and about how many of all proposals would be added."""
    if len(proposals):
        drop_inactive(state)
    batch = best(state, proposals, count)
    added = add_features(state, batch)
    return added, added / max(len(batch), 1) * len(proposals)


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


def batch_size(state: State, rule: InductionRule | None = None) -> int:
    """Return J: that of a rule, or one that grows with the working set, and faster while nearly all are needed."""
    if rule is not None and rule.batch_size != "auto":
        return int(rule.batch_size)
    growth = LARGE_GROWTH if state.working_set.share_of_last_batch >= MIN_USEFUL else 1.0
    return int(growth * max(4 * state.layout.n_target_columns, state.options.min_batch, len(state.working_set)))


# -- candidates --------------------------------------------------------------------------------------------------------


def candidates_to_score(state: State, rule: InductionRule | None = None) -> int:
    """Return how many candidates a scoring has to find: as many as are added, or as decide when induction ends."""
    if rule is not None and not state.options.certify and state.options.max_order == 2:
        return batch_size(state, rule)
    return max(batch_size(state, rule), len(state.working_set))


def has_few(state: State, rule: InductionRule | None, useful: float) -> bool:
    """Return whether candidates are so few that the certificate finds them at once: fewer than the working set has.

    While more are left, a working set near its optimum brings fewer features that have to be dropped later. There are
    far more conjunctions than pairs, so fewer of those must be left.
    """
    pairs_only = rule is not None and state.options.max_order == 2
    return state.options.certify and useful < len(state.working_set) * (1.0 if pairs_only else FEW_CANDIDATES)


def score(
    state: State, rule: InductionRule, limit: int | None, *, pairs_first: bool = False, l1: float | None = None
) -> Proposals:
    """Return candidates whose gradient exceeds l1, at most ``limit`` pairs.

    With ``pairs_first`` there are no conjunctions while many pairs stand out: there are fewer pairs, and once they
    are in the working set, far fewer conjunctions look useful.
    """
    options, working_set, l1 = state.options, state.working_set, state.options.l1 if l1 is None else l1
    with state.scoring():
        factors: Any = state.problem.gradient_factors()
        pairs = factors.propose(rule, PairQuery(l1, working_set.pair_keys, limit, working_set.edges))
        if options.max_order == 2 or (pairs_first and len(pairs) > FEW_CANDIDATES * len(working_set)):
            return concatenate_proposals([pairs], options.max_order)
        # Features with a weight are expanded by a column, or, with "all", every pair of columns is, too.
        expandable = working_set.features[working_set.active & (working_set.features[:, -1] < 0)]
        if options.expand == "all":
            higher = expandable[have_higher_order(expandable)]
            expandable = np.concatenate([all_expandable(state.layout, options.max_order), higher])
        # Thresholds save no time here, so that they are used only where they decide what is learned.
        thresholds = EXACT.thresholds if options.certify else rule.thresholds
        known = working_set.conjunction_keys
        higher = score_expansions(factors, state.layout, expandable, thresholds, l1, known, options.order_penalty)
        return concatenate_proposals([pairs, higher], options.max_order)


def excess(state: State, proposals: Proposals) -> np.ndarray:
    """Return by how much gradients exceed penalties, (candidates,)."""
    gradient, l1 = np.abs(proposals.gradient), state.options.l1
    if state.working_set.grouped:  # the score is the norm of the scaled gradient of the edge
        return gradient * (1.0 - l1 / proposals.score)
    return gradient - l1 * state.working_set.penalty_factors_of(proposals.features)


def best(state: State, proposals: Proposals, count: int) -> np.ndarray:
    """Return the features of highest score; those of an edge, which have the same score, are not separated."""
    if state.working_set.grouped and len(proposals) > count:
        least = np.partition(proposals.score, len(proposals) - count)[len(proposals) - count]
        count = int((proposals.score >= least).sum())
    return best_proposals(proposals, count).features


# -- the certificate ---------------------------------------------------------------------------------------------------


class Certificate(NamedTuple):
    """Violations of the optimality conditions."""

    inside: float
    """The largest within the working set."""
    worst: float
    """The largest of all."""
    violators: Proposals
    """Candidates outside the working set that violate their condition by more than a tenth of what is allowed."""
    converged: bool
    """Whether no violation is larger than allowed, and missing cells have not changed."""


def certificate(state: State) -> Certificate:
    """Replace missing cells at the present weights, and return the violations of all candidates."""
    allowed = state.options.allowed_violation
    replaced = state.missing.refresh(state.scorings)
    state.scorings += 1
    if replaced and state.missing.is_random:  # the objective is another one
        state.forget_progress()
    proposals, limit = concatenate_proposals([], state.options.max_order), candidates_to_score(state)
    inside = state.working_set.violation()
    if not state.fixed:
        far = state.options.certify and state.tolerance > allowed and state.problem.keeps_errors
        proposals = score(state, ROUGH if far else EXACT, limit)
        if far and max(inside, excess(state, proposals).max(initial=0.0)) <= allowed:
            proposals = score(state, EXACT, limit)
    beyond = excess(state, proposals)
    if beyond.max(initial=0.0) <= allowed and len(proposals) >= limit:
        proposals = score(state, EXACT, None)  # the best scores need not have the largest excess
        beyond = excess(state, proposals)
    large = beyond > 0.1 * allowed
    if state.working_set.grouped:
        large = np.isin(proposals.score, proposals.score[large])
    worst = max(inside, float(beyond.max(initial=0.0)))
    violators = proposals.take(np.flatnonzero(large))
    return Certificate(inside, worst, violators, converged=worst <= allowed and not replaced)


def is_finished(state: State, checked: Certificate) -> bool:
    """Return whether the fit ends: it has converged, or nothing helps, with enough completions of missing cells.

    Too many rounds in a row without progress end it, too. A round makes progress by a smaller violation or, while
    violators remain, by a lower objective: small batches take many rounds.
    """
    value, lowest, n_violators = state.working_set.point.value, state.lowest_objective, len(checked.violators)
    lower = n_violators > 0 and value < lowest - MIN_DECREASE * abs(lowest)
    state.idle_rounds = 0 if checked.worst < 0.9 * state.smallest_violation or lower else state.idle_rounds + 1
    state.smallest_violation, state.lowest_objective = min(state.smallest_violation, checked.worst), min(lowest, value)
    stuck = state.idle_rounds > MAX_IDLE_ROUNDS or (n_violators == 0 and state.stalled)
    if not state.iterations_left or not state.options.certify or checked.converged or stuck:
        if state.missing.accept() or not state.iterations_left:
            return True
        state.forget_progress()
    if checked.inside > state.options.inner_tolerance:
        state.objective_tol *= 0.1
    return False
