"""Engines that keep a diary: what they did with all rows, how long it took, and what they sent."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sparsefield.engines import Engine, Held, Large, Lots, Question, Threads
from sparsefield.engines.adding import Combine, plus
from sparsefield.engines.away import ITEMS_AT_A_TIME
from sparsefield.engines.cluster import Cluster
from sparsefield.objectives import parts
from sparsefield.objectives.parts import Part

__all__ = ["Diary", "KeptCluster", "KeptThreads", "Operation", "loopback_bytes"]

OF_A_LOOK = frozenset({"sums_of_middles", "count_meetings", "keep_large_ones", "gather_large_ones", "large"})


@dataclass(frozen=True)
class Operation:
    """Something that an engine did with all rows."""

    name: str
    seconds: float
    arcs: int = 0
    """Of an evaluation: two for each pair."""
    rounds: int = 1
    """Tasks that each worker was given."""
    broadcasts: int = 0
    """Things that were sent to all workers beforehand."""
    out: int = 0
    back: int = 0
    """Bytes, as the engine counts them."""

    @property
    def kind(self) -> str:
        if self.name == "evaluate":
            return "evaluation"
        return "look" if self.name in OF_A_LOOK else "other"


@dataclass
class Diary:
    """What an engine did since rows were placed."""

    operations: list[Operation] = field(default_factory=list)
    rows: int = 0
    """That were placed: equal ones are one."""
    placing: float = 0.0
    began: float = 0.0
    seconds: float = 0.0
    """From the placed rows to the end."""
    processor: float = 0.0
    """Seconds that processors spent meanwhile where rows are; other programs change these little."""
    loopback: int | None = None
    """Bytes that the machine sent to itself meanwhile."""

    def of(self, kind: str) -> list[Operation]:
        return [operation for operation in self.operations if operation.kind == kind]

    def count(self, kind: str) -> int:
        """How many there were; a look is made of several operations, the last of which is the search."""
        return sum(operation.name == "large" for operation in self.of("look")) if kind == "look" else len(self.of(kind))

    def total(self, kind: str) -> float:
        return sum(operation.seconds for operation in self.of(kind))

    @property
    def between(self) -> float:
        """Seconds between the operations: the optimiser's own, and whatever else needs no rows."""
        return self.seconds - sum(operation.seconds for operation in self.operations)


class _Kept(Engine):
    """Stands before the engine that does the work in a list of bases."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.diary = Diary()
        self.out = self.broadcasts = 0

    def processor_seconds(self) -> float:
        """Spent so far by the processes that have rows."""
        return time.process_time()

    def hold(self, parts: Sequence[Any]) -> Held:
        start, diary = time.perf_counter(), self.diary
        held = super().hold(parts)  # pyright: ignore[reportAbstractUsage]
        held.each(_nothing)  # a cluster places rows when it has something to do with them
        diary.rows = sum(part.block.n_rows for part in parts if isinstance(part, Part))
        diary.placing = time.perf_counter() - start
        diary.processor = self.processor_seconds()
        diary.began, diary.loopback = time.perf_counter(), loopback_bytes()
        return _KeptHeld(held, self)

    def __exit__(self, *exception: object) -> None:
        diary, after = self.diary, loopback_bytes()
        diary.seconds = time.perf_counter() - diary.began
        diary.loopback = None if diary.loopback is None or after is None else after - diary.loopback
        diary.processor = self.processor_seconds() - diary.processor
        super().__exit__(*exception)  # pyright: ignore[reportAbstractUsage]


class KeptThreads(_Kept, Threads):
    """Threads of this machine."""


class KeptCluster(_Kept, Cluster):
    """A cluster; tells apart what goes out and what comes back."""

    def processor_seconds(self) -> float:
        return sum(self.client.run(time.process_time).values())

    def send(self, value: Any) -> Any:
        before, known = self.traffic, self._sent.get(id(value))
        found = super().send(value)
        self.out += self.traffic - before
        self.broadcasts += found is not value and (known is None or known[1] is not found)
        return found


def _nothing(part: Any) -> None:
    pass


class _KeptHeld(Held):
    def __init__(self, held: Held, engine: _Kept) -> None:
        self._held, self._engine = held, engine

    def __len__(self) -> int:
        return len(self._held)

    def turn(
        self, function: Callable[..., Any], *shared: Any, each: Sequence[Any] | None = None, combine: Combine = plus
    ) -> tuple[Held, Any]:
        arcs = 2 * (len(shared[-1]) - shared[0].n_states) if function is parts.evaluate else 0
        with self._noting(function.__name__, arcs):
            held, value = self._held.turn(function, *shared, each=each, combine=combine)
        return _KeptHeld(held, self._engine), value

    def add(self, function: Callable[..., Any], *shared: Any) -> Any:
        with self._noting(function.__name__):
            return self._held.add(function, *shared)

    def each(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        with self._noting(function.__name__):
            return self._held.each(function, *shared)

    @property
    def memory(self) -> float:
        return self._held.memory

    def lots(self, function: Callable[..., Any], *shared: Any) -> Lots:
        return self._held.lots(function, *shared)

    def large(self, question: Question, items: Sequence[Any]) -> list[Large]:
        with self._noting("large", rounds=2 * -(-len(items) // ITEMS_AT_A_TIME)):
            return self._held.large(question, items)

    @contextmanager
    def _noting(self, name: str, arcs: int = 0, rounds: int = 1) -> Iterator[None]:
        engine = self._engine
        traffic, out, broadcasts, start = engine.traffic, engine.out, engine.broadcasts, time.perf_counter()
        yield
        seconds, sent = time.perf_counter() - start, engine.out - out
        back = engine.traffic - traffic - sent
        done = Operation(name, seconds, arcs, rounds, engine.broadcasts - broadcasts, sent, back)
        engine.diary.operations.append(done)


def loopback_bytes() -> int | None:
    """What this machine has sent to itself so far; None where the system does not tell."""
    if importlib.util.find_spec("psutil") is None:
        return None
    import psutil

    counters = psutil.net_io_counters(pernic=True)
    found = [counters[name].bytes_sent for name in ("lo", "lo0") if name in counters]
    return found[0] if found else None
