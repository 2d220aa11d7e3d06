"""Algorithm 1 of the paper: gradients of all pairs of columns as sums of products of signals and errors (Eq. 13).

Of dense rows, `keep_large` leaves the values beyond thresholds, and a product of matrices follows, which is as fast as
the paper's double loop. `score_pairs` is that loop for a sparse table, where gradients are sums of errors minus
baseline in the rows in which both columns have entries, plus a baseline part in closed form.
"""

import numpy as np
from numba import njit

MARGIN = 1e-9
"""Relative rounding error that a gradient, computed from some of the rows, may have."""

DENSE_SCAN = 4
"""Factor by which scanning all columns in order is faster than visiting as many columns in random order."""


@njit(nogil=True, cache=True)
def keep_large(values, centers, limits, out):
    """Set out to the deviation from the center where it exceeds the limit, else to 0."""
    for c in range(values.shape[0]):
        center = centers[c]
        for i in range(values.shape[1]):
            deviation = values[c, i] - center
            out[c, i] = deviation if abs(deviation) > limits[i] else 0.0


@njit(nogil=True, cache=True)
def _add_entries(rows, factors, offsets, columns, entries, least, scores, touched, count):
    """Add the entries, or factors, of all columns b >= least in the given rows to scores[b].

    An entry of row ``rows[k]`` counts ``factors[k]``, or itself without ``factors``. ``touched`` lists the columns
    whose score was 0 before, as far as it has capacity; returns their number.
    """
    by_entry = factors.shape[0] == 0
    for k in range(rows.shape[0]):
        start = offsets[rows[k]]
        j = offsets[rows[k] + 1] - 1
        while j >= start and columns[j] >= least:
            b = columns[j]
            touched[min(count, touched.shape[0] - 1)] = b
            count += np.int64(scores[b] == 0)
            scores[b] += entries[j] if by_entry else factors[k]
            j -= 1
    return count


@njit(nogil=True, cache=True)
def score_pairs(first, last, lowest, on, errors, traits, unit, cut):
    """Find the pairs (a, b) with first <= a < last, a < b and lowest <= b whose gradient exceeds ``cut``.

    Pairs so close to the cut that rounding decides are included. The gradient of a pair is the sum of the errors of b
    where a is on and of the errors of a where b is on. It has two parts: errors minus baseline, summed over the rows in
    which both have entries, and on_weight_a x baseline_b + on_weight_b x baseline_a, which is at most score_bound_row_a
    x score_bound_col_b.

    Parameters
    ----------
    on : columns that are on, by row (offsets, columns) and by column (column_offsets, rows)
    errors : errors minus baseline, integer multiples of ``unit``, by row and by column
    traits : for each column: on_weight, the weight of the rows in which it is on; baseline, its baseline belief, 0 for
        columns that are not predicted; owner, its variable; score_bound_row and score_bound_col. Columns are sorted by
        descending score_bound_col.

    Returns
    -------
    a, b, sums : pairs, a ascending, and their integer sums of errors; the arrays may be longer than needed
    count : number of pairs
    """
    on_offsets, on_columns, on_starts, on_rows = on.offsets, on.columns, on.column_offsets, on.rows
    offsets, columns, entries = errors.offsets, errors.columns, errors.entries
    starts, rows, by_column = errors.column_offsets, errors.rows, errors.column_entries
    on_weight, baseline, owner = traits.on_weight, traits.baseline, traits.owner
    bound_row, bound_col = traits.score_bound_row, traits.score_bound_col
    width = baseline.shape[0]
    scores, touched = np.zeros(width, dtype=np.int64), np.empty(width // DENSE_SCAN + 1, dtype=np.int32)
    capacity, count = 1024, 0
    out_a, out_b = np.empty(capacity, dtype=np.int32), np.empty(capacity, dtype=np.int32)
    sums = np.empty(capacity, dtype=np.int64)
    for a in range(first, last):
        rows_on, rows_with_error = on_rows[on_starts[a] : on_starts[a + 1]], rows[starts[a] : starts[a + 1]]
        low = max(a + 1, lowest)
        if low >= width:
            break
        found = _add_entries(rows_on, entries[:0], offsets, columns, entries, low, scores, touched, 0)
        own_errors = by_column[starts[a] : starts[a + 1]]
        found = _add_entries(rows_with_error, own_errors, on_offsets, on_columns, entries, low, scores, touched, found)
        if count + width > capacity:
            capacity = 2 * (count + width)
            out_a, out_b, sums = _grow(out_a, capacity), _grow(out_b, capacity), _grow(sums, capacity)
        least = cut - MARGIN * (cut + bound_row[a] * bound_col[low])
        # Scan the columns whose baseline part alone may exceed the cut; all columns, when many were touched.
        scan_all = found > touched.shape[0] or found * DENSE_SCAN > width - low
        b = low
        while b < width and (scan_all or bound_row[a] * bound_col[b] > least):
            score = scores[b]
            h = score * unit + on_weight[a] * baseline[b] + on_weight[b] * baseline[a]
            scores[b] = 0
            if abs(h) > least and owner[a] != owner[b]:
                out_a[count], out_b[count], sums[count] = a, b, score
                count += 1
            b += 1
        if b == width:
            continue
        enough = least - bound_row[a] * bound_col[b]
        for k in range(found):
            b = touched[k]
            score = scores[b]
            scores[b] = 0
            if abs(score * unit) > enough and score != 0:
                h = score * unit + on_weight[a] * baseline[b] + on_weight[b] * baseline[a]
                if abs(h) > least and owner[a] != owner[b]:
                    out_a[count], out_b[count], sums[count] = a, b, score
                    count += 1
    return out_a, out_b, sums, count


@njit(nogil=True, cache=True)
def _grow(array, size):
    """Return a longer copy; the new entries are not initialized."""
    longer = np.empty(size, dtype=array.dtype)
    for k in range(array.shape[0]):  # a slice assignment would take seconds to compile
        longer[k] = array[k]
    return longer


@njit(nogil=True, cache=True)
def transpose(offsets, columns, entries, ends, rows, sorted_entries):
    """Write the entries of a sparse matrix column by column, rows ascending.

    ``ends`` holds the start of each column on entry and its end on return.
    """
    for row in range(offsets.shape[0] - 1):
        for k in range(offsets[row], offsets[row + 1]):
            at = ends[columns[k]]
            ends[columns[k]] = at + 1
            rows[at] = row
            if entries.shape[0]:
                sorted_entries[at] = entries[k]


@njit(nogil=True, cache=True)
def place_rows(offsets, columns, entries, first_row, starts, out):
    """Write consecutive rows of a sparse matrix into the whole of it, by row and by column, both ascending.

    They are sorted in memory of their own first, which fits into the cache: columns of the whole matrix are far apart.

    Parameters
    ----------
    offsets : (rows + 1,), where the entries of each row begin, among those of all rows
    columns, entries : (entries of these rows,); without numbers, ``entries`` is empty
    first_row : number of the first row
    starts : (columns,), where the entries of these rows begin in each column of the whole matrix
    out : columns, entries, rows and column_entries of the whole matrix
    """
    n, with_numbers = columns.shape[0], entries.shape[0] > 0
    ends = np.zeros(starts.shape[0] + 1, dtype=np.int64)
    for k in range(n):
        ends[columns[k] + 1] += 1
    for c in range(starts.shape[0]):
        ends[c + 1] += ends[c]
    rows, by_column = np.empty(n, dtype=np.int32), np.empty(entries.shape[0], dtype=np.int64)
    transpose(offsets - offsets[0], columns, entries, ends, rows, by_column)
    next_entry, all_rows, all_columns = offsets[:-1].copy(), out.rows, out.columns
    all_entries, all_by_column = out.entries, out.column_entries
    k = 0
    for c in range(starts.shape[0]):
        at = starts[c]
        while k < ends[c]:
            place = next_entry[rows[k]]
            next_entry[rows[k]] = place + 1
            all_columns[place], all_rows[at] = c, first_row + rows[k]
            if with_numbers:
                all_entries[place], all_by_column[at] = by_column[k], by_column[k]
            at += 1
            k += 1
