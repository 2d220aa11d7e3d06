"""Errors of one regression for many weights and many weightings of the rows at a time: see `coded_regressions`.

Numbers are in single precision, of which the processor computes twice as many at a time; sums over many rows are not.
"""

import numpy as np
from numba import njit

from sparsefield.kernels.elementary import FAST, exp_nonpositive_narrow

ROWS_PER_SUM = 64
"""Rows that are added up in single precision."""

_ZERO, _MINUS_INFINITY = np.float32(0.0), np.float32(-np.inf)


@njit(nogil=True, cache=True, fastmath=FAST)
def weighted_errors(slopes, coded, constant, values, weights, totals):
    """Replace the slopes of columns by their errors E[t] - t times the weights, and add up the weighted probabilities.

    Parameters
    ----------
    slopes : (columns, rows, batch) float32, the part of the logits of the columns that differs between rows; output
    coded : (columns, states) float32, the values of the columns for each state
    constant : (states, batch) float32, the part of the logits of the states that all rows share
    values : (columns, rows) float32, the observed values t
    weights : (rows, batch) float32
    totals : (states, batch), output
    """
    n_columns, n_rows, size = slopes.shape
    n_states = coded.shape[1]
    states, sums = np.empty((n_states, size), np.float32), np.zeros((n_states, size), np.float32)
    top, scale, expected = np.empty(size, np.float32), np.empty(size, np.float32), np.empty(size, np.float32)
    totals[:] = 0.0
    for i in range(n_rows):
        top[:] = _MINUS_INFINITY
        for k in range(n_states):  # the first column by itself: most variables have one column with arcs
            state, base, value, slope = states[k], constant[k], coded[0, k], slopes[0, i]
            for b in range(size):
                state[b] = base[b] + value * slope[b]
                if n_columns == 1:
                    top[b] = state[b] if state[b] > top[b] else top[b]
            for c in range(1, n_columns):
                value, slope = coded[c, k], slopes[c, i]
                if value != _ZERO:
                    for b in range(size):
                        state[b] += value * slope[b]
            if n_columns > 1:
                for b in range(size):
                    top[b] = state[b] if state[b] > top[b] else top[b]
        scale[:] = _ZERO
        for k in range(n_states):
            state = states[k]
            for b in range(size):
                state[b] = exp_nonpositive_narrow(state[b] - top[b])
                scale[b] += state[b]
        weight = weights[i]
        for b in range(size):
            scale[b] = weight[b] / scale[b]
        expected[:] = _ZERO
        for k in range(n_states):
            state, total, value = states[k], sums[k], coded[0, k]
            for b in range(size):
                weighed = state[b] * scale[b]
                state[b] = weighed
                total[b] += weighed
                expected[b] += value * weighed
        for c in range(n_columns):
            for k in range(n_states):
                value, state = coded[c, k], states[k]
                if c > 0 and value != _ZERO:
                    for b in range(size):
                        expected[b] += value * state[b]
            observed, slope = values[c, i], slopes[c, i]
            for b in range(size):
                slope[b] = expected[b] - observed * weight[b]
                expected[b] = _ZERO
        if i % ROWS_PER_SUM == ROWS_PER_SUM - 1 or i == n_rows - 1:
            totals += sums
            sums[:] = _ZERO
