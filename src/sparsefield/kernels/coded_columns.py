"""States and columns of coded variables: columns of states, logits of states from those of columns, probabilities.

With z the logits of the columns of a variable, the logit of state k is log base_k + z[indicator of k] + the sum of its
scores times their logits; see `sparsefield.data.coding.Coding`.
"""

import numpy as np
from numba import njit

from sparsefield.kernels.elementary import FAST, add_scaled, exp_nonpositive


@njit(nogil=True, cache=True)
def add_up_neighbors(offsets, neighbors, first, values, columns, out):
    """Set out[k, i] to the sum of the column columns[k] of ``values`` over the neighbors of row first + i.

    ``values`` has shape (columns, rows); a negative column counts the neighbors.
    """
    for k in range(columns.shape[0]):
        sums, column = out[k], values[max(columns[k], 0)]
        start = offsets[first]
        for i in range(sums.shape[0]):
            stop = offsets[first + i + 1]
            total = 0.0
            if columns[k] < 0:
                total += stop - start
            elif stop == start + 1:  # a loop of one round would take several times as long
                total += column[neighbors[start]]
            else:
                for n in range(start, stop):
                    total += column[neighbors[n]]
            sums[i] = total
            start = stop


# -- single cells: z and columns have shape (columns of the variable, cells), and ``at`` is the cell -------------------


@njit(nogil=True, cache=True)
def column_value(coding, v, code, column):
    """Return the value of a column of a variable in the state with a code."""
    state = coding.state_offsets[v] + code
    if column < coding.n_scores[v]:
        return coding.scores[state, column]
    return 1.0 if coding.indicator[state] == column else 0.0


@njit(nogil=True, cache=True, inline="always")
def add_columns(coding, v, code, factor, columns, at):
    """Add the columns of the state with a code, times a factor."""
    state = coding.state_offsets[v] + code
    if coding.indicator[state] >= 0:
        columns[coding.indicator[state], at] += factor
    for d in range(coding.n_scores[v]):
        columns[d, at] += factor * coding.scores[state, d]


@njit(nogil=True, cache=True, inline="always")
def write_columns(coding, v, code, columns, at):
    """Set the columns of a cell to those of the state with a code."""
    for s in range(columns.shape[0]):
        columns[s, at] = 0.0
    add_columns(coding, v, code, 1.0, columns, at)


@njit(nogil=True, cache=True)
def state_logit(coding, v, state, z, at):
    """Return the logit of a state, which is numbered over all variables."""
    logit = coding.log_base[state]
    if coding.indicator[state] >= 0:
        logit += z[coding.indicator[state], at]
    for d in range(coding.n_scores[v]):
        logit += coding.scores[state, d] * z[d, at]
    return logit


@njit(nogil=True, cache=True)
def state_weights(coding, v, z, at, p):
    """Set p to weights of the states of a variable, in proportion to their probabilities, and return their sum."""
    first, last, n_scores = coding.state_offsets[v], coding.state_offsets[v + 1], coding.n_scores[v]
    if last - first == 2 and coding.has_reference[v]:
        p[0], p[1] = exp_nonpositive(min(-z[0, at], 0.0)), exp_nonpositive(min(z[0, at], 0.0))
        return p[0] + p[1]
    weights, base, scores = p[: last - first], coding.log_base[first:last], coding.scores[first:last]
    z_a, z_b = z[0, at] if n_scores > 0 else 0.0, z[1, at] if n_scores > 1 else 0.0
    _set_cell_logits(base, scores, coding.indicator[first:last], z_a, z_b, z[:, at], weights)
    top = weights[0]
    for weight in weights:
        top = weight if weight > top else top
    return _exponentiate_cell(weights, top)


@njit(nogil=True, cache=True, fastmath=FAST)
def _set_cell_logits(base, scores, indicator, z_a, z_b, z, logit):
    """Set the logits of all states of a cell; this loop, but not its second part, can be vectorized."""
    for k in range(logit.shape[0]):
        logit[k] = base[k] + scores[k, 0] * z_a + scores[k, 1] * z_b
    for k in range(logit.shape[0]):
        if indicator[k] >= 0:
            logit[k] += z[indicator[k]]


