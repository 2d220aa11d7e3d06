"""Parts on the workers of a cluster: where their shards lie, and how work on them is given out until it is done."""

from __future__ import annotations

import time
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparsefield.compute import dask_worker
from sparsefield.compute.block_collection import BlockCollection, ThresholdQuery, TopEntries
from sparsefield.compute.dask_per_worker import DaskWorkerData
from sparsefield.compute.top_entries import Search
from sparsefield.compute.tree_sum import Combine, plus
from sparsefield.errors import ClusterError

if TYPE_CHECKING:
    from sparsefield.compute.dask_engine import DaskEngine

__all__ = ["DaskBlocks", "ShardManager", "bytes_of", "signs_of_loss"]

ATTEMPTS = 10
"""How often work that was lost is given out again."""

A_MOMENT = 0.5
"""Seconds between two of them."""

ITEMS_AT_A_TIME = 256
"""Whose sums a shard holds between the two rounds of a search; of tiles of 128 x 128 they are 32 MB."""


class Recipe(NamedTuple):
    """How shards were made from others."""

    number: int
    function: Callable[..., Any]
    each: Sequence[Any] | None
    """For every part, or None."""
    shared: tuple[Any, ...]


class ShardManager:
    """Shards of rows as they are placed first; knows where they lie, and gives out work on them.

    Parameters
    ----------
    counts : parts of each shard
    place : puts the shards of given numbers, which are not there or lost, on given workers; None where nobody can
    futures : of shards that are there already; none are placed when work is first given out
    """

    def __init__(
        self,
        cluster: DaskEngine,
        counts: Sequence[int],
        place: Callable[[Sequence[int], Sequence[str]], Sequence[Any]] | None,
        futures: Sequence[Any] | None = None,
    ) -> None:
        self.cluster, self._place = cluster, place
        self.starts = np.concatenate([[0], np.cumsum(counts)]).astype(int).tolist()
        self.futures: list[Any] = [None] * len(counts) if futures is None else list(futures)
        self._lent = list(futures or [])
        self._places: list[str] = []
        """Of every shard, when they were looked for last."""
        self._known: set[str] = set()
        """Workers at that time."""
        self._stale = True

    def run(
        self,
        start: int | None,
        makings: Sequence[Recipe],
        reading: tuple[Any, ...] | None = None,
        merge: Combine | None = plus,
        lots: DaskWorkerData | None = None,
        finish: Callable[[Any], Any] | None = None,
    ) -> dict[dask_worker.Node, Any]:
        """What shards tell after some makings that begin where the last of those before the new ones left off.

        ``makings`` are all since the rows; those up to number ``start`` are only made where a worker has lost them.
        With ``lots`` these tell, and stay the same sets of shards wherever these have gone. ``finish`` is done with
        what a worker has put together, before it is sent.
        """
        there, whole = (None, None) if lots is None else (lots.there, lots.whole)
        new = [making for making in makings if start is None or making.number > start]
        found: dict[dask_worker.Node, Any] = {}
        waiting, attempts = None, 0
        while waiting is None or waiting:
            try:
                if waiting is None:
                    self._place_what_is_lost()
                    found, waiting = {}, [(numbers, start, new, there) for numbers in self.groups(lots)]
                told = self._ask([self._task(*task, reading, merge, finish) for task in waiting])
            except _Failure as failure:
                raise failure.explained() from None
            except signs_of_loss() as error:
                attempts += 1
                if attempts == ATTEMPTS:
                    raise _worn_out(error) from error
                self._look_again()
                waiting = None
                continue
            self.cluster.traffic += sum(bytes_of(list(part.values())) for part in told if part is not None)
            missing = [task[0] for task, part in zip(waiting, told, strict=True) if part is None]
            waiting = [(numbers, None, makings, whole) for numbers in missing]
            self.cluster.remade += sum(map(len, missing))
            for part in told:
                found |= part or {}
        return found

    def _ask(self, tasks: list[Any]) -> list[Any]:
        """What tasks tell. An error in one of them is no loss: it comes out as it is, and nothing is tried again."""
        try:
            self.cluster.wait(tasks)
            for task in tasks:
                if task.status == "error":
                    raise _Failure(task.exception().with_traceback(task.traceback()))
            return self.cluster.client.gather(tasks)
        finally:
            for task in tasks:  # now, since an error may keep this frame for long
                task.release()

    def _task(
        self,
        numbers: Sequence[int],
        start: int | None,
        makings: Sequence[Recipe],
        lot: Sequence[Any] | None,
        reading: tuple[Any, ...] | None,
        merge: Combine | None,
        finish: Callable[[Any], Any] | None,
    ) -> Any:
        cluster = self.cluster
        steps = [
            [making.number, making.function, self._own(making, numbers), [cluster.send(v) for v in making.shared]]
            for making in makings
        ]
        read = None if reading is None else [reading[0], [cluster.send(value) for value in reading[1:]]]
        return cluster.client.submit(
            dask_worker.work,
            [self.futures[k] for k in numbers],
            list(numbers),
            cluster.fit,
            sorted(cluster.live),
            start,
            steps,
            read,
            merge,
            len(self.futures),
            None if lot is None else [*lot[:2], [cluster.send(value) for value in lot[2]]],
            finish,
            workers=[self._places[numbers[0]]],
            allow_other_workers=True,
            pure=False,
        )

    def _own(self, making: Recipe, numbers: Sequence[int]) -> list[Any] | None:
        if making.each is None:
            return None
        own = [list(making.each[self.starts[k] : self.starts[k + 1]]) for k in numbers]
        self.cluster.traffic += bytes_of(own)
        return own

    def release(self) -> None:
        """Let go of all that was placed here."""
        for future in self.futures:
            if future is not None and not any(future is lent for lent in self._lent):
                future.release()

    # -- where shards lie ----------------------------------------------------------------------------------------

    def groups(self, lots: DaskWorkerData | None = None) -> list[list[int]]:
        """Shards by the worker that has them, or as they are in lots; looks anew where workers have come or gone."""
        workers = self.cluster.workers
        if self._stale or set(workers) != self._known:
            self._find(workers)
        if lots is not None and lots.groups:
            return lots.groups
        groups: dict[str, list[int]] = {}
        for number, place in enumerate(self._places):
            groups.setdefault(place, []).append(number)
        if lots is not None:
            lots.groups = list(groups.values())
        return list(groups.values())

    def _find(self, workers: dict[str, Any]) -> None:
        """Where shards lie; where workers have joined, these get their share from the fullest ones."""
        joined = set(workers) - self._known if self._known else set()
        if joined:
            self.cluster.check_workers(sorted(joined))
        self.cluster.wait(self.futures)
        holders = self.cluster.client.who_has(self.futures)
        anyone = sorted(workers) or [""]
        found = [next(iter(holders.get(future.key) or anyone)) for future in self.futures]
        while joined:
            load = Counter(found)
            fullest = max(workers, key=lambda name: load[name] / workers[name]["nthreads"])
            name = min(joined, key=lambda name: (load[name] + 1) / workers[name]["nthreads"])
            if load[fullest] / workers[fullest]["nthreads"] <= (load[name] + 1) / workers[name]["nthreads"]:
                break
            number = len(found) - 1 - found[::-1].index(fullest)
            self.futures[number] = self.cluster.client.submit(
                dask_worker.same, self.futures[number], workers=[name], allow_other_workers=True, pure=False
            )
            found[number] = name
        self._places, self._known, self._stale = found, set(workers), False

    def _look_again(self) -> None:
        """After a loss: nothing is taken for granted."""
        time.sleep(A_MOMENT)
        self._stale = True
        self.cluster.look_again()

    def _place_what_is_lost(self) -> None:
        """Rows that no worker has, or none has any more, go to those workers that have least to do."""
        lost = [k for k, future in enumerate(self.futures) if future is None or future.status in ("cancelled", "lost")]
        if not lost:
            return
        self.cluster.wait_for_workers()
        if self._place is None:
            raise ClusterError("Rows were lost with a worker, and cannot be placed again: start the fit again.")
        workers, load = self.cluster.workers, Counter(self._places)
        if not workers:
            raise ConnectionError("All workers have left.")
        load.subtract(self._places[k] for k in lost if self._places)
        shares: Counter[str] = Counter()
        for _ in lost:
            shares[min(workers, key=lambda name: (load[name] + shares[name] + 1) / workers[name]["nthreads"])] += 1
        names = [name for name in workers for _ in range(shares[name])]  # neighbors lie together
        for number, future in zip(lost, self._place(lost, names), strict=True):
            self.futures[number] = future
        self._stale = True


