"""This module computes the sparse product of thresholded signals and errors (Algorithm 1)."""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def count_large(values, centers, limits, per_row):
    """Count, per row, the entries that deviate from the center of their column by more than the limit of the row."""
    for c in range(values.shape[0]):
        center = centers[c]
        for i in range(values.shape[1]):
            per_row[i] += abs(values[c, i] - center) > limits[i]


@njit(nogil=True, cache=True)
def keep_large(values, centers, limits, out):
    """Set out to the deviation from the center where it exceeds the limit, else to 0."""
    for c in range(values.shape[0]):
        center = centers[c]
        for i in range(values.shape[1]):
            deviation = values[c, i] - center
            out[c, i] = deviation if abs(deviation) > limits[i] else 0.0


@njit(nogil=True, cache=True)
def gather_large(values, centers, limits, column_offsets, rows, entries):
    """Write the deviations beyond the limit column by column, rows ascending.

    ``rows`` and ``entries`` have a place more than there are such deviations.
    """
    end = 0
    for c in range(values.shape[0]):
        center = centers[c]
        column_offsets[c] = end
        for i in range(values.shape[1]):
            deviation = values[c, i] - center
            rows[end], entries[end] = i, deviation
            end += abs(deviation) > limits[i]
    column_offsets[values.shape[0]] = end


@njit(nogil=True, cache=True)
def add_products(left, which, right, first, last, out):
    """Add the dot product of column which[k] of ``left`` and column c of ``right`` to out[k, c - first].

    c goes from ``first`` to ``last`` - 1. ``left`` is read by column (column_offsets, rows, column_entries), ``right``
    by row (offsets, columns, entries), where columns ascend.
    """
    columns, entries, base = right.columns, right.entries, np.uint32(first)
    starts, ends = np.empty(len(right.offsets) - 1, np.uint64), np.empty(len(right.offsets) - 1, np.uint64)
    for row in range(len(starts)):
        start, end = right.offsets[row], right.offsets[row + 1]
        while start < end and columns[start] < first:
            start += 1
        while end > start and columns[end - 1] >= last:
            end -= 1
        starts[row], ends[row] = start, end
    for k in range(which.shape[0]):
        scores = out[k]
        for m in range(left.column_offsets[which[k]], left.column_offsets[which[k] + 1]):
            row, factor = left.rows[m], left.column_entries[m]
            # Unsigned numbers need no check for positions from the end, which takes a third of the time.
            for n in range(starts[row], ends[row]):
                scores[np.uint32(columns[n]) - base] += factor * entries[n]
