"""Candidate pairs with their scores, and the choice of the best of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.data import CandidateBlock, Layout

__all__ = ["Scored", "admissible", "all_pairs", "candidate_places", "merge", "pairs_at", "select"]


@dataclass(frozen=True)
class Scored:
    """Pairs that stand out, with the gradient (exact or estimated) of each and the value that ranks them."""

    a: np.ndarray
    b: np.ndarray
    gradient: np.ndarray
    rank: np.ndarray

    def __len__(self) -> int:
        return len(self.a)

    @property
    def pairs(self) -> np.ndarray:
        return np.column_stack([self.a, self.b]).astype(np.int64)

    def take(self, index: np.ndarray) -> Scored:
        return Scored(self.a[index], self.b[index], self.gradient[index], self.rank[index])


def merge(parts: list[Scored]) -> Scored:
    """Several lists as one, in the order given."""
    if not parts:
        empty = np.empty(0)
        return Scored(empty.astype(np.int64), empty.astype(np.int64), empty, empty)
    return Scored(
        np.concatenate([p.a for p in parts]),
        np.concatenate([p.b for p in parts]),
        np.concatenate([p.gradient for p in parts]),
        np.concatenate([p.rank for p in parts]),
    )


def admissible(meeting: CandidateBlock, layout: Layout, a: np.ndarray, b: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Which places in a meeting are candidates: not those within one variable, nor those whose key is ``known``."""
    keep = np.ones(len(a), dtype=bool)
    if meeting.within:
        owner = layout.schemas[meeting.left.table].variable_of_column
        keep = owner[meeting.left.columns[a]] != owner[meeting.right.columns[b]]
    if len(known) and keep.any():
        keys = layout.keys(pairs_at(meeting, layout, a[keep], b[keep]))
        place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        keep[keep] = known[place] != keys
    return keep


def select(scored: Scored, limit: int) -> Scored:
    """The ``limit`` pairs of highest rank; equal ranks go by position, so that the choice is never a matter of luck."""
    if len(scored) > limit:
        least = np.partition(scored.rank, len(scored) - limit)[len(scored) - limit]
        scored = scored.take(np.flatnonzero(scored.rank >= least))
    order = np.lexsort((scored.b, scored.a, -scored.rank))
    return scored.take(order[:limit])


def all_pairs(layout: Layout) -> np.ndarray:
    """Every candidate pair of every template, at least one end of each a target state."""
    return np.concatenate([pairs_at(m, layout, *candidate_places(layout, m)) for m in layout.candidate_blocks])


def candidate_places(layout: Layout, meeting: CandidateBlock) -> tuple[np.ndarray, np.ndarray]:
    """All candidates of a meeting, as places among its left and right columns, ascending."""
    width = len(meeting.right.columns)
    a, b = np.divmod(np.arange(len(meeting.left.columns) * width), max(width, 1))
    keep = (a < meeting.left.n_states) | (b < meeting.right.n_states)
    if meeting.mirrored:
        keep &= a <= b
    if meeting.within:
        owner = layout.schemas[meeting.left.table].variable_of_column
        keep &= owner[a] != owner[b]
    return a[keep], b[keep]


def pairs_at(meeting: CandidateBlock, layout: Layout, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Column numbers of pairs in a meeting; the end that is a target state first, the left one when both are."""
    left, right = layout.column_starts[meeting.left.table], layout.column_starts[meeting.right.table]
    forth = a < meeting.left.n_states
    pairs = np.empty((len(a), 2), dtype=np.int64)
    pairs[forth, 0] = left + meeting.left.columns[a[forth]]
    pairs[forth, 1] = left + meeting.right.neighbor_columns[b[forth]]
    pairs[~forth, 0] = right + meeting.right.columns[b[~forth]]
    pairs[~forth, 1] = right + meeting.left.neighbor_columns[a[~forth]]
    return pairs
