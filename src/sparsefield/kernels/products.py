"""The contrastive product: which pairs of columns have signals that meet errors (Algorithm 1), sparsely."""

from __future__ import annotations

import numpy as np
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
def _add_row(offsets, columns, entries, row, beyond, factor, scores):
    """scores[column] += factor * entry, for the columns after ``beyond`` in one row."""
    low, high = offsets[row], offsets[row + 1]
    start, stop = low, high
    while start < stop:
        middle = (start + stop) // 2
        if columns[middle] <= beyond:
            start = middle + 1
        else:
            stop = middle
    for k in range(start, high):
        scores[columns[k]] += factor * entries[k]


@njit(nogil=True, cache=True)
def score_states(signals, errors, first, last, means, unary, cut, out_a, out_b, out_h):
    """h of the pairs (A, B), first <= A < last, A < B, that stand out: |h| > cut. Returns how many there are.

    ``signals`` and ``errors`` carry entries by row (offsets, columns, entries) and by column (column_offsets,
    rows, column_entries). Means and unary gradients add the rank-one term of the decomposition.
    """
    scores = np.zeros(means.shape[0])
    found = 0
    for a in range(first, last):
        for k in range(signals.column_offsets[a], signals.column_offsets[a + 1]):
            row, value = signals.rows[k], signals.column_entries[k]
            _add_row(errors.offsets, errors.columns, errors.entries, row, a, value, scores)
        for k in range(errors.column_offsets[a], errors.column_offsets[a + 1]):
            row, value = errors.rows[k], errors.column_entries[k]
            _add_row(signals.offsets, signals.columns, signals.entries, row, a, value, scores)
        for b in range(a + 1, means.shape[0]):
            h = scores[b] + means[b] * unary[a] + means[a] * unary[b]
            scores[b] = 0.0
            if abs(h) > cut:
                if found < out_a.shape[0]:
                    out_a[found], out_b[found], out_h[found] = a, b, h
                found += 1
    return found
