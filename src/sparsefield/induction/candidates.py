"""Candidate pairs, and the best of those that were scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparsefield.data import CandidateBlock, Layout
from sparsefield.model import pad_features


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


def contains(ascending: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return which keys are among ascending ones, (keys,)."""
    if not len(ascending):
        return np.zeros(len(keys), dtype=bool)
    return ascending[np.minimum(np.searchsorted(ascending, keys), len(ascending) - 1)] == keys


def are_candidates(block: CandidateBlock, layout: Layout, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return which positions among the left and right columns of a block are candidates."""
    keep = (a < block.left.n_target_columns) | (b < block.right.n_target_columns)
    keep &= np.isfinite(block.factors(a, b))
    if block.mirrored:
        keep &= a <= b
    if block.within:
        owner = layout.schemas[block.left.table].variable_of_column
        keep &= owner[block.left.columns[a]] != owner[block.right.columns[b]]
    return keep


def all_pairs(layout: Layout) -> np.ndarray:
    """Return every candidate pair (pairs, 2) of every template."""
    parts = [layout.path_pairs(view) for view in layout.path_views if view.side == 0]
    for block in layout.candidate_blocks:
        width = len(block.right.columns)
        a, b = np.divmod(np.arange(len(block.left.columns) * width), max(width, 1))
        keep = are_candidates(block, layout, a, b)
        parts.append(pairs_at(block, layout, a[keep], b[keep]))
    return np.concatenate(parts)


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
