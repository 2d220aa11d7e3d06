"""This module finds the large entries of a sum over shards exactly, in two rounds, without sending all summands.

The largest entries of one shard say little about those of the sum, since the noise of a shard is as large as the
effects in the sum. In the first round every worker therefore sends all its entries in half precision, with a bound on
the rounding error. This decides all but a few entries; only these are sent in full in the second round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sparsefield.compute.block_collection import ThresholdQuery, TopEntries, all_positions
from sparsefield.compute.dask_worker import RoundedArray
from sparsefield.compute.tree_sum import tree_sum

MARGIN = 1e-6
"""Relative error of an excess, which is itself computed in floating point, possibly in single precision."""

Positions = tuple[np.ndarray, np.ndarray]


class TopEntriesSearch:
    """A search processes a few items at a time: `select_positions`, then `add_exact`; results collect in ``found``."""

    def __init__(self, query: ThresholdQuery) -> None:
        self.query = query
        self.found: list[TopEntries] = []
        self.entries = self.exact = 0
        """Number of entries of all shards, and of those that were sent in full."""
        self._lower_bounds = np.empty(0)
        """Lower bounds of the largest excesses so far, at most ``query.limit``."""

    def select_positions(
        self, items: Sequence[Any], rounded: Iterable[Sequence[RoundedArray | None]]
    ) -> list[Positions]:
        """Return for each item the positions that may be selected, from the rounded sums of every shard."""
        sums: list[tuple[np.ndarray, np.ndarray] | None] = [None] * len(items)
        with np.errstate(over="ignore", invalid="ignore"):  # such entries are sent in full
            for shard in rounded:
                for k, part in enumerate(shard):
                    if part is not None:
                        sums[k] = (part.values, part.error_bound) if sums[k] is None else _add_rounded(sums[k], part)
            bounds = [self._bounds(item, *found) if found else None for item, found in zip(items, sums, strict=True)]
        self.entries += sum(found[0].size for found in sums if found)
        threshold = self._threshold([bound for bound in bounds if bound])
        none = np.empty(0, dtype=np.int64)
        selected = []
        for bound in bounds:
            if bound is None:
                selected.append((none, none))
                continue
            (rows, columns), _, high = bound
            kept = high >= threshold
            selected.append((rows[kept], columns[kept]))
        self.exact += sum(len(rows) for rows, _ in selected)
        return selected

    def add_exact(
        self, items: Sequence[Any], positions: Sequence[Positions], exact: Sequence[Sequence[np.ndarray | None]]
    ) -> None:
        """Add the exact entries at these positions, given for each shard in order."""
        for k, (item, (rows, columns)) in enumerate(zip(items, positions, strict=True)):
            sums = tree_sum(shard[k] for shard in exact)
            if sums is None:
                continue
            large = self.query.excess(item, sums, rows, columns) > 0.0
            self.found.append(TopEntries(item, (rows[large], columns[large]), sums[:, large]))

    def _bounds(self, item: Any, sums: np.ndarray, error: np.ndarray) -> tuple[Positions, np.ndarray, np.ndarray]:
        """Return the eligible positions that may be large, with lower and upper bounds of their excess."""
        excess = self.query.excess(item, sums, *all_positions(sums))
        error = error.sum(axis=0) + MARGIN * (np.abs(excess) + np.abs(sums).sum(axis=0))
        low, high = excess - error, excess + error
        never = excess == -np.inf  # whatever the sum
        unknown = ~np.isfinite(high) | ~np.isfinite(low)
        low, high = np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)
        rows, columns = np.nonzero((high > 0.0) & ~never)
        kept = self.query.eligible(item, rows, columns)
        rows, columns = rows[kept], columns[kept]
        return (rows, columns), low[rows, columns], high[rows, columns]

    def _threshold(self, bounds: Sequence[tuple[Positions, np.ndarray, np.ndarray]]) -> float:
        """Return an excess that at least ``query.limit`` entries reach."""
        limit = self.query.limit
        if limit is None:
            return -np.inf
        self._lower_bounds = np.concatenate([self._lower_bounds, *(low for _, low, _ in bounds)])
        surplus = len(self._lower_bounds) - limit
        if surplus <= 0:
            return -np.inf
        self._lower_bounds = np.partition(self._lower_bounds, surplus)[surplus:]
        return float(self._lower_bounds.min())


def _add_rounded(sums: Any, part: RoundedArray) -> tuple[np.ndarray, np.ndarray]:
    return sums[0] + part.values, sums[1] + part.error_bound
