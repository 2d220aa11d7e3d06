"""Blocks on the workers of a Dask cluster. Needs the extra ``cluster``."""

from __future__ import annotations

import sys
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

import sparsefield
from sparsefield.engines import shards
from sparsefield.engines.adding import Combine, plus
from sparsefield.engines.base import Engine, Held, Large, Question
from sparsefield.engines.large import Search
from sparsefield.engines.limits import refuse_beyond
from sparsefield.engines.shards import Shard
from sparsefield.engines.threads import Threads
from sparsefield.errors import ClusterError

__all__ = ["Cluster", "Shards", "connect", "shard_length"]

Item = TypeVar("Item")
Result = TypeVar("Result")

PATIENCE = 60.0
"""Seconds without a single worker, or without a scheduler, after which a fit gives up."""

ATTEMPTS = 10
"""How often work that was lost is given out again."""

SHARDS_PER_THREAD = 4
"""Enough to share out evenly when workers come and go."""

SENT_ALONG = 1_000_000
"""Bytes, over all workers, up to which an array is sent with the tasks, through the scheduler. That saves a round trip
of about 10 ms."""

SMALL = 500
"""Bytes up to which anything is."""

A_MOMENT = 0.5
"""Seconds."""

KEPT = 16
"""Things that are the same in every iteration, such as the features, and lie on the workers."""

ITEMS_AT_A_TIME = 256
"""Of tiles, whose sums a shard holds between the two rounds of a search: 32 MB of them."""


@dataclass(frozen=True)
class Shards:
    """Parts that lie on workers already."""

    futures: Sequence[Any]
    """Of `Shard`, each a run of 2^k consecutive ones, the last maybe shorter."""
    counts: Sequence[int]
    again: Callable[[], Sequence[Any]] | None = None
    """Makes the futures once more, where a scheduler has forgotten them."""


class Cluster(Engine):
    """Runs functions where shards of parts are, and adds up on the way back.

    Every result is made by functions without side effects from rows that can be placed again, so that a worker that
    dies costs time and nothing else.

    Parameters
    ----------
    where : a `distributed.Client`, or the address of a scheduler such as "dask://host:8786"
    n_jobs : threads for what is done here
    """

    def __init__(self, where: Any, n_jobs: int | None = None) -> None:
        self._where, self._here = where, Threads(n_jobs)
        self._own = isinstance(where, str)
        self.client: Any = None if self._own else where
        self.traffic = self.placed = 0
        """Bytes that went to and from workers since rows were placed there; and of the rows themselves."""
        self.searches: list[Search] = []
        """Of the candidates, for whoever wants to know what they cost."""
        self.fit = uuid.uuid4().hex
        self.live: set[int] = set()
        """Numbers of the makings that are still needed."""
        self._makings = 0
        self._workers: tuple[float, dict[str, Any]] = (0.0, {})
        self._sent: dict[int, tuple[Any, Any]] = {}

    def __enter__(self) -> Cluster:
        if self._own:
            self.client = connect(self._where)
        self._here.__enter__()
        self.check_workers()
        return self

    def __exit__(self, *exception: object) -> None:
        self._sent.clear()
        self._here.__exit__(*exception)
        if self.client.status == "running":
            self.client.run(shards.forget_fit, self.fit, on_error="ignore")
        if self._own:
            self.client.close()
            self.client = None

    # -- what is done here ---------------------------------------------------------------------------------------

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        return self._here.map(function, items)

    def stream(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        return self._here.stream(function, items)

    # -- what is done there --------------------------------------------------------------------------------------

    def hold(self, parts: Sequence[Any] | Shards) -> HeldAway:
        if isinstance(parts, Shards):
            return HeldAway(_Rows(self, list(parts.futures), list(parts.counts), parts.again))
        size = _bytes(tuple(parts))
        refuse_beyond(
            self.client, 2.0 * size, f"{len(parts):,} blocks of rows ({size / 2**30:.1f} GiB) and their errors"
        )
        length = shard_length(len(parts), self.n_threads)
        runs = [tuple(parts[k : k + length]) for k in range(0, len(parts), length)]
        return HeldAway(_Rows(self, self._scatter(runs), [len(run) for run in runs], lambda: self._scatter(runs)))

    def _scatter(self, runs: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Put shards on workers, as many as these have threads; neighbours lie together."""
        turns = [name for name, worker in self.workers.items() for _ in range(worker["nthreads"])]
        futures = []
        for number, run in enumerate(runs):
            place = turns[number * len(turns) // len(runs)]
            futures.append(self.client.scatter(Shard(run), workers=[place], hash=False))
            self.placed += _bytes(run)
        return futures

    @property
    def workers(self) -> dict[str, Any]:
        """As of a moment ago: asking takes a round trip to the scheduler."""
        asked, workers = self._workers
        if time.monotonic() > asked + A_MOMENT or not workers:
            workers = self.client.scheduler_info(n_workers=-1)["workers"]
            self._workers = time.monotonic(), workers
        return workers

    @property
    def n_threads(self) -> int:
        return max(1, sum(worker["nthreads"] for worker in self.workers.values()))

    @property
    def address(self) -> str:
        return str(self.client.scheduler.address)

    def new_making(self) -> int:
        self._makings += 1
        self.live.add(self._makings)
        return self._makings

    def send(self, value: Any) -> Any:
        """What tasks take for something that they share: itself where that is cheap, else a future that is on every
        worker. Things that stay the same object are sent once."""
        known = self._sent.pop(id(value), None)
        if known is not None and known[1].status == "finished":
            self._sent[id(value)] = known
            return known[1]
        size, workers = _bytes(value), max(len(self.workers), 1)
        self.traffic += size * workers
        if size <= SMALL or (isinstance(value, np.ndarray) and size * workers <= SENT_ALONG):
            return value
        (future,) = self.client.scatter([value], broadcast=True, hash=False)
        self._sent[id(value)] = (value, future)  # with the value, so that its number is not given to another
        while len(self._sent) > KEPT:
            del self._sent[next(iter(self._sent))]
        return future

    def check_workers(self) -> None:
        """Refuse a cluster without workers, or whose workers cannot run this library, before any data is sent."""
        self.wait_for_workers(f"has no workers: start some, for instance with 'dask worker {self.address}'")
        try:
            found = self.client.run(_versions)
        except (ImportError, AttributeError) as error:
            raise ClusterError(
                f"The workers at {self.address} cannot import sparsefield ({error}): install version "
                f"{sparsefield.__version__} where they run."
            ) from None
        mine = _versions()
        for worker, theirs in found.items():
            if theirs != mine:
                apart = ", ".join(f"{k} {theirs[k]} there and {mine[k]} here" for k in mine if theirs[k] != mine[k])
                raise ClusterError(
                    f"Worker {worker} differs from this process: {apart}. Install the same versions: results are only "
                    "the same to the bit with them."
                )

    def wait(self, futures: Sequence[Any]) -> None:
        """Until all are there, lost, or have failed; gives up where nobody is left to work on them."""
        from distributed import wait

        while True:
            try:
                wait(list(futures), timeout=5.0)
                return
            except TimeoutError:
                self.wait_for_workers()

    def wait_for_workers(self, problem: str = "is gone") -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self.client.status != "closed":
            if self.client.status == "running" and self.workers:
                return
            time.sleep(0.2)
        raise ClusterError(
            f"The cluster {problem}. No worker answered for {PATIENCE:.0f} seconds; a fit with checkpoint= goes on "
            "where it stood when it is started again."
        )


class _Making(NamedTuple):
    """How shards were made from others."""

    number: int
    function: Callable[..., Any]
    each: Sequence[Any] | None
    """For every part, or None."""
    shared: tuple[Any, ...]


class _Rows:
    """Shards of rows as they were placed first; knows where they lie, and gives out work on them."""

    def __init__(
        self, cluster: Cluster, futures: list[Any], counts: list[int], again: Callable[[], Sequence[Any]] | None
    ) -> None:
        self.cluster, self.futures, self._again = cluster, futures, again
        self.starts = np.concatenate([[0], np.cumsum(counts)]).tolist()
        self._places: list[str] = []
        self._known: set[str] = set()

    def run(
        self,
        start: int | None,
        makings: Sequence[_Making],
        reading: tuple[Any, ...] | None = None,
        merge: Combine | None = plus,
    ) -> dict[shards.Node, Any]:
        """What shards tell after some makings that begin where the last of those before the new ones left off.

        ``makings`` are all since the rows; those up to number ``start`` are only made where a worker has lost them.
        """
        found: dict[shards.Node, Any] = {}
        new = [making for making in makings if start is None or making.number > start]
        waiting, attempts = [(numbers, start, new) for numbers in self._groups()], 0
        while waiting:
            try:
                tasks = [self._task(*task, reading, merge) for task in waiting]
                self.cluster.wait(tasks)
                told = self.cluster.client.gather(tasks)
            except BaseException as error:
                attempts += 1
                if not _was_lost(error) or attempts == ATTEMPTS:
                    raise self._explained(error) from error
                self._place_again()
                found, waiting = {}, [(numbers, None, makings) for numbers in self._groups()]
                continue
            self.cluster.traffic += sum(_bytes(list(part.values())) for part in told if part is not None)
            pairs = list(zip(waiting, told, strict=True))
            waiting = [(numbers, None, makings) for (numbers, _, _), part in pairs if part is None]
            for _, part in pairs:
                found |= part or {}
        return found

    def _task(
        self,
        numbers: Sequence[int],
        start: int | None,
        makings: Sequence[_Making],
        reading: tuple[Any, ...] | None,
        merge: Combine | None,
    ) -> Any:
        cluster = self.cluster
        steps = [
            [making.number, making.function, self._own(making, numbers), [cluster.send(v) for v in making.shared]]
            for making in makings
        ]
        read = None if reading is None else [reading[0], [cluster.send(value) for value in reading[1:]]]
        return cluster.client.submit(
            shards.work,
            [self.futures[k] for k in numbers],
            list(numbers),
            cluster.fit,
            sorted(cluster.live),
            start,
            steps,
            read,
            merge,
            len(self.futures),
            workers=[self._places[numbers[0]]],
            allow_other_workers=True,
            pure=False,
        )

    def _own(self, making: _Making, numbers: Sequence[int]) -> list[Any] | None:
        if making.each is None:
            return None
        own = [list(making.each[self.starts[k] : self.starts[k + 1]]) for k in numbers]
        self.cluster.traffic += _bytes(own)
        return own

    def _groups(self) -> list[list[int]]:
        """Shards by the worker that has them; looks anew where workers have come or gone."""
        workers = set(self.cluster.workers)
        if workers != self._known:
            self._find(workers)
        groups: dict[str, list[int]] = {}
        for number, place in enumerate(self._places):
            groups.setdefault(place, []).append(number)
        return list(groups.values())

    def _find(self, workers: set[str]) -> None:
        """Where shards lie; workers that have joined get their share, from the fullest ones."""
        self.cluster.wait(self.futures)
        holders = self.cluster.client.who_has(self.futures)
        anyone = sorted(workers) or [""]
        found = [next(iter(holders.get(future.key) or anyone)) for future in self.futures]
        for name in sorted(workers - self._known if self._known else set()):
            while True:
                fullest = max(workers, key=found.count)
                if found.count(fullest) <= found.count(name) + 1:
                    break
                number = len(found) - 1 - found[::-1].index(fullest)
                self.futures[number] = self.cluster.client.submit(
                    shards.same, self.futures[number], workers=[name], allow_other_workers=True, pure=False
                )
                found[number] = name
        self._places, self._known = found, workers

    def _place_again(self) -> None:
        """After a loss: rows that no worker has any more are placed once more."""
        cluster = self.cluster
        cluster._workers = 0.0, {}
        cluster.wait_for_workers()
        cluster._sent.clear()
        self._known = set()
        if any(future.status in ("cancelled", "lost") for future in self.futures):
            if self._again is None:
                raise ClusterError("Rows were lost with a worker, and cannot be placed again: start the fit again.")
            self.futures[:] = self._again()

    def _explained(self, error: BaseException) -> BaseException:
        from distributed import KilledWorker

        if isinstance(error, KilledWorker) or _was_lost(error):
            return ClusterError(
                f"{error} Workers that die again and again mostly lack memory: give them more, or take more workers."
            )
        return error


class HeldAway(Held):
    """Parts on workers, made from rows that lie there."""

    def __init__(self, rows: _Rows, makings: tuple[_Making, ...] = ()) -> None:
        self._rows, self._makings = rows, makings
        if makings:
            weakref.finalize(self, rows.cluster.live.discard, makings[-1].number)

    def __len__(self) -> int:
        return self._rows.starts[-1]

    @property
    def _start(self) -> int | None:
        return self._makings[-1].number if self._makings else None

    def turn(
        self, function: Callable[..., Any], *shared: Any, each: Sequence[Any] | None = None, combine: Combine = plus
    ) -> tuple[HeldAway, Any]:
        held = self._make(shards.turn, (combine, function, *shared), each)
        return held, self._root(held._rows.run(self._start, held._makings, merge=combine), combine)

    def add(self, function: Callable[..., Any], *shared: Any) -> Any:
        return self._root(self._rows.run(self._start, self._makings, (shards.add, function, *shared)), plus)

    def each(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        found = self._rows.run(self._start, self._makings, (shards.each, function, *shared), merge=None)
        return [value for _, values in sorted(found.items(), key=lambda entry: entry[0]) for value in values]

    def large(self, question: Question, items: Sequence[Any]) -> list[Large]:
        """In two rounds: see `sparsefield.engines.large`."""
        search = Search(question)
        for k in range(0, len(items), ITEMS_AT_A_TIME):
            some = list(items[k : k + ITEMS_AT_A_TIME])
            sums = self._make(shards.sums_of, (some, question.part_of_sum, *question.shared))
            rounded = self._rows.run(self._start, sums._makings, merge=None)
            places = search.narrow(some, rounded.values())
            picked = self._rows.run(sums._start, sums._makings, (shards.pick, places), merge=None)
            search.settle(some, places, [picked[node] for node in sorted(picked)])
        self._rows.cluster.searches.append(search)
        return search.found

    def _make(
        self, function: Callable[..., Any], shared: tuple[Any, ...], each: Sequence[Any] | None = None
    ) -> HeldAway:
        making = _Making(self._rows.cluster.new_making(), function, each, shared)
        return HeldAway(self._rows, (*self._makings, making))

    def _root(self, values: dict[shards.Node, Any], merge: Combine) -> Any:
        return shards.root(values, merge, len(self._rows.futures))


def connect(address: str) -> Any:
    """A client of the scheduler at an address such as "dask://host:8786" or "tls://host:8786"."""
    try:
        from distributed import Client
    except ImportError:
        raise ClusterError("A cluster needs Dask: pip install 'sparsefield[cluster]'.") from None
    place = address.removeprefix("dask://")
    try:
        return Client(place if "://" in place else f"tcp://{place}", timeout="10s", set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(
            f"No Dask scheduler answers at {address} ({type(error).__name__}): is 'dask scheduler' running there?"
        ) from None


def shard_length(n_parts: int, n_threads: int) -> int:
    """Parts per shard, a power of two: a few shards for each thread where there are parts enough."""
    return 2 ** int(np.log2(max(n_parts / (SHARDS_PER_THREAD * n_threads), 1.0)))


def _bytes(value: Any) -> int:
    """What sending takes, of arrays and numbers; of other things what they are pickled to."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, (tuple, list)):
        return sum(_bytes(inside) for inside in value)
    if value is None or isinstance(value, (int, float, str, np.generic)):
        return 8
    if callable(value):
        return len(getattr(value, "__qualname__", "")) + 8
    from distributed.protocol.pickle import dumps

    return len(dumps(value))


def _was_lost(error: BaseException) -> bool:
    """Whether an error says that results went away with a worker."""
    from asyncio import CancelledError

    from distributed.client import FutureCancelledError, FuturesCancelledError

    return isinstance(error, (CancelledError, FutureCancelledError, FuturesCancelledError))


def _versions() -> dict[str, str]:
    """What has to be the same everywhere for results to be the same to the bit."""
    import numba

    return {
        "sparsefield": sparsefield.__version__,
        "numpy": np.__version__,
        "numba": numba.__version__,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }
