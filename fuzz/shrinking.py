"""This module shrinks a failing case to a minimal one by delta debugging (Zeller and Hildebrandt 2002)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

MAX_RUNS = 60
"""The most cases that are run to shrink one."""


def shrink(steps: Sequence[T], fails: Callable[[list[T]], bool], max_runs: int = MAX_RUNS) -> list[T]:
    """Return few of the steps with which ``fails`` still holds.

    Examples
    --------
    >>> shrink([3, 8, 5, 1, 9], lambda some: 8 in some and 1 in some)
    [8, 1]
    """
    kept, parts, runs = list(steps), 2, 0
    while len(kept) >= 2 and runs < max_runs:
        size = -(-len(kept) // parts)
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size :]
            runs += 1
            if rest and fails(rest):
                kept, parts = rest, max(parts - 1, 2)
                break
        else:
            if parts >= len(kept):
                break
            parts = min(2 * parts, len(kept))
    return kept
