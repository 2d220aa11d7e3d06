"""Threads whose blocks belong to several workers, as on a cluster, for tests that need no cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sparsefield.compute import Threads, WorkerData
from sparsefield.compute.threads import LocalBlocks


class SeveralWorkers(Threads):
    """An engine on which ``worker_of(number of a block)`` is the worker of a block."""

    def __init__(self, worker_of: Callable[[int], int]) -> None:
        super().__init__(1)
        self._worker_of = worker_of
        self.computed: list[RecordedWorkerData] = []
        """All data of workers so far."""

    def distribute(self, blocks: Sequence[Any]) -> BlocksOfSeveralWorkers:
        return BlocksOfSeveralWorkers(list(blocks), self, self._worker_of)


class BlocksOfSeveralWorkers(LocalBlocks):
    def __init__(self, blocks: list[Any], engine: SeveralWorkers, worker_of: Callable[[int], int]) -> None:
        super().__init__(blocks, engine)
        self._worker_of, self._computed = worker_of, engine.computed

    def per_worker(self, function: Callable[..., Any], *shared: Any) -> RecordedWorkerData:
        groups: dict[int, list[Any]] = {}
        for k, block in enumerate(self._blocks):
            groups.setdefault(self._worker_of(k), []).append(block)
        data = [function(self._engine, blocks, *shared) for blocks in groups.values()]
        self._computed.append(RecordedWorkerData(data, self._engine))
        return self._computed[-1]


class RecordedWorkerData(WorkerData):
    """Data of each worker, with a record of all results."""

    def __init__(self, data: list[Any], engine: Any) -> None:
        self.data, self._engine = data, engine
        self.results: dict[str, list[list[Any]]] = {}
        """By the name of the function: for each call a list of the results of all workers."""

    def __len__(self) -> int:
        return len(self.data)

    def map(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        return self._record(function, [function(self._engine, data, *shared) for data in self.data])

    def stream(self, function: Callable[..., Any], items: Sequence[Any], *shared: Any) -> Iterator[list[Any]]:
        for item in items:
            yield self._record(function, [function(data, item, *shared) for data in self.data])

    def _record(self, function: Callable[..., Any], results: list[Any]) -> list[Any]:
        self.results.setdefault(function.__name__, []).append(results)
        return results