@njit(nogil=True, cache=True, fastmath=FAST)
def _exponentiate_cell(p, top):
    """Replace the logits p of a cell by exponentials below the top, and return their sum."""
    total = 0.0
    for k in range(p.shape[0]):
        p[k] = exp_nonpositive(p[k] - top)
    for k in range(p.shape[0]):
        total += p[k]
    return total


@njit(nogil=True, cache=True)
def choose_state(p, count, left):
    """Return the code for a number between 0 and the sum of the weights p of some states; the first state is last."""
    for k in range(1, count):
        left -= p[k]
        if left < 0.0:
            return k
    return 0


# -- many rows: z, p and means have shape (columns or states, rows) ----------------------------------------------------


@njit(nogil=True, cache=True, fastmath=FAST)
def state_logits(coding, v, z, start, out, top):
    """Set out to the logits of the states of a variable in the rows from ``start`` on, and top to the highest ones.

    Scores and indicators that a variable or a state does not have count 0 times.
    """
    first, second, n = coding.state_offsets[v], min(1, z.shape[0] - 1), top.shape[0]
    for i in range(n):
        top[i] = -np.inf
    for k in range(coding.state_offsets[v + 1] - first):
        column, a, b = coding.indicator[first + k], coding.scores[first + k, 0], coding.scores[first + k, 1]
        base, c, logit = coding.log_base[first + k], 1.0 if column >= 0 else 0.0, out[k]
        z_a, z_b, z_c = z[0, start : start + n], z[second, start : start + n], z[max(column, 0), start : start + n]
        for i in range(n):
            value = base + a * z_a[i] + b * z_b[i] + c * z_c[i]
            logit[i] = value
            top[i] = value if value > top[i] else top[i]


@njit(nogil=True, cache=True, fastmath=FAST)
def exponentiate_states(p, top, total):
    """Replace logits p by exponentials below the top, and set total to the sums of these over all states."""
    for i in range(total.shape[0]):
        total[i] = 0.0
    for k in range(p.shape[0]):
        weights = p[k]
        for i in range(top.shape[0]):
            weight = exp_nonpositive(weights[i] - top[i])
            weights[i] = weight
            total[i] += weight


@njit(nogil=True, cache=True, fastmath=FAST)
def invert(values):
    """Replace numbers by their inverses."""
    for i in range(values.shape[0]):
        values[i] = 1.0 / values[i]


@njit(nogil=True, cache=True, fastmath=FAST)
def scale_rows(values, start, factors):
    """Multiply values (columns, rows) in the rows from ``start`` on by a factor for each row."""
    for k in range(values.shape[0]):
        row = values[k, start : start + factors.shape[0]]
        for i in range(row.shape[0]):
            row[i] *= factors[i]


@njit(nogil=True, cache=True)
def expected_columns(coding, v, p, means, start, stop):
    """Add the columns of a variable, times weights p of its states, to means in the rows from ``start`` to ``stop``."""
    first = coding.state_offsets[v]
    for k in range(coding.state_offsets[v + 1] - first):
        weights, column = p[k, : stop - start], coding.indicator[first + k]
        for d in range(coding.n_scores[v]):
            add_scaled(means[d, start:stop], coding.scores[first + k, d], weights)
        if column >= 0:
            add_scaled(means[column, start:stop], 1.0, weights)


@njit(nogil=True, cache=True)
def take_counts(counts, used, places, stride, least, out):
    """Set out[k], if ``used``, to the counts at places + k x stride; 0 below ``least``, and where a place is -1."""
    for k in range(out.shape[0]):
        for i in range(out.shape[1]):
            count = counts[places[i] + k * stride] if used[k] and places[i] >= 0 else 0.0
            if out[k, i] != count:  # to write takes longer than to read
                out[k, i] = count if count >= least else 0.0
