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
def _add_seen(signals, row, first, last, start, factor, scores):
    """scores[column - start] += factor x signal, for the columns first .. last of one row."""
    end = signals.offsets[row + 1]
    k = _first_from(signals.columns, signals.offsets[row], end, first)
    while k < end and signals.columns[k] < last:
        scores[signals.columns[k] - start] += factor * signals.entries[k]
        k += 1


@njit(nogil=True, cache=True)
def _add_errors(errors, row, first, place, factor, scores):
    """scores[place of state] += factor x error, for the states from ``first`` on in one row that have a place."""
    end = errors.offsets[row + 1]
    for k in range(_first_from(errors.columns, errors.offsets[row], end, first), end):
        at = place[errors.columns[k]]
        if at >= 0:
            scores[at] += factor * errors.entries[k]


@njit(nogil=True, cache=True)
def score_states(sides, places, margins, first, last, cut, out_a, out_b, out_h):
    """h of the pairs (a, b) of a meeting, first <= a < last, that stand out: |h| > cut. Returns how many there are.

    Entries come by row (offsets, columns, entries) and by column (column_offsets, rows, column_entries). The margins
    add the rank-one term of the decomposition.
    """
    left, right = places.left_columns, places.right_columns
    scores = np.zeros(right.shape[0])
    place = np.full(sides.errors_right.column_offsets.shape[0], -1, dtype=np.int64)
    for b in range(places.right_states):
        place[right[b]] = b
    found = 0
    for a in range(first, last):
        least = a if places.mirrored else 0
        if a < places.left_states and places.seen_right >= 0:
            start = places.seen_right
            for k in range(sides.errors_left.column_offsets[left[a]], sides.errors_left.column_offsets[left[a] + 1]):
                row, value = sides.errors_left.rows[k], sides.errors_left.column_entries[k]
                _add_seen(sides.signals_left, row, start + least, start + right.shape[0], start, value, scores)
        if places.right_states > least:
            seen = sides.signals_right
            for k in range(seen.column_offsets[places.seen_left[a]], seen.column_offsets[places.seen_left[a] + 1]):
                _add_errors(sides.errors_right, seen.rows[k], right[least], place, seen.column_entries[k], scores)
        end = right.shape[0] if a < places.left_states else places.right_states
        for b in range(least, right.shape[0]):
            h = scores[b] + margins.unary_left[a] * margins.mean_right[b]
            h += margins.mean_left[a] * margins.unary_right[b]
            scores[b] = 0.0
            if places.mirrored and a == b:
                h *= 0.5  # both directions are one
            if abs(h) > cut and b < end:
                if found < out_a.shape[0]:
                    out_a[found], out_b[found], out_h[found] = a, b, h
                found += 1
    return found
