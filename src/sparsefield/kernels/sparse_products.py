"""This module computes the sparse product of thresholded signals and errors (Algorithm 1)."""

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
def gather_large(values, centers, limits, ends, columns, entries):
    """Write the deviations beyond the limit row by row, columns ascending.

    ``ends`` holds the start of each row on entry and its end on return.
    """
    for c in range(values.shape[0]):
        center = centers[c]
        for i in range(values.shape[1]):
            deviation = values[c, i] - center
            if abs(deviation) > limits[i]:
                columns[ends[i]] = c
                entries[ends[i]] = deviation
                ends[i] += 1


@njit(nogil=True, cache=True)
def _first_from(columns, low, high, wanted):
    """Return the first position in the sorted columns[low:high] with a value of at least ``wanted``."""
    while low < high:
        middle = (low + high) // 2
        if columns[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True, cache=True)
def add_products(left, which, right, position, first, out):
    """Add the dot product of column which[k] of ``left`` and column c of ``right`` to out[k, position[c]].

    Both matrices are stored by row (offsets, columns, entries) and by column (column_offsets, rows, column_entries).
    ``position`` is -1 for columns without a position, among them all columns before ``first``.
    """
    for k in range(which.shape[0]):
        scores = out[k]
        for m in range(left.column_offsets[which[k]], left.column_offsets[which[k] + 1]):
            row, factor = left.rows[m], left.column_entries[m]
            end = right.offsets[row + 1]
            for n in range(_first_from(right.columns, right.offsets[row], end, first), end):
                at = position[right.columns[n]]
                if at >= 0:
                    scores[at] += factor * right.entries[n]
