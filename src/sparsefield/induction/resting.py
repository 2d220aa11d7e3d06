"""Scores of all candidate pairs of a sparse table: those that meet in some row, and those that only rest.

With thresholds 0 a score is the exact gradient. Nothing of the size of rows x states or states x states is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sparsefield import policy
from sparsefield.data import Layout
from sparsefield.data.memory import machine_memory
from sparsefield.induction.candidates import Scored, merge, select
from sparsefield.kernels.meetings import score_columns
from sparsefield.kernels.rows import REST as AT_REST
from sparsefield.objectives.sparse_evaluation import Entries, SparseContrast

__all__ = ["score_resting"]

ENTRY_BYTES = 24
"""An error by row and by column: each time a column or row of 4 bytes and a number of 8."""

MANY_PAIRS = 1_000_000
"""Pairs that are held beyond what is asked for, before the weaker ones are dropped."""

TILES = 64
"""Runs of columns that threads share out, of about the same work."""


class Known(NamedTuple):
    """Pairs (a, b), a < b, that are in the field already, by a."""

    offsets: np.ndarray
    b: np.ndarray


class Traits(NamedTuple):
    """What `score_columns` has to know of each column."""

    together: np.ndarray
    rest: np.ndarray
    reach: np.ndarray
    loudness: np.ndarray
    owner: np.ndarray


def score_resting(
    contrast: SparseContrast,
    layout: Layout,
    threshold: float,
    cut: float,
    known: np.ndarray,
    limit: int | None = None,
) -> Scored:
    """Pairs whose gradient exceeds ``cut`` in size and whose key is not ``known``; of very many the best ``limit``.

    An error that is no larger than ``threshold`` is taken for the error at rest. Columns are renumbered, loud ones
    first, so that what is often needed lies together; those that no pair beyond the cut can contain are left out.
    """
    column, traits = _line_up(contrast, layout, cut)
    if not len(column):
        return merge([])
    inside = _known(known, layout.n_columns, column)
    task = Task(contrast, threshold, float(cut), column, traits, inside)
    found, held = [], 0
    for first, second in _rounds(contrast, traits):
        for part in _score_round(task, first, second):
            found.append(part)
            held += len(part)
            if limit is not None and held > 2 * limit + MANY_PAIRS:
                found = [select(merge(found), limit)]
                held = limit
    return merge(found) if limit is None else select(merge(found), limit)


class Task(NamedTuple):
    """What all rounds of a scoring share."""

    contrast: SparseContrast
    threshold: float
    cut: float
    column: np.ndarray
    """Columns in the order of their new numbers."""
    traits: Traits
    inside: np.ndarray
    """(pairs, 2): pairs that are in the field already."""


def _score_round(task: Task, first: slice, second: slice) -> Iterator[Scored]:
    """Pairs of a column of ``first`` and one of ``second``, which is the same run of columns or a later one."""
    contrast, column = task.contrast, task.column
    lowest = 0 if first == second else first.stop - first.start
    members = np.arange(len(column))[first]
    members = members if first == second else np.concatenate([members, np.arange(len(column))[second]])
    number = np.full(len(contrast.together), -1, dtype=np.int32)
    number[column[members]] = np.arange(len(members))
    errors = contrast.errors(task.threshold, number, len(members))
    on = _renumbered(contrast.on, number, len(members))
    theirs = Traits(*(trait[members] for trait in task.traits))
    known = _by_first(number[task.inside], len(members))

    def one(tile: tuple[int, int]) -> Scored:
        a: np.ndarray
        b: np.ndarray
        a, b, gradient, count = score_columns(  # pyright: ignore
            *tile, lowest, on, errors, theirs, known, task.cut
        )
        ends = column[members[a[:count]]], column[members[b[:count]]]
        return Scored(np.minimum(*ends), np.maximum(*ends), gradient[:count].copy(), np.abs(gradient[:count]))

    return contrast.engine.stream(one, _tiles(on, errors, first.stop - first.start))


def _rounds(contrast: SparseContrast, traits: Traits) -> list[tuple[slice, slice]]:
    """Pairs of runs of columns whose errors fit into memory together; how many there are changes no result."""
    width = len(traits.rest)
    room = policy.ERRORS_SHARE * machine_memory() / ENTRY_BYTES
    runs = 1 if contrast.touched <= room else min(width, int(np.ceil(2 * contrast.touched / room)))
    # Errors are mostly those of what is on, so that runs of as many cells have as many errors.
    cells = np.cumsum(traits.together)
    ends = np.searchsorted(cells, np.arange(1, runs) * (cells[-1] / runs)) if runs > 1 else []
    places = np.unique([0, *ends, width]).tolist()
    slices = [slice(*pair) for pair in pairwise(places)]
    return [(one, other) for k, one in enumerate(slices) for other in slices[k:]]


def _line_up(contrast: SparseContrast, layout: Layout, cut: float) -> tuple[np.ndarray, Traits]:
    """Columns in the order of their new numbers, without those that are left out, and their traits.

    The gradient of (A, B) is the sum of B's errors where A is on and of A's errors where B is on. No error exceeds 1,
    so the first sum is at most n_A; the second lies between -n_A and n_A + g_A, all that A is predicted with.
    """
    states, total = len(contrast.unary), contrast.total_weight
    together, rest = contrast.together, np.zeros(len(contrast.together))
    rest[:states] = contrast.resting[:, AT_REST]
    bound = together.copy()
    bound[:states] += together[:states] + np.maximum(contrast.unary, 0.0)
    loud = np.flatnonzero(bound > cut)
    loudness = np.maximum(together, total * rest)
    column = loud[np.argsort(-loudness[loud], kind="stable")]
    together, rest, owner = together[column], rest[column], layout.schemas[0].variable_of_column[column]
    return column, Traits(together, rest, together / total + rest, loudness[column], owner)


def _renumbered(on: Entries, number: np.ndarray, n_columns: int) -> Entries:
    """What is on under the new numbers, ascending within each row."""
    placed = number[on.columns]
    keep = placed >= 0
    offsets = np.concatenate([[0], np.cumsum(keep)])[on.offsets]
    return Entries.of(offsets, placed[keep], np.empty(0), n_columns)


def _known(keys: np.ndarray, n_columns: int, column: np.ndarray) -> np.ndarray:
    """(pairs, 2): pairs that are in the field already, of columns that are not left out."""
    pairs = np.column_stack(np.divmod(keys, np.int64(max(n_columns, 1))))
    there = np.zeros(n_columns, dtype=bool)
    there[column] = True
    return pairs[there[pairs].all(axis=1)]


def _by_first(pairs: np.ndarray, size: int) -> Known:
    """Pairs under new numbers, by the lower one; those with a column that has none (-1) are left out."""
    pairs = np.sort(pairs[(pairs >= 0).all(axis=1)], axis=1)
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    return Known(np.searchsorted(pairs[:, 0], np.arange(size + 1)), np.ascontiguousarray(pairs[:, 1]))


def _tiles(on: Entries, errors: Entries, width: int) -> list[tuple[int, int]]:
    """Runs of the first ``width`` columns of about equal work, which the data alone decide."""
    rows = max(len(on.offsets) - 1, 1)
    per_row_on, per_row_errors = len(on.columns) / rows, len(errors.columns) / rows
    work = np.diff(on.column_offsets) * per_row_errors + np.diff(errors.column_offsets) * per_row_on + 1.0
    done = np.cumsum(work[:width])
    ends = np.searchsorted(done, np.arange(1, TILES) * (done[-1] / TILES))
    places = np.unique([0, *ends, width]).tolist()
    return list(pairwise(places))
