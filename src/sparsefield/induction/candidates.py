"""Candidate pairs with their scores, and the choice of the best of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.data import Schema

__all__ = ["Scored", "all_pairs", "merge", "pair_keys", "select"]


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


def pair_keys(schema: Schema, pairs: np.ndarray) -> np.ndarray:
    """One number per pair, for set operations."""
    return pairs[:, 0] * np.int64(schema.n_columns) + pairs[:, 1]


def admissible(scored: Scored, schema: Schema, known: np.ndarray) -> Scored:
    """Drop pairs within one variable and pairs whose key is in ``known`` (sorted)."""
    owner = schema.variable_of_column
    keep = owner[scored.a] != owner[scored.b]
    if len(known) and len(scored):
        keys = pair_keys(schema, scored.pairs)
        place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        keep &= known[place] != keys
    return scored.take(np.flatnonzero(keep))


def select(scored: Scored, limit: int) -> Scored:
    """The ``limit`` pairs of highest rank; equal ranks go by position, so that the choice is never a matter of luck."""
    if len(scored) > limit:
        least = np.partition(scored.rank, len(scored) - limit)[len(scored) - limit]
        scored = scored.take(np.flatnonzero(scored.rank >= least))
    order = np.lexsort((scored.b, scored.a, -scored.rank))
    return scored.take(order[:limit])


def all_pairs(schema: Schema) -> np.ndarray:
    """Every candidate pair, ascending: two states of two variables, at least one of them a target's."""
    owner = schema.variable_of_column
    parts = []
    for a in range(schema.n_states):
        b = np.arange(int(schema.state_offsets[owner[a] + 1]), schema.n_columns)
        parts.append(np.column_stack([np.full(len(b), a), b]))
    return np.concatenate(parts).astype(np.int64) if parts else np.empty((0, 2), dtype=np.int64)
