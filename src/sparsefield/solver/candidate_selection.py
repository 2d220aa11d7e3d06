"""This module scores the candidates of a fit and selects those that join the working set."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
from sparsefield.objectives import Evaluator, ExactGradients
from sparsefield.solver.fit_state import TrainingOptions
from sparsefield.solver.working_problem import WorkingProblem

EXACT, SINGLE_PRECISION = Grafting(), CFI(threshold=1e-12)
"""Rules that score all candidates, in 64 bits, or in 32, which takes half the time: enough to find features to add, not
to certify that there are none."""

FEW_CANDIDATES = 0.02
"""Share of the working set below which candidates are so few that conjunctions join them, and that induction of
conjunctions ends."""


def no_proposals(width: int) -> Proposals:
    """Return no candidates, as features of at most ``width`` columns."""
    return concatenate_proposals([], width)


@dataclass(frozen=True)
class Candidates:
    """The candidates outside the working set, at the point of the last evaluation."""

    evaluator: Evaluator
    problem: WorkingProblem
    options: TrainingOptions

    @property
    def always_exact(self) -> bool:
        """Whether scores are in double precision whatever the rule: those of edges, and of the likelihood."""
        return self.problem.working_set.grouped or self.problem.working_set.by_likelihood

    def score(
        self, rule: InductionRule, limit: int | None, *, pairs_first: bool = False, l1: float | None = None
    ) -> Proposals:
        """Return candidates that stand out, at most ``limit`` pairs.

        With ``pairs_first`` there are no conjunctions while many pairs stand out: there are fewer pairs, and once they
        are in the working set, far fewer conjunctions look useful.
        """
        l1, width, working_set = self.options.l1 if l1 is None else l1, self.options.max_order, self.problem.working_set
        layout, factors = working_set.layout, self.evaluator.gradient_factors()
        if isinstance(factors, ExactGradients):
            return score_by_likelihood(factors, l1, working_set.pair_keys, limit, known_edges=working_set.groups)
        scale = self.evaluator.pair_factor
        if working_set.groups is not None:
            found = score_edges(factors.parts, layout, scale * l1, working_set.pair_keys, working_set.groups, limit)
        else:
            found = score_pairs(rule, factors, layout, scale * l1, working_set.pair_keys, limit)
        if working_set.grouped or scale < 1.0:
            return replace(found, score=found.score / scale)
        higher = []
        if width > 2 and not (pairs_first and len(found) > FEW_CANDIDATES * len(working_set)):
            known, penalty = working_set.conjunction_keys, self.options.order_penalty
            # Thresholds save no time here, so that they are used only where they decide what is learned.
            expandable, thresholds = self._expandable(), EXACT.thresholds if self.options.certify else rule.thresholds
            higher = [score_expansions(factors, layout, expandable, thresholds, l1, known, penalty)]
        return concatenate_proposals([found, *higher], width)

    def _expandable(self) -> np.ndarray:
        """Return the features that may be expanded by a column: the active ones, or, with "all", every pair as well."""
        working_set = self.problem.working_set
        active = working_set.features[self.problem.active & (working_set.features[:, -1] < 0)]
        if self.options.expand == "all":
            pairs = all_expandable(working_set.layout, self.options.max_order)
            return np.concatenate([pairs, active[working_set.have_higher_order(active)]])
        return active

    def excess(self, found: Proposals) -> np.ndarray:
        """Return by how much gradients exceed penalties, (candidates,)."""
        working_set, gradient = self.problem.working_set, np.abs(found.gradient)
        if working_set.grouped:  # the score is the norm of the scaled gradient of the edge
            return gradient * (1.0 - self.options.l1 / found.score)
        return gradient - self.options.l1 * working_set.penalty_factors_of(found.features)

    def above(self, found: Proposals, min_excess: float) -> Proposals:
        """Return the features with a larger excess; those of an edge, which have the same score, are not separated."""
        larger = self.excess(found) > min_excess
        if self.problem.working_set.grouped:
            larger = np.isin(found.score, found.score[larger])
        return found.take(np.flatnonzero(larger))

    def best(self, found: Proposals, count: int) -> np.ndarray:
        """Return the features of highest score; those of an edge, which have the same score, are not separated."""
        if self.problem.working_set.grouped and len(found) > count:
            least = np.partition(found.score, len(found) - count)[len(found) - count]
            count = int((found.score >= least).sum())
        return best_proposals(found, count).features
