"""Scores of all candidate pairs of a sparse table: those that meet in some row, and those that only rest.

With thresholds 0 a score is the exact gradient. Nothing of the size of rows x states or states x states is made.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparsefield.data import Layout
from sparsefield.engines import Threads
from sparsefield.induction.candidates import Scored, merge
from sparsefield.kernels.meetings import score_columns
from sparsefield.kernels.rows import REST as AT_REST
from sparsefield.objectives.sparse_evaluation import Entries, SparseContrast

__all__ = ["score_resting"]

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
    contrast: SparseContrast, layout: Layout, threshold: float, cut: float, known: np.ndarray, engine: Threads
) -> Scored:
    """Pairs whose gradient exceeds ``cut`` in size and whose key is not ``known``.

    An error that is no larger than ``threshold`` is taken for the error at rest. Columns are renumbered, loud ones
    first, so that what is often needed lies together; those that no pair beyond the cut can contain are left out.
    """
    number, column, traits = _line_up(contrast, layout, cut)
    if not len(column):
        return merge([])
    errors = contrast.errors(threshold, number, len(column))
    on = _renumbered(contrast.on, number, len(column))
    inside = _known(known, layout.n_columns, number, len(column))

    def one(tile: tuple[int, int]) -> Scored:
        a, b, gradient, count = score_columns(*tile, on, errors, traits, inside, float(cut))
        ends = column[a[:count]], column[b[:count]]
        return Scored(np.minimum(*ends), np.maximum(*ends), gradient[:count].copy(), np.abs(gradient[:count]))

    return merge(engine.map(one, _tiles(on, errors)))


def _line_up(contrast: SparseContrast, layout: Layout, cut: float) -> tuple[np.ndarray, np.ndarray, Traits]:
    """New number of each column (-1: left out), the column of each new number, and its traits.

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
    number = np.full(len(bound), -1, dtype=np.int32)
    number[column] = np.arange(len(column))
    together, rest, owner = together[column], rest[column], layout.schemas[0].variable_of_column[column]
    return number, column, Traits(together, rest, together / total + rest, loudness[column], owner)


def _renumbered(on: Entries, number: np.ndarray, n_columns: int) -> Entries:
    """What is on under the new numbers, ascending within each row."""
    placed = number[on.columns]
    keep = placed >= 0
    offsets = np.concatenate([[0], np.cumsum(keep)])[on.offsets]
    return Entries.of(offsets, placed[keep], np.empty(0), n_columns)


def _known(keys: np.ndarray, n_columns: int, number: np.ndarray, size: int) -> Known:
    a, b = np.divmod(keys, np.int64(max(n_columns, 1)))
    a, b = number[a], number[b]
    there = (a >= 0) & (b >= 0)
    a, b = np.minimum(a, b)[there], np.maximum(a, b)[there]
    order = np.argsort(a, kind="stable")
    return Known(np.searchsorted(a[order], np.arange(size + 1)), b[order])


def _tiles(on: Entries, errors: Entries) -> list[tuple[int, int]]:
    """Runs of columns of about equal work, which the data alone decide."""
    rows = max(len(on.offsets) - 1, 1)
    per_row_on, per_row_errors = len(on.columns) / rows, len(errors.columns) / rows
    work = np.cumsum(np.diff(on.column_offsets) * per_row_errors + np.diff(errors.column_offsets) * per_row_on + 1.0)
    ends = np.searchsorted(work, np.arange(1, TILES) * (work[-1] / TILES))
    places = np.unique(np.concatenate([[0], ends, [len(work)]])).tolist()
    return list(zip(places[:-1], places[1:], strict=True))
