"""The product of sparse signals and sparse errors: scores of all pairs of columns, resting terms included."""

from __future__ import annotations

import numpy as np
from numba import njit

TOGETHER, FACTOR, OFFSET, UNARY, REST, TOTAL, MEAN = 0, 1, 2, 3, 4, 5, 6
"""Columns of ``traits``, see `score_columns`."""


@njit(nogil=True, cache=True, inline="always")
def _at_rest(traits, a, b):
    """What a pair scores where neither end is touched."""
    total = traits[a, 0] * traits[b, 4] + traits[a, 2] * traits[b, 5] + traits[a, 3] * traits[b, 6]
    return total + traits[b, 0] * traits[a, 4] + traits[b, 2] * traits[a, 5] + traits[b, 3] * traits[a, 6]


@njit(nogil=True, cache=True)
def _first_above(columns, low, high, wanted):
    """First position in columns[low:high], which ascends, that holds more than ``wanted``."""
    while low < high:
        middle = (low + high) // 2
        if columns[middle] <= wanted:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True, cache=True)
def _accumulate(a, on, errors, traits, plain, scores):
    """scores[b] += signal of a x error of b, and the other way round, over the rows where they meet; b > a."""
    factor = traits[a, 1]
    for k in range(on.column_offsets[a], on.column_offsets[a + 1]):
        row = on.rows[k]
        end = errors.offsets[row + 1]
        for j in range(_first_above(errors.columns, errors.offsets[row], end, a), end):
            scores[errors.columns[j]] += factor * errors.entries[j]
    for k in range(errors.column_offsets[a], errors.column_offsets[a + 1]):
        row, error = errors.rows[k], errors.column_entries[k]
        end = on.offsets[row + 1]
        if plain:
            for j in range(_first_above(on.columns, on.offsets[row], end, a), end):
                scores[on.columns[j]] += error
        else:
            for j in range(_first_above(on.columns, on.offsets[row], end, a), end):
                b = on.columns[j]
                scores[b] += error * traits[b, 1]


@njit(nogil=True, cache=True)
def score_columns(first, last, on, errors, traits, loudest, loudness, reach, owner, known, plain, cut):
    """Pairs (a, b), first <= a < last and a < b, whose score exceeds ``cut`` in size and that are not known.

    The score of a pair is factor_a x (errors of b, beyond rest, in rows where a is on), the same with a and b
    exchanged, and what is left at rest: together_a rest_b + offset_a total_b + unary_a mean_b, and exchanged.

    Parameters
    ----------
    on : columns that are on, by row (offsets, columns) and by column (column_offsets, rows)
    errors : errors beyond rest, by row and by column
    traits : (columns, 7): together, factor, offset, unary, rest, total, mean
    loudest : columns, by falling ``loudness``; |score at rest| <= reach[a] x loudness[b]
    owner : (columns,): variable of each
    known : pairs that are in the field already: offsets by a, and b
    plain : whether all factors are 1

    Returns
    -------
    a, b, score : with some room at the end
    found : how many of them there are
    """
    scores = np.zeros(traits.shape[0])
    size, found = 1024, 0
    out_a, out_b, out_h = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32), np.empty(size)
    top = loudness[loudest[0]] if loudest.shape[0] else 0.0
    for a in range(first, last):
        rows_on = on.column_offsets[a + 1] - on.column_offsets[a]
        if rows_on + errors.column_offsets[a + 1] - errors.column_offsets[a] == 0 and reach[a] * top <= cut:
            continue
        _accumulate(a, on, errors, traits, plain, scores)
        for k in range(known.offsets[a], known.offsets[a + 1]):
            scores[known.b[k]] = np.nan
        # Pairs that score high at rest, whether or not they meet; then those that meet.
        for k in range(loudest.shape[0]):
            b = loudest[k]
            if reach[a] * loudness[b] <= cut:
                break
            if b > a and owner[b] != owner[a]:
                h = scores[b] + _at_rest(traits, a, b)
                scores[b] = 0.0
                if abs(h) > cut:
                    if found == size:
                        size *= 2
                        out_a, out_b, out_h = _longer(out_a, size), _longer(out_b, size), _longer(out_h, size)
                    out_a[found], out_b[found], out_h[found] = a, b, h
                    found += 1
        least = cut - reach[a] * top
        for side in range(2):
            source = on if side == 0 else errors
            other = errors if side == 0 else on
            for k in range(source.column_offsets[a], source.column_offsets[a + 1]):
                row = source.rows[k]
                end = other.offsets[row + 1]
                for j in range(_first_above(other.columns, other.offsets[row], end, a), end):
                    b = other.columns[j]
                    score = scores[b]
                    scores[b] = 0.0
                    if abs(score) > least and score != 0.0 and owner[b] != owner[a]:
                        h = score + _at_rest(traits, a, b)
                        if abs(h) > cut:
                            if found == size:
                                size *= 2
                                out_a, out_b, out_h = _longer(out_a, size), _longer(out_b, size), _longer(out_h, size)
                            out_a[found], out_b[found], out_h[found] = a, b, h
                            found += 1
        for k in range(known.offsets[a], known.offsets[a + 1]):
            scores[known.b[k]] = 0.0
    return out_a, out_b, out_h, found


@njit(nogil=True, cache=True)
def _longer(array, size):
    longer = np.empty(size, dtype=array.dtype)
    longer[: array.shape[0]] = array
    return longer


@njit(nogil=True, cache=True)
def by_column(offsets, columns, entries, column_offsets, rows, column_entries):
    """The same entries column by column; ``column_offsets`` comes with the first place of each column."""
    place = column_offsets[:-1].copy()
    for row in range(offsets.shape[0] - 1):
        for k in range(offsets[row], offsets[row + 1]):
            column = columns[k]
            rows[place[column]] = row
            if entries.shape[0]:
                column_entries[place[column]] = entries[k]
            place[column] += 1
