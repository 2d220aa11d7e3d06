"""Engine on the threads of this machine."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparsefield.compute.block_collection import (
    BlockCollection,
    Combine,
    Engine,
    Item,
    PiecewiseUpdate,
    Result,
    ThresholdQuery,
    TopEntries,
    find_large_entries,
    plus,
    select_top_entries,
    tree_sum,
)

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

TASKS_PER_THREAD = 3
"""Tasks for each thread, at least, where work can be divided further: with fewer, threads wait for the last one."""


_progress: ContextVar[Callable[[int, int], None] | None] = ContextVar("progress", default=None)


@contextmanager
def report_progress(tell: Callable[[int, int], None]) -> Iterator[None]:
    """Call ``tell`` with the number of items that `Threads.map` has done and their total, while the context is open."""
    token = _progress.set(tell)
    try:
        yield
    finally:
        _progress.reset(token)


class Threads(Engine):
    """An engine that runs functions on ``n_jobs`` threads of this process.

    Work is divided by items, never by threads, so results are identical for any ``n_jobs``. For the same reason,
    each matrix product runs on one thread while the engine is entered.

    Parameters
    ----------
    n_jobs : int or None
        None uses all cores; a negative number counts from the end, as in joblib (-1 all, -2 all but one).
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if n_jobs == 0:
            raise ValueError("n_jobs must not be 0: use 1 for one thread, or None for all cores.")
        wanted = cores if n_jobs is None else n_jobs
        self.n_threads = max(1, wanted if wanted > 0 else cores + 1 + wanted)
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Threads:
        _SINGLE.acquire()
        if self.n_threads > 1:
            self._pool = ThreadPoolExecutor(self.n_threads, thread_name_prefix="sparsefield")
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            if self._pool is not None:
                self._pool.shutdown(wait=True, cancel_futures=True)
                self._pool = None
        finally:
            _SINGLE.release()

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        items, tell, results = list(items), _progress.get(), []
        pool = self._pool if len(items) > 1 else None
        for result in map(function, items) if pool is None else pool.map(function, items):
            results.append(result)
            if tell is not None and len(items) > 1:
                tell(len(results), len(items))
        return results

    def stream(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the results one by one, with few of them in memory at a time."""
        if self._pool is None:
            yield from map(function, items)
            return
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(self._pool.submit(function, item))
            if len(waiting) > self.n_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def distribute(self, blocks: Sequence[Any]) -> LocalBlocks:
        return LocalBlocks(list(blocks), self)


class _Piece(NamedTuple):
    """A piece of the work on a block; there are ``count`` of them, and a block without any has one that is empty."""

    block: Any
    memory: Any
    piece: Any
    count: int


class LocalBlocks(BlockCollection):
    """Blocks in the memory of this process."""

    def __init__(self, blocks: list[Any], engine: Threads) -> None:
        self._blocks, self._engine = blocks, engine

    def __len__(self) -> int:
        return len(self._blocks)

    def map_update(
        self, function: Callable[..., Any], *shared: Any, each: Sequence[Any] | None = None, combine: Combine = plus
    ) -> tuple[LocalBlocks, Any]:
        def update(k: int) -> Any:
            return function(self._blocks[k], *(() if each is None else (each[k],)), *shared)

        blocks: list[Any] = []
        if isinstance(function, PiecewiseUpdate):
            updates = self._in_pieces(function, shared)
        else:
            updates = self._engine.stream(update, range(len(self)))
        total = tree_sum((blocks.append(block) or value for block, value in updates), combine)
        return LocalBlocks(blocks, self._engine), total

    def _in_pieces(self, function: PiecewiseUpdate, shared: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield the updated blocks and their values; threads share the pieces of all blocks."""

        def tasks() -> Iterator[_Piece]:
            for block in self._blocks:
                memory, pieces = function.begin(block, *shared)
                yield from (_Piece(block, memory, piece, len(pieces)) for piece in pieces)
                if not len(pieces):
                    yield _Piece(block, memory, None, 0)

        def work(task: _Piece) -> tuple[_Piece, Any]:
            return task, function.work(task.block, task.memory, task.piece, *shared) if task.count else None

        found: list[Any] = []
        for task, value in self._engine.stream(work, tasks()):
            found += [value] if task.count else []
            if len(found) == task.count:
                yield function.finish(task.block, task.memory, found, *shared)
                found = []

    def sum(self, function: Callable[..., Any], *shared: Any) -> Any:
        return tree_sum(self._engine.stream(lambda block: function(block, *shared), self._blocks))

    def map(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        return self._engine.map(lambda block: function(block, *shared), self._blocks)

    def top_entries(self, query: ThresholdQuery, items: Sequence[Any]) -> list[TopEntries]:
        """Return the entries that a query selects; threads work on different items, or on parts of their sums."""
        wanted, size, count = -(-TASKS_PER_THREAD * self._engine.n_threads // max(len(items), 1)), 1, len(self)
        while size * wanted < count:  # runs of 2^k blocks are subtrees of `tree_sum`, so that their sums add up to it
            size *= 2
        runs = [range(start, min(start + size, count)) for start in range(0, max(count, 1), size)]

        def add(task: tuple[Any, range]) -> Any:
            item, run = task
            return tree_sum(query.summand(self._blocks[k], item, *query.shared) for k in run)

        def search(item: Any, sums: Sequence[Any]) -> tuple[TopEntries, np.ndarray]:
            return find_large_entries(query, item, tree_sum(sums))

        if len(runs) == 1:
            return select_top_entries(query, self._engine.map(lambda item: search(item, [add((item, runs[0]))]), items))
        sums = self._engine.map(add, [(item, run) for item in items for run in runs])
        found = [(item, sums[k * len(runs) : (k + 1) * len(runs)]) for k, item in enumerate(items)]
        return select_top_entries(query, self._engine.map(lambda pair: search(*pair), found))


class _SingleThreadedProducts:
    """A limit of one thread for matrix products, which the first of several users sets and the last one removes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._limits: Any = None

    def acquire(self) -> None:
        with self._lock:
            if self._users == 0:
                self._limits = _libraries(len(sys.modules)).limit(limits=1, user_api="blas")
            self._users += 1

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limits.restore_original_limits()


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> ThreadpoolController:
    """Return the libraries of this process; they are looked for anew, which takes milliseconds, after more imports."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


_SINGLE = _SingleThreadedProducts()
