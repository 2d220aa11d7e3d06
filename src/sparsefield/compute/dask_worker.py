"""This module contains the functions that run on the workers of a cluster, on shards of consecutive blocks.

The rows of a shard are Dask data, which Dask keeps, moves and recomputes. Values derived from them (beliefs of missing
cells, errors) are cached in the memory of the worker. They can always be recomputed from the rows: a worker without a
cached value reports that, and receives the whole lineage.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from sparsefield.compute.threads import Threads
from sparsefield.compute.tree_sum import Combine, SumTree, tree_sum

MAX_EXPONENT, MIN_SCALE_EXPONENT = 15, -1022
"""Sums are scaled to at most 2^15 before they are rounded to half precision, whose largest number is 65,504; the scale
is at least the smallest normal double."""

LARGEST_ROUNDED = 2.0**1000
"""Sums with larger entries, or with entries that are not finite, are sent unrounded."""

Node = tuple[int, int]
"""(level, position) in the tree of additions over shards: the 2^level shards from position x 2^level on."""


@dataclass(eq=False)
class Shard:
    """Consecutive blocks, and the combined value of the update that made them."""

    blocks: tuple[Any, ...]
    value: Any = None

    def __sizeof__(self) -> int:
        """Return the bytes of all arrays, each counted once, from which Dask estimates memory."""
        sizes: dict[int, int] = {}
        _collect_sizes(self.blocks, sizes)
        return sum(sizes.values())


def _collect_sizes(value: Any, sizes: dict[int, int]) -> None:
    if isinstance(value, np.ndarray):
        sizes[id(value)] = value.nbytes
    elif isinstance(value, (tuple, list)):
        for inside in value:
            _collect_sizes(inside, sizes)


_CACHE: WeakKeyDictionary[Shard, dict[tuple[Any, ...], Any]] = WeakKeyDictionary()
"""Values that this worker derived from its rows, by (fit, version); data of the whole worker are stored with the first
shard, by (fit, version, *numbers of the shards). Entries disappear with the rows, even if the client is gone."""
_LOCK = threading.Lock()


def run_task(
    rows: Sequence[Shard],
    numbers: Sequence[int],
    fit: str,
    live: Sequence[int],
    base: int | None,
    lineage: Sequence[Sequence[Any]],
    evaluate: Sequence[Any] | None,
    merge: Combine | None,
    n_shards: int,
    worker_data: Sequence[Any] | None = None,
    finish: Callable[[Any], Any] | None = None,
) -> dict[Node, Any] | None:
    """Update shards and return values computed from them, or None if the cached base version is missing.

    Parameters
    ----------
    rows : shards of rows, as Dask keeps them
    numbers : numbers of these shards
    fit, live : identifier of the fit, and the versions that it still needs; other versions are freed
    base : version to start from, which must be cached; None starts from the rows
    lineage : (version, function, values for each shard, shared values) of every update
    evaluate : (function, shared values) applied to each updated shard; None returns the value of the last update
    merge : combines the values of neighbors; None keeps them apart
    worker_data : (version, function, shared values) that computes data from all blocks of this worker; with None as
        function the data must be cached. ``evaluate`` is then applied to the data, and returned at the first shard.
    finish : applied to merged values before they are sent
    """
    free_fit(fit, live)
    if worker_data is not None and worker_data[1] is None:
        data = _CACHE.get(rows[0], {}).get((fit, worker_data[0], *numbers))
        if data is None:
            return None
        with Threads(_threads_of_worker()) as engine:
            return _evaluate_data(engine, data, numbers, evaluate)

    def update(k: int) -> tuple[bool, Any]:
        with _LOCK:
            cache = _CACHE.setdefault(rows[k], {})
        shard = rows[k] if base is None else cache.get((fit, base))
        if shard is None:
            return False, None
        for version, function, own, shared in lineage:
            shard = function(shard, None if own is None else own[k], *shared)
            if version in live:
                with _LOCK:
                    cache[fit, version] = Shard(shard.blocks)
        if worker_data is not None:
            return True, shard.blocks
        if evaluate is None:
            return True, shard.value
        function, shared = evaluate
        return True, function(shard, *shared)

    with Threads(_threads_of_worker()) as engine:
        found = engine.map(update, range(len(rows)))
        if not all(cached for cached, _ in found):
            return None
        if worker_data is not None:
            version, function, shared = worker_data
            data = function(engine, [block for _, blocks in found for block in blocks], *shared)
            with _LOCK:
                _CACHE.setdefault(rows[0], {})[fit, version, *numbers] = data
            return _evaluate_data(engine, data, numbers, evaluate)
    values = {(0, number): value for number, (_, value) in zip(numbers, found, strict=True)}
    values = values if merge is None else _merge_neighbors(values, merge, n_shards)
    return values if finish is None else {node: finish(value) for node, value in values.items()}


def _evaluate_data(
    engine: Threads, data: Any, numbers: Sequence[int], evaluate: Sequence[Any] | None
) -> dict[Node, Any]:
    if evaluate is None:
        return {(0, numbers[0]): None}
    function, shared = evaluate
    return {(0, numbers[0]): function(engine, data, *shared)}


def free_fit(fit: str, live: Sequence[int] = ()) -> None:
    """Free the cached values of a fit, except for versions that it still needs."""
    with _LOCK:
        for cache in list(_CACHE.values()):
            for key in [key for key in cache if key[0] == fit and key[1] not in live]:
                del cache[key]


def _threads_of_worker() -> int:
    from distributed import get_worker

    try:
        return int(get_worker().state.nthreads)
    except ValueError:  # not within a worker
        return 1


def _merge_neighbors(values: dict[Node, Any], merge: Combine, n_shards: int) -> dict[Node, Any]:
    """Merge neighbors that are both present, level by level, into as few nodes as possible."""
    for level in range((n_shards - 1).bit_length()):
        for _, position in [node for node in values if node[0] == level]:
            left, right = (level, position & ~1), (level, position | 1)
            alone = right[1] << level >= n_shards  # moves up without a neighbor
            if left in values and (alone or right in values):
                one = values.pop(left)
                values[level + 1, position >> 1] = one if alone else merge(one, values.pop(right))
    return values


def merge_root(values: dict[Node, Any], merge: Combine, n_shards: int) -> Any:
    """Return the merged value of all shards, None if there are none."""
    (found,) = _merge_neighbors(dict(values), merge, n_shards).values() if values else (None,)
    return found


# -- functions of a shard ---------------------------------------------------------------------------------------------


def map_update(
    shard: Shard, own: Sequence[Any] | None, merge: Combine, function: Callable[..., Any], *shared: Any
) -> Shard:
    """Return the shard of updated blocks, with their combined value."""
    blocks, tree = [], SumTree(merge)
    for k, block in enumerate(shard.blocks):
        updated, value = function(block, *shared) if own is None else function(block, own[k], *shared)
        blocks.append(updated)
        tree.push(value)
    return Shard(tuple(blocks), tree.total())


def sum_blocks(shard: Shard, function: Callable[..., Any], *shared: Any) -> Any:
    return tree_sum(function(block, *shared) for block in shard.blocks)


def map_blocks(shard: Shard, function: Callable[..., Any], *shared: Any) -> list[Any]:
    return [function(block, *shared) for block in shard.blocks]


def map_items(
    engine: Threads, data: Any, function: Callable[..., Any], items: Sequence[Any], *shared: Any
) -> list[Any]:
    """Apply a function to the data of this worker and each item."""
    return engine.map(lambda item: function(data, item, *shared), items)


def identity(value: Any) -> Any:
    """Return the value itself, as the task of data that move to another worker."""
    return value


class RoundedArray(NamedTuple):
    """An array in half precision."""

    digits: np.ndarray
    scale: float
    """Factor of the digits; 0 if these are the unrounded values."""

    @property
    def values(self) -> np.ndarray:
        return self.digits.astype(float) * (self.scale or 1.0)

    @property
    def error_bound(self) -> np.ndarray:
        """A bound on the rounding errors: half a unit in the last of 11 binary digits, or of the smallest step.

        It also holds for unrounded values, whose addition rounds too, possibly in single precision.
        """
        return (np.abs(self.digits.astype(float)) * 2.0**-10.99 + 2.0**-24.99) * (self.scale or 1.0)


def item_sums(shard: Shard, own: None, items: Sequence[Any], function: Callable[..., Any], *shared: Any) -> Shard:
    """Return the sum of a shard's blocks for each item, None where all blocks return None."""
    sums = tuple(tree_sum(function(block, item, *shared) for block in shard.blocks) for item in items)
    return Shard(sums, sums)


def round_sums(sums: tuple[np.ndarray | None, ...]) -> list[RoundedArray | None]:
    return [None if found is None else _round(found) for found in sums]


def _round(values: np.ndarray) -> RoundedArray:
    largest = float(np.abs(values).max(initial=0.0))
    if not largest < LARGEST_ROUNDED:
        return RoundedArray(values, 0.0)
    exponent = max(int(np.frexp(largest)[1]) - MAX_EXPONENT, MIN_SCALE_EXPONENT)
    scale = float(np.ldexp(1.0, exponent))  # a power of two: the division is exact
    return RoundedArray((values.astype(float) / scale).astype(np.float16), scale)


def pick_entries(sums: Shard, positions: Sequence[Sequence[np.ndarray]]) -> tuple[np.ndarray | None, ...]:
    """Return the exact entries at the given positions of each item's sum."""
    pairs = zip(sums.blocks, positions, strict=True)
    return tuple(None if found is None else found[:, rows, columns] for found, (rows, columns) in pairs)
