"""This module codes whole numbers of a small range, and writes the columns of coded cells."""

from numba import njit


@njit(nogil=True, cache=True)
def set_coded_columns(coding, offsets, codes, columns):
    """Set the columns (columns, rows) of cells with codes (targets, rows); those of missing cells, -1, are not set.

    ``offsets`` (targets + 1,) are the first columns of the targets.
    """
    states, indicator, scores, n_scores = coding.state_offsets, coding.indicator, coding.scores, coding.n_scores
    for v in range(codes.shape[0]):
        first, base = offsets[v], states[v]
        if n_scores[v] == 0 and states[v + 1] - base == 2 and indicator[base] < 0:  # this loop can be vectorized
            row, column = codes[v], columns[first + indicator[base + 1]]
            for i in range(row.shape[0]):
                column[i] = row[i] if row[i] > 0 else 0
            continue
        for i in range(codes.shape[1]):
            if codes[v, i] < 0:
                continue
            state = base + codes[v, i]
            if indicator[state] >= 0:
                columns[first + indicator[state], i] = 1.0
            for k in range(n_scores[v]):
                columns[first + k, i] = scores[state, k]


@njit(nogil=True, cache=True)
def mark_distances(values, low, occurs):
    """Replace whole numbers by their distances from the smallest, ``low``, and mark which distances occur."""
    for i in range(values.shape[0]):
        values[i] -= low
        occurs[values[i]] = True
