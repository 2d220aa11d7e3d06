"""The contrastive product: which pairs of columns have signals that meet errors (Algorithm 1), sparsely."""

from __future__ import annotations

from numba import njit


@njit(nogil=True, cache=True)
def count_large(values, centres, limits, per_row):
    """Count, per row, the entries that lie further from their column's centre than the row's limit."""
    for c in range(values.shape[0]):
        centre = centres[c]
        for i in range(values.shape[1]):
            per_row[i] += abs(values[c, i] - centre) > limits[i]


@njit(nogil=True, cache=True)
def keep_large(values, centres, limits, out):
    """out = the deviation from the centre where it is that large, else 0."""
    for c in range(values.shape[0]):
        centre = centres[c]
        for i in range(values.shape[1]):
            deviation = values[c, i] - centre
            out[c, i] = deviation if abs(deviation) > limits[i] else 0.0


@njit(nogil=True, cache=True)
def gather_large(values, centres, limits, places, columns, entries):
    """Write those deviations row by row, columns ascending; each row's place is moved to its end."""
    for c in range(values.shape[0]):
        centre = centres[c]
        for i in range(values.shape[1]):
            deviation = values[c, i] - centre
            if abs(deviation) > limits[i]:
                place = places[i]
                columns[place] = c
                entries[place] = deviation
                places[i] = place + 1


@njit(nogil=True, cache=True)
def _first_from(columns, low, high, wanted):
    """First position in columns[low:high], which ascends, that holds at least ``wanted``."""
    while low < high:
        middle = (low + high) // 2
        if columns[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True, cache=True)
def add_products(one, which, other, place, first, out):
    """out[k, place[c]] += entry of ``one`` in column which[k] x entry of ``other`` in column c, where they share a row.

    Entries come by row (offsets, columns, entries) and by column (column_offsets, rows, column_entries). Columns
    without a place have -1; all before ``first`` have none.
    """
    for k in range(which.shape[0]):
        scores = out[k]
        for m in range(one.column_offsets[which[k]], one.column_offsets[which[k] + 1]):
            row, factor = one.rows[m], one.column_entries[m]
            end = other.offsets[row + 1]
            for n in range(_first_from(other.columns, other.offsets[row], end, first), end):
                at = place[other.columns[n]]
                if at >= 0:
                    scores[at] += factor * other.entries[n]
