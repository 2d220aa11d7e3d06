"""Threads whose parts lie in several lots, as those of a cluster do; for tests that need no cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sparsefield.compute import Threads, WorkerData
from sparsefield.compute.threads import LocalBlocks


class InLots(Threads):
    """Parts are dealt out: ``deal(number of a part)`` is the number of its lot."""

    def __init__(self, deal: Callable[[int], int]) -> None:
        super().__init__(1)
        self._deal = deal
        self.made: list[Several] = []
        """All lots so far."""

    def hold(self, parts: Sequence[Any]) -> HeldInLots:
        return HeldInLots(list(parts), self, self._deal)


class HeldInLots(LocalBlocks):
    def __init__(self, parts: list[Any], engine: InLots, deal: Callable[[int], int]) -> None:
        super().__init__(parts, engine)
        self._deal, self._all = deal, engine.made

    def per_worker(self, function: Callable[..., Any], *shared: Any) -> Several:
        dealt: dict[int, list[Any]] = {}
        for k, part in enumerate(self._parts):
            dealt.setdefault(self._deal(k), []).append(part)
        self._all.append(Several([function(self._engine, parts, *shared) for parts in dealt.values()], self._engine))
        return self._all[-1]


class Several(WorkerData):
    """Keeps what was asked and answered."""

    def __init__(self, lots: list[Any], engine: Any) -> None:
        self.lots, self._engine = lots, engine
        self.answers: dict[str, list[list[Any]]] = {}
        """By the name of the function: one list, of all lots, for each time."""

    def __len__(self) -> int:
        return len(self.lots)

    def map(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        return self._noted(function, [function(self._engine, lot, *shared) for lot in self.lots])

    def stream(self, function: Callable[..., Any], items: Sequence[Any], *shared: Any) -> Iterator[list[Any]]:
        for item in items:
            yield self._noted(function, [function(lot, item, *shared) for lot in self.lots])

    def _noted(self, function: Callable[..., Any], answers: list[Any]) -> list[Any]:
        self.answers.setdefault(function.__name__, []).append(answers)
        return answers
