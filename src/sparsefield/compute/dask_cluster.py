"""This module connects to a Dask cluster, checks its workers, waits for results and sends shared values."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

import sparsefield
from sparsefield.compute import dask_worker
from sparsefield.errors import ClusterError, DataError

WORKER_TIMEOUT = 60.0
"""Seconds without any worker, or without a scheduler, after which a fit gives up."""

CONNECT_TIMEOUT = 10.0
"""Seconds in which a scheduler must answer."""

NO_ANSWER = (
    "is gone: no scheduler with a worker answers. A fit with solver=Solver(checkpoint=folder) continues from its "
    "checkpoint when it is started again, on this cluster or another"
)

WORKERS_REFRESH = 0.5
"""Seconds between two requests for the list of workers."""

INLINE_BYTES = 1_000_000
"""Bytes, over all workers, up to which an array is sent with the tasks, through the scheduler. This saves a round trip
of about 10 ms."""

INLINE_BYTES_ANY = 500
"""Bytes up to which any value is sent with the tasks."""

MEMORY_SHARE = 0.6
"""Share of the workers' memory for rows and values computed from them: beyond it, Dask writes to disk."""

CACHED_VALUES = 16
"""Number of shared values, such as the features, that stay on the workers between tasks."""


class DaskCluster:
    """A connection to a Dask cluster.

    Parameters
    ----------
    where : a `distributed.Client`, or the address of a scheduler such as "dask://host:8786"
    """

    def __init__(self, where: Any) -> None:
        self._where = where
        self._owns_client = isinstance(where, str)
        self.client: Any = None if self._owns_client else where
        self.address = str(where)
        self.traffic = 0
        """Bytes sent to and from workers, without the rows themselves."""
        self.recomputed = 0
        """Number of shards whose derived values were lost with a worker and recomputed from the rows."""
        self.fit = uuid.uuid4().hex
        self.live: set[int] = set()
        """Versions of blocks that are still needed."""
        self._last_version = 0
        self._workers: tuple[float, dict[str, Any]] = (0.0, {})
        self._sent: dict[int, tuple[Any, Any]] = {}

    def open(self) -> None:
        """Connect, and refuse a cluster that cannot run this library."""
        if self._owns_client:
            self.client = connect(self._where)
        elif self.client.scheduler is None:
            raise ClusterError("The client given as engine is closed: connect a new one.")
        self.address = str(self.client.scheduler.address)
        try:
            self.wait_for_workers(f"has no workers: start some, for instance with 'dask worker {self.address}'")
            self.check_workers()
        except BaseException as error:
            self._disconnect()
            if isinstance(error, OSError):
                raise ClusterError(f"The cluster at {self.address} does not answer ({error}).") from error
            raise

    def close(self) -> None:
        """Free all values of this fit on the workers, and disconnect."""
        for _, future in self._sent.values():
            future.release()
        self._sent.clear()
        if self.client.status == "running":
            with suppress(Exception):  # workers that are gone have freed them already
                self.client.run(dask_worker.free_fit, self.fit, on_error="ignore")
        self._disconnect()

    def _disconnect(self) -> None:
        if self._owns_client:
            self.client.close()
            self.client = None

    # -- workers -------------------------------------------------------------------------------------------------

    @property
    def workers(self) -> dict[str, Any]:
        """The workers, as of `WORKERS_REFRESH` seconds ago at most; empty if the scheduler does not answer."""
        requested, workers = self._workers
        if time.monotonic() > requested + WORKERS_REFRESH or not workers:
            workers = {}
            if self.client.status == "running":
                with suppress(OSError):
                    workers = self.client.sync(self.client.scheduler.identity, n_workers=-1)["workers"]
            self._workers = time.monotonic(), workers
        return workers

    @property
    def n_threads(self) -> int:
        return max(1, sum(worker["nthreads"] for worker in self.workers.values()))

    def check_workers(self, names: list[str] | None = None) -> None:
        """Refuse workers (all, or those named) and schedulers without this library, or with another version of it."""
        found = self.client.run(_versions, workers=names, on_error="return")
        found = {f"Worker {name}": theirs for name, theirs in found.items()}
        try:
            found[f"Scheduler {self.address}"] = self.client.run_on_scheduler(_versions)
        except OSError:
            raise  # the scheduler has left
        except Exception as error:
            found[f"Scheduler {self.address}"] = error
        mine = _versions()
        for place, theirs in found.items():
            if isinstance(theirs, OSError):
                continue  # the worker has just left; it is checked again if it returns
            if isinstance(theirs, BaseException):  # of many kinds, some only texts
                raise ClusterError(
                    f"{place} cannot import sparsefield ({theirs}): install version {mine['sparsefield']} there."
                )
            if theirs != mine:
                apart = ", ".join(f"{k} {theirs[k]} there and {mine[k]} here" for k in mine if theirs[k] != mine[k])
                raise ClusterError(
                    f"{place} differs from this process: {apart}. Install the same versions: only these give identical "
                    "results."
                )

    def wait_for_workers(self, problem: str = NO_ANSWER) -> None:
        """Wait until there is a worker; ClusterError with the problem after `WORKER_TIMEOUT` seconds."""
        deadline = time.monotonic() + WORKER_TIMEOUT
        while time.monotonic() < deadline and self.client.status not in ("closing", "closed"):
            if self.workers:
                return
            time.sleep(0.2)
        raise ClusterError(f"The cluster at {self.address} {problem}.")

    def wait(self, futures: Sequence[Any]) -> None:
        """Wait until all futures are finished or failed; raise an error if they are lost, or no worker is left."""
        from distributed import wait

        running = time.monotonic()
        while True:
            try:
                with self.client.as_current():  # there may be other clients
                    wait(list(futures), timeout=min(5.0, WORKER_TIMEOUT))
                return
            except TimeoutError:
                self.wait_for_workers()
                if any(worker.get("status") != "paused" for worker in self.workers.values()):
                    running = time.monotonic()
                elif time.monotonic() > running + WORKER_TIMEOUT:
                    raise ClusterError(
                        f"All workers at {self.address} are paused because they are short of memory: give them more, "
                        "or add workers. A fit with solver=Solver(checkpoint=folder) continues from its checkpoint."
                    ) from None
                if any(future.status == "lost" for future in futures):
                    raise ConnectionError("Results were lost with a worker.") from None

    # -- values --------------------------------------------------------------------------------------------------

    def new_version(self) -> int:
        """Return a new version number of blocks, which is needed until it is discarded from ``live``."""
        self._last_version += 1
        self.live.add(self._last_version)
        return self._last_version

    def send(self, value: Any) -> Any:
        """Return the argument by which tasks receive a shared value: the value itself if it is small, else a future.

        An object that stays the same is sent once.
        """
        known = self._sent.pop(id(value), None)
        if known is not None and known[1].status == "finished":
            self._sent[id(value)] = known
            return known[1]
        size, workers = bytes_of(value), max(len(self.workers), 1)
        if size <= INLINE_BYTES_ANY or (isinstance(value, np.ndarray) and size * workers <= INLINE_BYTES):
            self.traffic += size  # with one task; there is one for each worker
            return value
        self.traffic += size * workers
        future = self.scatter(value)
        self._sent[id(value)] = (value, future)  # keeps the value, so that its id is not reused
        while len(self._sent) > CACHED_VALUES:
            del self._sent[next(iter(self._sent))]
        return future

    def scatter(self, value: Any, worker: str | None = None) -> Any:
        """Return a future of a value on one worker: the given one, or any.

        Other workers fetch it from there. Dask's ``broadcast`` would never end if a worker died meanwhile
        (dask/distributed issue 5704), and removes replicas within seconds.
        """
        try:
            (future,) = self.client.scatter([value], hash=False, workers=None if worker is None else [worker])
        except KeyError as error:
            raise ConnectionError(f"Worker {error} has left.") from None
        return future

    def forget_state(self) -> None:
        """Discard the known workers and sent values after a loss, so that both are requested and sent again."""
        self._workers = 0.0, {}
        self._sent.clear()


