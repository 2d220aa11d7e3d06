"""Numeric policy: tolerances and sizes that are not one file's own matter, each with its reason."""

from __future__ import annotations

import numpy as np

FLOAT = np.float64
"""Beliefs, errors and weights. Finite differences and certificates need 64 bits."""

MIN_BLOCK_ROWS = 256
MAX_BLOCK_ROWS = 2048
BLOCKS_AIMED_AT = 8
"""Rows per block depend on the data alone, so a result never depends on the number of threads. A column of a
block (2 to 16 KB) stays in the first-level cache; eight blocks keep a laptop's cores busy."""

CELLS_FOR_THREADS = 200_000
"""Below this many cells a fit runs on one thread: handing out work costs more than it saves. Nation, 57,000 cells, took
1.1 s a fold on two threads and 0.75 s on one; at 800,000 cells two threads take two thirds of the time."""

CELLS_OF_SPARSE_BLOCK = 5_000
MAX_SPARSE_BLOCKS = 32
"""Blocks of a sparse table hold at least this many cells that are on, and there are at most so many blocks: each leaves
a gradient, and these are added up in their order."""

SPARSE_DENSITY = 0.08
"""Share of cells that are off their base state up to which rows are kept sparse. On planted data of 1,000 columns x
5,000 rows and 300 x 20,000 the sparse way took a tenth of the time at 3%, half of it at 6%, and half as long again at
12%."""

CELLS_FOR_SPARSE = 2_000_000
"""Frames of categories with fewer cells than this are not looked at for that: a dense fit is quick anyway."""

BYTES_OF_CELL, BYTES_OF_STATE = 50, 1000
"""Memory that a fit to a sparse table takes at least: for each cell that is on, the cell by row and by column, twice,
and its error; for each state, what the optimizer remembers of its unary weight and of about as many pairs."""

BYTES_OF_FEATURE = 400
"""Memory that a pair in the field takes: its two arcs, its gradients, and what the optimizer remembers."""

ERRORS_SHARE = 0.2
"""Share of the machine's memory that the errors of all rows may take; beyond it, candidates are scored in several
rounds, each with some of the columns."""

TILE_STATES = 128
"""Side of a tile of candidate pairs: large enough for a matrix product, small enough to share out."""

SPARSE_ADVANTAGE = 150.0
"""The sparse product is taken when it does this many times less work than the dense one. Gathering entries and
scattered updates are that much dearer than a matrix product in 32 bits: on 600 columns x 3,000 rows the sparse one was
faster at 0.3% of the work and slower at 1%."""

IDENTIFIER_STATES = 100
IDENTIFIER_SHARE = 0.9
"""A categorical column with more than this many states, and more than this share of its cells distinct, is taken for
an identifier."""

NUMERIC_STATES = 10
"""Whole-number observed columns with at most this many distinct values are read as categories."""

DENSE_COPIES = 4
"""Arrays of rows x states that a fit may hold at a time: beliefs, a copy of them for gaps, errors, and what a product
of signals and errors takes."""

KKT_TOLERANCE = 0.01
"""A fit is certified when no candidate's optimality violation exceeds this fraction of l1."""


def block_rows(n_rows: int) -> int:
    """Rows per block for a table of ``n_rows`` rows, a function of the data alone."""
    wanted = -(-n_rows // BLOCKS_AIMED_AT)
    return int(min(max(wanted, MIN_BLOCK_ROWS), MAX_BLOCK_ROWS))


MAX_LATENT_STATES = 1024
"""Most joint states of all latent variables of a field: time and memory of every pass grow with them."""
