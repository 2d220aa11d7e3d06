"""Scores of all candidate pairs, tile by tile of the matrix of candidates.

What a part of the rows adds to a tile is a product of errors and signals, dense or sparse; engines add it up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.compute import BlockCollection, ThresholdQuery, TopEntries
from sparsefield.data import CandidateBlock, Layout
from sparsefield.induction.candidates import Scored, admissible, merge, pairs_at, select
from sparsefield.kernels.sparse_products import add_products
from sparsefield.objectives.block_evaluation import EvaluatedBlock
from sparsefield.objectives.sparse_evaluator import Entries

__all__ = ["ScoreFunction", "Tile", "score_pairs_dense"]


class Tile(NamedTuple):
    """A rectangle of the matrix of candidates of a meeting: rows are its left columns, columns its right ones."""

    meeting: int
    top: int
    bottom: int
    left: int
    right: int

    @property
    def rows(self) -> slice:
        return slice(self.top, self.bottom)

    @property
    def columns(self) -> slice:
        return slice(self.left, self.right)


def _gradient(meeting: CandidateBlock, sums: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return sums.sum(axis=0)


@dataclass(frozen=True)
class ScoreFunction:
    """What makes a gradient, and a rank, of sums over all rows."""

    gradient: Callable[[CandidateBlock, np.ndarray, np.ndarray, np.ndarray], np.ndarray] = _gradient
    """From a meeting, sums (layers, ...) and the places (...) of pairs among its left and right columns."""
    rank: Callable[[CandidateBlock, np.ndarray, np.ndarray, np.ndarray], np.ndarray] | None = None
    """None ranks by the gradient's size."""
    layers: int = 1
    """2 keeps (error of A x signal of B) and (signal of A x error of B) apart."""


def score_pairs_dense(
    parts: BlockCollection,
    layout: Layout,
    cut: float,
    known: np.ndarray,
    *,
    measure: ScoreFunction = ScoreFunction(),  # noqa: B008
    limit: int | None = None,
    sparse: bool = False,
) -> Scored:
    """Pairs whose gradient exceeds ``cut`` in size and whose key is not ``known``; of many the best ``limit``.

    ``parts`` have the errors and signals to be multiplied; with ``sparse`` these are `Entries`.
    """
    meetings = layout.candidate_blocks

    def excess(tile: Tile, sums: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        meeting, a, b = meetings[tile.meeting], rows + tile.top, columns + tile.left
        beyond = np.abs(_finished(measure, meeting, sums, a, b)) - cut
        return np.where(a <= b, beyond, -np.inf) if meeting.mirrored else beyond

    def eligible(tile: Tile, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return admissible(meetings[tile.meeting], layout, rows + tile.top, columns + tile.left, known)

    def scored(found: TopEntries) -> Scored:
        tile, meeting = found.item, meetings[found.item.meeting]
        a, b = found.positions[0] + tile.top, found.positions[1] + tile.left
        gradient = _finished(measure, meeting, found.sums, a, b)
        rank = np.abs(gradient) if measure.rank is None else measure.rank(meeting, found.sums, a, b)
        pairs = pairs_at(meeting, layout, a, b)
        return Scored(pairs[:, 0], pairs[:, 1], gradient, rank)

    largest = limit if measure.rank is None else None
    question = ThresholdQuery(part_of_tile, (layout, measure.layers), excess, eligible, largest)
    tiles = [tile for k in range(len(meetings)) for tile in (_bands if sparse else _squares)(k, meetings[k])]
    found = merge([scored(large) for large in parts.top_entries(question, tiles)])
    return found if limit is None else select(found, limit)


def _finished(
    measure: ScoreFunction, meeting: CandidateBlock, sums: np.ndarray, a: np.ndarray, b: np.ndarray
) -> np.ndarray:
    gradient = measure.gradient(meeting, sums, a, b)
    # Both directions are one for a pair of a state with itself, which has only that one.
    return np.where(a == b, 0.5 * gradient, gradient) if meeting.mirrored else gradient


def _squares(number: int, meeting: CandidateBlock) -> list[Tile]:
    """For dense products; states and observed columns never share one."""
    tiles = []
    for i in _runs(meeting.left.n_states, len(meeting.left.columns), config.TILE_STATES):
        for j in _runs(meeting.right.n_states, len(meeting.right.columns), config.TILE_STATES):
            both_given = i.start >= meeting.left.n_states and j.start >= meeting.right.n_states
            if not both_given and (j.start >= i.start or not meeting.mirrored):
                tiles.append(Tile(number, i.start, i.stop, j.start, j.stop))
    return tiles


def _bands(number: int, meeting: CandidateBlock) -> list[Tile]:
    """For sparse products, which walk all columns of a row at once."""
    runs = _runs(meeting.left.n_states, len(meeting.left.columns), max(1, config.TILE_STATES // 8))
    width = len(meeting.right.columns)
    return [Tile(number, i.start, i.stop, i.start if meeting.mirrored else 0, width) for i in runs]


def _runs(states: int, columns: int, side: int) -> list[slice]:
    runs = [slice(k, min(k + side, states)) for k in range(0, states, side)]
    return runs + [slice(k, min(k + side, columns)) for k in range(states, columns, side)]


def part_of_tile(part: EvaluatedBlock, tile: Tile, layout: Layout, layers: int) -> np.ndarray | None:
    """(layers, rows, columns) of a tile, from the rows of one part: errors at the left with signals at the right, and
    the other way round. None where the part has nothing to do with the meeting."""
    meeting = layout.candidate_blocks[tile.meeting]
    if part.table not in (meeting.left.table, meeting.right.table):
        return None
    forth, back = _both_ways(part, tile, meeting)
    shape = tile.bottom - tile.top, tile.right - tile.left
    nothing = np.zeros(shape)
    if layers == 2:
        return np.stack([nothing if forth is None else forth, nothing if back is None else back])
    if forth is None or back is None:
        found = back if forth is None else forth
        return (nothing if found is None else found)[None]
    return (forth + back)[None]


def _both_ways(
    part: EvaluatedBlock, tile: Tile, meeting: CandidateBlock
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """None where there is nothing to multiply: an end without errors, or a part of the other end's table."""
    product: Any = _sparse if isinstance(part.errors, Entries) else _dense
    i, j = tile.rows, tile.columns
    forth = back = None
    if part.table == meeting.left.table and tile.top < meeting.left.n_states:
        forth = product(part.errors, meeting.left.columns[i], part.expectations, meeting.right.neighbor_columns[j])
    if part.table == meeting.right.table and tile.left < meeting.right.n_states:
        if meeting.mirrored and i == j and forth is not None:
            return forth, forth.T
        states = slice(tile.left, min(tile.right, meeting.right.n_states))
        back = product(
            part.errors, meeting.right.columns[states], part.expectations, meeting.left.neighbor_columns[i], turned=True
        )
        if states != j:
            back = np.pad(back, ((0, 0), (0, tile.right - states.stop)))
    return forth, back


def _dense(
    errors: np.ndarray, of_errors: np.ndarray, signals: np.ndarray, of_signals: np.ndarray, turned: bool = False
) -> np.ndarray:
    """(columns of errors, columns of signals), or the other way round."""
    left, right = errors[_as_slice(of_errors)], signals[_as_slice(of_signals)]
    return right @ left.T if turned else left @ right.T


def _sparse(
    errors: Entries, of_errors: np.ndarray, signals: Entries, of_signals: np.ndarray, turned: bool = False
) -> np.ndarray:
    """The same of sparse matrices; what stands first is walked by column, what meets it by row."""
    (one, mine), (other, theirs) = (errors, of_errors), (signals, of_signals)
    if turned:
        (one, mine), (other, theirs) = (other, theirs), (one, mine)
    place = np.full(len(other.column_offsets), -1, dtype=np.int64)
    place[theirs] = np.arange(len(theirs))
    out = np.zeros((len(mine), len(theirs)))
    add_products(one, mine, other, place, int(theirs.min(initial=len(place))), out)
    return out


def _as_slice(index: np.ndarray) -> slice | np.ndarray:
    """Consecutive numbers as a slice, which copies nothing."""
    if len(index) and index[-1] - index[0] == len(index) - 1:
        return slice(int(index[0]), int(index[-1]) + 1)
    return index
