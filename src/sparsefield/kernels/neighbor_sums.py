"""This module sums columns over linked rows."""

from numba import njit


@njit(nogil=True, cache=True)
def add_up_neighbors(offsets, neighbors, first, values, columns, out):
    """Set out[k, i] to the sum of the column columns[k] of ``values`` over the neighbors of row first + i.

    ``values`` has shape (columns, rows); a negative column counts the neighbors.
    """
    for k in range(columns.shape[0]):
        for i in range(out.shape[1]):
            start, stop = offsets[first + i], offsets[first + i + 1]
            total = 0.0
            if columns[k] < 0:
                total += stop - start
            else:
                for n in range(start, stop):
                    total += values[columns[k], neighbors[n]]
            out[k, i] = total
