"""This module compares the memory of this machine with the memory that data need."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from sparsefield.errors import DataError


def machine_memory() -> float:
    """Return the memory in bytes of this machine or container; infinite if the system does not report it."""
    try:
        memory = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        memory = float("inf")
    try:
        return min(memory, float(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no such file, or "max"
        return memory


def refuse_beyond_memory(needed: float, what: str, advice: Callable[[], str]) -> None:
    """Raise a DataError with the figures if ``needed`` bytes exceed the memory of this machine."""
    memory = machine_memory()
    if needed > memory:
        raise DataError(
            f"{what} may take {needed / 2**30:.1f} GiB, and this machine has {memory / 2**30:.1f} GiB: {advice()}"
        )
