"""Scores of all candidate pairs of a sparse table: those that are both nonzero in some row, and all others.

With thresholds 0 a score is the exact gradient. No array of rows x states or states x states is made. Errors are
integer multiples of a unit so small that rounding does not matter: sums over rows have the same bits in any order.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.compute import Engine
from sparsefield.data import Layout, SparseBlock
from sparsefield.induction.dense_scores import Proposals, best_proposals, concatenate_proposals, contains
from sparsefield.kernels.algorithm1 import place_rows, score_pairs
from sparsefield.kernels.sparse_conditionals import BELIEF, residuals
from sparsefield.objectives.sparse_evaluator import Entries, SparseGradientFactors

ENTRY_BYTES = 24
"""Bytes of an error, which is stored by row and by column: 4 for its column or row, and 8 for the number."""

MANY_PAIRS = 1_000_000
"""Pairs beyond the limit that are kept before the weaker ones are dropped."""

TILES = 64
"""Number of runs of columns, of about equal work, that are divided among threads."""


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


def score_sparse_pairs(
    factors: SparseGradientFactors,
    layout: Layout,
    threshold: float,
    min_gradient: float,
    known: np.ndarray,
    limit: int | None = None,
) -> Proposals:
    """Return the best ``limit`` pairs whose gradient exceeds ``min_gradient`` in size and whose key is not ``known``.

    An error of at most ``threshold`` becomes the baseline error. Columns are renumbered by falling bounds, so that
    frequently used ones are adjacent in memory; columns that no pair beyond ``min_gradient`` can contain are left out.
    """
    column, bounds = _order_columns(factors, layout, min_gradient)
    if not len(column):
        return concatenate_proposals([])
    rounds = []
    for first, second in _rounds(factors, bounds):
        members = np.r_[first] if first == second else np.r_[first, second]
        own = ColumnBounds(*(trait[members] for trait in bounds))
        width = first.stop - first.start
        rounds.append(_score_round(factors, threshold, min_gradient, column[members], own, width, known, limit))
    proposals = concatenate_proposals(rounds)
    if limit is not None:
        return best_proposals(proposals, limit)
    return proposals.take(np.lexsort(proposals.features.T[::-1]))


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


def _score_round(
    factors: SparseGradientFactors,
    threshold: float,
    min_gradient: float,
    column: np.ndarray,
    bounds: ColumnBounds,
    width: int,
    known: np.ndarray,
    limit: int | None,
) -> Proposals:
    """Score pairs of one of the first ``width`` columns and one of the others, or of these if there are no others."""
    unit, lowest = unit_for(factors.total_weight), 0 if width == len(column) else width
    number = np.full(len(factors.on_weight), -1, dtype=np.int32)
    number[column] = np.arange(len(column))
    on, errors = gather_rows(factors, threshold, number, unit)

    def score(tile: tuple[int, int]) -> Proposals:
        large: Any = score_pairs(*tile, lowest, on, errors, bounds, unit, float(min_gradient))  # pyright: ignore
        a, b, sums = (values[: large[3]] for values in large[:3])
        gradient = sums * unit + bounds.on_weight[a] * bounds.baseline[b] + bounds.on_weight[b] * bounds.baseline[a]
        pairs = np.sort(np.column_stack([column[a], column[b]]), axis=1)
        new = (np.abs(gradient) > min_gradient) & ~contains(known, factors.layout.keys(pairs))
        return Proposals(pairs[new], gradient[new], np.abs(gradient[new]))

    parts, held = [], 0
    for proposals in factors.engine.stream(score, _tiles(on, errors, width)):
        parts.append(proposals)
        held += len(proposals)
        if limit is not None and held > 2 * limit + MANY_PAIRS:
            parts = [best_proposals(concatenate_proposals(parts), limit)]
            held = limit
    proposals = concatenate_proposals(parts)
    return proposals if limit is None else best_proposals(proposals, limit)


def gather_rows(
    factors: SparseGradientFactors, threshold: float, number: np.ndarray, unit: float
) -> tuple[Entries, Entries]:
    """Return the columns that are on in each row, without entries, and the errors minus baseline in units of ``unit``.

    Parameters
    ----------
    threshold : smaller errors are replaced by the baseline error
    number : (columns,), the new number of each column, -1 for columns that are left out
    """
    arcs, size = factors.arcs._replace(weight=factors.weights), int(number.max(initial=-1)) + 1

    def errors(block: SparseBlock) -> SomeRows:
        counts = np.empty(block.n_rows, dtype=np.int64)
        room = 2 * len(block.columns) + 1024
        columns, entries, filled = residuals(
            block.read_only(), arcs, factors.baseline, threshold, number, 1.0 / unit, counts,
            np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int64),
        )  # fmt: skip
        return SomeRows.of(counts, columns[:filled], entries[:filled], size)

    def on(block: SparseBlock) -> SomeRows:
        numbers = number[block.columns]
        keep = numbers >= 0
        kept = np.concatenate([[0], np.cumsum(keep)])[block.offsets]
        return SomeRows.of(np.diff(kept), numbers[keep], np.empty(0, dtype=np.int64), size)

    engine, blocks = factors.engine, factors.blocks
    all_errors = join_rows(engine, engine.map(errors, blocks), numbers=True)
    return join_rows(engine, engine.map(on, blocks), numbers=False), all_errors


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


def _rounds(factors: SparseGradientFactors, bounds: ColumnBounds) -> list[tuple[slice, slice]]:
    """Return pairs of runs of columns whose errors fit into memory; their number does not affect results."""
    width = len(bounds.baseline)
    capacity = config.ERRORS_SHARE * config.machine_memory() / ENTRY_BYTES
    runs = 1 if factors.touched <= capacity else min(width, int(np.ceil(2 * factors.touched / capacity)))
    # Most errors are those of cells that are on, so runs with equally many such cells have about equally many errors.
    cells = np.cumsum(bounds.on_weight)
    ends = np.searchsorted(cells, np.arange(1, runs) * (cells[-1] / runs)) if runs > 1 else []
    places = np.unique([0, *ends, width]).tolist()
    slices = [slice(*pair) for pair in pairwise(places)]
    return [(first, second) for k, first in enumerate(slices) for second in slices[k:]]


def _order_columns(
    factors: SparseGradientFactors, layout: Layout, min_gradient: float
) -> tuple[np.ndarray, ColumnBounds]:
    """Return the columns that may be part of a pair, in the order of their new numbers, and their bounds.

    The gradient of (A, B) is the sum of B's errors where A is on and of A's errors where B is on. No error exceeds 1,
    so the first sum is at most n_A; the second is between -n_A and n_A + g_A, the sum of the predictions of A.
    """
    states, total = len(factors.bias_gradient), factors.total_weight
    on_weight, baseline = factors.on_weight, np.zeros(len(factors.on_weight))
    baseline[:states] = factors.baseline[:, BELIEF]
    bound = on_weight.copy()
    bound[:states] += on_weight[:states] + np.maximum(factors.bias_gradient, 0.0)
    candidates = np.flatnonzero(bound > min_gradient)
    score_bound_col = np.maximum(on_weight, total * baseline)
    column = candidates[np.argsort(-score_bound_col[candidates], kind="stable")]
    owner = layout.schemas[0].variable_of_column[column]
    return column, ColumnBounds.of(on_weight[column], total, baseline[column], owner)


def _tiles(on: Entries, errors: Entries, width: int) -> list[tuple[int, int]]:
    """Return runs of the first ``width`` columns of about equal work: additions for the pairs of each column."""
    rows = max(len(on.offsets) - 1, 1)
    per_row_on, per_row_errors = len(on.columns) / rows, len(errors.columns) / rows
    work = np.diff(on.column_offsets) * per_row_errors + np.diff(errors.column_offsets) * per_row_on + 1.0
    done = np.cumsum(work[:width])
    ends = np.searchsorted(done, np.arange(1, TILES) * (done[-1] / TILES))
    places = np.unique([0, *ends, width]).tolist()
    return list(pairwise(places))
