"""Scores of all candidate pairs by tiles of a matrix product."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sparsefield import policy
from sparsefield.data import Layout, Meeting
from sparsefield.engines import Threads
from sparsefield.induction.candidates import Scored, admissible, merge

__all__ = ["Finish", "score_tiles"]

Blocks = Sequence[np.ndarray]

Finish = Callable[[Meeting, np.ndarray, np.ndarray, slice, slice], tuple[np.ndarray, np.ndarray | None]]
"""From a meeting, the two one-way products of a tile, (error of A x signal of B) and (signal of A x error of B), and
its rows and columns: the gradient of each pair and the value that ranks it, None where that is the gradient's size."""


def score_tiles(
    layout: Layout,
    errors: Sequence[Blocks],
    signals: Sequence[Blocks],
    finish: Finish,
    cut: float,
    known: np.ndarray,
    engine: Threads,
) -> Scored:
    """Pairs whose gradient exceeds ``cut`` in size and whose key is not ``known``.

    ``errors`` and ``signals`` are given table by table, block by block. Every tile adds up the blocks in their order,
    by itself: tiles are what threads share out.
    """

    def one(tile: tuple[Meeting, slice, slice]) -> Scored:
        meeting, i, j = tile
        forth, back = _products(meeting, errors, signals, i, j)
        gradient, rank = finish(meeting, forth, back, i, j)
        if meeting.mirrored and i == j:
            # Both directions are one here, and a pair of a state with itself has only that one.
            np.fill_diagonal(gradient, 0.5 * gradient.diagonal())
        size = np.abs(gradient)
        a, b = np.nonzero(size > cut)
        if meeting.mirrored:
            upper = b + j.start >= a + i.start
            a, b = a[upper], b[upper]
        found = Scored(a + i.start, b + j.start, gradient[a, b], (size if rank is None else rank)[a, b])
        return admissible(found, meeting, layout, known)

    tiles = [tile for meeting in layout.meetings for tile in _tiles(meeting)]
    return merge(engine.map(one, tiles))


def _tiles(meeting: Meeting) -> list[tuple[Meeting, slice, slice]]:
    """Squares of the matrix of candidates; states and observed columns never share one."""
    rows = _runs(meeting.left_states, len(meeting.left_columns))
    columns = _runs(meeting.right_states, len(meeting.right_columns))
    tiles = []
    for i in rows:
        for j in columns:
            both_given = i.start >= meeting.left_states and j.start >= meeting.right_states
            if not both_given and (j.start >= i.start or not meeting.mirrored):
                tiles.append((meeting, i, j))
    return tiles


def _runs(states: int, columns: int) -> list[slice]:
    side = policy.TILE_STATES
    runs = [slice(k, min(k + side, states)) for k in range(0, states, side)]
    return runs + [slice(k, min(k + side, columns)) for k in range(states, columns, side)]


def _products(
    meeting: Meeting, errors: Sequence[Blocks], signals: Sequence[Blocks], i: slice, j: slice
) -> tuple[np.ndarray, np.ndarray]:
    """Errors at the left with signals at the right, and the other way round; 0 where an end has no errors."""
    left, right = meeting.left, meeting.right
    shape = i.stop - i.start, j.stop - j.start
    forth = back = np.zeros(shape)
    if i.start < meeting.left_states:
        forth = _product(errors[left], meeting.left_columns[i], signals[left], meeting.seen_right[j])
    if meeting.mirrored and i == j:
        back = forth.T
    elif j.start < meeting.right_states:
        back = _product(signals[right], meeting.seen_left[i], errors[right], meeting.right_columns[j])
    return forth, back


def _product(one: Blocks, i: np.ndarray, other: Blocks, j: np.ndarray) -> np.ndarray:
    rows, columns = _as_slice(i), _as_slice(j)
    total = one[0][rows] @ other[0][columns].T
    for left, right in zip(one[1:], other[1:], strict=True):
        total += left[rows] @ right[columns].T
    return total


def _as_slice(index: np.ndarray) -> slice | np.ndarray:
    """Consecutive numbers as a slice, which copies nothing."""
    if len(index) and index[-1] - index[0] == len(index) - 1:
        return slice(int(index[0]), int(index[-1]) + 1)
    return index
