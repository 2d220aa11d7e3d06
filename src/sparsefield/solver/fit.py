"""The training loop: score candidates, add the best, optimize; then certify that no candidate was left out.

`fit` is section 3 of the paper (Lao and Zhu), whose equations it names. Without a certificate (``certify=False``) it is
the paper's loop: the top J candidates join the working set, a step of L-BFGS on their weights follows, and so on until
no candidate stands out. The certificate is an addition. At the optimum of Eq. 5, the gradient of a feature outside the
working set is at most l1, and that of a feature inside is balanced by its penalties; by how much it is not is its
*violation*. The exact gradients of all candidates show whether any is left, and those that violate join. Until then the
working set is optimized only as exactly as the next scoring needs.
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
    MAX_IDLE_ROUNDS,
    MAX_IDLE_STEPS,
    MIN_DECREASE,
    ROUGH_ROUNDS,
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
    rule : proposes candidates until hardly any stands out; then all of them are scored exactly, and with None at once
    """
    added = -1
    while True:
        if rule is not None:
            candidates = score(state, rule, candidates_to_score(state, rule), pairs_first=True)  # Algorithm 1
        else:
            candidates, violation = certificate(state)  # the exact gradient of every candidate, Eq. 12 and 14
            if is_finished(state, len(candidates), violation):
                return state.result(violation.worst, converged=violation.converged)
        added_before = added
        added, addable = add_best(state, candidates, batch_size(state, rule))  # the top J
        improve(state, rule, candidates, added, addable)  # the objective of Eq. 5, over the working set
        if rule is not None:
            # Few candidates that stand out are left to the certificate. Without one, a rule has to find nothing twice:
            # improve() has gone on to the optimum in between.
            nothing = added == 0 and (added_before == 0 or state.options.certify)
            if nothing or not state.iterations_left or has_few(state, rule, addable):
                rule = None


def begin(state: State, rule: InductionRule, start: WarmStart | None = None) -> None:
    """Set biases to the log-odds of frequencies, or all weights to a start, and add the pairs that a rule starts with.

    Those are all candidates for Full-L1 and a fixed graph, and none for CFI and Grafting.
    """
    state.begin(start)
    state.fixed = rule.fixed_candidates
    if state.options.stages == 2:  # "the first stage ... optimizes until convergence"
        optimize(state, "biases")
    add_start(state, rule)
    if state.fixed:
        optimize(state, "optimize")


def add_start(state: State, rule: InductionRule) -> None:
    """Add the pairs that a rule starts with."""
    pairs = rule.start(state.layout)
    pairs = pairs[~np.isin(state.layout.keys(pairs), state.working_set.pair_keys)]
    add_features(state, pad_features(pairs, state.options.max_order))


# -- the working set ---------------------------------------------------------------------------------------------------


def improve(state: State, rule: InductionRule | None, candidates: Proposals, added: int, addable: float) -> None:
    """Optimize the working set after features were added, as exactly as the next scoring needs it.

    With a certificate, the violation among the candidates sets the tolerance. While that is large, an exact optimum is
    wasted effort. So is a scoring that finds nothing if the problem keeps no errors: it takes as long as several steps.
    """
    options, steps_per_batch = state.options, "auto" if rule is None else rule.steps_per_batch
    if rule is not None and options.certify and added == 0:
        return  # the certificate comes next, and decides what is needed
    if rule is not None and (not options.certify or steps_per_batch != "auto"):
        if addable:
            steps = {"auto": 1, "converge": options.max_iter}.get(str(steps_per_batch), steps_per_batch)
            optimize(state, "induce", int(steps))
        else:
            optimize(state, "optimize")
        return
    violation = excess(state, candidates).max(initial=0.0)
    if rule is None and len(candidates):
        violation = max(violation, state.working_set.violation())
    loose = state.problem.keeps_errors or not has_few(state, rule, addable)
    state.tolerance = max(options.inner_tolerance, INNER_TOLERANCE * violation if loose else 0.0)
    if rule is not None:
        optimize(state, "induce", options.max_iter)
        return
    # Candidates that are about to be added change missing cells again, so that these need not converge. What many late
    # candidates gain would also count as Monte Carlo error; yet the last of them cannot be awaited.
    few = addable <= FEW_CANDIDATES * 4.0**state.scorings * len(state.working_set)
    exact = few if state.missing.is_random else state.tolerance <= options.inner_tolerance
    if exact and state.missing.is_random:  # rounds end after few steps, and averages are near the optimum
        state.tolerance = options.inner_tolerance
    optimize(state, "certify", exact=exact)


def optimize(state: State, phase: str, steps: int | None = None, exact: bool = True) -> None:
    """Take steps on the working set: up to a number of them, or until none is worth it.

    They end where the violation within the working set is below `State.tolerance` or, as in the paper, where objective
    and L1 norm hardly change for several steps. Without a limit of steps, missing cells are replaced in between: a few
    times, or if ``exact`` until they do not change any more. ``phase`` is the name of the steps in the log.
    """

    def advance(most: int | None) -> None:
        state.idle_steps = taken = 0
        while state.iterations_left and taken != most:
            progress, taken = state.step(phase) and state.idle_steps < MAX_IDLE_STEPS, taken + 1
            # On sparse rows the time of a step depends on the features, whatever their weights; a path adds some ahead.
            if not state.problem.keeps_errors and phase != "path":
                drop_inactive(state)
            if not progress or (state.options.certify and state.working_set.is_optimal_within(state.tolerance)):
                return

    if steps is None:
        state.missing.alternate(advance, exact=exact)
    else:
        advance(steps)


