"""Engines: where blocks of rows are kept and how their results are combined; the engine on threads of this machine."""

from __future__ import annotations

import os
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

Combine = Callable[[Any, Any], Any]
"""A function that combines two neighbors, in their order."""

ITEMS_AT_A_TIME = 256
"""Items whose sums are in memory at a time; for tiles of 128 x 128 these are 32 MB."""

FIRST_CHECKED = 100
"""How many entries beyond the needed ones are checked first."""

TASKS_PER_THREAD = 3
"""Tasks for each thread, at least, where work can be divided further: with fewer, threads wait for the last one."""


def plus(one: Any, other: Any) -> Any:
    """Add numbers or arrays, and tuples of these element by element; None is the neutral element."""
    if one is None or other is None:
        return one if other is None else other
    if isinstance(one, tuple):
        return tuple(map(plus, one, other))
    return one + other


def tree_sum(values: Iterable[Any], combine: Combine = plus) -> Any:
    """Combine values along a tree that follows their numbers, not the order of arrival; None if there are none.

    Neighbors are added first, then neighboring pairs, and so on; a value without a neighbor moves up one level. A run
    of 2^k values that starts at a multiple of 2^k is a subtree, which any worker may add up without changing a bit.
    """
    partial: list[tuple[int, Any]] = []  # at most one sum for each level of the tree
    for value in values:
        level = 0
        while partial and partial[-1][0] == level:
            value = combine(partial.pop()[1], value)
            level += 1
        partial.append((level, value))
    sums = [part for _, part in reversed(partial)]
    return reduce(lambda total, part: combine(part, total), sums) if sums else None


class TopEntries(NamedTuple):
    """Entries of one item's sum that exceed the threshold of a query."""

    item: Any
    positions: tuple[np.ndarray, np.ndarray]
    """Row and column of each entry, (entries,) each."""
    sums: np.ndarray
    """(layers, entries)"""


