"""Tolerances and sizes that several modules share, each with its reason; memory that data need and that there is."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from sparsefield.errors import DataError

FLOAT = np.float64
"""Type of beliefs, errors and weights. Finite differences and certificates need 64 bits."""

MIN_BLOCK_ROWS = 256
MAX_BLOCK_ROWS = 2048
TARGET_BLOCKS = 8
"""The number of rows per block depends only on the data, so that results do not depend on the number of threads. A
column of a block (2 to 16 KB) fits into the first-level cache; eight blocks keep the cores of a laptop busy."""

CELLS_FOR_THREADS = 200_000
"""A fit to fewer cells runs on one thread, because distributing the work costs more than it saves. A fold of Nations
(57,000 cells) took 1.1 s on two threads and 0.75 s on one; for 800,000 cells two threads took 2/3 of the time."""

CELLS_FOR_FOLD_THREADS, CELLS_FOR_BLOCK_THREADS = 50_000, 2_000_000
"""Numbers of cells between which threads work on different folds while l1 is selected. With fewer, they would wait for
the interpreter; with more, they work on the blocks of one fold at a time, which keeps any number of them busy."""

CELLS_OF_SPARSE_BLOCK = 5_000
MAX_SPARSE_BLOCKS = 32
"""Minimum number of cells that are on per block of a sparse table, and maximum number of blocks: each block has a
gradient of its own, and these are summed in order."""

SPARSE_DENSITY = 0.08
"""Largest share of cells outside the reference state for which a table is stored sparsely. On planted data of 1,000
columns x 5,000 rows and 300 x 20,000, a sparse fit took 0.1 times as long as a dense one at 3%, 0.5 times at 6% and 1.5
times at 12%."""

CELLS_FOR_SPARSE = 2_000_000
"""Categorical frames with fewer cells are never stored sparsely: a dense fit is fast anyway."""

BYTES_OF_CELL, BYTES_OF_STATE = 50, 1000
"""Minimum memory of a fit to a sparse table: for each cell that is on, two copies by row and by column, and its error;
for each state, the optimizer history of its bias and of about as many pairs."""

BYTES_OF_FEATURE = 400
"""Memory of a pair in the field: its two arcs, its gradients, and its optimizer history."""

ERRORS_SHARE = 0.2
"""Share of the machine's memory that the errors of all rows may take; beyond it, candidates are scored in several
rounds, each for a subset of the columns."""

TILE_STATES = 256
"""Side of a tile of candidate pairs: large enough for an efficient matrix product, small enough to balance threads."""

IDENTIFIER_STATES = 100
IDENTIFIER_SHARE = 0.9
"""A categorical column with more states, and a larger share of distinct cells, is treated as an identifier."""

NUMERIC_STATES = 10
"""Integer observed columns with at most this many distinct values are treated as categories."""

DENSE_COPIES = 4
"""Arrays of rows x states that a dense fit holds at a time: beliefs, a copy for missing cells, errors, and the product
of signals and errors."""

KKT_TOLERANCE = 0.01
"""A fit has converged when no candidate violates the optimality conditions by more than this fraction of l1."""


def block_rows(n_rows: int) -> int:
    """Return the number of rows per block of a table, which depends only on its number of rows."""
    wanted = -(-n_rows // TARGET_BLOCKS)
    return int(min(max(wanted, MIN_BLOCK_ROWS), MAX_BLOCK_ROWS))


MAX_LATENT_STATES = 1024
"""Maximum number of joint states of the latent variables of a field: time and memory of a pass grow with it."""

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
        return min(memory, float(Path("/sys/fs/cgroup/memory.max").read_text(encoding="utf-8")))
    except (OSError, ValueError):  # no such file, or "max"
        return memory


def available_memory() -> float:
    """Return the memory in bytes that is not in use; that of the machine if the system does not report it."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
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
