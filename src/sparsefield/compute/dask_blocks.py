"""This module implements block collections whose blocks are kept on the workers of a cluster."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sparsefield.compute import dask_worker
from sparsefield.compute.block_collection import BlockCollection, ThresholdQuery, TopEntries, WorkerData
from sparsefield.compute.shard_manager import ShardManager, UpdateStep, WorkerDataSpec
from sparsefield.compute.top_entries import TopEntriesSearch
from sparsefield.compute.tree_sum import Combine, plus

SEARCH_ITEMS = 256
"""Items whose sums a shard keeps between the two rounds of a search; for tiles of 128 x 128 these are 32 MB."""

FIRST_STREAMED_ITEMS = 8
"""Items of the first request of a stream; the number doubles while results are small."""

SMALL_RESULTS = 4_000_000
"""Bytes of results that arrive in the time of a few requests, about 10 ms each."""


class DaskBlocks(BlockCollection):
    """Blocks on workers, derived from shards of rows by a lineage of updates."""

    def __init__(
        self, shards: ShardManager, lineage: tuple[UpdateStep, ...] = (), searches: list[TopEntriesSearch] | None = None
    ) -> None:
        self._shards, self._lineage = shards, lineage
        self._searches = [] if searches is None else searches
        """Searches so far, for statistics."""
        if lineage:
            weakref.finalize(self, shards.cluster.live.discard, lineage[-1].version)

    def __len__(self) -> int:
        return self._shards.starts[-1]

    @property
    def memory(self) -> float:
        self._shards.cluster.wait_for_workers()
        return sum(worker["memory_limit"] or float("inf") for worker in self._shards.cluster.workers.values())

    @property
    def _version(self) -> int | None:
        return self._lineage[-1].version if self._lineage else None

    def map_update(
        self, function: Callable[..., Any], *shared: Any, each: Sequence[Any] | None = None, combine: Combine = plus
    ) -> tuple[DaskBlocks, Any]:
        updated = self._derive(dask_worker.map_update, (combine, function, *shared), each)
        return updated, self._root(self._shards.run(self._version, updated._lineage, merge=combine), combine)

    def sum(self, function: Callable[..., Any], *shared: Any) -> Any:
        evaluate = (dask_worker.sum_blocks, function, *shared)
        return self._root(self._shards.run(self._version, self._lineage, evaluate), plus)

    def map(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        evaluate = (dask_worker.map_blocks, function, *shared)
        found = self._shards.run(self._version, self._lineage, evaluate, merge=None)
        return [value for _, values in sorted(found.items(), key=lambda entry: entry[0]) for value in values]

    def top_entries(self, query: ThresholdQuery, items: Sequence[Any]) -> list[TopEntries]:
        """Return the entries that a query selects, in two rounds: see `sparsefield.compute.top_entries`."""
        search = TopEntriesSearch(query)
        for k in range(0, len(items), SEARCH_ITEMS):
            some = list(items[k : k + SEARCH_ITEMS])
            sums = self._derive(dask_worker.item_sums, (some, query.summand, *query.shared))
            rounded = self._shards.run(self._version, sums._lineage, finish=dask_worker.round_sums)
            positions = search.select_positions(some, rounded.values())
            exact = self._shards.run(sums._version, sums._lineage, (dask_worker.pick_entries, positions))
            search.add_exact(some, positions, [self._root(exact, plus)])
        self._searches.append(search)
        return search.found

    def per_worker(self, function: Callable[..., Any], *shared: Any) -> DaskWorkerData:
        return DaskWorkerData(self._shards, self._lineage, function, shared)

    def _derive(
        self, function: Callable[..., Any], shared: tuple[Any, ...], each: Sequence[Any] | None = None
    ) -> DaskBlocks:
        step = UpdateStep(self._shards.cluster.new_version(), function, each, shared)
        return DaskBlocks(self._shards, (*self._lineage, step), self._searches)

    def _root(self, values: dict[dask_worker.Node, Any], merge: Combine) -> Any:
        return dask_worker.merge_root(values, merge, len(self._shards.futures))


class DaskWorkerData(WorkerData):
    """Data of each worker; if a worker dies, its data are recomputed on another from the same shards."""

    def __init__(
        self, shards: ShardManager, lineage: Sequence[UpdateStep], function: Callable[..., Any], shared: tuple[Any, ...]
    ) -> None:
        self._shards, self._lineage = shards, lineage
        self._spec = WorkerDataSpec(shards.cluster.new_version(), function, shared)
        weakref.finalize(self, shards.cluster.live.discard, self._spec.version)
        self._evaluate(None)

    def __len__(self) -> int:
        return len(self._spec.groups)

    def map(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        return self._evaluate((function, *shared))

    def stream(self, function: Callable[..., Any], items: Sequence[Any], *shared: Any) -> Iterator[list[Any]]:
        start, size = 0, FIRST_STREAMED_ITEMS
        while start < len(items):
            before, some = self._shards.cluster.traffic, list(items[start : start + size])
            results = self._evaluate((dask_worker.map_items, function, some, *shared))
            start += size
            size *= 2 if self._shards.cluster.traffic - before < SMALL_RESULTS else 1
            yield from (list(values) for values in zip(*results, strict=True))

    def _evaluate(self, evaluate: tuple[Any, ...] | None) -> list[Any]:
        base = self._lineage[-1].version if self._lineage else None
        found = self._shards.run(base, self._lineage, evaluate, None, self._spec)
        self._spec.computed = True
        return [found[0, numbers[0]] for numbers in self._spec.groups]
