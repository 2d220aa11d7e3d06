"""Dask engine: blocks of rows stay on the workers of a cluster, and only weights and sums travel.

Every value is the result of a Dask task without side effects, the rows included. So Dask computes again by itself what
was lost with a worker. Needs the extra ``cluster``.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any
from weakref import WeakSet

import numpy as np

import sparsefield
from sparsefield.compute.threads import (
    BlockCollection,
    Combine,
    Engine,
    Item,
    Result,
    Threads,
    identity,
    plus,
    tree_sum,
)
from sparsefield.errors import ClusterError

SHARDS_PER_THREAD = 1
"""Runs of blocks for each thread of the cluster; with more of them, the load is more even, and there are more tasks."""

SUMMED_AT_ONCE = 8
"""Values that one task adds; a power of two, so that the additions are those of `tree_sum`."""

WORKER_TIMEOUT = 60.0
"""Seconds without any worker that is able to work, or without a scheduler, after which a fit gives up."""

CONNECT_TIMEOUT = 10.0
"""Seconds in which a scheduler must answer."""

CONTINUE = "A fit with solver=Solver(checkpoint=folder) continues from its checkpoint when it is started again"

INLINE_BYTES = 100_000
"""Size up to which an array is sent with every task."""

CACHED_VALUES = 16
"""Number of shared values, such as the features, that stay on the cluster between operations."""


class DaskEngine(Engine):
    """An engine that runs functions on the workers of a cluster, next to the blocks.

    Parameters
    ----------
    where : a `distributed.Client`, or the address of a scheduler such as "dask://host:8786"
    n_jobs : number of threads for computations in this process
    """

    def __init__(self, where: Any, n_jobs: int | None = None) -> None:
        self._where, self._owns_client = where, isinstance(where, str)
        self.client: Any = None if self._owns_client else where
        self.address = str(where)
        self._threads = Threads(n_jobs)
        self._sent: dict[int, tuple[Any, Any]] = {}
        """{id of a shared value: the value, which keeps its id in use, and its future}"""
        self._futures: WeakSet[Any] = WeakSet()

    def __enter__(self) -> DaskEngine:
        if self._owns_client:
            self.client = connect(self._where)
        elif self.client.scheduler is None:
            raise ClusterError("The client given as engine is closed: connect a new one.")
        self.address = str(self.client.scheduler.address)
        try:
            self._wait_for_workers(f"has no workers: start some, for instance with 'dask worker {self.address}'")
            self._check_versions()
        except BaseException as error:
            self._disconnect()
            if isinstance(error, OSError):
                raise ClusterError(f"The cluster at {self.address} does not answer ({error}).") from error
            raise
        self._threads.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._threads.__exit__(*exception)
        self._sent.clear()
        for future in list(self._futures):  # which the traceback of an error may keep alive
            future.release()
        self._disconnect()

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        return self._threads.map(function, items)

    def stream(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        return self._threads.stream(function, items)

    def distribute(self, blocks: Sequence[Any]) -> DaskBlocks:
        """Send runs of consecutive blocks to the workers; Dask chooses where.

        A task for one worker, ``workers=[...]``, would wait forever if that worker died and no other was there.
        """
        self._wait_for_workers()
        # A run of 2^k blocks is a subtree of `tree_sum`, so that sums have the bits of those on threads.
        length = 2 ** int(np.log2(max(len(blocks) / (SHARDS_PER_THREAD * self.n_threads), 1.0)))
        runs = [tuple(blocks[k : k + length]) for k in range(0, len(blocks), length)]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # it is as large as the rows
            shards = [self.submit(make_shard, run) for run in runs]
        return DaskBlocks(self, shards, [len(run) for run in runs])

    # -- tasks ---------------------------------------------------------------------------------------------------

    @property
    def n_threads(self) -> int:
        """Number of threads of all workers."""
        return max(1, sum(worker["nthreads"] for worker in self._workers().values()))

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the future of ``function(*arguments)``, computed on a worker that has most of the arguments."""
        future = self.client.submit(function, *arguments, pure=False)
        self._futures.add(future)
        return future

    def send(self, value: Any) -> Any:
        """Return the argument by which tasks receive a shared value: itself if it is small, else a future.

        An object that stays the same is sent once.
        """
        if value is None or isinstance(value, (int, float, str, np.generic)) or callable(value):
            return value
        if isinstance(value, np.ndarray) and value.nbytes <= INLINE_BYTES:
            return value
        _, future = self._sent.pop(id(value), (None, None))
        if future is None or future.status == "cancelled":
            future = self.submit(identity, value)
        self._sent[id(value)] = (value, future)
        while len(self._sent) > CACHED_VALUES:
            del self._sent[next(iter(self._sent))]
        return future

    def gather(self, futures: Sequence[Any]) -> list[Any]:
        """Return the results of tasks; an error of a task is raised as it is, a loss as a ClusterError."""
        from distributed import CancelledError, KilledWorker
        from distributed.client import ClosedClientError

        try:
            self._wait(futures)
            failed = next((future for future in futures if future.status == "error"), None)
            if failed is None:
                return self.client.gather(list(futures))
        except (CancelledError, ClosedClientError, OSError) as error:
            raise ClusterError(
                f"Data at {self.address} were lost with a worker or the scheduler, and Dask cannot compute them again "
                f"({' '.join(str(error).split())}). {CONTINUE}."
            ) from error
        error = failed.exception()
        if isinstance(error, KilledWorker):
            raise ClusterError(f"{error} Workers that keep dying usually lack memory: give them more, or add workers.")
        raise error.with_traceback(failed.traceback())

    def _wait(self, futures: Sequence[Any]) -> None:
        """Wait until all futures are finished or failed; ClusterError if they are lost, or nobody works on them."""
        from distributed import wait

        while True:
            with suppress(TimeoutError), self.client.as_current():  # there may be other clients
                wait(list(futures), timeout=min(5.0, WORKER_TIMEOUT))
                return
            self._wait_for_workers()
            if any(future.status == "lost" for future in futures):
                raise ConnectionError("results were lost")

    # -- workers -------------------------------------------------------------------------------------------------

    def _workers(self) -> dict[str, Any]:
        """Return what the scheduler knows about its workers; nothing if it does not answer."""
        with suppress(OSError):
            if self.client.status == "running":
                return self.client.sync(self.client.scheduler.identity, n_workers=-1)["workers"]
        return {}

    def _wait_for_workers(self, problem: str = f"is gone: no scheduler with a worker answers. {CONTINUE}") -> None:
        """Wait until there is a worker; ClusterError with the problem after `WORKER_TIMEOUT` seconds."""
        deadline = time.monotonic() + WORKER_TIMEOUT
        while self.client.status not in ("closing", "closed"):
            if self._workers():
                return
            if time.monotonic() > deadline:
                break
            time.sleep(0.2)
        raise ClusterError(f"The cluster at {self.address} {problem}.")

    def _check_versions(self) -> None:
        """Refuse workers and schedulers without this library, or with other versions."""
        here, places = _versions(), dict(self.client.run(_versions, on_error="return"))
        try:
            places["Scheduler"] = self.client.run_on_scheduler(_versions)
        except OSError:
            raise  # the scheduler has left
        except Exception as error:
            places["Scheduler"] = error
        for name, there in places.items():
            place = f"{name} {self.address}" if name == "Scheduler" else f"Worker {name}"
            if isinstance(there, OSError):
                continue  # the worker has just left
            if isinstance(there, BaseException):
                raise ClusterError(f"{place} cannot import sparsefield ({there}): install {here['sparsefield']} there.")
            if there != here:
                names = [name for name in here if there[name] != here[name]]
                apart = ", ".join(f"{name} {there[name]} there and {here[name]} here" for name in names)
                raise ClusterError(f"{place} differs from this process: {apart}. Install the same versions.")

    def _disconnect(self) -> None:
        if self._owns_client:
            self.client.close()
            self.client = None


