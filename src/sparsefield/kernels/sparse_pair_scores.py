"""Gradients of all pairs of columns of a sparse table: what happens where they meet, and the resting rest."""

from __future__ import annotations

import numpy as np
from numba import njit

from sparsefield.kernels.elementary import prefetch

FAR, NEAR = 16, 8
"""Rows ahead whose place, and whose cells, are asked for: rows lie anywhere, and waiting for each takes longest."""

KNOWN = np.int64(-(2**63))
"""Stands for the sum of a pair that is in the field already; no sum comes near it."""

MARGIN = 1e-9
"""Share by which a gradient that is computed from some of the rows may be off, with all that is added up in it."""

DENSE_SCAN = 4
"""Looking through all columns in their order is that much quicker than through the same number in any order."""


@njit(nogil=True, cache=True)
def _add_errors(rows, offsets, columns, entries, least, scores, met, count):
    """scores[b] += errors of b in the given rows; b >= least. Lists the columns that are met for the first time, as far
    as there is room, and returns how many there are."""
    n_rows = rows.shape[0]
    for k in range(n_rows):
        if k + FAR < n_rows:
            prefetch(offsets, rows[k + FAR])
        if k + NEAR < n_rows:
            end = offsets[rows[k + NEAR] + 1] - 1
            if end >= 16:
                prefetch(columns, end)
                prefetch(entries, end)
                prefetch(columns, end - 16)
                prefetch(entries, end - 8)
                prefetch(entries, end - 16)
        start = offsets[rows[k]]
        j = offsets[rows[k] + 1] - 1
        while j >= start and columns[j] >= least:
            b = columns[j]
            if scores[b] == 0:
                met[min(count, met.shape[0] - 1)] = b
                count += 1
            scores[b] += entries[j]
            j -= 1
    return count


@njit(nogil=True, cache=True)
def _add_on(rows, errors, offsets, columns, least, scores, met, count):
    """The same with the error of a given row, for the columns that are on in it."""
    n_rows = rows.shape[0]
    for k in range(n_rows):
        if k + FAR < n_rows:
            prefetch(offsets, rows[k + FAR])
        if k + NEAR < n_rows:
            end = offsets[rows[k + NEAR] + 1] - 1
            if end >= 16:
                prefetch(columns, end)
                prefetch(columns, end - 16)
        start = offsets[rows[k]]
        j = offsets[rows[k] + 1] - 1
        while j >= start and columns[j] >= least:
            b = columns[j]
            if scores[b] == 0:
                met[min(count, met.shape[0] - 1)] = b
                count += 1
            scores[b] += errors[k]
            j -= 1
    return count


@njit(nogil=True, cache=True)
def score_pairs(first, last, lowest, on, errors, traits, known, unit, cut):
    """Pairs (a, b), first <= a < last, a < b and lowest <= b, that are not known and have a gradient beyond ``cut``, or
    so near to it that rounding decides.

    The gradient of a pair is the sum of the errors of b where a is on, and of those of a where b is on: errors beyond
    rest, in the rows where the two meet; and together_a x rest_b + together_b x rest_a.

    Parameters
    ----------
    on : columns that are on, by row (offsets, columns) and by column (column_offsets, rows)
    errors : errors beyond rest, whole numbers of ``unit``, by row and by column
    traits : of each column: together, the weight of the rows in which it is on; rest, its error at rest, 0 for what is
        not predicted; owner, its variable; and two bounds: at rest no pair has more than reach_a x loudness_b.
        Columns are numbered by falling loudness.
    known : pairs that are in the field already: offsets by a, and b

    Returns
    -------
    a, b, sums : of errors, whole numbers; with some room at the end, a ascending
    count : how many of them there are
    """
    on_offsets, on_columns, on_starts, on_rows = on.offsets, on.columns, on.column_offsets, on.rows
    offsets, columns, entries = errors.offsets, errors.columns, errors.entries
    starts, rows, by_column = errors.column_offsets, errors.rows, errors.column_entries
    together, rest, owner, reach, loudness = traits.together, traits.rest, traits.owner, traits.score_bound_row, traits.score_bound_col
    known_offsets, known_b = known.offsets, known.b
    width = rest.shape[0]
    scores, met = np.zeros(width, dtype=np.int64), np.empty(width // DENSE_SCAN + 1, dtype=np.int32)
    room, count = 1024, 0
    out_a, out_b = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32)
    sums = np.empty(room, dtype=np.int64)
    for a in range(first, last):
        rows_on, rows_wrong = on_rows[on_starts[a] : on_starts[a + 1]], rows[starts[a] : starts[a + 1]]
        low = max(a + 1, lowest)
        if low >= width:
            break
        found = _add_errors(rows_on, offsets, columns, entries, low, scores, met, 0)
        its_errors = by_column[starts[a] : starts[a + 1]]
        found = _add_on(rows_wrong, its_errors, on_offsets, on_columns, low, scores, met, found)
        for k in range(known_offsets[a], known_offsets[a + 1]):
            if known_b[k] >= low:
                scores[known_b[k]] = KNOWN
        if count + width > room:
            room = 2 * (count + width)
            out_a, out_b, sums = _longer(out_a, room), _longer(out_b, room), _longer(sums, room)
        least = cut - MARGIN * (cut + reach[a] * loudness[low])
        # Pairs that may exceed the cut at rest already, whether or not they meet; all, when many meet.
        everyone = found > met.shape[0] or found * DENSE_SCAN > width - low
        b = low
        while b < width and (everyone or reach[a] * loudness[b] > least):
            score = scores[b]
            h = score * unit + together[a] * rest[b] + together[b] * rest[a]
            scores[b] = 0
            if abs(h) > least and owner[a] != owner[b] and score != KNOWN:
                out_a[count], out_b[count], sums[count] = a, b, score
                count += 1
            b += 1
        if b == width:
            continue
        enough = least - reach[a] * loudness[b]
        for k in range(found):
            b = met[k]
            score = scores[b]
            scores[b] = 0
            if abs(score * unit) > enough and score != 0:
                h = score * unit + together[a] * rest[b] + together[b] * rest[a]
                if abs(h) > least and owner[a] != owner[b] and score != KNOWN:
                    out_a[count], out_b[count], sums[count] = a, b, score
                    count += 1
        for k in range(known_offsets[a], known_offsets[a + 1]):
            if known_b[k] >= low:
                scores[known_b[k]] = 0
    return out_a, out_b, sums, count


@njit(nogil=True, cache=True)
def sums_of_pairs(a, b, on, errors, out):
    """out = sums of errors where given pairs meet, as in `score_pairs`."""
    on_starts, on_rows = on.column_offsets, on.rows
    starts, rows, entries = errors.column_offsets, errors.rows, errors.column_entries
    for k in range(a.shape[0]):
        total = 0
        for turn in range(2):
            one, other = (a[k], b[k]) if turn == 0 else (b[k], a[k])
            i, j = on_starts[one], starts[other]
            while i < on_starts[one + 1] and j < starts[other + 1]:
                if on_rows[i] < rows[j]:
                    i += 1
                elif on_rows[i] > rows[j]:
                    j += 1
                else:
                    total += entries[j]
                    i += 1
                    j += 1
        out[k] = total


@njit(nogil=True, cache=True)
def combine_bounds(starts, told_b, told_sums, first, together, rest, unit, least, cut, sheet):
    """Adds up what lots of rows have told of pairs (a, b), first <= a, and keeps those that may exceed ``cut``.

    Parameters
    ----------
    starts : (lots, columns a + 1): lot p tells of (first + i, told_b[k]), starts[p, i] <= k < starts[p, i + 1]
    told_sums : of errors, whole numbers of ``unit``
    together : (lots, columns): weight of the lot's rows in which each is on
    least : (lots,): a pair of which a lot does not tell has a gradient of no more in its rows
    sheet : (columns,) each, to add on: sums, gradients, tellers, and what is not told; they come and go as 0

    Returns
    -------
    a, b, sums : of those that told
    middle, apart : gradients lie within ``middle`` +- ``apart``
    complete : whether all lots told
    """
    total, expectations, tellers, untold = sheet.sums, sheet.gradients, sheet.tellers, sheet.untold
    n_lots, width = together.shape
    room, count, all_untold = told_b.shape[0], 0, least.sum()
    met = np.empty(min(room, width), dtype=np.int32)
    out_a, out_b = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32)
    sums, complete = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.bool_)
    middle, apart = np.empty(room), np.empty(room)
    for i in range(starts.shape[1] - 1):
        a, found = first + i, 0
        for p in range(n_lots):
            for k in range(starts[p, i], starts[p, i + 1]):
                b = told_b[k]
                if tellers[b] == 0:
                    met[found] = b
                    found += 1
                    untold[b] = all_untold
                tellers[b] += 1
                total[b] += told_sums[k]
                untold[b] -= least[p]
                expectations[b] += told_sums[k] * unit + together[p, a] * rest[b] + together[p, b] * rest[a]
        for k in range(found):
            b = met[k]
            at_rest = 0.0
            for p in range(n_lots):
                at_rest += together[p, a] * rest[b] + together[p, b] * rest[a]
            slack = max(untold[b], 0.0) + MARGIN * (cut + abs(expectations[b]) + at_rest)
            if abs(expectations[b]) + slack > cut:
                out_a[count], out_b[count], sums[count] = a, b, total[b]
                middle[count], apart[count], complete[count] = expectations[b], slack, tellers[b] == n_lots
                count += 1
            total[b], expectations[b], untold[b], tellers[b] = 0, 0.0, 0.0, 0
    return out_a[:count], out_b[:count], sums[:count], middle[:count], apart[:count], complete[:count]


@njit(nogil=True, cache=True)
def _longer(array, size):
    longer = np.empty(size, dtype=array.dtype)
    longer[: array.shape[0]] = array
    return longer


@njit(nogil=True, cache=True)
def transpose(offsets, columns, entries, places, rows, sorted_entries):
    """The entries of a sparse matrix column by column, rows ascending; ``places`` come as the start of each column,
    and leave as its end."""
    for row in range(offsets.shape[0] - 1):
        for k in range(offsets[row], offsets[row + 1]):
            place = places[columns[k]]
            places[columns[k]] = place + 1
            rows[place] = row
            if entries.shape[0]:
                sorted_entries[place] = entries[k]
