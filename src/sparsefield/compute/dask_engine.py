"""This module processes blocks on the workers of a Dask cluster; it needs the extra ``cluster``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np

from sparsefield.compute.block_collection import Engine, Item, Result
from sparsefield.compute.dask_blocks import DaskBlocks
from sparsefield.compute.dask_cluster import DaskCluster, bytes_of, refuse_beyond
from sparsefield.compute.dask_worker import Shard
from sparsefield.compute.shard_manager import ShardManager
from sparsefield.compute.threads import Threads
from sparsefield.compute.top_entries import TopEntriesSearch

SHARDS_PER_THREAD = 4
"""Enough shards for an even load when workers join and leave."""

MEMORY_FACTOR = 3.0
"""Memory of rows together with their errors, a copy for missing cells and the values of a search, per byte of rows."""


@dataclass(frozen=True)
class ShardFutures:
    """Blocks that are on the workers already."""

    futures: Sequence[Any]
    """Futures of `Shard`, each with a run of 2^k consecutive blocks, the last possibly shorter."""
    counts: Sequence[int]
    """Number of blocks of each shard."""
    recreate: Callable[[], Sequence[Any]] | None = None
    """Returns the futures again, if the scheduler has lost them."""

    def scatter(self, numbers: Sequence[int], names: Sequence[str]) -> list[Any]:
        """Recreate the shards of given numbers; Dask chooses the workers."""
        assert self.recreate is not None
        futures = self.recreate()
        return [futures[k] for k in numbers]


class DaskEngine(DaskCluster, Engine):
    """An engine that runs functions on the workers of a cluster, next to the blocks.

    All results are computed by functions without side effects from rows that can be scattered again, so that the death
    of a worker costs time and nothing else.

    Parameters
    ----------
    where : a `distributed.Client`, or the address of a scheduler such as "dask://host:8786"
    n_jobs : number of threads for computations in this process
    """

    def __init__(self, where: Any, n_jobs: int | None = None) -> None:
        super().__init__(where)
        self._threads = Threads(n_jobs)
        self.searches: list[TopEntriesSearch] = []
        """Searches for top entries so far, for statistics."""
        self._shards: WeakSet[ShardManager] = WeakSet()

    def __enter__(self) -> DaskEngine:
        self.open()
        self._threads.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._threads.__exit__(*exception)
        for shards in self._shards:  # which an error may keep alive
            shards.release()
        self.close()

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        return self._threads.map(function, items)

    def stream(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        return self._threads.stream(function, items)

    def distribute(self, blocks: Sequence[Any] | ShardFutures) -> DaskBlocks:
        if isinstance(blocks, ShardFutures):
            scatter = blocks.scatter if blocks.recreate else None
            return self._collection(ShardManager(self, blocks.counts, scatter, blocks.futures))
        size = bytes_of(tuple(blocks))
        self.wait_for_workers()
        refuse_beyond(self.client, MEMORY_FACTOR * size, f"{size / 2**30:.2f} GiB of rows with their derived values")
        length = shard_length(len(blocks), self.n_threads)
        runs = [tuple(blocks[k : k + length]) for k in range(0, len(blocks), length)]

        def scatter_runs(numbers: Sequence[int], names: Sequence[str]) -> list[Any]:
            return [self.scatter(Shard(runs[k]), name) for k, name in zip(numbers, names, strict=True)]

        return self._collection(ShardManager(self, [len(run) for run in runs], scatter_runs))

    def _collection(self, shards: ShardManager) -> DaskBlocks:
        self._shards.add(shards)
        return DaskBlocks(shards, searches=self.searches)


def shard_length(n_blocks: int, n_threads: int) -> int:
    """Return the number of blocks per shard, a power of two that gives each thread a few shards if possible."""
    return 2 ** int(np.log2(max(n_blocks / (SHARDS_PER_THREAD * n_threads), 1.0)))
