"""Sums over blocks whose bits do not depend on who adds what: the tree of additions is that of the blocks' numbers.

Neighbors are added first, then neighboring pairs, and so on; one that is left over goes up a level. A run of 2^k
blocks that begins at a multiple of 2^k is therefore a tree of its own, and may be added up wherever it lies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["Combine", "Tree", "plus", "total"]

Combine = Callable[[Any, Any], Any]
"""From two neighbors, in their order, to one."""


def plus(one: Any, other: Any) -> Any:
    """Numbers and arrays added; tuples of them place by place; None where there is nothing to add."""
    if one is None or other is None:
        return one if other is None else other
    if isinstance(one, tuple):
        return tuple(map(plus, one, other))
    return one + other


class Tree:
    """Takes the values of blocks in their order; holds one for each level of the tree at most."""

    def __init__(self, combine: Combine = plus) -> None:
        self._combine = combine
        self._held: list[tuple[int, Any]] = []

    def push(self, value: Any) -> None:
        level = 0
        while self._held and self._held[-1][0] == level:
            value = self._combine(self._held.pop()[1], value)
            level += 1
        self._held.append((level, value))

    def total(self) -> Any:
        """None where nothing was pushed."""
        value = None
        for k, (_, part) in enumerate(reversed(self._held)):
            value = part if k == 0 else self._combine(part, value)
        return value


def total(values: Iterable[Any], combine: Combine = plus) -> Any:
    tree = Tree(combine)
    for value in values:
        tree.push(value)
    return tree.total()
