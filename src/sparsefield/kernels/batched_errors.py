"""This module computes the errors of one variable for many weights and many weightings of the rows at a time."""

import numpy as np
from numba import njit

from sparsefield.kernels.elementary import FAST, exp_nonpositive


@njit(nogil=True, cache=True, fastmath=FAST)
def weighted_errors(slopes, coded, constant, values, weights, totals):
    """Replace the slopes of columns by their errors E[t] - t times the weights, and add up the weighted probabilities.

    Parameters
    ----------
    slopes : (columns, rows, batch) float32, the part of the logits of the columns that differs between rows; output
    coded : (columns, states), the values of the columns for each state
    constant : (states, batch), the part of the logits of the states that all rows share
    values : (columns, rows) float32, the observed values t
    weights : (rows, batch) float32
    totals : (states, batch), output
    """
    n_columns, n_rows, size = slopes.shape
    n_states = coded.shape[1]
    states, top, scale = np.empty((n_states, size)), np.empty(size), np.empty(size)
    totals[:] = 0.0
    for i in range(n_rows):
        top[:] = -np.inf
        for k in range(n_states):
            state = states[k]
            state[:] = constant[k]
            for c in range(n_columns):
                value = coded[c, k]
                if value != 0.0:
                    _add_scaled(state, value, slopes[c, i])
            _raise_to(top, state)
        scale[:] = 0.0
        for k in range(n_states):
            _exponentiate(states[k], top, scale)
        for b in range(size):
            scale[b] = weights[i, b] / scale[b]
        for k in range(n_states):
            _weigh(states[k], scale, totals[k])
        for c in range(n_columns):
            _expected(states, coded[c], top)
            slope, value = slopes[c, i], values[c, i]
            for b in range(size):
                slope[b] = top[b] - value * weights[i, b]


@njit(nogil=True, cache=True, fastmath=FAST, inline="always")
def _add_scaled(out, factor, vector):
    for b in range(out.shape[0]):
        out[b] += factor * vector[b]


@njit(nogil=True, cache=True, fastmath=FAST, inline="always")
def _raise_to(top, vector):
    for b in range(top.shape[0]):
        top[b] = vector[b] if vector[b] > top[b] else top[b]


@njit(nogil=True, cache=True, fastmath=FAST, inline="always")
def _exponentiate(state, top, total):
    """Replace the logits of a state by exponentials below those at the top, and add these to a total."""
    for b in range(state.shape[0]):
        state[b] = exp_nonpositive(state[b] - top[b])
        total[b] += state[b]


@njit(nogil=True, cache=True, fastmath=FAST, inline="always")
def _weigh(state, scale, total):
    for b in range(state.shape[0]):
        state[b] *= scale[b]
        total[b] += state[b]


@njit(nogil=True, cache=True, fastmath=FAST, inline="always")
def _expected(states, values, out):
    """Set out to the sum over states of their probabilities times the values of a column."""
    out[:] = 0.0
    for k in range(states.shape[0]):
        if values[k] != 0.0:
            _add_scaled(out, values[k], states[k])
