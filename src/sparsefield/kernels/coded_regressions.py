"""This module evaluates the pseudo-likelihood of a table of few rows, and the Hessians of the regressions of it.

Every variable is a multinomial regression of its coded columns on other columns of the row. Arrays are those of some
rows of a table: ``codes`` (targets, rows), -1 for missing; ``columns`` (columns, rows), of which the first are those of
the targets; ``weight`` (rows,). Features are pairs of columns ``first``, ``second``, of which the first one belongs to
a target. Parameters are the biases of the columns of targets, then the weights of features.
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  # loaded before the number of its threads is limited
from numba import njit

from sparsefield.kernels.elementary import FAST, add_scaled, dot, exp_below_in_place

CHUNK_ROWS = 256
"""Rows whose probabilities are in memory at a time; results depend on it by rounding errors."""


class CodedRows(NamedTuple):
    """Some rows of a table, and how its states are coded."""

    codes: np.ndarray
    columns: np.ndarray
    weight: np.ndarray
    offsets: np.ndarray
    """(targets + 1,): the first columns of the targets."""
    coding: tuple
    """See `Coding`."""


class NewtonSystem(NamedTuple):
    """The Hessians of the regressions of all targets, each minimized over its free biases.

    The first six fields are those of a `QuadraticModel`.
    """

    arc_offsets: np.ndarray
    starts: np.ndarray
    blocks: np.ndarray
    parameter_offsets: np.ndarray
    arcs_of: np.ndarray
    block_of: np.ndarray
    parameter_of: np.ndarray
    """(arcs,): the parameter of each arc: a weight, or a penalized bias."""
    free_offsets: np.ndarray
    """(targets + 1,)"""
    free_biases: np.ndarray
    """The free biases of all targets."""
    of_gradient: np.ndarray
    """The inverse Hessians of the free biases of each target, flat, ..."""
    of_weights: np.ndarray
    """... and these times the Hessians of free biases and arcs."""


@njit(nogil=True, cache=True)
def add_features(columns, n_biases, first, second, theta, logits):
    """Set the logits (target columns, rows): biases plus weights times columns."""
    for c in range(n_biases):
        logits[c, :] = theta[c]
    for f in range(first.shape[0]):
        value = theta[n_biases + f]
        if value != 0.0:
            a, b = first[f], second[f]
            add_scaled(logits[a], value, columns[b])
            if b < n_biases:
                add_scaled(logits[b], value, columns[a])


@njit(nogil=True, cache=True, fastmath=FAST)
def set_states(coding, v, logits, states, top, total):
    """Set the states of a target, (states, rows), to exponentials of their logits below the largest one, ``top``.

    ``total`` (rows,) is the sum of these exponentials.
    """
    start, n_scores, n_rows = coding.state_offsets[v], coding.n_scores[v], top.shape[0]
    top[:] = -np.inf
    for k in range(states.shape[0]):
        state, base, column = states[k], coding.log_base[start + k], coding.indicator[start + k]
        if column >= 0:
            own = logits[column]
            for i in range(n_rows):
                state[i] = base + own[i]
        else:
            state[:] = base
        if n_scores == 1:
            add_scaled(state, coding.scores[start + k, 0], logits[0])
        elif n_scores == 2:
            one, two, a, b = logits[0], logits[1], coding.scores[start + k, 0], coding.scores[start + k, 1]
            for i in range(n_rows):
                state[i] += a * one[i] + b * two[i]
        for i in range(n_rows):
            top[i] = state[i] if state[i] > top[i] else top[i]
    total[:] = 0.0
    for k in range(states.shape[0]):
        exp_below_in_place(states[k], top)
        add_scaled(total, 1.0, states[k])


@njit(nogil=True, cache=True, fastmath=FAST)
def set_means(coding, v, states, means):
    """Set the sums (columns, rows) over the states of a target of the values of each column times the states."""
    start, n_scores = coding.state_offsets[v], coding.n_scores[v]
    means[:] = 0.0
    for k in range(states.shape[0]):
        state, column = states[k], coding.indicator[start + k]
        if n_scores == 1:
            add_scaled(means[0], coding.scores[start + k, 0], state)
        elif n_scores == 2:
            one, two, a, b = means[0], means[1], coding.scores[start + k, 0], coding.scores[start + k, 1]
            for i in range(state.shape[0]):
                one[i] += a * state[i]
                two[i] += b * state[i]
        if column >= 0:
            add_scaled(means[column], 1.0, state)


@njit(nogil=True, cache=True)
def evaluate(rows, first, second, theta, errors):
    """Return the loss, and set the errors E[t | others] - t times the weight of the row, (target columns, rows).

    Missing cells have no loss and no error.
    """
    n_biases, n_rows, coding = errors.shape[0], rows.weight.shape[0], rows.coding
    add_features(rows.columns, n_biases, first, second, theta, errors)
    chunk = min(CHUNK_ROWS, n_rows)
    loss, top, total = 0.0, np.empty(chunk), np.empty(chunk)
    for v in range(rows.codes.shape[0]):
        left, right = rows.offsets[v], rows.offsets[v + 1]
        if left == right:
            continue
        n_states = coding.state_offsets[v + 1] - coding.state_offsets[v]
        for start in range(0, n_rows, chunk):
            # Loops are vectorized over arrays that are contiguous, which parts of larger ones are not.
            size = min(chunk, n_rows - start)
            states, means = np.empty((n_states, size)), np.empty((right - left, size))
            logits = errors[left:right, start : start + size].copy()
            set_states(coding, v, logits, states, top[:size], total[:size])
            set_means(coding, v, states, means)
            for i in range(size):
                factor, code = 0.0, rows.codes[v, start + i]
                if code >= 0:
                    factor = rows.weight[start + i]
                    loss += factor * (np.log(total[i]) - _log_of_state(coding, v, code, logits, top, i))
                total[i] = factor / total[i]
                top[i] = factor
            for c in range(right - left):
                _set_errors(
                    errors[left + c, start : start + size], means[c], rows.columns[left + c, start:], total, top
                )
    return loss


@njit(nogil=True, cache=True)
def _set_errors(error, mean, value, scale, weight):
    for i in range(error.shape[0]):
        error[i] = mean[i] * scale[i] - weight[i] * value[i]


@njit(nogil=True, cache=True)
def _log_of_state(coding, v, code, logits, top, row):
    """Return the logit of a state in a row, below the largest one."""
    state = coding.state_offsets[v] + code
    value = coding.log_base[state] - top[row]
    for s in range(coding.n_scores[v]):
        value += coding.scores[state, s] * logits[s, row]
    column = coding.indicator[state]
    return value + logits[column, row] if column >= 0 else value


@njit(nogil=True, cache=True, fastmath=FAST)
def total_of(vector):
    """Return the sum of a vector."""
    total = 0.0
    for i in range(vector.shape[0]):
        total += vector[i]
    return total


@njit(nogil=True, cache=True)
def set_gradient(rows, first, second, errors, theta, ridge, gradient):
    """Set the gradient of the loss plus ridge theta^2 / 2 from the errors."""
    n_biases = errors.shape[0]
    products = np.dot(errors, rows.columns.T)
    for c in range(n_biases):
        gradient[c] = total_of(errors[c]) + ridge[c] * theta[c]
    for f in range(first.shape[0]):
        a, b = first[f], second[f]
        found = products[a, b]
        if b < n_biases:
            found += products[b, a]
        gradient[n_biases + f] = found + ridge[n_biases + f] * theta[n_biases + f]


@njit(nogil=True, cache=True)
def _sorted_by(keys, n_keys):
    """Return offsets (n_keys + 1,) and the numbers of entries with each key, in their order."""
    offsets = np.zeros(n_keys + 1, dtype=np.int64)
    for k in range(keys.shape[0]):
        offsets[keys[k] + 1] += 1
    for k in range(n_keys):
        offsets[k + 1] += offsets[k]
    place, order = offsets.copy(), np.empty(keys.shape[0], dtype=np.int64)
    for k in range(keys.shape[0]):
        order[place[keys[k]]] = k
        place[keys[k]] += 1
    return offsets, order


@njit(nogil=True, cache=True)
def _designs(n_biases, first, second):
    """Return the parameters of each column of targets: a bias, then its features.

    Returns offsets (target columns + 1,), the source column of each entry, -1 for a bias, and its parameter.
    """
    n_features, n_entries = first.shape[0], n_biases + first.shape[0]
    for f in range(n_features):
        n_entries += second[f] < n_biases
    target, source = np.empty(n_entries, np.int64), np.empty(n_entries, np.int64)
    parameter = np.empty(n_entries, np.int64)
    for c in range(n_biases):
        target[c], source[c], parameter[c] = c, -1, c
    n = n_biases
    for f in range(n_features):
        target[n], source[n], parameter[n] = first[f], second[f], n_biases + f
        n += 1
        if second[f] < n_biases:
            target[n], source[n], parameter[n] = second[f], first[f], n_biases + f
            n += 1
    offsets, order = _sorted_by(target, n_biases)
    return offsets, source[order], parameter[order]


@njit(nogil=True, cache=True)
def take(matrix, some, others):
    """Return some rows and columns of a matrix."""
    found = np.empty((some.shape[0], others.shape[0]))
    for a in range(some.shape[0]):
        for b in range(others.shape[0]):
            found[a, b] = matrix[some[a], others[b]]
    return found


@njit(nogil=True, cache=True)
def newton_system(rows, first, second, theta, free, least):
    """Return the Hessians at theta over all features, minimized over the biases that are free.

    ``least`` is added to the curvature of biases.
    """
    n_biases, n_rows, n_targets = free.shape[0], rows.weight.shape[0], rows.codes.shape[0]
    coding, logits = rows.coding, np.empty((n_biases, n_rows))
    add_features(rows.columns, n_biases, first, second, theta, logits)
    design_offsets, source, parameter = _designs(n_biases, first, second)
    arc_offsets, free_offsets = np.zeros(n_targets + 1, np.int64), np.zeros(n_targets + 1, np.int64)
    starts, n_entries, n_inverse, n_products = np.zeros(n_targets, np.int64), 0, 0, 0
    for v in range(n_targets):
        left, right = rows.offsets[v], rows.offsets[v + 1]
        n_free = 0
        for c in range(left, right):
            n_free += free[c]
        n_arcs = design_offsets[right] - design_offsets[left] - n_free
        arc_offsets[v + 1], free_offsets[v + 1] = arc_offsets[v] + n_arcs, free_offsets[v] + n_free
        starts[v] = n_entries
        n_entries, n_inverse, n_products = (
            n_entries + n_arcs * n_arcs,
            n_inverse + n_free * n_free,
            n_products + n_free * n_arcs,
        )
    blocks, of_gradient, of_weights = np.empty(n_entries, np.float32), np.empty(n_inverse), np.empty(n_products)
    parameter_of, block_of = np.empty(arc_offsets[-1], np.int64), np.empty(arc_offsets[-1], np.int64)
    free_biases = np.empty(free_offsets[-1], np.int64)
    states = np.empty((coding.most_states, n_rows))
    top, total = np.empty(n_rows), np.empty(n_rows)
    gradient_at = weights_at = 0
    for v in range(n_targets):
        left, right = rows.offsets[v], rows.offsets[v + 1]
        if left == right:
            continue
        begin = design_offsets[left]
        size, ends = design_offsets[right] - begin, design_offsets[left : right + 1] - begin
        design = np.empty((size, n_rows))
        for j in range(size):
            if source[begin + j] < 0:
                design[j, :] = 1.0
            else:
                for i in range(n_rows):
                    design[j, i] = rows.columns[source[begin + j], i]
        p = states[: coding.state_offsets[v + 1] - coding.state_offsets[v]]
        set_states(coding, v, logits[left:right], p, top, total)
        for i in range(n_rows):
            total[i] = 1.0 / total[i]
            top[i] = rows.weight[i] if rows.codes[v, i] >= 0 else 0.0
        hessian = _hessian(coding, v, p, total, top, design, ends)
        n_free, n_arcs = free_offsets[v + 1] - free_offsets[v], arc_offsets[v + 1] - arc_offsets[v]
        out, kept, n_out, n_kept = np.empty(n_free, np.int64), np.empty(n_arcs, np.int64), 0, 0
        for j in range(size):
            number = parameter[begin + j]
            if source[begin + j] < 0 and free[number]:
                free_biases[free_offsets[v] + n_out], out[n_out] = number, j
                n_out += 1
            else:
                parameter_of[arc_offsets[v] + n_kept], kept[n_kept] = number, j
                block_of[arc_offsets[v] + n_kept] = v
                n_kept += 1
        own, cross = take(hessian, out, out), take(hessian, out, kept)
        for c in range(n_free):
            own[c, c] += least
        inverse = np.linalg.inv(own)
        product = np.dot(inverse, cross)
        shift = np.dot(product.T, cross)
        for a in range(n_arcs):
            for b in range(n_arcs):
                blocks[starts[v] + a * n_arcs + b] = hessian[kept[a], kept[b]] - shift[a, b]
        for a in range(n_free):
            for b in range(n_free):
                of_gradient[gradient_at + a * n_free + b] = inverse[a, b]
            for b in range(n_arcs):
                of_weights[weights_at + a * n_arcs + b] = product[a, b]
        gradient_at, weights_at = gradient_at + n_free * n_free, weights_at + n_free * n_arcs
    parameter_offsets, arcs_of = _sorted_by(parameter_of, n_biases + first.shape[0])
    return NewtonSystem(
        arc_offsets,
        starts,
        blocks,
        parameter_offsets,
        arcs_of,
        block_of,
        parameter_of,
        free_offsets,
        free_biases,
        of_gradient,
        of_weights,
    )


@njit(nogil=True, cache=True)
def _hessian(coding, v, p, scale, weight, design, ends):
    """Return the Hessian of one regression over the rows of its design, which are sorted by column.

    Second moments of two columns are 0 where both are indicators of different states; the rest is the product of means.

    Parameters
    ----------
    p, scale : (states, rows) and (rows,), whose products are the probabilities
    weight : (rows,), 0 where the target is missing
    design : (parameters, rows); the first one of each column is constant
    ends : (columns + 1,), the first parameter of each column
    """
    begin, n_scores, n_columns = coding.state_offsets[v], coding.n_scores[v], ends.shape[0] - 1
    n_rows = weight.shape[0]
    scaled, moment, means = np.empty(design.shape), np.empty(n_rows), np.empty((n_columns, n_rows))
    set_means(coding, v, p, means)
    for c in range(n_columns):
        for i in range(n_rows):
            means[c, i] *= scale[i] * np.sqrt(weight[i])
        for j in range(ends[c], ends[c + 1]):
            multiply(means[c], design[j], scaled[j])
    hessian = np.dot(scaled, scaled.T)
    for a in range(design.shape[0]):
        for b in range(design.shape[0]):
            hessian[a, b] = -hessian[a, b]
    for a in range(n_columns):
        for b in range(a + 1):
            if b < a and b >= n_scores:
                continue
            moment[:] = 0.0
            for k in range(p.shape[0]):
                value = _coded(coding, n_scores, begin + k, a) * _coded(coding, n_scores, begin + k, b)
                if value != 0.0:
                    add_scaled(moment, value, p[k])
            for i in range(n_rows):
                moment[i] *= scale[i] * weight[i]
            _add_products(design, moment, ends[a], ends[a + 1], ends[b], ends[b + 1], scaled, hessian)
    return hessian


@njit(nogil=True, cache=True)
def multiply(a, b, out):
    """Set out = a * b."""
    for i in range(a.shape[0]):
        out[i] = a[i] * b[i]


@njit(nogil=True, cache=True)
def _coded(coding, n_scores, state, column):
    """Return the value of a column for a state."""
    if column < n_scores:
        return coding.scores[state, column]
    return 1.0 if coding.indicator[state] == column else 0.0


@njit(nogil=True, cache=True)
def _add_products(design, moment, a, a_end, b, b_end, scaled, hessian):
    """Add the weighted products of some rows of the design with others, and their transpose."""
    for j in range(a, a_end):
        multiply(moment, design[j], scaled[j])
    if a_end - a == 1 and b_end - b == 1:
        found = dot(moment, design[b])
        hessian[a, b] += found
        if a != b:
            hessian[b, a] += found
        return
    product = np.dot(scaled[a:a_end], design[b:b_end].T)
    for j in range(a, a_end):
        for k in range(b, b_end):
            hessian[j, k] += product[j - a, k - b]
            if a != b:
                hessian[k, j] += product[j - a, k - b]
