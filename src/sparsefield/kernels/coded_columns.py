"""This module writes the columns of coded cells."""

from numba import njit


@njit(nogil=True, cache=True)
def set_coded_columns(coding, offsets, codes, columns):
    """Set the columns (columns, rows) of cells with codes (targets, rows); those of missing cells, -1, are not set.

    ``offsets`` (targets + 1,) are the first columns of the targets.
    """
    states, indicator, scores, n_scores = coding.state_offsets, coding.indicator, coding.scores, coding.n_scores
    for v in range(codes.shape[0]):
        first, base = offsets[v], states[v]
        for i in range(codes.shape[1]):
            if codes[v, i] < 0:
                continue
            state = base + codes[v, i]
            if indicator[state] >= 0:
                columns[first + indicator[state], i] = 1.0
            for k in range(n_scores[v]):
                columns[first + k, i] = scores[state, k]