def add_best(state: State, proposals: Proposals, count: int) -> tuple[int, float]:
    """Add the proposals of highest score; return how many were added, and about how many all proposals would add.

    Scores may be estimates, so that not all of the best are added: see `add_features`. Features of an edge, which have
    the same score, are not separated.
    """
    if len(proposals):
        drop_inactive(state)
    if state.working_set.grouped and len(proposals) > count:
        least = np.partition(proposals.score, len(proposals) - count)[len(proposals) - count]
        count = int((proposals.score >= least).sum())
    batch = best_proposals(proposals, count).features
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
    undisturbed = not state.missing.present or (progressing and not state.missing.is_final)
    if state.options.certify and not state.fixed and undisturbed:
        state.working_set.drop_inactive()


def batch_size(state: State, rule: InductionRule | None = None) -> int:
    """Return J: that of a rule, or one that grows with the working set."""
    if rule is not None and rule.batch_size != "auto":
        return int(rule.batch_size)
    return max(4 * state.layout.n_target_columns, state.options.min_batch, len(state.working_set))


# -- candidates --------------------------------------------------------------------------------------------------------


def candidates_to_score(state: State, rule: InductionRule | None = None) -> int:
    """Return how many candidates a scoring has to find: as many as are added, or as decide when induction ends."""
    if rule is not None and not state.options.certify and state.options.max_order == 2:
        return batch_size(state, rule)
    return max(batch_size(state, rule), len(state.working_set))


def has_few(state: State, rule: InductionRule | None, addable: float) -> bool:
    """Return whether candidates are so few that the certificate finds them at once: fewer than the working set has.

    While more are left, a working set near its optimum brings fewer features that have to be dropped later. There are
    far more conjunctions than pairs, so fewer of those must be left.
    """
    pairs_only = rule is not None and state.options.max_order == 2
    return state.options.certify and addable < len(state.working_set) * (1.0 if pairs_only else FEW_CANDIDATES)


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
        expandable = expandable[~working_set.are_protected(expandable)]
        known = working_set.conjunction_keys
        higher = score_expansions(factors, state.layout, expandable, l1, known, options.order_penalty)
        return concatenate_proposals([pairs, higher], options.max_order)


def excess(state: State, proposals: Proposals) -> np.ndarray:
    """Return the violations of candidates, (candidates,): by how much gradients exceed l1 times penalty factors.

    Of an edge that is penalized as a group the score is the norm of its gradients over these factors, and exceeds l1.
    """
    gradient, l1 = np.abs(proposals.gradient), state.options.l1
    if state.working_set.grouped:
        return gradient * (1.0 - l1 / proposals.score)
    return gradient - l1 * state.working_set.penalty_factors_of(proposals.features)


# -- the certificate ---------------------------------------------------------------------------------------------------


class Violation(NamedTuple):
    """Violations of the optimality conditions."""

    inside: float
    """The largest within the working set."""
    worst: float
    """The largest of all."""
    converged: bool
    """Whether none is larger than allowed, and missing cells have not changed."""


def certificate(state: State) -> tuple[Proposals, Violation]:
    """Replace missing cells at the present weights; return the violators outside the working set, and the violation.

    Candidates count that violate their condition by more than a tenth of what is allowed.
    """
    allowed = state.options.allowed_violation
    replaced = not (state.options.rough and state.scorings >= ROUGH_ROUNDS) and state.missing.refresh()
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
    return proposals.take(np.flatnonzero(large)), Violation(inside, worst, worst <= allowed and not replaced)


def is_finished(state: State, n_violators: int, violation: Violation) -> bool:
    """Return whether the fit ends: it has converged, or nothing helps, with enough completions of missing cells.

    Too many rounds in a row without progress end it, too. A round makes progress by a smaller violation or, while
    violators remain, by a lower objective: small batches take many rounds.
    """
    value, lowest = state.working_set.point.value, state.lowest_objective
    lower = n_violators > 0 and value < lowest - MIN_DECREASE * abs(lowest)
    state.idle_rounds = 0 if violation.worst < 0.9 * state.smallest_violation or lower else state.idle_rounds + 1
    state.smallest_violation = min(state.smallest_violation, violation.worst)
    state.lowest_objective = min(lowest, value)
    stuck = state.idle_rounds > MAX_IDLE_ROUNDS or (n_violators == 0 and state.stalled)
    if not state.iterations_left or not state.options.certify or violation.converged or stuck:
        if state.missing.accept() or not state.iterations_left:
            return True
        state.forget_progress()
    if violation.inside > state.options.inner_tolerance:
        state.objective_tol *= 0.1
    return False
