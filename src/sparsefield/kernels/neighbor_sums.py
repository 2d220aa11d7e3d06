"""What rows see of their neighbours."""

from __future__ import annotations

from numba import njit


@njit(nogil=True, cache=True)
def add_up_neighbours(offsets, neighbours, first, column, out):
    """out[i] = sum of ``column`` over the neighbours of row first + i."""
    for i in range(out.shape[0]):
        total = 0.0
        for k in range(offsets[first + i], offsets[first + i + 1]):
            total += column[neighbours[k]]
        out[i] = total
