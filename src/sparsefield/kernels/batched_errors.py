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
    top, scale = np.empty(size, np.float32), np.empty(size, np.float32)
    totals[:] = 0.0
    for i in range(n_rows):
        top[:] = _MINUS_INFINITY
        for k in range(n_states):
            state = states[k]
            if n_columns == 1:
                _set_line(state, constant[k], coded[0, k], slopes[0, i], top)
                continue
            for b in range(size):
                state[b] = constant[k, b]
            for c in range(n_columns):
                value = coded[c, k]
                if value != _ZERO:
                    _add_scaled(state, value, slopes[c, i])
            _raise_to(top, state)
        scale[:] = _ZERO
        for k in range(n_states):
            _exponentiate(states[k], top, scale)
        weight = weights[i]
        for b in range(size):
            scale[b] = weight[b] / scale[b]
        if n_columns == 1:
            top[:] = _ZERO
            for k in range(n_states):
                _weigh_and_add(states[k], scale, sums[k], coded[0, k], top)
            _subtract_scaled(top, values[0, i], weight, slopes[0, i])
        else:
            for k in range(n_states):
                _weigh(states[k], scale, sums[k])
            for c in range(n_columns):
                _expected(states, coded[c], top)
                _subtract_scaled(top, values[c, i], weight, slopes[c, i])
        if i % ROWS_PER_SUM == ROWS_PER_SUM - 1 or i == n_rows - 1:
            for k in range(n_states):
                _add_and_clear(totals[k], sums[k])


@njit(nogil=True, cache=True, fastmath=FAST, inline="always")
def _add_scaled(out, factor, vector):
    for b in range(out.shape[0]):
        out[b] += factor * vector[b]


@njit(nogil=True, cache=True, fastmath=FAST, inline="always")
def _set_line(out, base, factor, vector, top):
    """Set out to base + factor x vector, and raise the top to it: most variables have one column with arcs."""
    for b in range(out.shape[0]):
        value = base[b] + factor * vector[b]
        out[b] = value
        top[b] = value if value > top[b] else top[b]


@njit(nogil=True, cache=True, fastmath=FAST, inline="always")
def _weigh_and_add(state, scale, total, value, expected):
    """Add a state times its scale to a total, and times a value to an expectation."""
    for b in range(state.shape[0]):
        weighed = state[b] * scale[b]
        total[b] += weighed
        expected[b] += value * weighed


@njit(nogil=True, cache=True, fastmath=FAST, inline="always")
def _subtract_scaled(vector, factor, other, out):
    for b in range(out.shape[0]):
        out[b] = vector[b] - factor * other[b]


@njit(nogil=True, cache=True, fastmath=FAST, inline="always")
def _add_and_clear(total, part):
    for b in range(total.shape[0]):
        total[b] += part[b]
        part[b] = _ZERO


@njit(nogil=True, cache=True, fastmath=FAST, inline="always")
def _raise_to(top, vector):
    for b in range(top.shape[0]):
        top[b] = vector[b] if vector[b] > top[b] else top[b]


@njit(nogil=True, cache=True, fastmath=FAST, inline="always")
def _exponentiate(state, top, total):
    """Replace the logits of a state by exponentials below those at the top, and add these to a total."""
    for b in range(state.shape[0]):
        state[b] = exp_nonpositive_narrow(state[b] - top[b])
        total[b] += state[b]


@njit(nogil=True, cache=True, fastmath=FAST, inline="always")
def _weigh(state, scale, total):
    for b in range(state.shape[0]):
        state[b] *= scale[b]
        total[b] += state[b]


@njit(nogil=True, cache=True, fastmath=FAST, inline="always")
def _expected(states, values, out):
    """Set out to the sum over states of their probabilities times the values of a column."""
    out[:] = _ZERO
    for k in range(states.shape[0]):
        if values[k] != _ZERO:
            _add_scaled(out, values[k], states[k])
