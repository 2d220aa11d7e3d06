"""This module scores candidates of a sparse table in the rows of one worker.

Errors are integer multiples of a unit so small that rounding does not matter: sums over rows are then the same to the
bit however rows are distributed. Everything else that a worker computes only decides which pairs it reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import SparseBlock
from sparsefield.kernels.sparse_conditionals import residuals
from sparsefield.kernels.sparse_pair_scores import score_pairs, sums_of_pairs
from sparsefield.objectives.sparse_evaluator import Entries, Sources, weigh_columns

__all__ = [
    "ColumnBounds",
    "KnownPairs",
    "LocalScores",
    "WorkerRows",
    "WorkerSummary",
    "gather",
    "score_tile",
    "sum_given_pairs",
    "summarize",
    "unit_for",
]

PAIRS_AT_A_TIME = 4096
"""That a thread picks."""


class KnownPairs(NamedTuple):
    """Pairs (a, b), a < b, that are in the field already, by a."""

    offsets: np.ndarray
    b: np.ndarray


class ColumnBounds(NamedTuple):
    """What `score_pairs` has to know of each column."""

    on_weight: np.ndarray
    baseline: np.ndarray
    score_bound_row: np.ndarray
    score_bound_col: np.ndarray
    owner: np.ndarray

    @classmethod
    def of(cls, together: np.ndarray, total: float, rest: np.ndarray, owner: np.ndarray) -> ColumnBounds:
        """In rows of weight ``total``. Loudness falls: it is the largest from a column on."""
        score_bound_col = np.maximum(together, total * rest)
        falling = np.maximum.accumulate(score_bound_col[::-1])[::-1].copy()
        return cls(together, rest, together / max(total, np.finfo(float).tiny) + rest, falling, owner)


class WorkerRows(NamedTuple):
    """Some rows, with the columns that are looked at under new numbers."""

    on: Entries
    """What is on, without entries."""
    errors: Entries
    """Beyond rest, whole numbers of ``unit``."""
    bounds: ColumnBounds
    known: KnownPairs
    weight: float
    unit: float


class WorkerSummary(NamedTuple):
    """What has to be known of a worker before it tells of pairs."""

    weight: float
    together: np.ndarray
    work: np.ndarray
    """(columns,): additions that the pairs of each take, roughly."""


class LocalScores(NamedTuple):
    """Pairs of which a worker tells: ``counts[i]`` of them have the i-th column that was asked about."""

    counts: np.ndarray
    b: np.ndarray
    sums: np.ndarray
    """Whole numbers: of the errors where the two meet."""


def unit_for(total: float) -> float:
    """A power of two of which errors are multiples. An error beyond rest is no larger than 2, so that the sum of a pair
    is no larger than four times the total weight, which is less than 2^62 units.

    Examples
    --------
    >>> unit_for(1e6) == 2.0**-40
    True
    """
    return 2.0 ** max(int(np.frexp(total)[1]) - 60, -1000)


def gather(
    engine: Engine,
    blocks: Sequence[SparseBlock],
    arcs: Sources,
    weights: np.ndarray,
    resting: np.ndarray,
    threshold: float,
    number: np.ndarray,
    rest: np.ndarray,
    owner: np.ndarray,
    known: KnownPairs,
    unit: float,
) -> WorkerRows:
    """All rows of some blocks at one point.

    Parameters
    ----------
    arcs, weights, resting : the point, see `SparseGradientFactors`
    threshold : an error that is no larger is taken for the error at rest
    number : (columns,): the new number of each, -1 for one that is left out
    rest, owner, known : of columns under their new numbers, see `score_pairs`
    """
    arcs, size = arcs._replace(weight=weights), len(rest)

    def errors(block: SparseBlock) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        counts = np.empty(block.n_rows, dtype=np.int64)
        room = 2 * len(block.columns) + 1024
        columns, entries, filled = residuals(
            block, arcs, resting, threshold, number, 1.0 / unit, counts,
            np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int64),
        )  # fmt: skip
        return counts, columns[:filled], entries[:filled]

    def on(block: SparseBlock) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        placed = number[block.columns]
        keep = placed >= 0
        kept = np.concatenate([[0], np.cumsum(keep)])[block.offsets]
        return np.diff(kept), placed[keep], np.empty(0, dtype=np.int64)

    wrong, there = _together(engine.map(errors, blocks), size), _together(engine.map(on, blocks), size)
    weight = np.concatenate([block.weight for block in blocks])
    together = weigh_columns(SparseBlock(0, there.offsets, there.columns, weight), size)
    total = float(weight.sum())
    return WorkerRows(there, wrong, ColumnBounds.of(together, total, rest, owner), known, total, unit)


def _together(parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]], n_columns: int) -> Entries:
    """Rows of blocks as one matrix; uses up its list."""
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([counts for counts, _, _ in parts]))])
    columns = np.empty(offsets[-1], dtype=np.int32)
    entries = np.empty(sum(len(entries) for _, _, entries in parts), dtype=np.int64)
    end = len(columns)
    while parts:  # given back one by one, so that not all entries are there twice
        _, part_columns, part_entries = parts.pop()
        start = end - len(part_columns)
        columns[start:end] = part_columns
        if len(part_entries):
            entries[start:end] = part_entries
        end = start
    return Entries.of(offsets, columns, entries, n_columns)


def summarize(engine: Engine, worker: WorkerRows) -> WorkerSummary:
    rows = max(len(worker.on.offsets) - 1, 1)
    per_row_on, per_row_errors = len(worker.on.columns) / rows, len(worker.errors.columns) / rows
    work = np.diff(worker.on.column_offsets) * per_row_errors + np.diff(worker.errors.column_offsets) * per_row_on + 1.0
    return WorkerSummary(worker.weight, worker.bounds.on_weight, work)


def score_tile(worker: WorkerRows, tile: tuple[int, int], lowest: int, cut_per_weight: float) -> LocalScores:
    """Pairs of a column of a tile, and one from ``lowest`` on, whose gradient in these rows is beyond their share of a
    cut, or so near to it that rounding decides."""
    a, b, sums, count = score_pairs(  # pyright: ignore
        *tile,
        lowest,
        worker.on,
        worker.errors,
        worker.bounds,
        worker.known,
        worker.unit,
        cut_per_weight * worker.weight,
    )
    counts = np.bincount(a[:count] - tile[0], minlength=tile[1] - tile[0]).astype(np.int32)
    return LocalScores(counts, b[:count].copy(), sums[:count].copy())


def sum_given_pairs(engine: Engine, worker: WorkerRows, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sums of given pairs."""
    out = np.empty(len(a), dtype=np.int64)

    def one(start: int) -> None:
        some = slice(start, start + PAIRS_AT_A_TIME)
        sums_of_pairs(a[some], b[some], worker.on, worker.errors, out[some])

    engine.map(one, range(0, len(a), PAIRS_AT_A_TIME))
    return out