class DaskBlocks(BlockCollection):
    """Parts on workers, made from rows that lie there."""

    def __init__(self, rows: ShardManager, makings: tuple[Recipe, ...] = ()) -> None:
        self._rows, self._makings = rows, makings
        if makings:
            weakref.finalize(self, rows.cluster.live.discard, makings[-1].number)

    def __len__(self) -> int:
        return self._rows.starts[-1]

    @property
    def memory(self) -> float:
        self._rows.cluster.wait_for_workers()
        return sum(worker["memory_limit"] or float("inf") for worker in self._rows.cluster.workers.values())

    @property
    def _start(self) -> int | None:
        return self._makings[-1].number if self._makings else None

    def map_update(
        self, function: Callable[..., Any], *shared: Any, each: Sequence[Any] | None = None, combine: Combine = plus
    ) -> tuple[DaskBlocks, Any]:
        held = self._make(dask_worker.map_update, (combine, function, *shared), each)
        return held, self._root(held._rows.run(self._start, held._makings, merge=combine), combine)

    def sum(self, function: Callable[..., Any], *shared: Any) -> Any:
        return self._root(self._rows.run(self._start, self._makings, (dask_worker.sum_blocks, function, *shared)), plus)

    def map(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        found = self._rows.run(self._start, self._makings, (dask_worker.map_blocks, function, *shared), merge=None)
        return [value for _, values in sorted(found.items(), key=lambda entry: entry[0]) for value in values]

    def top_entries(self, question: ThresholdQuery, items: Sequence[Any]) -> list[TopEntries]:
        """In two rounds: see `sparsefield.compute.top_entries`."""
        search = Search(question)
        for k in range(0, len(items), ITEMS_AT_A_TIME):
            some = list(items[k : k + ITEMS_AT_A_TIME])
            sums = self._make(dask_worker.sums_of, (some, question.part_of_sum, *question.shared))
            rounded = self._rows.run(self._start, sums._makings, finish=dask_worker.round_off)
            places = search.narrow(some, rounded.values())
            picked = self._rows.run(sums._start, sums._makings, (dask_worker.pick, places))
            search.settle(some, places, [self._root(picked, plus)])
        self._rows.cluster.searches.append(search)
        return search.found

    def per_worker(self, function: Callable[..., Any], *shared: Any) -> DaskWorkerData:
        return DaskWorkerData(self._rows, self._makings, function, shared)

    def _make(
        self, function: Callable[..., Any], shared: tuple[Any, ...], each: Sequence[Any] | None = None
    ) -> DaskBlocks:
        making = Recipe(self._rows.cluster.new_making(), function, each, shared)
        return DaskBlocks(self._rows, (*self._makings, making))

    def _root(self, values: dict[dask_worker.Node, Any], merge: Combine) -> Any:
        return dask_worker.root(values, merge, len(self._rows.futures))


def bytes_of(value: Any) -> int:
    """What sending takes, of arrays and numbers; of other things what they are pickled to."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, (tuple, list)):
        return sum(bytes_of(inside) for inside in value)
    if value is None or isinstance(value, (int, float, str, np.generic)):
        return 8
    if callable(value):
        return len(getattr(value, "__qualname__", "")) + 8
    from distributed.protocol.pickle import dumps

    return len(dumps(value))


class _Failure(Exception):  # noqa: N818
    """An error of what workers were asked to do."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def explained(self) -> BaseException:
        from distributed import KilledWorker

        return _worn_out(self.error) if isinstance(self.error, KilledWorker) else self.error


def signs_of_loss() -> tuple[type[BaseException], ...]:
    """How Dask says that something went away: results, a worker, or the scheduler."""
    from asyncio import CancelledError

    from distributed import CancelledError as CancelledFuture
    from distributed.client import ClosedClientError

    return CancelledError, CancelledFuture, ClosedClientError, OSError


def _worn_out(error: BaseException) -> ClusterError:
    return ClusterError(
        f"{error} Workers that die again and again mostly lack memory: give them more, or take more workers."
    )
