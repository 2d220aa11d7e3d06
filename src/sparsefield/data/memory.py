"""What this machine can hold."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from sparsefield.errors import DataError

__all__ = ["machine_memory", "refuse_beyond_memory"]


def machine_memory() -> float:
    """Bytes of memory that this machine, or the container we run in, has; infinite where the system does not tell."""
    try:
        there = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        there = float("inf")
    try:
        return min(there, float(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no such file, or "max"
        return there


def refuse_beyond_memory(needed: float, what: str, advice: Callable[[], str]) -> None:
    """DataError with the figures when ``needed`` bytes are more than there are."""
    there = machine_memory()
    if needed > there:
        raise DataError(
            f"{what} may take {needed / 2**30:.1f} GiB, and this machine has {there / 2**30:.1f} GiB: {advice()}"
        )
