"""This module keeps track of where shards are on a cluster, and runs tasks on them until they succeed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sparsefield.compute import dask_worker
from sparsefield.compute.dask_cluster import DaskCluster, bytes_of, loss_errors
from sparsefield.compute.tree_sum import Combine, plus
from sparsefield.errors import ClusterError

MAX_ATTEMPTS = 10
"""Number of times that lost work is submitted."""

RETRY_DELAY = 0.5
"""Seconds between two attempts."""


class UpdateStep(NamedTuple):
    """One update in the lineage of a block collection, from which lost blocks are recomputed."""

    version: int
    function: Callable[..., Any]
    each: Sequence[Any] | None
    """One value per block, or None."""
    shared: tuple[Any, ...]


@dataclass
class WorkerDataSpec:
    """The computation of data from all shards of a worker."""

    version: int
    function: Callable[..., Any]
    shared: tuple[Any, ...]
    groups: list[list[int]] = field(default_factory=list)
    """Shards of each worker, fixed when the data are first computed: lost data are recomputed from the same shards."""
    computed: bool = False

    def task(self, recompute: bool) -> tuple[Any, ...]:
        """Return the arguments of the worker; without a function, the data must be cached there."""
        if recompute or not self.computed:
            return self.version, self.function, self.shared
        return self.version, None, ()


class ShardManager:
    """Shards of rows on a cluster, which are scattered when first needed and again when they are lost.

    Parameters
    ----------
    counts : number of blocks of each shard
    scatter : sends the shards of given numbers to given workers and returns their futures; None if this is impossible
    futures : shards that are on the cluster already
    """

    def __init__(
        self,
        cluster: DaskCluster,
        counts: Sequence[int],
        scatter: Callable[[Sequence[int], Sequence[str]], Sequence[Any]] | None,
        futures: Sequence[Any] | None = None,
    ) -> None:
        self.cluster, self._scatter = cluster, scatter
        self.starts = np.concatenate([[0], np.cumsum(counts)]).astype(int).tolist()
        self.futures: list[Any] = [None] * len(counts) if futures is None else list(futures)
        self._borrowed = list(futures or [])
        self._locations: list[str] = []
        """Worker of every shard, when last requested."""
        self._known_workers: set[str] = set()
        """All workers at that time."""
        self._stale = True

    def run(
        self,
        base: int | None,
        lineage: Sequence[UpdateStep],
        evaluate: tuple[Any, ...] | None = None,
        merge: Combine | None = plus,
        worker_data: WorkerDataSpec | None = None,
        finish: Callable[[Any], Any] | None = None,
    ) -> dict[dask_worker.Node, Any]:
        """Update all shards along their lineage, and return values computed from them.

        ``lineage`` has all updates since the rows; those up to version ``base`` are repeated only where a worker has
        lost their results. See `dask_worker.run_task` for the other parameters.
        """
        new = [step for step in lineage if base is None or step.version > base]
        found: dict[dask_worker.Node, Any] = {}
        waiting, attempts = None, 0
        while waiting is None or waiting:
            try:
                if waiting is None:
                    self._scatter_lost_shards()
                    data = worker_data and worker_data.task(recompute=False)
                    found, waiting = {}, [(numbers, base, new, data) for numbers in self._groups(worker_data)]
                results = self._gather([self._submit(*task, evaluate, merge, finish) for task in waiting])
            except _TaskError as failure:
                raise failure.explained() from None
            except loss_errors() as error:
                attempts += 1
                if attempts == MAX_ATTEMPTS:
                    raise _too_many_losses(error) from error
                time.sleep(RETRY_DELAY)
                self._stale = True
                self.cluster.forget_state()
                waiting = None
                continue
            self.cluster.traffic += sum(bytes_of(list(part.values())) for part in results if part is not None)
            missing = [task[0] for task, part in zip(waiting, results, strict=True) if part is None]
            data = worker_data and worker_data.task(recompute=True)
            waiting = [(numbers, None, lineage, data) for numbers in missing]
            self.cluster.recomputed += sum(map(len, missing))
            for part in results:
                found |= part or {}
        return found

    def _gather(self, tasks: list[Any]) -> list[Any]:
        """Return the results of tasks. An error in a task is not a loss: it is raised, and nothing is repeated."""
        try:
            self.cluster.wait(tasks)
            for task in tasks:
                if task.status == "error":
                    raise _TaskError(task.exception().with_traceback(task.traceback()))
            return self.cluster.client.gather(tasks)
        finally:
            for task in tasks:  # now, since an error may keep this frame alive
                task.release()

    def _submit(
        self,
        numbers: Sequence[int],
        base: int | None,
        lineage: Sequence[UpdateStep],
        worker_data: Sequence[Any] | None,
        evaluate: tuple[Any, ...] | None,
        merge: Combine | None,
        finish: Callable[[Any], Any] | None,
    ) -> Any:
        cluster = self.cluster
        steps = [
            [step.version, step.function, self._slice_each(step, numbers), [cluster.send(v) for v in step.shared]]
            for step in lineage
        ]
        return cluster.client.submit(
            dask_worker.run_task,
            [self.futures[k] for k in numbers],
            list(numbers),
            cluster.fit,
            sorted(cluster.live),
            base,
            steps,
            None if evaluate is None else [evaluate[0], [cluster.send(value) for value in evaluate[1:]]],
            merge,
            len(self.futures),
            None if worker_data is None else [*worker_data[:2], [cluster.send(value) for value in worker_data[2]]],
            finish,
            workers=[self._locations[numbers[0]]],
            allow_other_workers=True,
            pure=False,
        )

    def _slice_each(self, step: UpdateStep, numbers: Sequence[int]) -> list[Any] | None:
        if step.each is None:
            return None
        own = [list(step.each[self.starts[k] : self.starts[k + 1]]) for k in numbers]
        self.cluster.traffic += bytes_of(own)
        return own

    def release(self) -> None:
        """Free all shards that were scattered here."""
        for future in self.futures:
            if future is not None and not any(future is borrowed for borrowed in self._borrowed):
                future.release()

    # -- where shards are ----------------------------------------------------------------------------------------

    def _groups(self, worker_data: WorkerDataSpec | None = None) -> list[list[int]]:
        """Return the shards of each worker, requested again if workers have joined or left."""
        workers = self.cluster.workers
        if self._stale or set(workers) != self._known_workers:
            self._locate_shards(workers)
        if worker_data is not None and worker_data.groups:
            return worker_data.groups
        groups: dict[str, list[int]] = {}
        for number, worker in enumerate(self._locations):
            groups.setdefault(worker, []).append(number)
        if worker_data is not None:
            worker_data.groups = list(groups.values())
        return list(groups.values())

    def _locate_shards(self, workers: dict[str, Any]) -> None:
        """Request the location of all shards; workers that have joined get a share of the fullest ones."""
        joined = set(workers) - self._known_workers if self._known_workers else set()
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
                dask_worker.identity, self.futures[number], workers=[name], allow_other_workers=True, pure=False
            )
            found[number] = name
        self._locations, self._known_workers, self._stale = found, set(workers), False

    def _scatter_lost_shards(self) -> None:
        """Scatter shards that no worker has to the workers with the fewest shards per thread."""
        lost = [k for k, future in enumerate(self.futures) if future is None or future.status in ("cancelled", "lost")]
        if not lost:
            return
        self.cluster.wait_for_workers()
        if self._scatter is None:
            raise ClusterError("Rows were lost with a worker, and their source is gone: start the fit again.")
        workers, load = self.cluster.workers, Counter(self._locations)
        if not workers:
            raise ConnectionError("All workers have left.")
        load.subtract(self._locations[k] for k in lost if self._locations)
        shares: Counter[str] = Counter()
        for _ in lost:
            shares[min(workers, key=lambda name: (load[name] + shares[name] + 1) / workers[name]["nthreads"])] += 1
        names = [name for name in workers for _ in range(shares[name])]  # neighbors on the same worker
        for number, future in zip(lost, self._scatter(lost, names), strict=True):
            self.futures[number] = future
        self._stale = True


class _TaskError(Exception):
    """An error that a task raised on a worker, as opposed to the loss of the task."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def explained(self) -> BaseException:
        from distributed import KilledWorker

        return _too_many_losses(self.error) if isinstance(self.error, KilledWorker) else self.error


def _too_many_losses(error: BaseException) -> ClusterError:
    return ClusterError(f"{error} Workers that die repeatedly usually lack memory: give them more, or add workers.")
