"""Blocks on the workers of a Dask cluster. Needs the extra ``cluster``."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakSet

import numpy as np

import sparsefield
from sparsefield.compute import dask_worker
from sparsefield.compute.block_collection import Engine
from sparsefield.compute.dask_blocks import DaskBlocks, ShardManager, bytes_of, signs_of_loss
from sparsefield.compute.dask_worker import Shard
from sparsefield.compute.threads import Threads
from sparsefield.compute.top_entries import Search
from sparsefield.compute.worker_memory import refuse_beyond
from sparsefield.errors import ClusterError

__all__ = ["DaskEngine", "RetryingClient", "Shards", "connect", "shard_length"]

Item = TypeVar("Item")
Result = TypeVar("Result")

PATIENCE = 60.0
"""Seconds without a single worker, or without a scheduler, after which a fit gives up."""

GONE = (
    "is gone: no scheduler with a worker answers. A fit with checkpoint=folder goes on where it stood when it is "
    "started again, on this cluster or another"
)

SHARDS_PER_THREAD = 4
"""Enough to share out evenly when workers come and go."""

SENT_ALONG = 1_000_000
"""Bytes, over all workers, up to which an array is sent with the tasks, through the scheduler. That saves a round trip
of about 10 ms."""

SMALL = 500
"""Bytes up to which anything is."""

A_MOMENT = 0.5
"""Seconds for which what a scheduler told of its workers is taken to hold."""

CONNECTING = 10.0
"""Seconds in which a scheduler has to answer."""

BESIDE_ROWS = 3.0
"""Memory that rows take with their errors, a copy for gaps, and what a search makes of both, in sizes of their own."""

KEPT = 16
"""Things that are the same in every iteration, such as the features, and lie on the workers."""


@dataclass(frozen=True)
class Shards:
    """Parts that lie on workers already."""

    futures: Sequence[Any]
    """Of `Shard`, each a run of 2^k consecutive ones, the last maybe shorter."""
    counts: Sequence[int]
    again: Callable[[], Sequence[Any]] | None = None
    """Makes the futures once more, where a scheduler has forgotten them."""

    def place(self, numbers: Sequence[int], names: Sequence[str]) -> list[Any]:
        """Those of some numbers once more; Dask decides where."""
        assert self.again is not None
        futures = self.again()
        return [futures[k] for k in numbers]


class DaskEngine(Engine):
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
        self.address = str(where)
        self.traffic = self.placed = 0
        """Bytes that went to and from workers since rows were placed there; and of the rows themselves."""
        self.remade = 0
        """Shards that had to be made from their rows again, since a worker had lost what it had made of them."""
        self.searches: list[Search] = []
        """Of the candidates, for whoever wants to know what they cost."""
        self.fit = uuid.uuid4().hex
        self.live: set[int] = set()
        """Numbers of the makings that are still needed."""
        self._makings = 0
        self._rows: WeakSet[ShardManager] = WeakSet()
        self._workers: tuple[float, dict[str, Any]] = (0.0, {})
        self._sent: dict[int, tuple[Any, Any]] = {}

    def __enter__(self) -> DaskEngine:
        if self._own:
            self.client = connect(self._where)
        elif self.client.scheduler is None:
            raise ClusterError("engine is a client that was closed: connect another.")
        self.address = str(self.client.scheduler.address)
        try:
            self.wait_for_workers(f"has no workers: start some, for instance with 'dask worker {self.address}'")
            self.check_workers()
        except BaseException as error:
            self._leave()
            if isinstance(error, OSError):
                raise ClusterError(f"The cluster at {self.address} does not answer ({error}).") from error
            raise
        self._here.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._here.__exit__(*exception)
        for _, future in self._sent.values():
            future.release()
        self._sent.clear()
        for rows in self._rows:  # which an error may keep alive for long
            rows.release()
        if self.client.status == "running":
            with suppress(Exception):  # workers that are gone have forgotten it already
                self.client.run(dask_worker.forget_fit, self.fit, on_error="ignore")
        self._leave()

    def _leave(self) -> None:
        if self._own:
            self.client.close()
            self.client = None

    # -- what is done here ---------------------------------------------------------------------------------------

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        return self._here.map(function, items)

    def stream(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        return self._here.stream(function, items)

    # -- what is done there --------------------------------------------------------------------------------------

    def hold(self, parts: Sequence[Any] | Shards) -> DaskBlocks:
        if isinstance(parts, Shards):
            return self._held(ShardManager(self, parts.counts, parts.place if parts.again else None, parts.futures))
        size = bytes_of(tuple(parts))
        self.wait_for_workers()
        refuse_beyond(self.client, BESIDE_ROWS * size, f"Rows of {size / 2**30:.2f} GiB, with what is found in them,")
        length = shard_length(len(parts), self.n_threads)
        runs = [tuple(parts[k : k + length]) for k in range(0, len(parts), length)]

        def place(numbers: Sequence[int], names: Sequence[str]) -> list[Any]:
            self.placed += bytes_of([runs[k] for k in numbers])
            return [self._put(Shard(runs[k]), name) for k, name in zip(numbers, names, strict=True)]

        return self._held(ShardManager(self, [len(run) for run in runs], place))

    def _held(self, rows: ShardManager) -> DaskBlocks:
        self._rows.add(rows)
        return DaskBlocks(rows)

    def _put(self, value: Any, worker: str | None = None) -> Any:
        """A future of something that lies on one worker: a given one, or any.

        Others fetch it from there. Dask can send it to all (``broadcast``), but never ends when one dies meanwhile
        (dask/distributed issue 5704), and takes back what is there more than once within seconds.
        """
        try:
            (future,) = self.client.scatter([value], hash=False, workers=None if worker is None else [worker])
        except KeyError as error:
            raise ConnectionError(f"Worker {error} has left.") from None
        return future

    @property
    def workers(self) -> dict[str, Any]:
        """As of a moment ago: asking takes a round trip to the scheduler. None where that does not answer."""
        asked, workers = self._workers
        if time.monotonic() > asked + A_MOMENT or not workers:
            workers = {}
            if self.client.status == "running":
                with suppress(OSError):
                    workers = self.client.sync(self.client.scheduler.identity, n_workers=-1)["workers"]
            self._workers = time.monotonic(), workers
        return workers

    def look_again(self) -> None:
        """After a loss: ask anew who is there, and send anew what was sent."""
        self._workers = 0.0, {}
        self._sent.clear()

    @property
    def n_threads(self) -> int:
        return max(1, sum(worker["nthreads"] for worker in self.workers.values()))

    def new_making(self) -> int:
        self._makings += 1
        self.live.add(self._makings)
        return self._makings

    def send(self, value: Any) -> Any:
        """What tasks take for something that they share: itself where that is cheap, else a future. Things that stay
        the same object are sent once."""
        known = self._sent.pop(id(value), None)
        if known is not None and known[1].status == "finished":
            self._sent[id(value)] = known
            return known[1]
        size, workers = bytes_of(value), max(len(self.workers), 1)
        if size <= SMALL or (isinstance(value, np.ndarray) and size * workers <= SENT_ALONG):
            self.traffic += size  # with one task; there is one for each worker
            return value
        self.traffic += size * workers
        future = self._put(value)
        self._sent[id(value)] = (value, future)  # with the value, so that its number is not given to another
        while len(self._sent) > KEPT:
            del self._sent[next(iter(self._sent))]
        return future

    def check_workers(self, names: list[str] | None = None) -> None:
        """Refuse workers, all or some, that cannot run this library, or another version of it; and a scheduler that
        cannot read what it is to hand on to them."""
        found = self.client.run(_versions, workers=names, on_error="return")
        found = {f"Worker {name}": theirs for name, theirs in found.items()}
        try:
            found[f"Scheduler {self.address}"] = self.client.run_on_scheduler(_versions)
        except OSError:
            raise  # it has left
        except Exception as error:
            found[f"Scheduler {self.address}"] = error
        mine = _versions()
        for place, theirs in found.items():
            if isinstance(theirs, OSError):
                continue  # it has just left; when it comes back, it is looked at again
            if isinstance(theirs, BaseException):  # of many kinds, some of them texts only
                raise ClusterError(
                    f"{place} cannot import sparsefield ({theirs}): install version {mine['sparsefield']} there."
                )
            if theirs != mine:
                apart = ", ".join(f"{k} {theirs[k]} there and {mine[k]} here" for k in mine if theirs[k] != mine[k])
                raise ClusterError(
                    f"{place} differs from this process: {apart}. Install the same versions: results are only the same "
                    "to the bit with them."
                )

    def wait(self, futures: Sequence[Any]) -> None:
        """Until all are there, or have failed; an error where some are lost, or nobody is left to work on them."""
        from distributed import wait

        running = time.monotonic()
        while True:
            try:
                with self.client.as_current():  # there may be other clients
                    wait(list(futures), timeout=min(5.0, PATIENCE))
                return
            except TimeoutError:
                self.wait_for_workers()
                if any(worker.get("status") != "paused" for worker in self.workers.values()):
                    running = time.monotonic()
                elif time.monotonic() > running + PATIENCE:
                    raise ClusterError(
                        f"All workers at {self.address} have paused, since they are short of memory: give them more, "
                        "or take more workers. A fit with checkpoint=folder goes on where it stood."
                    ) from None
                if any(future.status == "lost" for future in futures):
                    raise ConnectionError("Results were lost with a worker.") from None

    def wait_for_workers(self, problem: str = GONE) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self.client.status not in ("closing", "closed"):
            if self.workers:
                return
            time.sleep(0.2)
        raise ClusterError(f"The cluster at {self.address} {problem}.")


class RetryingClient:
    """The client of a cluster, with a `gather` that gives up where no workers are left, and says so."""

    def __init__(self, cluster: DaskEngine) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster.client, name)

    def gather(self, futures: Iterable[Any]) -> Any:
        futures = list(futures)
        try:
            self._cluster.wait(futures)
            return self._cluster.client.gather(futures)
        except signs_of_loss() as error:
            raise ClusterError(
                f"Rows at {self._cluster.address} went away while they were read, with their source ({error}): start "
                "the fit again."
            ) from error


def connect(address: str) -> Any:
    """A client of the scheduler at an address such as "dask://host:8786" or "tls://host:8786"."""
    try:
        from distributed import Client
    except ImportError:
        raise ClusterError("A cluster needs Dask: pip install 'sparsefield[cluster]'.") from None
    place = address.removeprefix("dask://")
    try:
        return Client(place if "://" in place else f"tcp://{place}", timeout=CONNECTING, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(
            f"No Dask scheduler answers at {address} ({type(error).__name__}): is 'dask scheduler' running there?"
        ) from None


def shard_length(n_parts: int, n_threads: int) -> int:
    """Parts per shard, a power of two: a few shards for each thread where there are parts enough."""
    return 2 ** int(np.log2(max(n_parts / (SHARDS_PER_THREAD * n_threads), 1.0)))


def _versions() -> dict[str, str]:
    """What has to be the same everywhere for results to be the same to the bit."""
    import numba

    return {
        "sparsefield": sparsefield.__version__,
        "numpy": np.__version__,
        "numba": numba.__version__,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }
