"""What runs on a worker of a cluster: work on shards, which are runs of consecutive parts.

The rows of a shard are data of Dask's, which it keeps, moves and makes again. What is made from them (beliefs in gaps,
errors) stays in the worker's memory beside them. It is nothing that could not be made again from the rows: a worker
that does not have it says so, and is told how.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from sparsefield.compute.threads import Threads
from sparsefield.compute.tree_sum import Combine, Tree, total

__all__ = ["Node", "Rounded", "Shard", "map_blocks", "map_update", "pick", "root", "sum_blocks", "sums_of", "work"]

FINEST, LEAST = 15, -1022
"""Sums are scaled to at most 2^15 before they are rounded to 16 bits, whose largest number is 65,504; and by no less
than the smallest number with all its digits."""

LARGEST = 2.0**1000
"""Sums with such entries, or with some that are no numbers, are sent as they are."""

Node = tuple[int, int]
"""(level, place): of the tree of additions over shards; it stands for 2^level shards from place x 2^level on."""


@dataclass(eq=False)
class Shard:
    """Some consecutive parts, and what making them brought."""

    parts: tuple[Any, ...]
    value: Any = None

    def __sizeof__(self) -> int:
        """What Dask takes for the memory that it holds: arrays, each once."""
        seen: dict[int, int] = {}
        _count(self.parts, seen)
        return sum(seen.values())


def _count(value: Any, seen: dict[int, int]) -> None:
    if isinstance(value, np.ndarray):
        seen[id(value)] = value.nbytes
    elif isinstance(value, (tuple, list)):
        for inside in value:
            _count(inside, seen)


_MADE: WeakKeyDictionary[Shard, dict[tuple[Any, ...], Any]] = WeakKeyDictionary()
"""What this worker has made of the rows that it has: by fit and number of the making; and, with the first of them, by
the numbers of shards that were taken together. It goes when the rows go, also where nobody is left to say so."""
_LOCK = threading.Lock()


def work(
    rows: Sequence[Shard],
    numbers: Sequence[int],
    fit: str,
    live: Sequence[int],
    start: int | None,
    makings: Sequence[Sequence[Any]],
    reading: Sequence[Any] | None,
    merge: Combine | None,
    n_shards: int,
    lot: Sequence[Any] | None = None,
    finish: Callable[[Any], Any] | None = None,
) -> dict[Node, Any] | None:
    """Make things from some shards of rows, and tell what was found; None where something to start from is missing.

    Parameters
    ----------
    rows : shards as Dask has them
    numbers : theirs
    fit, live : whose they are, and which makings will still be needed; others are forgotten
    start : number of the making that stands there already; None starts from the rows
    makings : (number, function, what each shard is given, what all share)
    reading : (function, what all share): what to tell; None tells what the last making brought
    merge : puts what neighbors tell together; None leaves them apart
    lot : (number, function, what it is given): what to make of all these shards together, without a function one that
        stands there already; ``reading`` then tells of that, under the number of the first shard
    finish : what is done with what was put together, before it is sent
    """
    _forget(fit, live)
    if lot is not None and lot[1] is None:
        made = _MADE.get(rows[0], {}).get((fit, lot[0], *numbers))
        if made is None:
            return None
        with Threads(_threads_of_worker()) as engine:
            return _read_lot(engine, made, numbers, reading)

    def one(k: int) -> tuple[bool, Any]:
        with _LOCK:
            made = _MADE.setdefault(rows[k], {})
        shard = rows[k] if start is None else made.get((fit, start))
        if shard is None:
            return False, None
        for number, function, own, shared in makings:
            shard = function(shard, None if own is None else own[k], *shared)
            if number in live:
                with _LOCK:
                    made[fit, number] = Shard(shard.parts)
        if lot is not None:
            return True, shard.parts
        if reading is None:
            return True, shard.value
        function, shared = reading
        return True, function(shard, *shared)

    with Threads(_threads_of_worker()) as engine:
        found = engine.map(one, range(len(rows)))
        if not all(there for there, _ in found):
            return None
        if lot is not None:
            number, function, shared = lot
            made = function(engine, [part for _, parts in found for part in parts], *shared)
            with _LOCK:
                _MADE.setdefault(rows[0], {})[fit, number, *numbers] = made
            return _read_lot(engine, made, numbers, reading)
    values = {(0, number): value for number, (_, value) in zip(numbers, found, strict=True)}
    values = values if merge is None else _climb(values, merge, n_shards)
    return values if finish is None else {node: finish(value) for node, value in values.items()}


def _read_lot(engine: Threads, lot: Any, numbers: Sequence[int], reading: Sequence[Any] | None) -> dict[Node, Any]:
    function, shared = reading or (_nothing, ())
    return {(0, numbers[0]): function(engine, lot, *shared)}


def _nothing(engine: Threads, lot: Any) -> None:
    """For a lot that is only made."""


def _forget(fit: str, live: Sequence[int]) -> None:
    with _LOCK:
        for made in list(_MADE.values()):
            for key in [key for key in made if key[0] == fit and key[1] not in live]:
                del made[key]


def forget_fit(fit: str) -> None:
    """All that was made for a fit that has ended."""
    _forget(fit, ())


def _threads_of_worker() -> int:
    from distributed import get_worker

    try:
        return int(get_worker().state.nthreads)
    except ValueError:  # not within a worker
        return 1


def _climb(values: dict[Node, Any], merge: Combine, n_shards: int) -> dict[Node, Any]:
    """Fewest nodes that tell the same: neighbors that are both there become one."""
    for level in range((n_shards - 1).bit_length()):
        for _, place in [node for node in values if node[0] == level]:
            left, right = (level, place & ~1), (level, place | 1)
            alone = right[1] << level >= n_shards  # goes up by itself
            if left in values and (alone or right in values):
                one = values.pop(left)
                values[level + 1, place >> 1] = one if alone else merge(one, values.pop(right))
    return values


def root(values: dict[Node, Any], merge: Combine, n_shards: int) -> Any:
    """What all shards tell together; None where there are none."""
    (found,) = _climb(dict(values), merge, n_shards).values() if values else (None,)
    return found


# -- what is done with a shard ----------------------------------------------------------------------------------------


def map_update(
    shard: Shard, own: Sequence[Any] | None, merge: Combine, function: Callable[..., Any], *shared: Any
) -> Shard:
    """The shard of what ``function`` makes of its parts, and the parts' values put together."""
    parts, tree = [], Tree(merge)
    for k, part in enumerate(shard.parts):
        made, value = function(part, *shared) if own is None else function(part, own[k], *shared)
        parts.append(made)
        tree.push(value)
    return Shard(tuple(parts), tree.total())


def sum_blocks(shard: Shard, function: Callable[..., Any], *shared: Any) -> Any:
    return total(function(part, *shared) for part in shard.parts)


def map_blocks(shard: Shard, function: Callable[..., Any], *shared: Any) -> list[Any]:
    return [function(part, *shared) for part in shard.parts]


def each_item(engine: Threads, lot: Any, function: Callable[..., Any], items: Sequence[Any], *shared: Any) -> list[Any]:
    """Of a lot, for every item."""
    return engine.map(lambda item: function(lot, item, *shared), items)


def same(shard: Shard) -> Shard:
    """For a shard that moves."""
    return shard


class Rounded(NamedTuple):
    """An array in 16 bits."""

    digits: np.ndarray
    scale: float
    """What digits are multiplied with; 0 where they are the numbers themselves."""

    @property
    def values(self) -> np.ndarray:
        return self.digits.astype(float) * (self.scale or 1.0)

    @property
    def slack(self) -> np.ndarray:
        """By how much the numbers may be off: half a unit in the last of 11 binary digits, or of the smallest step.
        Numbers that were not rounded are no better off: adding them up rounds too, in 32 bits maybe."""
        return (np.abs(self.digits.astype(float)) * 2.0**-10.99 + 2.0**-24.99) * (self.scale or 1.0)


def sums_of(shard: Shard, own: None, items: Sequence[Any], function: Callable[..., Any], *shared: Any) -> Shard:
    """For each item what the shard adds to its sum, None where that is nothing."""
    sums = tuple(total(function(part, item, *shared) for part in shard.parts) for item in items)
    return Shard(sums, sums)


def round_off(sums: tuple[np.ndarray | None, ...]) -> list[Rounded | None]:
    return [None if found is None else _round(found) for found in sums]


def _round(values: np.ndarray) -> Rounded:
    top = float(np.abs(values).max(initial=0.0))
    if not top < LARGEST:
        return Rounded(values, 0.0)
    scale = float(np.ldexp(1.0, max(int(np.frexp(top)[1]) - FINEST, LEAST)))  # a power of two: dividing loses nothing
    return Rounded((values.astype(float) / scale).astype(np.float16), scale)


def pick(sums: Shard, places: Sequence[Sequence[np.ndarray]]) -> tuple[np.ndarray | None, ...]:
    """The exact sums at some places of each item."""
    pairs = zip(sums.parts, places, strict=True)
    return tuple(None if found is None else found[:, rows, columns] for found, (rows, columns) in pairs)
