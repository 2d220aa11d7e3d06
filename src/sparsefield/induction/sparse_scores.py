"""This module scores all candidate pairs of a sparse table: those that are both nonzero in some row, and all others.

With thresholds 0 a score is the exact gradient. No array of rows x states or states x states is made.

A gradient is a sum over rows, which may be on several workers. Each worker reports pairs whose gradient in its own rows
exceeds its share of the bound, so a pair that no worker reports cannot exceed it. For reported pairs a partial sum
and a bound are known, and only pairs that these leave undecided are summed exactly in a second round. With one worker,
its report is the result.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.compute import WorkerData
from sparsefield.data import Layout
from sparsefield.induction.candidates import Proposals, best_proposals, concatenate_proposals
from sparsefield.induction.sparse_score_parts import (
    ColumnBounds,
    KnownPairs,
    LocalScores,
    WorkerSummary,
    gather_rows,
    score_tile,
    sum_given_pairs,
    summarize,
    unit_for,
)
from sparsefield.kernels.sparse_conditionals import BELIEF
from sparsefield.kernels.sparse_pair_scores import combine_bounds
from sparsefield.objectives.sparse_evaluator import SparseGradientFactors

ENTRY_BYTES = 24
"""Bytes of an error, which is stored by row and by column: 4 for its column or row, and 8 for the number."""

MANY_PAIRS = 1_000_000
"""Pairs beyond the limit that are kept before the weaker ones are dropped."""

TILES = 64
"""Number of runs of columns, of about equal work, that are divided among threads."""

UNREPORTED_SHARE = 0.7
"""Share of ``min_gradient`` below which workers report nothing, where there are several. A smaller share means more
reported pairs, a larger one more undecided pairs."""


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
    inside = _known(known, layout.n_columns, column)
    task = ScoringTask(factors, threshold, float(min_gradient), column, bounds, inside, limit)
    found = concatenate_proposals([_score_round(task, *both) for both in _rounds(factors, bounds)])
    if limit is not None:
        return best_proposals(found, limit)
    return found.take(np.lexsort(found.features.T[::-1]))


class ScoringTask(NamedTuple):
    """Inputs that all rounds share."""

    factors: SparseGradientFactors
    threshold: float
    min_gradient: float
    column: np.ndarray
    """Columns in the order of their new numbers."""
    bounds: ColumnBounds
    inside: np.ndarray
    """(pairs, 2): pairs of the working set."""
    limit: int | None

    @property
    def unit(self) -> float:
        return unit_for(self.factors.total_weight)


class BoundSums(NamedTuple):
    """Arrays in which `combine_bounds` accumulates."""

    sums: np.ndarray
    gradients: np.ndarray
    reports: np.ndarray
    unreported: np.ndarray

    @classmethod
    def empty(cls, size: int) -> BoundSums:
        return cls(np.zeros(size, dtype=np.int64), np.zeros(size), np.zeros(size, dtype=np.int32), np.zeros(size))


class OpenPairs(NamedTuple):
    """Pairs that may exceed ``min_gradient``, with partial sums and bounds; see `combine_bounds`."""

    a: np.ndarray
    b: np.ndarray
    sums: np.ndarray
    center: np.ndarray
    radius: np.ndarray
    complete: np.ndarray

    def take(self, index: np.ndarray) -> OpenPairs:
        return OpenPairs(*(part[index] for part in self))


def _score_round(task: ScoringTask, first: slice, second: slice) -> Proposals:
    """Score pairs of a column of ``first`` and one of ``second``, which is the same run of columns or a later one."""
    factors, column = task.factors, task.column
    members = np.arange(len(column))[first]
    members = members if first == second else np.concatenate([members, np.arange(len(column))[second]])
    number = np.full(len(factors.on_weight), -1, dtype=np.int32)
    number[column[members]] = np.arange(len(members))
    bounds = ColumnBounds(*(trait[members] for trait in task.bounds))
    workers = factors.parts.per_worker(
        gather_rows, factors.arcs, factors.weights, factors.baseline, task.threshold, number, bounds.baseline,
        bounds.owner, _by_first(number[task.inside], len(members)), task.unit,
    )  # fmt: skip
    width = first.stop - first.start
    pairs = _complete_sums(workers, _collect_scores(task, workers, bounds, width, 0 if first == second else width))
    gradient = pairs.sums * task.unit + bounds.on_weight[pairs.a] * bounds.baseline[pairs.b]
    gradient += bounds.on_weight[pairs.b] * bounds.baseline[pairs.a]
    beyond = np.abs(gradient) > task.min_gradient
    gradient, ends = gradient[beyond], (column[members[pairs.a[beyond]]], column[members[pairs.b[beyond]]])
    return Proposals(np.sort(np.column_stack(ends), axis=1), gradient, np.abs(gradient))


def _collect_scores(task: ScoringTask, workers: WorkerData, bounds: ColumnBounds, width: int, lowest: int) -> OpenPairs:
    """Collect the reports on pairs of the first ``width`` columns with those from ``lowest`` on.

    With a limit, only pairs that may be among the best are kept.
    """
    known: list[WorkerSummary] = workers.map(summarize)
    on_weight = np.stack([worker.on_weight for worker in known])
    min_gradient_per_weight = (
        task.min_gradient if len(workers) == 1 else UNREPORTED_SHARE * task.min_gradient
    ) / task.factors.total_weight
    least = np.array([min_gradient_per_weight * worker.weight for worker in known])
    tiles = _tiles(np.sum([worker.work for worker in known], axis=0), width)
    shared = on_weight, bounds.baseline, task.unit, least, task.min_gradient, BoundSums.empty(len(bounds.baseline))
    found, held = [], 0
    for tile, reported in zip(tiles, workers.stream(score_tile, tiles, lowest, min_gradient_per_weight), strict=True):
        found.append(_combine_tile(reported, tile[0], *shared))
        held += len(found[-1].a)
        if task.limit is not None and held > 2 * task.limit + MANY_PAIRS:
            found = [_best(_join(found), task.limit)]
            held = len(found[0].a)
    return _join(found) if task.limit is None else _best(_join(found), task.limit)


def _combine_tile(reported: list[LocalScores], first: int, *shared: Any) -> OpenPairs:
    """Combine the reports of all workers on a tile; ``shared`` are the other arguments of `combine_bounds`."""
    counts = np.stack([part.counts for part in reported]).astype(np.int64)
    ends = np.cumsum(counts).reshape(counts.shape)
    starts = np.column_stack([ends[:, 0] - counts[:, 0], ends])
    b, sums = (np.concatenate(parts) for parts in ([part.b for part in reported], [part.sums for part in reported]))
    return OpenPairs(*combine_bounds(starts, b, sums, first, *shared))


def _join(parts: list[OpenPairs]) -> OpenPairs:
    return OpenPairs(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _best(pairs: OpenPairs, limit: int) -> OpenPairs:
    """Drop pairs that at least ``limit`` others certainly exceed."""
    if len(pairs.a) <= limit:
        return pairs
    size = np.abs(pairs.center)
    low = np.partition(size - pairs.radius, len(size) - limit)[len(size) - limit]
    return pairs.take(np.flatnonzero(size + pairs.radius >= low))


def _complete_sums(workers: WorkerData, pairs: OpenPairs) -> OpenPairs:
    """Complete the sums of pairs that some workers did not report."""
    open_ones = np.flatnonzero(~pairs.complete)
    if not len(open_ones):
        return pairs
    sums = workers.map(sum_given_pairs, pairs.a[open_ones], pairs.b[open_ones])
    pairs.sums[open_ones] = np.sum(sums, axis=0)
    return pairs


def _rounds(factors: SparseGradientFactors, bounds: ColumnBounds) -> list[tuple[slice, slice]]:
    """Return pairs of runs of columns whose errors fit into memory; their number does not affect results."""
    width = len(bounds.baseline)
    capacity = config.ERRORS_SHARE * factors.parts.memory / ENTRY_BYTES
    runs = 1 if factors.touched <= capacity else min(width, int(np.ceil(2 * factors.touched / capacity)))
    # Most errors are those of cells that are on, so runs with equally many such cells have about equally many errors.
    cells = np.cumsum(bounds.on_weight)
    ends = np.searchsorted(cells, np.arange(1, runs) * (cells[-1] / runs)) if runs > 1 else []
    places = np.unique([0, *ends, width]).tolist()
    slices = [slice(*pair) for pair in pairwise(places)]
    return [(one, other) for k, one in enumerate(slices) for other in slices[k:]]


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


def _known(keys: np.ndarray, n_columns: int, column: np.ndarray) -> np.ndarray:
    """Return the pairs (pairs, 2) with given keys whose columns are not left out."""
    pairs = np.column_stack(np.divmod(keys, np.int64(max(n_columns, 1))))
    kept = np.zeros(n_columns, dtype=bool)
    kept[column] = True
    return pairs[kept[pairs].all(axis=1)]


def _by_first(pairs: np.ndarray, size: int) -> KnownPairs:
    """Sort pairs by their smaller number; pairs with a column without a number (-1) are left out."""
    pairs = np.sort(pairs[(pairs >= 0).all(axis=1)], axis=1)
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    return KnownPairs(np.searchsorted(pairs[:, 0], np.arange(size + 1)), pairs[:, 1].astype(np.int32))


def _tiles(work: np.ndarray, width: int) -> list[tuple[int, int]]:
    """Return runs of the first ``width`` columns of about equal work."""
    done = np.cumsum(work[:width])
    ends = np.searchsorted(done, np.arange(1, TILES) * (done[-1] / TILES))
    places = np.unique([0, *ends, width]).tolist()
    return list(pairwise(places))
