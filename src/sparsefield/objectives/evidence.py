"""How sure the data make single weights: Wald statistics with the variance of a sum of conditionals (Godambe's)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparsefield.data import Arcs, Block, Layout
from sparsefield.objectives.base import Workspace

__all__ = ["wald_statistics"]

ARCS_AT_A_TIME = 256
"""Each takes a few rows of floats for every block."""


def wald_statistics(
    layout: Layout,
    parts: Sequence[tuple[int, Block, Workspace]],
    arcs: Arcs,
    weights: np.ndarray,
) -> np.ndarray:
    """(features,): the square of each weight over its variance; about chi-squared where the weight is truly 0.

    The two ends of a pair see the same rows, so their two conditionals say nearly the same twice: the variance is not
    1 / curvature, but (spread of the gradient over rows) / curvature^2. Unary weights are taken as free, all others as
    known; the weights must be at an optimum without L1.

    Parameters
    ----------
    parts : (table, block, workspace) of an evaluation at the optimum
    arcs : of the features, in plain numbering
    weights : (features,)
    """
    curvature, spread = np.zeros(len(weights)), np.zeros(len(weights))
    order = np.argsort(arcs.feature, kind="stable")
    table = np.searchsorted(layout.state_starts, arcs.target[order], side="right") - 1
    for t in np.unique(table):
        mine, blocks = order[table == t], [(block, space) for owner, block, space in parts if owner == t]
        features = arcs.feature[mine]
        # A chunk ends where a feature does, because the gradients of its arcs in a row belong together.
        starts = np.flatnonzero(np.diff(features, prepend=-1))
        chunks = np.unique(starts[np.searchsorted(starts, np.arange(0, len(mine), ARCS_AT_A_TIME), side="right") - 1])
        for first, last in zip(chunks, [*chunks[1:], len(mine)], strict=True):
            some = mine[first:last]
            found = _of_chunk(layout, int(t), blocks, arcs, some)
            which = np.unique(arcs.feature[some])
            curvature[which] += found[0]
            spread[which] += found[1]
    tiny = np.finfo(float).tiny
    return np.square(weights * curvature) / np.maximum(spread, tiny)


def _of_chunk(
    layout: Layout, table: int, blocks: Sequence[tuple[Block, Workspace]], arcs: Arcs, some: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(features,) each: second derivative, and sum over rows of the squared gradient."""
    target = arcs.target[some] - layout.state_starts[table]
    sums = np.zeros((3, len(some)))
    for block, space in blocks:
        unsure = _uncertainty(space.errors[target], block.weight)
        source = _sources(layout, table, space.middles, arcs, some)
        sums += np.array([unsure.sum(axis=1), (unsure * source).sum(axis=1), (unsure * source**2).sum(axis=1)])
    centre = sums[1] / np.maximum(sums[0], np.finfo(float).tiny)
    begins = np.flatnonzero(np.diff(arcs.feature[some], prepend=-1))
    curvature = np.add.reduceat(sums[2] - centre * sums[1], begins)
    spread = np.zeros(len(begins))
    for block, space in blocks:
        source = _sources(layout, table, space.middles, arcs, some)
        slopes = np.add.reduceat(space.errors[target] * (source - centre[:, None]), begins, axis=0)
        spread += (np.square(slopes) / np.where(block.weight > 0, block.weight, 1.0)).sum(axis=1)
    return curvature, spread


def _sources(layout: Layout, table: int, middles: np.ndarray, arcs: Arcs, some: np.ndarray) -> np.ndarray:
    """(arcs, rows): the columns, or products of columns, that the arcs come from."""
    start, source = layout.column_starts[table], arcs.source[some]
    plain = source < layout.n_columns
    found = middles[np.where(plain, source - start, 0)]
    for k in np.flatnonzero(~plain):
        columns = arcs.conjunctions[source[k] - layout.n_columns]
        found[k] = middles[columns[columns >= 0] - start].prod(axis=0)
    return found


def _uncertainty(errors: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """p (1 - p) x the row's weight, read off the errors of seen cells."""
    size = np.abs(errors)
    return size * (weight - size) / np.where(weight > 0, weight, 1.0)
