"""Reproducible sums over blocks: the tree of additions follows the numbers of the blocks, not the order of arrival.

Neighbors are added first, then neighboring pairs, and so on; a value without a neighbor moves up one level. A run of
2^k blocks that starts at a multiple of 2^k is a subtree, which any worker may add up without changing a bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Combine = Callable[[Any, Any], Any]
"""A function that combines two neighbors, in their order."""


def plus(one: Any, other: Any) -> Any:
    """Add numbers or arrays, and tuples of these element by element; None is the neutral element."""
    if one is None or other is None:
        return one if other is None else other
    if isinstance(one, tuple):
        return tuple(map(plus, one, other))
    return one + other


class SumTree:
    """A sum of values that arrive in order; it keeps at most one partial sum per level of the tree."""

    def __init__(self, combine: Combine = plus) -> None:
        self._combine = combine
        self._partial: list[tuple[int, Any]] = []

    def push(self, value: Any) -> None:
        level = 0
        while self._partial and self._partial[-1][0] == level:
            value = self._combine(self._partial.pop()[1], value)
            level += 1
        self._partial.append((level, value))

    def total(self) -> Any:
        """Return the sum, or None if nothing was pushed."""
        value = None
        for k, (_, part) in enumerate(reversed(self._partial)):
            value = part if k == 0 else self._combine(part, value)
        return value


def tree_sum(values: Iterable[Any]) -> Any:
    """Sum values along the tree; None if there are none."""
    tree = SumTree()
    for value in values:
        tree.push(value)
    return tree.total()
