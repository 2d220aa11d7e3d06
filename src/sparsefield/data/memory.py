"""This module compares the memory of this machine with the memory that data need."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from sparsefield.errors import DataError

ALWAYS_AVAILABLE = 2**26
"""Number of bytes for which the system is not asked whether they are available."""


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


def available_memory() -> float:
    """Return the memory in bytes that this process can still get; infinite if the system does not report it."""
    limits = [machine_memory(), *_free_of_machine(), *_free_of_container(), *_free_of_process()]
    return max(min(limits), 0.0)


def _free_of_machine() -> list[float]:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return [1024.0 * float(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    except (OSError, ValueError, IndexError):
        return []


def _free_of_container() -> list[float]:
    folder = Path("/sys/fs/cgroup")
    try:
        used = float((folder / "memory.current").read_text())
        cached = [line.split()[1] for line in (folder / "memory.stat").read_text().splitlines() if line[:5] == "file "]
        return [float((folder / "memory.max").read_text()) - used + sum(map(float, cached))]
    except (OSError, ValueError, IndexError):  # no such files, or "max"
        return []


def _free_of_process() -> list[float]:
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        pages = float(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError, ValueError, IndexError):
        return []
    return [] if limit == resource.RLIM_INFINITY else [limit - pages * os.sysconf("SC_PAGE_SIZE")]


def refuse_beyond_available(needed: float, what: str) -> None:
    """Raise a DataError with the figures if ``needed`` bytes exceed the memory that is available now."""
    if needed < ALWAYS_AVAILABLE:
        return
    memory = available_memory()
    if needed > memory:
        raise DataError(
            f"{what} takes about {needed / 2**30:.1f} GiB, and {memory / 2**30:.1f} GiB are available: use fewer rows "
            "or columns, or a machine with more memory."
        )


def refuse_beyond_memory(needed: float, what: str, advice: Callable[[], str]) -> None:
    """Raise a DataError with the figures if ``needed`` bytes exceed the memory of this machine."""
    memory = machine_memory()
    if needed > memory:
        raise DataError(
            f"{what} may take {needed / 2**30:.1f} GiB, and this machine has {memory / 2**30:.1f} GiB: {advice()}"
        )