class RetryingClient:
    """The client of a cluster, whose `gather` raises a ClusterError if rows are lost with their source."""

    def __init__(self, cluster: DaskCluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster.client, name)

    def gather(self, futures: Iterable[Any]) -> Any:
        futures = list(futures)
        try:
            self._cluster.wait(futures)
            return self._cluster.client.gather(futures)
        except loss_errors() as error:
            raise ClusterError(
                f"Rows at {self._cluster.address} were lost together with their source while they were read ({error}): "
                "start the fit again."
            ) from error


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
        raise ClusterError(
            f"No Dask scheduler answers at {address} ({type(error).__name__}): is 'dask scheduler' running there?"
        ) from None


def bytes_of(value: Any) -> int:
    """Return the bytes that a value takes when sent: arrays and numbers as such, other values pickled."""
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


def memory_limits(client: Any) -> list[float]:
    """Return the memory limit of each worker in bytes, infinite if it has none."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    if not workers:
        raise DataError("The cluster has no workers: start some, or wait for them with client.wait_for_workers(1).")
    return [worker["memory_limit"] or float("inf") for worker in workers]


def refuse_beyond(client: Any, needed: float, what: str) -> None:
    """Raise a DataError with the figures if ``needed`` bytes exceed the memory of the workers."""
    limits = memory_limits(client)
    if needed > MEMORY_SHARE * sum(limits):
        smallest = min(limits)
        raise DataError(
            f"{what} may take {needed / 2**30:.1f} GiB, and the {len(limits)} worker(s) have "
            f"{sum(limits) / 2**30:.1f} GiB, of which {MEMORY_SHARE:.0%} are for data: "
            f"{int(np.ceil(needed / (MEMORY_SHARE * smallest))):,} workers of {smallest / 2**30:.1f} GiB are enough."
        )


def loss_errors() -> tuple[type[BaseException], ...]:
    """Return the exceptions by which Dask reports the loss of results, of a worker, or of the scheduler."""
    from asyncio import CancelledError

    from distributed import CancelledError as CancelledFuture
    from distributed.client import ClosedClientError

    return CancelledError, CancelledFuture, ClosedClientError, OSError


def _versions() -> dict[str, str]:
    """Return the versions that must agree for identical results."""
    import numba

    return {
        "sparsefield": sparsefield.__version__,
        "numpy": np.__version__,
        "numba": numba.__version__,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }
