"""Induction rules: option objects that decide which features enter the working set.

A rule scores candidates by sums over rows of error x signal (Eq. 12 and 13): exactly (Grafting), without small terms
(CFI, Algorithm 1), or as cosines (ideal parent); or it puts all candidates into the working set (Full-L1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sparsefield import config
from sparsefield.data import CandidateBlock, Layout
from sparsefield.data.coding import PENALTY_FACTORS, ColumnClass
from sparsefield.data.layout import Side
from sparsefield.induction.dense_scores import (
    Proposals,
    RankOne,
    Thresholds,
    all_pairs,
    best_proposals,
    concatenate_proposals,
    edge_norms,
    keep_large_values,
    score_edges,
    score_pairs_dense,
    score_paths,
)
from sparsefield.induction.sparse_scores import score_sparse_pairs
from sparsefield.model import compile_adjacency
from sparsefield.objectives import CovariateGradientFactors, ExactGradients, GradientFactors, SparseGradientFactors
from sparsefield.objectives.block_evaluation import EvaluatedBlock, gradient
from sparsefield.objectives.likelihood_evaluator import likelihood_factors
from sparsefield.objectives.objective import PairQuery
from sparsefield.options import OptionObject

if TYPE_CHECKING:
    from sparsefield.objectives.torch_evaluator import DeviceTable


class InductionRule(OptionObject, ABC):
    """A rule starts with some pairs and proposes more while the fit proceeds."""

    name: ClassVar[str]
    fixed_candidates: ClassVar[bool] = False
    """True when the starting pairs are all candidates; the certificate then covers only those."""
    supports_sparse: ClassVar[bool] = True
    """Whether the rule can score the candidates of a sparse table."""
    supports_groups: ClassVar[bool] = True
    """Whether the rule may be replaced by scores of whole edges, which a group penalty selects."""
    supports_conjunctions: ClassVar[bool] = False
    """Whether features of more than two columns may follow the pairs that the rule adds."""
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
    def score(self, factors: GradientFactors, query: PairQuery) -> Proposals:
        """Return pairs whose gradient exceeds ``query.l1`` in size, times the factor of their columns."""

    def score_dense(self, factors: GradientFactors, query: PairQuery) -> Proposals:
        """Return the pairs, or the pairs of edges, of dense rows that the rule proposes."""
        scale = factors.pair_factor
        scaled = query._replace(l1=scale * query.l1)
        edges = query.edges is not None
        proposals = score_edges(factors.parts, factors.layout, scaled) if edges else self.score(factors, scaled)
        if factors.layout.path_views and not self.fixed_candidates:
            proposals = concatenate_proposals([proposals, score_paths(factors.parts, factors.layout, scaled)])
            proposals = proposals if query.limit is None else best_proposals(proposals, query.limit)
        return replace(proposals, score=proposals.score / scale)

    def score_sparse(self, factors: SparseGradientFactors, query: PairQuery) -> Proposals:
        """Return the pairs of a sparse table that the rule proposes; an edge of binary variables is one pair."""
        # Signals are those of cells that are 1, and large; baseline errors and signals cost nothing to keep.
        return score_sparse_pairs(factors, factors.layout, self.thresholds[0], query.l1, query.known, query.limit)

    def score_on_device(self, table: DeviceTable, query: PairQuery) -> Proposals:
        """Return the pairs of a table on a device whose gradient exceeds l1, by scores of all pairs, as in Full-L1."""
        return Proposals(*table.pairs_above(query, exact=self.thresholds == (0.0, 0.0)))

    def score_covariates(self, factors: CovariateGradientFactors, query: PairQuery) -> Proposals:
        """Return the pairs of labels that the rule proposes, and all pairs of a label and a covariate."""
        layout, labels = factors.layout, factors.labels.layout
        state, other = np.divmod(query.known, layout.n_columns)
        among = other < layout.n_target_columns
        known = state[among] * np.int64(labels.n_columns) + other[among]
        between = self.score_dense(factors.labels, query._replace(known=known))
        covariates, n = factors.covariates, layout.n_target_columns
        parts = factors.engine.map(
            lambda block: covariates.large_sums(factors.errors, n, query.l1, block), covariates.column_blocks
        )
        keys, sums = (np.concatenate(part) for part in zip(*parts, strict=True))
        covariate, state = np.divmod(keys, n)
        pairs = np.column_stack([layout.column_of_target[state], n + covariate])
        scores = np.abs(sums) / PENALTY_FACTORS[layout.column_classes[pairs[:, 0]], ColumnClass.OBSERVED_SCORE]
        large = np.flatnonzero((scores > query.l1) & ~np.isin(layout.keys(pairs), query.known))
        proposals = concatenate_proposals([between, Proposals(pairs[large], sums[large], scores[large])])
        return proposals if query.limit is None else best_proposals(proposals, query.limit)

    def score_exactly(self, factors: ExactGradients, query: PairQuery) -> Proposals:
        """Return the pairs, or the pairs of edges, whose gradient of the likelihood exceeds l1: expected - observed."""
        layout, pairs = factors.layout, all_pairs(factors.layout)
        pairs = pairs[~np.isin(layout.keys(pairs), query.known)]
        if not len(pairs):
            return concatenate_proposals([])
        gradient = factors.gradient(pairs)
        score = np.abs(gradient) / likelihood_factors(layout, pairs)
        if query.edges is not None:
            score = edge_norms(layout, pairs, score, query.edges)
        proposals = Proposals(pairs, gradient, score).take(np.flatnonzero(score > query.l1))
        return proposals if query.limit is None or query.edges is not None else best_proposals(proposals, query.limit)


class FixedCandidatesRule(InductionRule):
    """A rule that proposes nothing after its starting pairs."""

    fixed_candidates = True

    def score(self, factors: GradientFactors, query: PairQuery) -> Proposals:
        return concatenate_proposals([])


@dataclass(frozen=True)
class CFI(InductionRule):
    """Score a pair by the sum of signal x error over entries above thresholds (contrastive feature induction).

    The score is h_AB = sum_i signal_A error_B + signal_B error_A.
    The rank-one term E[B] g_A + E[A] g_B of the decomposition (Eq. 13) is kept, so that with thresholds 0 the estimate
    is the exact gradient whether or not biases have converged.

    Parameters
    ----------
    threshold : float, or a pair of floats
        t_err and t_sig of Algorithm 1; one number stands for both.
    batch_size : int or "auto"
        Features that are added at a time; "auto" grows with the working set.
    steps_per_batch : int, "auto" or "converge"
        Optimizer steps after each batch; "auto" brings the features near their optimum where a certificate follows and
        takes one step otherwise, "converge" goes on to the optimum.

    Examples
    --------
    >>> CFI(threshold=0.1).thresholds
    (0.1, 0.1)
    """

    threshold: float | tuple[float, float] = 0.2
    batch_size: int | str = "auto"
    steps_per_batch: int | str = "auto"
    name = "cfi"
    supports_conjunctions = True
    keeps_rank_one_term: ClassVar[bool] = True
    """Whether the rank-one term is kept."""

    @property
    def thresholds(self) -> tuple[float, float]:
        """(t_err, t_sig)."""
        if isinstance(self.threshold, Real):
            return float(self.threshold), float(self.threshold)
        error, signal = self.threshold  # pyright: ignore[reportGeneralTypeIssues]
        return error, signal

    def score(self, factors: GradientFactors, query: PairQuery) -> Proposals:
        rank_one = _rank_one_term(factors) if self.keeps_rank_one_term else None
        # An estimate without the small terms loses nothing by single precision, and is twice as fast.
        dtype = np.float32 if any(self.thresholds) else config.FLOAT
        before = zip(factors.means, factors.layout.widths_without_paths, strict=True)
        thresholds = Thresholds(*self.thresholds, [means[:width] for means, width in before])
        parts, _ = factors.parts.map_update(keep_large_values, thresholds, dtype)
        return score_pairs_dense(parts, factors.layout, query, rank_one)


class PaperCFI(CFI):
    """Score pairs as Algorithm 1 of the paper does, without the rank-one term, with the options of `CFI`.

    That term vanishes where biases have converged and have no penalty. A penalized bias has a gradient
    of up to l1 at its optimum, which then also contributes to the gradients of pairs with frequent states.
    """

    name = "cfi-paper"
    supports_sparse = supports_groups = supports_conjunctions = False
    keeps_rank_one_term = False


def _rank_one_term(factors: GradientFactors) -> RankOne:
    """Return a function of the rank-one term: bias gradient x mean, of A and B and of B and A."""

    def factors_of(side: Side, other: Side) -> tuple[np.ndarray, np.ndarray]:
        """Return the bias gradients and the means of the columns of a side; 0 where there are none."""
        bias_gradient, mean, n = np.zeros(len(side.columns)), np.zeros(len(side.columns)), side.n_target_columns
        bias_gradient[:n] = factors.bias_gradient[side.table][side.columns[:n]]
        if len(side.neighbor_columns):
            mean = factors.means[other.table][side.neighbor_columns]
        return bias_gradient, mean

    blocks = factors.layout.candidate_blocks
    of_sides = [(factors_of(own.left, own.right), factors_of(own.right, own.left)) for own in blocks]

    def term(block: CandidateBlock, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        (bias_left, mean_left), (bias_right, mean_right) = of_sides[block.template]
        return bias_left[a] * mean_right[b] + mean_left[a] * bias_right[b]

    return term


@dataclass(frozen=True)
class Grafting(InductionRule):
    """Score every candidate by its exact gradient.

    That is g_AB = sum_i error_A expectation_B + error_B expectation_A, which the certificate uses, too.

    Parameters
    ----------
    batch_size, steps_per_batch : see `CFI`
    """

    batch_size: int | str = "auto"
    steps_per_batch: int | str = "auto"
    name = "grafting"
    supports_conjunctions = True

    def score(self, factors: GradientFactors, query: PairQuery) -> Proposals:
        return score_pairs_dense(factors.parts, factors.layout, query)


class IdealParent(CFI):
    """Rank pairs by the larger of ``|cos(error_A, signal_B)|`` and ``|cos(signal_A, error_B)|``.

    A pair may enter, as with the other rules, when its (estimated) gradient exceeds l1. Options are those of `CFI`.
    """

    name = "ideal-parent"
    supports_sparse = supports_groups = supports_conjunctions = False

    def score(self, factors: GradientFactors, query: PairQuery) -> Proposals:
        layout, thresholds = factors.layout, Thresholds(*self.thresholds, factors.means)
        parts, squares = factors.parts.map_update(_keep_large_and_sum_squares, thresholds, layout)
        error_norms, signal_norms = (np.where(sums > 0, np.sqrt(sums), 1.0) for sums in squares)
        found = score_pairs_dense(parts, layout, query._replace(limit=None))
        arcs, n = layout.arcs(found.features), layout.n_target_columns
        graphs = compile_adjacency(layout, arcs._replace(feature=np.arange(len(arcs.target))))
        products = parts.sum(gradient, False, graphs, n + len(arcs.target))[n:]
        scores = np.zeros(len(found))
        norms = error_norms[layout.column_of_target[arcs.target]] * signal_norms[arcs.source]
        np.maximum.at(scores, arcs.feature, np.abs(products) / norms)
        proposals = Proposals(found.features, found.gradient, scores / layout.feature_factors(found.features))
        return proposals if query.limit is None else best_proposals(proposals, query.limit)


def _keep_large_and_sum_squares(
    part: EvaluatedBlock, thresholds: Thresholds, layout: Layout
) -> tuple[EvaluatedBlock, tuple[np.ndarray, np.ndarray]]:
    """Drop small errors and signals, and sum the squares of the others, (columns of all tables,) each."""
    part, _ = keep_large_values(part, thresholds)
    sums, start = [], layout.column_starts[part.table]
    for values in (part.errors, part.expectations):
        squares = np.zeros(layout.n_columns)
        squares[start : start + len(values)] = np.einsum("ci,ci->c", values, values)
        sums.append(squares)
    return part, (sums[0], sums[1])


@dataclass(frozen=True)
class FullL1(FixedCandidatesRule):
    """Put all pairs into the working set at once; the L1 penalty selects."""

    name = "full"

    def start(self, layout: Layout) -> np.ndarray:
        count = layout.n_candidate_pairs
        config.refuse_beyond_memory(
            config.BYTES_OF_FEATURE * count,
            f"induction='full' with {count:,} candidates",
            lambda: "let induction='cfi' find those that matter.",
        )
        return all_pairs(layout)