class DaskBlocks(BlockCollection):
    """Blocks on workers, in shards of consecutive blocks, each of which is the result of a task: see `Shard`."""

    def __init__(self, engine: DaskEngine, shards: Sequence[Any], counts: Sequence[int]) -> None:
        self._engine, self._shards, self._counts = engine, shards, counts

    def __len__(self) -> int:
        return sum(self._counts)

    def map_update(
        self, function: Callable[..., Any], *shared: Any, each: Sequence[Any] | None = None, combine: Combine = plus
    ) -> tuple[DaskBlocks, Any]:
        engine, sent = self._engine, [self._engine.send(value) for value in shared]
        ends = np.cumsum(self._counts).tolist()
        updated = []
        for shard, count, end in zip(self._shards, self._counts, ends, strict=True):
            own = None if each is None else list(each[end - count : end])
            updated.append(engine.submit(update_shard, shard, own, combine, function, *sent))
        values = [engine.submit(itemgetter(1), shard) for shard in updated]
        return DaskBlocks(engine, updated, self._counts), self._total(values, combine)

    def sum(self, function: Callable[..., Any], *shared: Any) -> Any:
        sent = [self._engine.send(value) for value in shared]
        return self._total([self._engine.submit(sum_shard, shard, function, *sent) for shard in self._shards], plus)

    def map(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        sent = [self._engine.send(value) for value in shared]
        tasks = [self._engine.submit(map_shard, shard, function, *sent) for shard in self._shards]
        return [value for values in self._engine.gather(tasks) for value in values]

    def _total(self, values: list[Any], combine: Combine) -> Any:
        """Combine values on the workers, along the tree of `tree_sum`, and return the result."""
        if not values:
            return None
        while len(values) > 1:
            groups = [values[k : k + SUMMED_AT_ONCE] for k in range(0, len(values), SUMMED_AT_ONCE)]
            values = [self._engine.submit(tree_sum, group, combine) for group in groups]
        return self._engine.gather(values)[0]


def connect(address: str) -> Any:
    """Return a client of the scheduler at an address such as "dask://host:8786" or "tls://host:8786"."""
    try:
        from distributed import Client
    except ImportError:
        raise ClusterError("A cluster needs Dask: pip install 'sparsefield[cluster]'.") from None
    place = address.removeprefix("dask://")
    try:
        return Client(place if "://" in place else f"tcp://{place}", timeout=CONNECT_TIMEOUT, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(f"No Dask scheduler answers at {address} ({type(error).__name__}): does it run?") from None


# -- functions that run on workers -----------------------------------------------------------------------------------


Shard = tuple[Sequence[Any], Any]
"""Consecutive blocks, and what was computed together with them."""


def make_shard(blocks: Sequence[Any]) -> Shard:
    """Return blocks whose arrays are writable: those from a network are not, and kernels would be compiled again."""
    return tuple(_writable(block) for block in blocks), None


def _writable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value if value.flags.writeable else value.copy()
    if isinstance(value, tuple):
        inside = map(_writable, value)
        return type(value)._make(inside) if hasattr(value, "_fields") else tuple(inside)  # pyright: ignore
    return value


def update_shard(
    shard: Shard, each: Sequence[Any] | None, combine: Combine, function: Callable[..., Any], *shared: Any
) -> Shard:
    """Return the updated blocks of a shard, and their combined value."""
    blocks = []

    def values() -> Iterator[Any]:
        for k, block in enumerate(shard[0]):
            updated, value = function(block, *(() if each is None else (each[k],)), *shared)
            blocks.append(updated)
            yield value

    with Threads(1):
        total = tree_sum(values(), combine)
    return tuple(blocks), total


def sum_shard(shard: Shard, function: Callable[..., Any], *shared: Any) -> Any:
    """Return the sum of a function over the blocks of a shard."""
    with Threads(1):
        return tree_sum(function(block, *shared) for block in shard[0])


def map_shard(shard: Shard, function: Callable[..., Any], *shared: Any) -> list[Any]:
    """Return a function of each block of a shard."""
    with Threads(1):
        return [function(block, *shared) for block in shard[0]]


def _versions() -> dict[str, str]:
    """Return the versions that must agree."""
    import numba

    return {
        "sparsefield": sparsefield.__version__,
        "numpy": np.__version__,
        "numba": numba.__version__,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }
