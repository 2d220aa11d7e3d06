"""Lots on the workers of a cluster: all shards that a worker has, taken together."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sparsefield.compute import dask_worker
from sparsefield.compute.block_collection import WorkerData

__all__ = ["DaskWorkerData"]

ITEMS_AT_FIRST = 8
"""Whose answers are sent together; twice as many the next time, where answers were short."""

SHORT = 4_000_000
"""Bytes of answers that come while a few requests would: each takes about 10 ms."""


class DaskWorkerData(WorkerData):
    """Which shards are in a lot is settled once: where a worker dies, its lot is made again elsewhere."""

    def __init__(
        self, rows: Any, makings: Sequence[Any], function: Callable[..., Any], shared: tuple[Any, ...]
    ) -> None:
        self._rows, self._makings = rows, makings
        number = rows.cluster.new_making()
        weakref.finalize(self, rows.cluster.live.discard, number)
        self.groups: list[list[int]] = []
        """Shards in each lot, settled when these are made."""
        self.whole = self.there = (number, function, shared)
        """What a worker has to know to make a lot, and what it has to know of one that it may have."""
        self._tell()

    def __len__(self) -> int:
        return len(self.groups)

    def map(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        return self._tell(function, *shared)

    def stream(self, function: Callable[..., Any], items: Sequence[Any], *shared: Any) -> Iterator[list[Any]]:
        start, size = 0, ITEMS_AT_FIRST
        while start < len(items):
            before, some = self._rows.cluster.traffic, list(items[start : start + size])
            told = self._tell(dask_worker.each_item, function, some, *shared)
            start += size
            size *= 2 if self._rows.cluster.traffic - before < SHORT else 1
            yield from (list(answers) for answers in zip(*told, strict=True))

    def _tell(self, *reading: Any) -> list[Any]:
        start = self._makings[-1].number if self._makings else None
        found = self._rows.run(start, self._makings, reading or None, None, self)
        self.there = (self.whole[0], None, ())
        return [found[0, numbers[0]] for numbers in self.groups]
