"""This module sums columns over linked rows."""

from numba import njit


@njit(nogil=True, cache=True)
def add_up_neighbors(offsets, neighbors, first, values, columns, out):
    """Set out[k, i] to the sum of the column columns[k] of ``values`` over the neighbors of row first + i.

    ``values`` has shape (columns, rows); a negative column counts the neighbors.
    """
    for k in range(columns.shape[0]):
        sums, column = out[k], values[max(columns[k], 0)]
        start = offsets[first]
        for i in range(sums.shape[0]):
            stop = offsets[first + i + 1]
            total = 0.0
            if columns[k] < 0:
                total += stop - start
            elif stop == start + 1:  # a loop of one round would take several times as long
                total += column[neighbors[start]]
            else:
                for n in range(start, stop):
                    total += column[neighbors[n]]
            sums[i] = total
            start = stop
