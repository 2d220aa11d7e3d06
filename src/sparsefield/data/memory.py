"""Memory that data need, compared with the memory of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sparsefield.errors import DataError

ALWAYS_AVAILABLE = 2**26
"""Number of bytes for which the system is not asked whether they are available."""


def machine_memory() -> float:
    """Return the memory in bytes of this machine, container or process; infinite if the system does not report it."""
    try:
        memory = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        memory = float("inf")
    with suppress(ImportError):  # Windows has no such limits
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        memory = memory if limit == resource.RLIM_INFINITY else min(memory, float(limit))
    try:
        return min(memory, float(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no such file, or "max"
        return memory


def available_memory() -> float:
    """Return the memory in bytes that is not in use; that of the machine if the system does not report it."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(1024.0 * float(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        free = float("inf")
    return min(free, machine_memory())


def refuse_beyond_available(needed: float, what: str) -> None:
    """Raise a DataError with the figures if ``needed`` bytes exceed the memory that is available now."""
    if needed >= ALWAYS_AVAILABLE and needed > (memory := available_memory()):
        raise DataError(
            f"{what} takes about {needed / 2**30:.1f} GiB, and {memory / 2**30:.1f} GiB are available: use fewer rows "
            "or columns, or a machine with more memory."
        )


def refuse_beyond_memory(needed: float, what: str, advice: Callable[[], str]) -> None:
    """Raise a DataError with the figures if ``needed`` bytes exceed the memory of this machine."""
    memory = machine_memory()
    if needed > memory:
        raise DataError(f"{what} may take {needed / 2**30:.1f} GiB; this machine has {memory / 2**30:.1f}: {advice()}")
