"""Candidates outside the working set: their scores, the best of them, and by how much they violate optimality."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sparsefield.induction import (
    CFI,
    Grafting,
    InductionRule,
    Proposals,
    all_expandable,
    best_proposals,
    concatenate_proposals,
    score_by_likelihood,
    score_edges,
    score_expansions,
    score_pairs,
)
from sparsefield.objectives import ExactGradients
from sparsefield.solver.policy import FEW_CANDIDATES
from sparsefield.solver.state import State

EXACT, SINGLE_PRECISION = Grafting(), CFI(threshold=1e-12)
"""Rules that score all candidates, in 64 bits, or in 32, which takes half the time: enough to find features to add, not
to certify that there are none."""


def score(
    state: State, rule: InductionRule, limit: int | None, *, pairs_first: bool = False, l1: float | None = None
) -> Proposals:
    """Return candidates whose gradient exceeds l1, at most ``limit`` pairs.

    With ``pairs_first`` there are no conjunctions while many pairs stand out: there are fewer pairs, and once they
    are in the working set, far fewer conjunctions look useful.
    """
    with state.scoring():
        return _score(state, rule, limit, pairs_first, state.options.l1 if l1 is None else l1)


def _score(state: State, rule: InductionRule, limit: int | None, pairs_first: bool, l1: float) -> Proposals:
    options, working_set, layout = state.options, state.working_set, state.layout
    factors, scale = state.problem.gradient_factors(), state.problem.pair_factor
    if isinstance(factors, ExactGradients):
        return score_by_likelihood(factors, l1, working_set.pair_keys, limit, known_edges=working_set.edges)
    if working_set.edges is not None:
        pairs = score_edges(factors.parts, layout, scale * l1, working_set.pair_keys, working_set.edges, limit)
    else:
        pairs = score_pairs(rule, factors, layout, scale * l1, working_set.pair_keys, limit)
    if working_set.grouped or scale < 1.0:
        return replace(pairs, score=pairs.score / scale)
    if options.max_order == 2 or (pairs_first and len(pairs) > FEW_CANDIDATES * len(working_set)):
        return concatenate_proposals([pairs], options.max_order)
    # Thresholds save no time here, so that they are used only where they decide what is learned.
    thresholds = EXACT.thresholds if options.certify else rule.thresholds
    known, expandable = working_set.conjunction_keys, _expandable(state)
    higher = score_expansions(factors, layout, expandable, thresholds, l1, known, options.order_penalty)
    return concatenate_proposals([pairs, higher], options.max_order)


def _expandable(state: State) -> np.ndarray:
    """Return the features that may be expanded by a column: the active ones, or, with "all", every pair as well."""
    working_set, options = state.working_set, state.options
    active = working_set.features[working_set.active & (working_set.features[:, -1] < 0)]
    if options.expand == "all":
        pairs = all_expandable(state.layout, options.max_order)
        return np.concatenate([pairs, active[working_set.have_higher_order(active)]])
    return active


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


class Certificate(NamedTuple):
    """Violations of the optimality conditions."""

    inside: float
    """The largest within the working set."""
    worst: float
    """The largest of all."""
    violators: Proposals
    """Candidates outside the working set that violate their condition by more than a tenth of what is allowed."""


def certificate(state: State, limit: int, *, rough: bool) -> Certificate:
    """Return the violations of all candidates at the present point.

    Parameters
    ----------
    limit : number of violators that suffice while violations are larger than allowed
    rough : whether single precision will do as long as violations are larger than allowed
    """
    allowed, working_set = state.options.allowed_violation, state.working_set
    if not rough:
        working_set.use_double_precision()
    violations = _violations(state, SINGLE_PRECISION if rough else EXACT, limit)
    inexact = working_set.single_precision or not (working_set.grouped or state.problem.has_exact_scores)
    if rough and inexact and violations.worst <= allowed:
        working_set.use_double_precision()
        violations = _violations(state, EXACT, limit)
    return violations


def _violations(state: State, rule: InductionRule, limit: int) -> Certificate:
    allowed, inside = state.options.allowed_violation, state.working_set.violation()
    if state.fixed:
        return Certificate(inside, inside, concatenate_proposals([], state.options.max_order))
    proposals = score(state, rule, limit)
    beyond = excess(state, proposals)
    if beyond.max(initial=0.0) <= allowed and len(proposals) >= limit:
        proposals = score(state, rule, None)  # the best scores need not have the largest excess
        beyond = excess(state, proposals)
    large = beyond > 0.1 * allowed
    if state.working_set.grouped:
        large = np.isin(proposals.score, proposals.score[large])
    worst = max(inside, float(beyond.max(initial=0.0)))
    return Certificate(inside, worst, proposals.take(np.flatnonzero(large)))
