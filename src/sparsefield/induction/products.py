"""Scores of the pairs that meet, when few errors and signals are large: a product of two sparse matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sparsefield import policy
from sparsefield.data import Layout, Meeting
from sparsefield.engines import Threads
from sparsefield.induction.candidates import Scored, admissible, merge
from sparsefield.kernels.products import count_large, gather_large, keep_large, score_states
from sparsefield.objectives.sparse_evaluation import Entries

__all__ = ["Large", "Margins", "collect", "score_meetings"]


class Large(NamedTuple):
    """Which entries of (columns, rows) blocks count: those further from their column's centre than the row's limit."""

    parts: tuple[np.ndarray, ...]
    centres: np.ndarray
    limits: tuple[np.ndarray, ...]

    def count(self, engine: Threads) -> list[np.ndarray]:
        """Per block, (rows,): how many entries of each row count."""

        def one(k: int) -> np.ndarray:
            counts = np.zeros(self.parts[k].shape[1], dtype=np.int64)
            count_large(self.parts[k], self.centres, self.limits[k], counts)
            return counts

        return engine.map(one, range(len(self.parts)))

    def dense(self, engine: Threads, dtype: type = policy.FLOAT) -> list[np.ndarray]:
        """The blocks with everything else set to 0."""

        def one(k: int) -> np.ndarray:
            out = np.empty(self.parts[k].shape, dtype=dtype)
            keep_large(self.parts[k], self.centres, self.limits[k], out)
            return out

        return engine.map(one, range(len(self.parts)))


class Sides(NamedTuple):
    """Large entries at the two ends of a meeting."""

    errors_left: Entries
    signals_left: Entries
    """What the left table's rows see."""
    signals_right: Entries
    errors_right: Entries


class Places(NamedTuple):
    """A meeting as kernels take it."""

    left_columns: np.ndarray
    right_columns: np.ndarray
    left_states: int
    right_states: int
    seen_right: int
    """First of the consecutive columns in which the left table's rows see the right columns."""
    seen_left: np.ndarray
    mirrored: bool


def collect(large: Large, per_row: Sequence[np.ndarray]) -> Entries:
    """Gather the large entries of all blocks; ``per_row`` counts them."""
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(per_row))])
    columns = np.empty(offsets[-1], dtype=np.int64)
    entries = np.empty(offsets[-1])
    start = 0
    for part, limit in zip(large.parts, large.limits, strict=True):
        places = offsets[start : start + part.shape[1]].copy()
        gather_large(part, large.centres, limit, places, columns, entries)
        start += part.shape[1]
    order = np.argsort(columns, kind="stable")
    row_of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    column_offsets = np.searchsorted(columns[order], np.arange(len(large.centres) + 1))
    return Entries(offsets, columns, entries, column_offsets, row_of[order], entries[order])


class Margins(NamedTuple):
    """The rank-one term of a meeting: unary_left x mean_right + mean_left x unary_right."""

    unary_left: np.ndarray
    mean_right: np.ndarray
    mean_left: np.ndarray
    unary_right: np.ndarray


def score_meetings(
    layout: Layout,
    errors: Sequence[Entries],
    signals: Sequence[Entries],
    margins: Sequence[Margins],
    cut: float,
    known: np.ndarray,
    engine: Threads,
) -> Scored:
    """Pairs that meet somewhere and whose estimated gradient exceeds ``cut``."""
    side = max(1, policy.TILE_STATES // 8)
    tiles = [
        (meeting, k, min(k + side, len(meeting.left_columns)))
        for meeting in layout.meetings
        for k in range(0, len(meeting.left_columns), side)
    ]

    def one(tile: tuple[Meeting, int, int]) -> Scored:
        meeting, first, last = tile
        sides = Sides(errors[meeting.left], signals[meeting.left], signals[meeting.right], errors[meeting.right])
        places = _places(meeting)
        room = 4096
        while True:
            a, b, h = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64), np.empty(room)
            found = score_states(sides, places, margins[meeting.template], first, last, cut, a, b, h)
            if found <= room:
                kept = Scored(a[:found], b[:found], h[:found], np.abs(h[:found]))
                return admissible(kept, meeting, layout, known)
            room = found

    return merge(engine.map(one, tiles))


def _places(meeting: Meeting) -> Places:
    nowhere = np.full(1, -1, dtype=np.int64)
    return Places(
        meeting.left_columns,
        meeting.right_columns,
        meeting.left_states,
        meeting.right_states,
        int(meeting.seen_right[0]) if len(meeting.seen_right) else -1,
        meeting.seen_left if len(meeting.seen_left) else nowhere,
        meeting.mirrored,
    )
