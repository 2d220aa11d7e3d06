"""Scores of all candidate pairs of a sparse table: those that meet in some row, and those that only rest.

With thresholds 0 a score is the exact gradient. Nothing of the size of rows x states or states x states is made.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparsefield.data import Layout
from sparsefield.engines import Threads
from sparsefield.induction.candidates import Scored, merge
from sparsefield.kernels.meetings import FACTOR, MEAN, OFFSET, REST, TOGETHER, TOTAL, UNARY, score_columns
from sparsefield.kernels.rows import REST as AT_REST
from sparsefield.objectives.sparse_evaluation import Entries, SparseContrast

__all__ = ["score_resting"]

TILES = 64
"""Runs of columns that threads share out, of about the same work."""


class Known(NamedTuple):
    """Pairs (a, b), a < b, that are in the field already, by a."""

    offsets: np.ndarray
    b: np.ndarray


def score_resting(
    contrast: SparseContrast,
    layout: Layout,
    error_threshold: float,
    signal_threshold: float,
    cut: float,
    known: np.ndarray,
    engine: Threads,
) -> Scored:
    """Pairs whose score exceeds ``cut`` in size and whose key is not ``known``.

    Columns are renumbered, frequent ones first, so that what is often needed lies together; those that cannot be part
    of any pair with a true gradient beyond the cut are left out.
    """
    number, column = _renumber(contrast, cut)
    if not len(column):
        return merge([])
    errors = contrast.errors(error_threshold, number, len(column))
    on = _renumbered(contrast.on, number, len(column))
    traits = _traits(contrast, errors, column, error_threshold, signal_threshold)
    reach, loudness = _bounds(traits, contrast.total_weight)
    loudest = np.argsort(-loudness, kind="stable").astype(np.int32)
    owner = layout.schemas[0].variable_of_column[column].astype(np.int32)
    inside = _known(known, layout.n_columns, number, len(column))
    plain = bool((traits[:, FACTOR] == 1.0).all())

    def one(tile: tuple[int, int]) -> Scored:
        a, b, h, found = score_columns(
            *tile, on, errors, traits, loudest, loudness, reach, owner, inside, plain, float(cut)
        )
        ends = column[a[:found]], column[b[:found]]
        score = h[:found].copy()
        return Scored(np.minimum(*ends), np.maximum(*ends), score, np.abs(score))

    return merge(engine.map(one, _tiles(on, errors)))


def _renumber(contrast: SparseContrast, cut: float) -> tuple[np.ndarray, np.ndarray]:
    """New number of each column (-1: left out), and the column of each new number.

    The gradient of (A, B) is the sum of B's errors where A is on and of A's errors where B is on. No error exceeds 1;
    so the first sum is at most n_A, and the second at most n_A below and n_A + g_A above 0, all else being prediction.
    """
    states = len(contrast.unary)
    bound = contrast.together.copy()
    bound[:states] += contrast.together[:states] + np.maximum(contrast.unary, 0.0)
    loud = np.flatnonzero(bound > cut)
    column = loud[np.argsort(-contrast.together[loud], kind="stable")]
    number = np.full(len(bound), -1, dtype=np.int32)
    number[column] = np.arange(len(column))
    return number, column


def _renumbered(on: Entries, number: np.ndarray, n_columns: int) -> Entries:
    """What is on under the new numbers, ascending within each row."""
    placed = number[on.columns]
    keep = placed >= 0
    offsets = np.concatenate([[0], np.cumsum(keep)])[on.offsets]
    once = Entries.of(offsets, placed[keep], np.empty(0), n_columns)
    # Read by column and sorted into rows again, columns come in order.
    columns = np.empty_like(once.columns)
    transposed = Entries.of(once.column_offsets, once.rows, np.empty(0), len(offsets) - 1)
    columns[:] = transposed.rows
    return once._replace(columns=columns)


def _traits(
    contrast: SparseContrast, errors: Entries, column: np.ndarray, error_threshold: float, signal_threshold: float
) -> np.ndarray:
    """What `score_columns` has to know of each column."""
    states, total = len(contrast.unary), contrast.total_weight
    rest, unary = np.zeros(len(contrast.together)), np.zeros(len(contrast.together))
    rest[:states], unary[:states] = contrast.resting[:, AT_REST], contrast.unary
    rest, unary, together = rest[column], unary[column], contrast.together[column]
    traits = np.zeros((len(column), 7))
    if error_threshold == signal_threshold == 0.0:
        # Means, and what they subtract, would cancel.
        traits[:, TOGETHER], traits[:, FACTOR], traits[:, REST] = together, 1.0, rest
        return traits
    mean = together / total
    below, above = mean > signal_threshold, 1.0 - mean > signal_threshold
    traits[:, FACTOR] = np.where(above, 1.0 - mean, 0.0) + np.where(below, mean, 0.0)
    traits[:, OFFSET] = np.where(below, -mean, 0.0)
    traits[:, TOGETHER] = traits[:, FACTOR] * together
    traits[:, REST] = np.where(rest > error_threshold, rest, 0.0)
    counts = np.diff(errors.column_offsets)
    sums = np.bincount(np.repeat(np.arange(len(column)), counts), errors.column_entries, len(column))
    traits[:, TOTAL] = total * traits[:, REST] + sums
    traits[:, UNARY], traits[:, MEAN] = unary, mean
    return traits


def _bounds(traits: np.ndarray, total: float) -> tuple[np.ndarray, np.ndarray]:
    """reach and loudness: |score at rest of (a, b)| <= reach[a] x loudness[b]."""
    size = np.abs(traits)
    loudness = np.maximum.reduce(
        [
            total * size[:, REST], size[:, TOTAL], total * size[:, MEAN],
            size[:, TOGETHER], total * size[:, OFFSET], size[:, UNARY],
        ]
    )  # fmt: skip
    reach = (size[:, TOGETHER] + size[:, UNARY] + size[:, TOTAL]) / total + size[:, OFFSET] + size[:, REST]
    return reach + size[:, MEAN], loudness


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
