"""This module decides how many candidates a scoring has to find, and how many of them join the working set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.induction import InductionRule
from sparsefield.solver.candidate_selection import FEW_CANDIDATES
from sparsefield.solver.fit_state import FitState, TrainingOptions

MIN_BATCH = 50
"""The paper's batch size; the certificate adds at least as many features at a time."""

MIN_USEFUL, LARGE_GROWTH = 0.9, 3.0
"""Where at least this share of the features that were added last have a weight, automatic batches are this many times
as large: on columns that depend on few others, nearly all candidates are needed, and each round costs a scoring."""

LAST_CANDIDATES = 1.0
"""Induction of pairs ends when fewer candidates than this share of the working set stand out; the certificate takes
over, whose scores leave nothing out and find all that are left at once."""


@dataclass(frozen=True)
class BatchSizes:
    """Sizes of batches at one point of a fit."""

    rule: InductionRule
    options: TrainingOptions
    state: FitState
    n_target_columns: int
    n_features: int
    """Number of features in the working set."""

    @property
    def automatic(self) -> int:
        size = max(4 * self.n_target_columns, self.n_features)
        return max(MIN_BATCH, int(self.state.growth * size))

    @property
    def of_rule(self) -> int:
        """The batch size of the rule, which may be automatic."""
        return self.automatic if self.rule.batch_size == "auto" else int(self.rule.batch_size)

    @property
    def scored(self) -> int:
        """How many candidates scoring has to find: as many as are added, or as decide when induction ends."""
        if not self.options.certify and self.state.stage == "induce" and self.options.max_order == 2:
            return self.of_rule
        return max(self.of_rule, MIN_BATCH, self.n_features)

    @property
    def last(self) -> float:
        """Number of candidates below which induction leaves the rest to the certificate."""
        # Conjunctions are expanded from features that are active, so that all pairs come first.
        return (LAST_CANDIDATES if self.options.max_order == 2 else FEW_CANDIDATES) * self.n_features


def adapt_growth(state: FitState, active: np.ndarray) -> None:
    """Make automatic batches larger as long as nearly all features of the last one are needed.

    ``active`` tells which features of the working set have a weight; those that were added last are at its end.
    """
    added, state.last_added = state.last_added, 0
    if added:
        state.growth = LARGE_GROWTH if float(active[-added:].mean()) >= MIN_USEFUL else 1.0
