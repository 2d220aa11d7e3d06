"""Candidate pairs, the best of those that were scored, and exact scores of covariates and of the likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparsefield.data import CandidateBlock, Layout
from sparsefield.data.coding import PENALTY_FACTORS, ColumnClass
from sparsefield.model import pad_features
from sparsefield.objectives import CovariateGradientFactors, ExactGradients
from sparsefield.objectives.likelihood_evaluator import likelihood_factors
from sparsefield.objectives.objective import PairQuery


@dataclass(frozen=True)
class Proposals:
    """Candidate features whose gradient exceeds a bound."""

    features: np.ndarray
    """(candidates, columns): padded with -1."""
    gradient: np.ndarray
    """Exact or estimated."""
    score: np.ndarray
    """The larger, the better."""

    def __len__(self) -> int:
        return len(self.gradient)

    def take(self, index: np.ndarray) -> Proposals:
        return Proposals(self.features[index], self.gradient[index], self.score[index])


def concatenate_proposals(parts: Sequence[Proposals], width: int = 2) -> Proposals:
    """Concatenate proposals of at most ``width`` columns."""
    return Proposals(
        np.concatenate([np.empty((0, width), dtype=np.int64), *(pad_features(part.features, width) for part in parts)]),
        np.concatenate([np.empty(0), *(part.gradient for part in parts)]),
        np.concatenate([np.empty(0), *(part.score for part in parts)]),
    )


def best_proposals(proposals: Proposals, limit: int) -> Proposals:
    """Return the ``limit`` proposals of highest score; equal scores are ordered by columns, so the choice is unique."""
    if len(proposals) > limit:
        least = np.partition(proposals.score, len(proposals) - limit)[len(proposals) - limit]
        proposals = proposals.take(np.flatnonzero(proposals.score >= least))
    order = np.lexsort((*proposals.features.T[::-1], -proposals.score))
    return proposals.take(order[:limit])


def admissible(block: CandidateBlock, layout: Layout, a: np.ndarray, b: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return which positions in a block are candidates: two variables, and a key that is not ``known`` (sorted)."""
    keep = np.ones(len(a), dtype=bool)
    if block.within:
        owner = layout.schemas[block.left.table].variable_of_column
        keep = owner[block.left.columns[a]] != owner[block.right.columns[b]]
    if len(known) and keep.any():
        keys = layout.keys(pairs_at(block, layout, a[keep], b[keep]))
        position = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        keep[keep] = known[position] != keys
    return keep


def all_pairs(layout: Layout) -> np.ndarray:
    """Return every candidate pair (pairs, 2) of every template."""
    blocks = layout.candidate_blocks
    return np.concatenate([pairs_at(block, layout, *candidate_positions(layout, block)) for block in blocks])


def candidate_positions(layout: Layout, block: CandidateBlock) -> tuple[np.ndarray, np.ndarray]:
    """Return all candidates of a block, as ascending positions among its left and right columns."""
    width = len(block.right.columns)
    a, b = np.divmod(np.arange(len(block.left.columns) * width), max(width, 1))
    keep = (a < block.left.n_target_columns) | (b < block.right.n_target_columns)
    if block.mirrored:
        keep &= a <= b
    if block.within:
        owner = layout.schemas[block.left.table].variable_of_column[block.left.columns]
        keep &= owner[a] != owner[b]
    keep &= np.isfinite(block.factors(a, b))
    return a[keep], b[keep]


def pairs_at(block: CandidateBlock, layout: Layout, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the columns (pairs, 2) at positions of a block: first a target state, the left one if both are."""
    left, right = layout.column_starts[block.left.table], layout.column_starts[block.right.table]
    left_first = a < block.left.n_target_columns
    pairs = np.empty((len(a), 2), dtype=np.int64)
    pairs[left_first, 0] = left + block.left.columns[a[left_first]]
    pairs[left_first, 1] = left + block.right.neighbor_columns[b[left_first]]
    pairs[~left_first, 0] = right + block.right.columns[b[~left_first]]
    pairs[~left_first, 1] = right + block.left.neighbor_columns[a[~left_first]]
    return pairs


def edge_norms(layout: Layout, pairs: np.ndarray, scaled: np.ndarray, known_edges: np.ndarray) -> np.ndarray:
    """Return the norm of the scaled gradients of the edge of each pair, (pairs,).

    ``scaled`` are gradients over the factors of l1 of the pairs alone. The norm is infinite for the rest of a known
    edge, some of whose pairs are in the working set: once these have weights, no l1 keeps the others at 0.
    """
    keys, edge = np.unique(layout.edge_keys(pairs), return_inverse=True)
    norms = np.sqrt(np.bincount(edge, np.square(scaled / layout.edge_factors(pairs)), len(keys)))
    norms[np.isin(keys, known_edges)] = np.inf
    return norms[edge]


def score_covariates(factors: CovariateGradientFactors, query: PairQuery) -> Proposals:
    """Return the pairs of a label and a covariate whose gradient exceeds l1."""
    layout, covariates, n = factors.layout, factors.covariates, factors.layout.n_target_columns
    blocks = covariates.column_blocks
    parts = factors.engine.map(lambda block: covariates.large_sums(factors.errors, n, query.l1, block), blocks)
    keys, sums = (np.concatenate(part) for part in zip(*parts, strict=True))
    covariate, state = np.divmod(keys, n)
    pairs = np.column_stack([layout.column_of_target[state], n + covariate])
    scores = np.abs(sums) / PENALTY_FACTORS[layout.column_classes[pairs[:, 0]], ColumnClass.OBSERVED_SCORE]
    large = np.flatnonzero((scores > query.l1) & ~np.isin(layout.keys(pairs), query.known))
    return Proposals(pairs[large], sums[large], scores[large])


def score_by_likelihood(factors: ExactGradients, query: PairQuery) -> Proposals:
    """Return the pairs, or the pairs of edges, whose gradient of the likelihood exceeds l1: expected minus observed."""
    layout, pairs = factors.layout, all_pairs(factors.layout)
    pairs = pairs[~np.isin(layout.keys(pairs), query.known)]
    if not len(pairs):
        return Proposals(pairs, np.empty(0), np.empty(0))
    gradient = factors.gradient(pairs)
    score = np.abs(gradient) / likelihood_factors(layout, pairs)
    if query.edges is not None:
        score = edge_norms(layout, pairs, score, query.edges)
    proposals = Proposals(pairs, gradient, score).take(np.flatnonzero(score > query.l1))
    return proposals if query.limit is None or query.edges is not None else best_proposals(proposals, query.limit)
