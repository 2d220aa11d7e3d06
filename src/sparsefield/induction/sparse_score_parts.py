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
from sparsefield.kernels.sparse_pair_scores import place_rows, score_pairs, sums_of_pairs
from sparsefield.objectives.sparse_evaluator import ArcsBySource, Entries, sum_on_weights

PAIRS_AT_A_TIME = 4096
"""Pairs that a thread sums at a time."""


class KnownPairs(NamedTuple):
    """Pairs (a, b), a < b, that are already in the working set, sorted by a."""

    offsets: np.ndarray
    b: np.ndarray


class ColumnBounds(NamedTuple):
    """Bounds and facts about each column that `score_pairs` needs."""

    on_weight: np.ndarray
    baseline: np.ndarray
    score_bound_row: np.ndarray
    score_bound_col: np.ndarray
    owner: np.ndarray

    @classmethod
    def of(cls, on_weight: np.ndarray, total: float, baseline: np.ndarray, owner: np.ndarray) -> ColumnBounds:
        """Compute the bounds in rows of weight ``total``; score_bound_col is made to fall by running maxima."""
        score_bound_col = np.maximum(on_weight, total * baseline)
        falling = np.maximum.accumulate(score_bound_col[::-1])[::-1].copy()
        return cls(on_weight, baseline, on_weight / max(total, np.finfo(float).tiny) + baseline, falling, owner)


class WorkerRows(NamedTuple):
    """The rows of a worker, with the columns that are scored under new numbers."""

    on: Entries
    """Columns that are on, without entries."""
    errors: Entries
    """Errors minus baseline, integer multiples of ``unit``."""
    bounds: ColumnBounds
    known: KnownPairs
    weight: float
    unit: float


class WorkerSummary(NamedTuple):
    """Summary of the rows of a worker."""

    weight: float
    on_weight: np.ndarray
    work: np.ndarray
    """(columns,): approximate number of additions for the pairs of each column."""


class LocalScores(NamedTuple):
    """Pairs that a worker reports: ``counts[i]`` of them have the i-th column of a tile."""

    counts: np.ndarray
    b: np.ndarray
    sums: np.ndarray
    """Integer sums of errors, see `score_pairs`."""


def unit_for(total: float) -> float:
    """Return the power of two of which errors are multiples.

    An error minus its baseline is at most 2, so the sum of a pair is at most four times the total weight, which is less
    than 2^62 units.

    Examples
    --------
    >>> unit_for(1e6) == 2.0**-40
    True
    """
    return 2.0 ** max(int(np.frexp(total)[1]) - 60, -1000)


def gather_rows(
    engine: Engine,
    blocks: Sequence[SparseBlock],
    arcs: ArcsBySource,
    weights: np.ndarray,
    baseline: np.ndarray,
    threshold: float,
    number: np.ndarray,
    beliefs: np.ndarray,
    owner: np.ndarray,
    known: KnownPairs,
    unit: float,
) -> WorkerRows:
    """Collect the rows of some blocks, with their errors at one point.

    Parameters
    ----------
    arcs, weights, baseline : the point, see `SparseGradientFactors`
    threshold : smaller errors are replaced by the baseline error
    number : (columns,), the new number of each column, -1 for columns that are left out
    beliefs, owner, known : baseline beliefs, variables and known pairs under the new numbers, see `score_pairs`
    """
    arcs, size = arcs._replace(weight=weights), len(beliefs)

    def errors(block: SparseBlock) -> SomeRows:
        counts = np.empty(block.n_rows, dtype=np.int64)
        room = 2 * len(block.columns) + 1024
        columns, entries, filled = residuals(
            block.read_only(), arcs, baseline, threshold, number, 1.0 / unit, counts,
            np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int64),
        )  # fmt: skip
        return SomeRows.of(counts, columns[:filled], entries[:filled], size)

    def on(block: SparseBlock) -> SomeRows:
        numbers = number[block.columns]
        keep = numbers >= 0
        kept = np.concatenate([[0], np.cumsum(keep)])[block.offsets]
        return SomeRows.of(np.diff(kept), numbers[keep], np.empty(0, dtype=np.int64), size)

    all_errors = join_rows(engine, engine.map(errors, blocks), numbers=True)
    all_on = join_rows(engine, engine.map(on, blocks), numbers=False)
    weight = np.concatenate([block.weight for block in blocks])
    on_weight = sum_on_weights(SparseBlock(0, all_on.offsets, all_on.columns, weight), size)
    total = float(weight.sum())
    return WorkerRows(all_on, all_errors, ColumnBounds.of(on_weight, total, beliefs, owner), known, total, unit)


class SomeRows(NamedTuple):
    """Consecutive rows of a sparse matrix."""

    counts: np.ndarray
    """(rows,): number of entries of each."""
    columns: np.ndarray
    entries: np.ndarray
    """Empty for a matrix without numbers."""
    column_counts: np.ndarray
    """(columns,)"""

    @classmethod
    def of(cls, counts: np.ndarray, columns: np.ndarray, entries: np.ndarray, n_columns: int) -> SomeRows:
        return cls(counts, columns, entries, np.bincount(columns, minlength=n_columns))


def join_rows(engine: Engine, parts: list[SomeRows], *, numbers: bool) -> Entries:
    """Return the matrix of all rows; the list is emptied, so that memory never holds all entries twice."""
    column_counts = np.array([part.column_counts for part in parts])
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([part.counts for part in parts]))])
    out = Entries.empty(offsets, column_counts.sum(axis=0), numbers=numbers)
    starts = out.column_offsets[:-1] + np.cumsum(column_counts, axis=0) - column_counts
    first_rows = np.cumsum([0, *(len(part.counts) for part in parts)]).tolist()

    def place(number: int) -> None:
        part, first = waiting.pop(number), first_rows[number]
        place_rows(offsets[first : first_rows[number + 1] + 1], part.columns, part.entries, first, starts[number], out)

    waiting = dict(enumerate(parts))
    parts.clear()
    engine.map(place, range(len(starts)))
    return out


def summarize(engine: Engine, worker: WorkerRows) -> WorkerSummary:
    """Return the weight and the work of the columns of a worker."""
    rows = max(len(worker.on.offsets) - 1, 1)
    per_row_on, per_row_errors = len(worker.on.columns) / rows, len(worker.errors.columns) / rows
    work = np.diff(worker.on.column_offsets) * per_row_errors + np.diff(worker.errors.column_offsets) * per_row_on + 1.0
    return WorkerSummary(worker.weight, worker.bounds.on_weight, work)


def score_tile(worker: WorkerRows, tile: tuple[int, int], lowest: int, min_gradient_per_weight: float) -> LocalScores:
    """Return pairs of a column of a tile and one from ``lowest`` on that exceed the worker's share of the bound."""
    min_gradient = min_gradient_per_weight * worker.weight
    a, b, sums, count = score_pairs(  # pyright: ignore
        *tile, lowest, worker.on, worker.errors, worker.bounds, worker.known, worker.unit, min_gradient
    )
    counts = np.bincount(a[:count] - tile[0], minlength=tile[1] - tile[0]).astype(np.int32)
    return LocalScores(counts, b[:count].copy(), sums[:count].copy())


def sum_given_pairs(engine: Engine, worker: WorkerRows, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the integer sums of errors of given pairs."""
    out = np.empty(len(a), dtype=np.int64)

    def one(start: int) -> None:
        some = slice(start, start + PAIRS_AT_A_TIME)
        sums_of_pairs(a[some], b[some], worker.on, worker.errors, out[some])

    engine.map(one, range(0, len(a), PAIRS_AT_A_TIME))
    return out