@dataclass(frozen=True)
class ThresholdQuery:
    """A query for the large entries of sums over all blocks; each item has a sum of shape (layers, rows, columns)."""

    summand: Callable[..., np.ndarray | None]
    """``summand(block, item, *shared)``, a module-level function: the term that a block adds to a sum, if any."""
    shared: tuple[Any, ...]
    excess: Callable[[Any, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    """``excess(item, sums, rows, columns)``: the amount by which entries (layers, ...) at positions (...) exceed the
    threshold."""
    eligible: Callable[[Any, np.ndarray, np.ndarray], np.ndarray]
    """``eligible(item, rows, columns)``: a mask of the entries that may be returned."""
    limit: int | None = None
    """The number of largest entries that are needed, over all items; more may be returned."""


@dataclass(frozen=True)
class PiecewiseUpdate:
    """A function for `BlockCollection.map_update` whose work on a block consists of pieces, which threads can share.

    Called with a block, it does one piece after the other; the result is the same.
    """

    begin: Callable[..., tuple[Any, Sequence[Any]]]
    """``begin(block, *shared)`` returns memory for the results, and the pieces."""
    work: Callable[..., Any]
    """``work(block, memory, piece, *shared)`` does a piece, and may write to a part of the memory of its own."""
    finish: Callable[..., tuple[Any, Any]]
    """``finish(block, memory, found, *shared)`` returns the new block and a value, from the results of all pieces."""

    def __call__(self, block: Any, *shared: Any) -> tuple[Any, Any]:
        memory, pieces = self.begin(block, *shared)
        return self.finish(block, memory, [self.work(block, memory, piece, *shared) for piece in pieces], *shared)


class BlockCollection(ABC):
    """Blocks in a fixed order, kept where they are processed.

    Functions are defined at module level, so that they can be sent to workers; they take a block and shared values, and
    modify neither.
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def map_update(
        self, function: Callable[..., Any], *shared: Any, each: Sequence[Any] | None = None, combine: Combine = plus
    ) -> tuple[BlockCollection, Any]:
        """Replace every block; ``function(block, *shared)`` returns the new block and a value, and values are combined.

        With ``each``, one value per block, the function is called as ``function(block, value, *shared)``.
        """

    @abstractmethod
    def sum(self, function: Callable[..., Any], *shared: Any) -> Any:
        """Return the sum of ``function(block, *shared)``, along the tree of `tree_sum`."""

    @abstractmethod
    def map(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        """Return ``function(block, *shared)`` for every block."""

    def top_entries(self, query: ThresholdQuery, items: Sequence[Any]) -> list[TopEntries]:
        """Return the entries of every item's sum that a query selects."""
        found = []
        for start in range(0, len(items), ITEMS_AT_A_TIME):
            some = list(items[start : start + ITEMS_AT_A_TIME])
            sums = self.sum(terms_of_items, query.summand, some, *query.shared)
            found += [find_large_entries(query, item, total) for item, total in zip(some, sums, strict=True)]
        return select_top_entries(query, found)


class Engine(ABC):
    """An engine decides where blocks are kept and processed; use it as a context manager."""

    device: Any = None
    """The device of torch on which an objective is evaluated, if any."""

    @abstractmethod
    def __enter__(self) -> Engine: ...

    @abstractmethod
    def __exit__(self, *exception: object) -> None: ...

    @abstractmethod
    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return the results in the order of the items, computed in this process."""

    @abstractmethod
    def stream(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the results of `map` one by one; only a few are in memory at a time."""

    @abstractmethod
    def distribute(self, blocks: Sequence[Any]) -> BlockCollection:
        """Move blocks to where they will be processed."""


def identity(value: Item) -> Item:
    """Return the value itself, as the function that fetches blocks, or the task of a value that is sent."""
    return value


def terms_of_items(
    block: Any, summand: Callable[..., np.ndarray | None], items: Sequence[Any], *shared: Any
) -> tuple[np.ndarray | None, ...]:
    """Return the terms that a block adds to the sums of some items."""
    return tuple(summand(block, item, *shared) for item in items)


def find_large_entries(query: ThresholdQuery, item: Any, sums: np.ndarray | None) -> tuple[TopEntries, np.ndarray]:
    """Return the entries of one item beyond the threshold, eligible or not, and their excess; None is an empty sum."""
    if sums is None:
        none = np.empty(0, dtype=np.int64)
        return TopEntries(item, (none, none), np.empty((1, 0))), np.empty(0)
    excess = query.excess(item, sums, np.arange(sums.shape[1])[:, None], np.arange(sums.shape[2])[None, :])
    large = np.flatnonzero(excess > 0.0)
    rows, columns = np.divmod(large, max(excess.shape[1], 1))
    return TopEntries(item, (rows, columns), sums.reshape(len(sums), -1)[:, large]), excess.ravel()[large]


def select_top_entries(query: ThresholdQuery, candidates: Sequence[tuple[TopEntries, np.ndarray]]) -> list[TopEntries]:
    """Return the eligible entries; of very many, only those that are large enough to be among the largest.

    Whether an entry is eligible takes longer than to compare its size, so a few of the largest are checked first, and
    four times as many as long as too few of them are eligible.
    """
    every = np.concatenate([np.empty(0), *(excess for _, excess in candidates)])
    limit = query.limit or 0
    checked = limit + max(limit, FIRST_CHECKED) if query.limit is not None else len(every)
    while checked < len(every):
        least = np.partition(every, len(every) - checked)[len(every) - checked]
        kept = [_eligible_entries(query, entries, excess >= least) for entries, excess in candidates]
        if sum(entries.sums.shape[1] for entries in kept) >= limit:
            return kept
        checked *= 4
    return [_eligible_entries(query, entries, excess > 0.0) for entries, excess in candidates]


def _eligible_entries(query: ThresholdQuery, entries: TopEntries, large: np.ndarray) -> TopEntries:
    rows, columns = entries.positions[0][large], entries.positions[1][large]
    kept = query.eligible(entries.item, rows, columns)
    return TopEntries(entries.item, (rows[kept], columns[kept]), entries.sums[:, large][:, kept])


# -- threads -----------------------------------------------------------------------------------------------------------


_progress: ContextVar[Callable[[int, int], None] | None] = ContextVar("progress", default=None)


@contextmanager
def report_progress(tell: Callable[[int, int], None] | None) -> Iterator[None]:
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

        results: list[Any] = []
        for task, value in self._engine.stream(work, tasks()):
            results += [value] if task.count else []
            if len(results) == task.count:
                yield function.finish(task.block, task.memory, results, *shared)
                results = []

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
