"""Scores of all candidate pairs of a sparse table: those that meet in some row, and those that only rest.

With thresholds 0 a score is the exact gradient. Nothing of the size of rows x states or states x states is made.

A gradient is a sum over rows, and these may lie in several places. Each place tells of pairs whose gradient in its own
rows is beyond its share of the cut, so that a pair of which nobody tells cannot exceed it. Of the others a sum and a
bound are known then, and only those that these leave open are asked for once more. Where all rows lie in one place,
what it tells is the answer.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.compute import WorkerData
from sparsefield.data import Layout
from sparsefield.induction.candidates import Scored, merge, select
from sparsefield.induction.sparse_score_parts import (
    Known,
    Summary,
    Told,
    Traits,
    gather,
    pick,
    summarize,
    tell,
    unit_for,
)
from sparsefield.kernels.sparse_conditionals import BELIEF
from sparsefield.kernels.sparse_pair_scores import combine_bounds
from sparsefield.objectives.sparse_evaluator import SparseGradientFactors

__all__ = ["score_sparse_pairs"]

ENTRY_BYTES = 24
"""An error by row and by column: each time a column or row of 4 bytes and a number of 8."""

MANY_PAIRS = 1_000_000
"""Pairs that are held beyond what is asked for, before the weaker ones are dropped."""

TILES = 64
"""Runs of columns that threads share out, of about the same work."""

UNTOLD = 0.7
"""Share of the cut that places keep to themselves, where there are several. The less, the more pairs they tell; the
more, the more pairs are open afterwards."""


def score_sparse_pairs(
    contrast: SparseGradientFactors,
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
    task = Task(contrast, threshold, float(cut), column, traits, inside, limit)
    found = merge([_score_round(task, *both) for both in _rounds(contrast, traits)])
    if limit is not None:
        return select(found, limit)
    return found.take(np.lexsort((found.b, found.a)))


class Task(NamedTuple):
    """What all rounds of a scoring share."""

    contrast: SparseGradientFactors
    threshold: float
    cut: float
    column: np.ndarray
    """Columns in the order of their new numbers."""
    traits: Traits
    inside: np.ndarray
    """(pairs, 2): pairs that are in the field already."""
    limit: int | None

    @property
    def unit(self) -> float:
        return unit_for(self.contrast.total_weight)


class Sheet(NamedTuple):
    """Where `combine_bounds` adds up."""

    sums: np.ndarray
    gradients: np.ndarray
    reports: np.ndarray
    unreported: np.ndarray

    @classmethod
    def empty(cls, size: int) -> Sheet:
        return cls(np.zeros(size, dtype=np.int64), np.zeros(size), np.zeros(size, dtype=np.int32), np.zeros(size))


class Open(NamedTuple):
    """Pairs that may exceed the cut, and what is known of them, see `combine_bounds`."""

    a: np.ndarray
    b: np.ndarray
    sums: np.ndarray
    middle: np.ndarray
    apart: np.ndarray
    complete: np.ndarray

    def take(self, index: np.ndarray) -> Open:
        return Open(*(part[index] for part in self))


def _score_round(task: Task, first: slice, second: slice) -> Scored:
    """Pairs of a column of ``first`` and one of ``second``, which is the same run of columns or a later one."""
    contrast, column = task.contrast, task.column
    members = np.arange(len(column))[first]
    members = members if first == second else np.concatenate([members, np.arange(len(column))[second]])
    number = np.full(len(contrast.together), -1, dtype=np.int32)
    number[column[members]] = np.arange(len(members))
    traits = Traits(*(trait[members] for trait in task.traits))
    lots = contrast.parts.per_worker(
        gather, contrast.arcs, contrast.weights, contrast.resting, task.threshold, number, traits.baseline,
        traits.owner, _by_first(number[task.inside], len(members)), task.unit,
    )  # fmt: skip
    width = first.stop - first.start
    pairs = _settled(lots, _told(task, lots, traits, width, 0 if first == second else width))
    gradient = pairs.sums * task.unit + traits.on_weight[pairs.a] * traits.baseline[pairs.b]
    gradient += traits.on_weight[pairs.b] * traits.baseline[pairs.a]
    beyond = np.abs(gradient) > task.cut
    gradient, ends = gradient[beyond], (column[members[pairs.a[beyond]]], column[members[pairs.b[beyond]]])
    return Scored(np.minimum(*ends), np.maximum(*ends), gradient, np.abs(gradient))


def _told(task: Task, lots: WorkerData, traits: Traits, width: int, lowest: int) -> Open:
    """What lots tell of pairs of the first ``width`` columns with those from ``lowest`` on; with a limit, only of those
    that may be among the best."""
    known: list[Summary] = lots.map(summarize)
    together = np.stack([lot.together for lot in known])
    cut_per_weight = (task.cut if len(lots) == 1 else UNTOLD * task.cut) / task.contrast.total_weight
    least = np.array([cut_per_weight * lot.weight for lot in known])
    tiles = _tiles(np.sum([lot.work for lot in known], axis=0), width)
    shared = together, traits.baseline, task.unit, least, task.cut, Sheet.empty(len(traits.baseline))
    found, held = [], 0
    for tile, told in zip(tiles, lots.stream(tell, tiles, lowest, cut_per_weight), strict=True):
        found.append(_added(told, tile[0], *shared))
        held += len(found[-1].a)
        if task.limit is not None and held > 2 * task.limit + MANY_PAIRS:
            found = [_best(_merged(found), task.limit)]
            held = len(found[0].a)
    return _merged(found) if task.limit is None else _best(_merged(found), task.limit)


def _added(told: list[Told], first: int, *shared: Any) -> Open:
    """What all lots tell of a tile together; ``shared`` is what `combine_bounds` takes besides."""
    counts = np.stack([part.counts for part in told]).astype(np.int64)
    ends = np.cumsum(counts).reshape(counts.shape)
    starts = np.column_stack([ends[:, 0] - counts[:, 0], ends])
    b, sums = (np.concatenate(parts) for parts in ([part.b for part in told], [part.sums for part in told]))
    return Open(*combine_bounds(starts, b, sums, first, *shared))


def _best(pairs: Open, limit: int) -> Open:
    """Without those that ``limit`` others exceed for certain."""
    if len(pairs.a) <= limit:
        return pairs
    size = np.abs(pairs.middle)
    low = np.partition(size - pairs.apart, len(size) - limit)[len(size) - limit]
    return pairs.take(np.flatnonzero(size + pairs.apart >= low))


def _settled(lots: WorkerData, pairs: Open) -> Open:
    """With the sums of all lots, also where some did not tell."""
    open_ones = np.flatnonzero(~pairs.complete)
    if not len(open_ones):
        return pairs
    picked = lots.map(pick, pairs.a[open_ones], pairs.b[open_ones])
    pairs.sums[open_ones] = np.sum(picked, axis=0)
    return pairs


def _merged(parts: list[Open]) -> Open:
    return Open(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _rounds(contrast: SparseGradientFactors, traits: Traits) -> list[tuple[slice, slice]]:
    """Pairs of runs of columns whose errors fit into memory together; how many there are changes no result."""
    width = len(traits.baseline)
    room = config.ERRORS_SHARE * contrast.parts.memory / ENTRY_BYTES
    runs = 1 if contrast.touched <= room else min(width, int(np.ceil(2 * contrast.touched / room)))
    # Errors are mostly those of what is on, so that runs of as many cells have as many errors.
    cells = np.cumsum(traits.on_weight)
    ends = np.searchsorted(cells, np.arange(1, runs) * (cells[-1] / runs)) if runs > 1 else []
    places = np.unique([0, *ends, width]).tolist()
    slices = [slice(*pair) for pair in pairwise(places)]
    return [(one, other) for k, one in enumerate(slices) for other in slices[k:]]


def _line_up(contrast: SparseGradientFactors, layout: Layout, cut: float) -> tuple[np.ndarray, Traits]:
    """Columns in the order of their new numbers, without those that are left out, and their traits.

    The gradient of (A, B) is the sum of B's errors where A is on and of A's errors where B is on. No error exceeds 1,
    so the first sum is at most n_A; the second lies between -n_A and n_A + g_A, all that A is predicted with.
    """
    states, total = len(contrast.unary), contrast.total_weight
    together, rest = contrast.together, np.zeros(len(contrast.together))
    rest[:states] = contrast.resting[:, BELIEF]
    bound = together.copy()
    bound[:states] += together[:states] + np.maximum(contrast.unary, 0.0)
    loud = np.flatnonzero(bound > cut)
    loudness = np.maximum(together, total * rest)
    column = loud[np.argsort(-loudness[loud], kind="stable")]
    owner = layout.schemas[0].variable_of_column[column]
    return column, Traits.of(together[column], total, rest[column], owner)


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


def _tiles(work: np.ndarray, width: int) -> list[tuple[int, int]]:
    """Runs of the first ``width`` columns of about equal work."""
    done = np.cumsum(work[:width])
    ends = np.searchsorted(done, np.arange(1, TILES) * (done[-1] / TILES))
    places = np.unique([0, *ends, width]).tolist()
    return list(pairwise(places))
