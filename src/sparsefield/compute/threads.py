"""Blocks on the threads of this machine."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from sparsefield.compute.block_collection import (
    BlockCollection,
    Engine,
    ThresholdQuery,
    TopEntries,
    WorkerData,
    find_top_entries,
)
from sparsefield.compute.tree_sum import Combine, Tree, plus, total
from sparsefield.data.memory import machine_memory

__all__ = ["Threads", "products_on_one_thread"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class Threads(Engine):
    """Runs a function over items on ``n_jobs`` threads and returns the results in the order of the items.

    Items, never threads, decide how work is cut, so results are the same for any ``n_jobs``. Matrix products run on
    one thread each meanwhile, for the same reason.

    Parameters
    ----------
    n_jobs : int or None
        None takes all cores; a negative number counts from the end, as in joblib (-1 all, -2 all but one).
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        cores = _usable_cores()
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
        items = list(items)
        if self._pool is None or len(items) < 2:
            return [function(item) for item in items]
        return list(self._pool.map(function, items))

    def stream(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """The same results one by one: only a few are there at a time."""
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

    def hold(self, parts: Sequence[Any]) -> LocalBlocks:
        return LocalBlocks(list(parts), self)


class LocalBlocks(BlockCollection):
    """Parts in the memory of this process."""

    def __init__(self, parts: list[Any], engine: Engine) -> None:
        self._parts, self._engine = parts, engine

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def memory(self) -> float:
        return machine_memory()

    def map_update(
        self, function: Callable[..., Any], *shared: Any, each: Sequence[Any] | None = None, combine: Combine = plus
    ) -> tuple[LocalBlocks, Any]:
        def one(k: int) -> Any:
            return function(self._parts[k], *(() if each is None else (each[k],)), *shared)

        parts, tree = [], Tree(combine)
        for part, value in self._engine.stream(one, range(len(self._parts))):
            parts.append(part)
            tree.push(value)
        return LocalBlocks(parts, self._engine), tree.total()

    def sum(self, function: Callable[..., Any], *shared: Any) -> Any:
        return total(self._engine.stream(lambda part: function(part, *shared), self._parts))

    def map(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        return self._engine.map(lambda part: function(part, *shared), self._parts)

    def top_entries(self, question: ThresholdQuery, items: Sequence[Any]) -> list[TopEntries]:
        """Items are what threads share out."""

        def one(item: Any) -> TopEntries:
            parts = (question.part_of_sum(part, item, *question.shared) for part in self._parts)
            return find_top_entries(question, item, total(parts))

        return self._engine.map(one, items)

    def per_worker(self, function: Callable[..., Any], *shared: Any) -> LocalWorkerData:
        return LocalWorkerData(function(self._engine, self._parts, *shared), self._engine)


class LocalWorkerData(WorkerData):
    """All parts in the memory of this process are one lot."""

    def __init__(self, lot: Any, engine: Engine) -> None:
        self._lot, self._engine = lot, engine

    def __len__(self) -> int:
        return 1

    def map(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        return [function(self._engine, self._lot, *shared)]

    def stream(self, function: Callable[..., Any], items: Sequence[Any], *shared: Any) -> Iterator[list[Any]]:
        return self._engine.stream(lambda item: [function(self._lot, item, *shared)], items)


class _SingleThreadedProducts:
    """Matrix products of the whole process on one thread while anyone needs it: the first to come sets the limit, the
    last to go lifts it, so that fits may overlap."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._limits: Any = None

    def acquire(self) -> None:
        from threadpoolctl import threadpool_limits

        with self._lock:
            if self._users == 0:
                self._limits = threadpool_limits(limits=1, user_api="blas")
            self._users += 1

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limits.restore_original_limits()


_SINGLE = _SingleThreadedProducts()


@contextmanager
def products_on_one_thread() -> Iterator[None]:
    """Within it, as within `Threads`."""
    _SINGLE.acquire()
    try:
        yield
    finally:
        _SINGLE.release()


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
