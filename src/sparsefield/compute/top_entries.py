"""Which entries of a sum over shards are large, without sending the summands: an exact answer in two rounds.

A shard's own largest entries say little of the sum's: the noise of a shard is as large as what matters in the sum. So
every worker first sends all its entries in 16 bits, with a bound on what the rounding hides. That tells all but a few
entries apart from the cut, and from the last of those that are asked for; only these few are then sent in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sparsefield.compute.block_collection import ThresholdQuery, TopEntries, everywhere
from sparsefield.compute.dask_worker import Rounded
from sparsefield.compute.tree_sum import total

__all__ = ["Search"]

MARGIN = 1e-6
"""Share by which an excess may be off besides, since it is itself computed in floating point, of 32 bits maybe."""

Places = tuple[np.ndarray, np.ndarray]


class Search:
    """Takes what shards send of some items at a time: `narrow`, then `settle`; answers pile up in ``found``."""

    def __init__(self, question: ThresholdQuery) -> None:
        self.question = question
        self.found: list[TopEntries] = []
        self.entries = self.exact = 0
        """How many entries shards have, and how many of these were sent in full."""
        self._lows = np.empty(0)
        """Lower bounds of the largest excesses so far, as many as are asked for."""

    def narrow(self, items: Sequence[Any], rounded: Iterable[Sequence[Rounded | None]]) -> list[Places]:
        """Of each item the places that may be among the answers, from what every shard has sent of it."""
        sums: list[tuple[np.ndarray, np.ndarray] | None] = [None] * len(items)
        with np.errstate(over="ignore", invalid="ignore"):  # such entries are sent in full
            for shard in rounded:
                for k, part in enumerate(shard):
                    if part is not None:
                        sums[k] = (part.values, part.slack) if sums[k] is None else _added(sums[k], part)
            bounds = [self._bounds(item, *found) if found else None for item, found in zip(items, sums, strict=True)]
        self.entries += sum(found[0].size for found in sums if found)
        least = self._least([bound for bound in bounds if bound])
        nowhere = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        places = []
        for bound in bounds:
            if bound is None:
                places.append(nowhere)
                continue
            (rows, columns), _, high = bound
            kept = high >= least
            places.append((rows[kept], columns[kept]))
        self.exact += sum(len(rows) for rows, _ in places)
        return places

    def settle(
        self, items: Sequence[Any], places: Sequence[Places], picked: Sequence[Sequence[np.ndarray | None]]
    ) -> None:
        """Take the exact entries at these places, shard by shard in their order."""
        for k, (item, (rows, columns)) in enumerate(zip(items, places, strict=True)):
            sums = total(shard[k] for shard in picked)
            if sums is None:
                continue
            beyond = self.question.excess(item, sums, rows, columns) > 0.0
            self.found.append(TopEntries(item, (rows[beyond], columns[beyond]), sums[:, beyond]))

    def _bounds(self, item: Any, sums: np.ndarray, slack: np.ndarray) -> tuple[Places, np.ndarray, np.ndarray]:
        """Places that may be large and count, with the least and the largest excess that they may have."""
        excess = self.question.excess(item, sums, *everywhere(sums))
        apart = slack.sum(axis=0) + MARGIN * (np.abs(excess) + np.abs(sums).sum(axis=0))
        low, high = excess - apart, excess + apart
        never = excess == -np.inf  # whatever the sum
        unknown = ~np.isfinite(high) | ~np.isfinite(low)
        low, high = np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)
        rows, columns = np.nonzero((high > 0.0) & ~never)
        kept = self.question.eligible(item, rows, columns)
        rows, columns = rows[kept], columns[kept]
        return (rows, columns), low[rows, columns], high[rows, columns]

    def _least(self, bounds: Sequence[tuple[Places, np.ndarray, np.ndarray]]) -> float:
        """What as many entries as are asked for have at least."""
        limit = self.question.limit
        if limit is None:
            return -np.inf
        self._lows = np.concatenate([self._lows, *(low for _, low, _ in bounds)])
        if len(self._lows) <= limit:
            return -np.inf
        self._lows = np.partition(self._lows, len(self._lows) - limit)[len(self._lows) - limit :]
        return float(self._lows.min())


def _added(sums: Any, part: Rounded) -> tuple[np.ndarray, np.ndarray]:
    return sums[0] + part.values, sums[1] + part.slack
