"""This module sums columns over linked rows."""

from numba import njit


@njit(nogil=True, cache=True)
def add_up_neighbors(offsets, neighbors, first, column, out):
    """Set out[i] to the sum of ``column`` over the neighbors of row first + i."""
    for i in range(out.shape[0]):
        total = 0.0
        for k in range(offsets[first + i], offsets[first + i + 1]):
            total += column[neighbors[k]]
        out[i] = total
