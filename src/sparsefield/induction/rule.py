"""Induction rules: option objects that decide which features enter the working set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from numbers import Real
from typing import ClassVar

import numpy as np

from sparsefield.data import Layout
from sparsefield.induction.candidates import Proposals, best_proposals, concatenate_proposals
from sparsefield.induction.edge_scores import score_edges
from sparsefield.induction.sparse_scores import score_sparse_pairs
from sparsefield.induction.special_scores import score_by_likelihood, score_covariates
from sparsefield.objectives import CovariateGradientFactors, ExactGradients, GradientFactors, SparseGradientFactors
from sparsefield.objectives.objective import PairQuery
from sparsefield.options import OptionObject


class InductionRule(OptionObject, ABC):
    """A rule starts with some pairs and proposes more while the fit proceeds."""

    name: ClassVar[str]
    fixed_candidates: ClassVar[bool] = False
    """True when the starting pairs are all candidates; the certificate then covers only those."""
    supports_sparse: ClassVar[bool] = True
    """Whether the rule can score the candidates of a sparse table."""
    batch_size: int | str = "auto"
    """Features that are added at a time."""
    steps_per_batch: int | str = "auto"
    """Optimizer steps after each batch."""

    @property
    def thresholds(self) -> tuple[float, float]:
        """Errors and signals below these two values are ignored."""
        return 0.0, 0.0

    def start(self, layout: Layout) -> np.ndarray:
        """Return the pairs, (pairs, 2), that are in the working set from the beginning."""
        return np.empty((0, 2), dtype=np.int64)

    @abstractmethod
    def score(
        self,
        factors: GradientFactors,
        layout: Layout,
        min_gradient: float,
        known: np.ndarray,
        limit: int | None = None,
    ) -> Proposals:
        """Return pairs whose gradient exceeds ``min_gradient`` in size and whose key is not in ``known`` (sorted).

        With a ``limit``, only that many of the highest score are returned.
        """

    def score_dense(self, factors: GradientFactors, query: PairQuery) -> Proposals:
        """Return the pairs, or the pairs of edges, of dense rows that the rule proposes."""
        layout, scale = factors.layout, factors.pair_factor
        if query.edges is None:
            proposals = self.score(factors, layout, scale * query.l1, query.known, query.limit)
        else:
            proposals = score_edges(factors.parts, layout, scale * query.l1, query.known, query.edges, query.limit)
        return replace(proposals, score=proposals.score / scale)

    def score_sparse(self, factors: SparseGradientFactors, query: PairQuery) -> Proposals:
        """Return the pairs of a sparse table that the rule proposes; an edge of binary variables is one pair."""
        # Signals are those of cells that are 1, and large; baseline errors and signals cost nothing to keep.
        return score_sparse_pairs(factors, factors.layout, self.thresholds[0], query.l1, query.known, query.limit)

    def score_covariates(self, factors: CovariateGradientFactors, query: PairQuery) -> Proposals:
        """Return the pairs of labels that the rule proposes, and all pairs of a label and a covariate."""
        layout, labels = factors.layout, factors.labels.layout
        state, other = np.divmod(query.known, layout.n_columns)
        among = other < layout.n_target_columns
        known = state[among] * np.int64(labels.n_columns) + other[among]
        pairs = self.score_dense(factors.labels, query._replace(known=known))
        proposals = concatenate_proposals([pairs, score_covariates(factors, query)])
        return proposals if query.limit is None else best_proposals(proposals, query.limit)

    def score_exactly(self, factors: ExactGradients, query: PairQuery) -> Proposals:
        """Return the pairs whose gradient of the likelihood exceeds l1."""
        return score_by_likelihood(factors, query)


@dataclass(frozen=True)
class ThresholdRule(InductionRule):
    """A rule that ignores small errors and small signals.

    Parameters
    ----------
    threshold : float, or a pair of floats
        t_err and t_sig of Algorithm 1; one number stands for both.
    batch_size : int or "auto"
        Features that are added at a time; "auto" grows with the working set.
    steps_per_batch : int, "auto" or "converge"
        Optimizer steps after each batch; "auto" brings the features near their optimum where a certificate follows and
        takes one step otherwise, "converge" goes on to the optimum.
    """

    threshold: float | tuple[float, float] = 0.2
    batch_size: int | str = "auto"
    steps_per_batch: int | str = "auto"

    @property
    def thresholds(self) -> tuple[float, float]:
        """(t_err, t_sig)."""
        if isinstance(self.threshold, Real):
            return float(self.threshold), float(self.threshold)
        error, signal = self.threshold  # pyright: ignore[reportGeneralTypeIssues]
        return error, signal


class FixedCandidatesRule(InductionRule):
    """A rule that proposes nothing after its starting pairs."""

    fixed_candidates = True

    def score(
        self,
        factors: GradientFactors,
        layout: Layout,
        min_gradient: float,
        known: np.ndarray,
        limit: int | None = None,
    ) -> Proposals:
        return concatenate_proposals([])
