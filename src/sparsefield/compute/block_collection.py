"""What an engine is: it says where blocks are, and how what was found in them comes together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from sparsefield.compute.tree_sum import Combine, plus

__all__ = ["BlockCollection", "Engine", "ThresholdQuery", "TopEntries", "WorkerData", "everywhere", "find_top_entries"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class TopEntries(NamedTuple):
    """Entries of one item's sum that are larger than asked."""

    item: Any
    places: tuple[np.ndarray, np.ndarray]
    """(entries,) each: row and column."""
    sums: np.ndarray
    """(layers, entries)"""


@dataclass(frozen=True)
class ThresholdQuery:
    """Which entries of sums over all parts are large? Each item has a sum, of arrays (layers, rows, columns)."""

    part_of_sum: Callable[..., np.ndarray | None]
    """``part_of_sum(part, item, *shared)``: what a part adds to the sum of an item, or None. Of module level."""
    shared: tuple[Any, ...]
    excess: Callable[[Any, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    """``excess(item, sums, rows, columns)``: how far entries (layers, ...) at places (...) go beyond the cut, above 0
    where they are large; it moves by no more than the layers do together."""
    eligible: Callable[[Any, np.ndarray, np.ndarray], np.ndarray]
    """``eligible(item, rows, columns)``: which of some entries count."""
    limit: int | None = None
    """Only the largest so many are asked for, over all items; more may come."""


class BlockCollection(ABC):
    """Parts, in their order, where they are worked on.

    Functions are of module level, so that they can be sent; they take a part and what they share, and change neither.
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def memory(self) -> float:
        """Bytes that there are where parts lie, in all places together."""

    @abstractmethod
    def map_update(
        self, function: Callable[..., Any], *shared: Any, each: Sequence[Any] | None = None, combine: Combine = plus
    ) -> tuple[BlockCollection, Any]:
        """``function(part, *shared)`` gives another part, which stays where this one is, and something to be combined.

        With ``each``, which has something for every part, that comes before what is shared.
        """

    @abstractmethod
    def sum(self, function: Callable[..., Any], *shared: Any) -> Any:
        """The sum of ``function(part, *shared)``, by the tree of `sparsefield.compute.tree_sum`."""

    @abstractmethod
    def map(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        """``function(part, *shared)`` of every part."""

    @abstractmethod
    def top_entries(self, question: ThresholdQuery, items: Sequence[Any]) -> list[TopEntries]:
        """The large entries of every item's sum."""

    @abstractmethod
    def per_worker(self, function: Callable[..., Any], *shared: Any) -> WorkerData:
        """``function(engine, parts, *shared)`` of all parts that lie in one place, for every place where some lie.

        The fewer lots the better for what is looked for in a lot as a whole. How many there are, and which parts are in
        them, is a matter of where parts lie: a result must not depend on it.
        """


class WorkerData(ABC):
    """What was made of all parts in one place, where it was made; given back with this object."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def map(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        """``function(engine, lot, *shared)`` of every lot."""

    @abstractmethod
    def stream(self, function: Callable[..., Any], items: Sequence[Any], *shared: Any) -> Iterator[list[Any]]:
        """For one item after another ``function(lot, item, *shared)`` of every lot."""


class Engine(ABC):
    """Enter it before use."""

    traffic = 0
    """Bytes that went to and from workers."""

    @abstractmethod
    def __enter__(self) -> Engine: ...

    @abstractmethod
    def __exit__(self, *exception: object) -> None: ...

    @abstractmethod
    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Results in the order of the items; work that needs no parts, and is done here."""

    @abstractmethod
    def stream(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """The same results one by one: only a few are there at a time."""

    @abstractmethod
    def hold(self, parts: Sequence[Any]) -> BlockCollection:
        """Put parts where they will be worked on."""


def everywhere(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows, 1) and (1, columns): the places of all entries."""
    return np.arange(sums.shape[1])[:, None], np.arange(sums.shape[2])[None, :]


def find_top_entries(question: ThresholdQuery, item: Any, sums: np.ndarray | None) -> TopEntries:
    """Of one item, from its exact sum; None where no part adds anything."""
    if sums is None:
        nowhere = np.empty(0, dtype=np.int64)
        return TopEntries(item, (nowhere, nowhere), np.empty((1, 0)))
    rows, columns = np.nonzero(question.excess(item, sums, *everywhere(sums)) > 0.0)
    kept = question.eligible(item, rows, columns)
    rows, columns = rows[kept], columns[kept]
    return TopEntries(item, (rows, columns), sums[:, rows, columns])
