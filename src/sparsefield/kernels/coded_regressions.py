"""Regressions of the variables of one table: loss, gradient, Hessians and Newton system of the pseudo-likelihood.

Every variable is a multinomial regression of its coded columns on the sources of its arcs. Rows are those of some rows
of a table, and features are arcs, so that a feature has one for each of its columns that belongs to a target.
Parameters are the biases of the columns of targets, then the weights of features. Intervals, bootstraps and comparisons
of groups all estimate weights with these functions.
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  # loaded before the number of its threads is limited
from numba import njit

from sparsefield.kernels.elementary import FAST, add_scaled, dot, exp_below_in_place

CHUNK_ROWS = 256
"""Rows whose probabilities are in memory at a time; results depend on it by rounding errors."""

HESSIAN_ROWS = 4096
"""Rows of a design that are in memory at a time."""

MATRIX_SHARE = 0.25
"""Share of all pairs of columns that are arcs, above which one product of matrices is faster than one for each arc."""


class CodedRows(NamedTuple):
    """Some rows of a table, and how its states are coded."""

    codes: np.ndarray
    """(targets, rows), -1 for missing."""
    columns: np.ndarray
    """(sources, rows): the columns of the targets, those of covariates, then products of columns."""
    weight: np.ndarray
    """(rows,)"""
    offsets: np.ndarray
    """(targets + 1,): the first columns of the targets."""
    coding: tuple
    """See `Coding`."""


class RegressionArcs(NamedTuple):
    """The arcs of features: (arcs,) each."""

    target: np.ndarray
    """Column of a target."""
    source: np.ndarray
    """Row of `CodedRows.columns`."""
    feature: np.ndarray


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
def set_logits(rows, arcs, theta, logits):
    """Set the logits (target columns, rows): biases plus weights times sources."""
    n_biases = logits.shape[0]
    for c in range(n_biases):
        logits[c, :] = theta[c]
    for a in range(arcs.target.shape[0]):
        value = theta[n_biases + arcs.feature[a]]
        if value != 0.0:
            add_scaled(logits[arcs.target[a]], value, rows.columns[arcs.source[a]])


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
def evaluate(rows, arcs, theta, errors):
    """Return the loss, and set the errors E[t | others] - t times the weight of the row, (target columns, rows).

    Missing cells have no loss and no error.
    """
    n_rows, coding = rows.weight.shape[0], rows.coding
    set_logits(rows, arcs, theta, errors)
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
def set_gradient(rows, arcs, errors, theta, ridge, gradient):
    """Set the gradient of the loss plus ridge theta^2 / 2 from the errors."""
    n_biases, n_arcs = errors.shape[0], arcs.target.shape[0]
    for k in range(theta.shape[0]):
        gradient[k] = ridge[k] * theta[k]
    for c in range(n_biases):
        gradient[c] += total_of(errors[c])
    if n_arcs > MATRIX_SHARE * n_biases * rows.columns.shape[0]:
        products = np.dot(errors, rows.columns.T)
        for a in range(n_arcs):
            gradient[n_biases + arcs.feature[a]] += products[arcs.target[a], arcs.source[a]]
    else:
        for a in range(n_arcs):
            gradient[n_biases + arcs.feature[a]] += dot(errors[arcs.target[a]], rows.columns[arcs.source[a]])


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
def _designs(n_biases, arcs):
    """Return the parameters of each column of targets: a bias, then its arcs.

    Returns offsets (target columns + 1,), the source of each entry, -1 for a bias, and its parameter.
    """
    biases = np.arange(n_biases)
    offsets, order = _sorted_by(np.concatenate((biases, arcs.target)), n_biases)
    source = np.concatenate((np.full(n_biases, -1), arcs.source))
    return offsets, source[order], np.concatenate((biases, n_biases + arcs.feature))[order]


@njit(nogil=True, cache=True)
def _variable_hessian(rows, v, logits, source, ends):
    """Return the Hessian of the regression of one variable over its parameters, sorted by column.

    ``source`` (parameters,) and ``ends`` (columns + 1,) are the part of the designs that belongs to the variable.
    """
    left, right, coding = rows.offsets[v], rows.offsets[v + 1], rows.coding
    n_rows, size, n_states = (
        rows.weight.shape[0],
        source.shape[0],
        coding.state_offsets[v + 1] - coding.state_offsets[v],
    )
    found = np.zeros((size, size))
    for start in range(0, n_rows, HESSIAN_ROWS):
        stop = min(start + HESSIAN_ROWS, n_rows)
        design, p = np.ones((size, stop - start)), np.empty((n_states, stop - start))
        for j in range(size):
            if source[j] >= 0:
                design[j, :] = rows.columns[source[j], start:stop]
        scale, weight = np.empty(stop - start), np.empty(stop - start)
        set_states(coding, v, logits[left:right, start:stop].copy(), p, weight, scale)
        for i in range(stop - start):
            scale[i] = 1.0 / scale[i]
            weight[i] = rows.weight[start + i] if rows.codes[v, start + i] >= 0 else 0.0
        found += _hessian(coding, v, p, scale, weight, design, ends)
    return found


@njit(nogil=True, cache=True)
def hessian(rows, arcs, theta, found):
    """Add the Hessian of the loss at theta to a matrix (parameters, parameters)."""
    n_biases = rows.offsets[-1]
    logits = np.empty((n_biases, rows.weight.shape[0]))
    set_logits(rows, arcs, theta, logits)
    offsets, source, parameter = _designs(n_biases, arcs)
    for v in range(rows.codes.shape[0]):
        ends = offsets[rows.offsets[v] : rows.offsets[v + 1] + 1]
        begin, end = ends[0], ends[-1]
        part = _variable_hessian(rows, v, logits, source[begin:end], ends - begin)
        for a in range(end - begin):
            for b in range(end - begin):
                found[parameter[begin + a], parameter[begin + b]] += part[a, b]


@njit(nogil=True, cache=True)
def newton_system(rows, arcs, theta, free, least):
    """Return the Hessians at theta over all features, minimized over the biases that are free.

    ``least`` is added to the curvature of biases.
    """
    n_biases, n_targets = free.shape[0], rows.codes.shape[0]
    logits = np.empty((n_biases, rows.weight.shape[0]))
    set_logits(rows, arcs, theta, logits)
    offsets, source, parameter = _designs(n_biases, arcs)
    is_free = np.zeros(source.shape[0], np.bool_)
    for j in range(source.shape[0]):
        is_free[j] = source[j] < 0 and free[parameter[j]]
    arc_offsets, free_offsets = np.zeros(n_targets + 1, np.int64), np.zeros(n_targets + 1, np.int64)
    starts, n_inverse, n_products, n_entries = np.zeros(n_targets, np.int64), 0, 0, 0
    for v in range(n_targets):
        begin, end = offsets[rows.offsets[v]], offsets[rows.offsets[v + 1]]
        n_free = is_free[begin:end].sum()
        n_arcs = end - begin - n_free
        arc_offsets[v + 1], free_offsets[v + 1] = arc_offsets[v] + n_arcs, free_offsets[v] + n_free
        starts[v] = n_entries
        n_entries += n_arcs * n_arcs
        n_inverse += n_free * n_free
        n_products += n_free * n_arcs
    blocks, of_gradient, of_weights = np.empty(n_entries, np.float32), np.empty(n_inverse), np.empty(n_products)
    parameter_of, block_of = parameter[~is_free], np.empty(arc_offsets[-1], np.int64)
    inverse_at = product_at = 0
    for v in range(n_targets):
        ends = offsets[rows.offsets[v] : rows.offsets[v + 1] + 1]
        begin, end = ends[0], ends[-1]
        if begin == end:
            continue
        found = _variable_hessian(rows, v, logits, source[begin:end], ends - begin)
        out, others = np.flatnonzero(is_free[begin:end]), np.flatnonzero(~is_free[begin:end])
        own, cross = found[out][:, out], found[out][:, others]
        for c in range(out.shape[0]):
            own[c, c] += least
        inverse = np.linalg.inv(own)
        product = np.dot(inverse, cross)
        block = (found[others][:, others] - np.dot(product.T, cross)).ravel()
        block_of[arc_offsets[v] : arc_offsets[v + 1]] = v
        blocks[starts[v] : starts[v] + block.shape[0]] = block
        of_gradient[inverse_at : inverse_at + inverse.size] = inverse.ravel()
        of_weights[product_at : product_at + product.size] = product.ravel()
        inverse_at, product_at = inverse_at + inverse.size, product_at + product.size
    parameter_offsets, arcs_of = _sorted_by(parameter_of, theta.shape[0])
    return NewtonSystem(
        arc_offsets, starts, blocks, parameter_offsets, arcs_of, block_of, parameter_of, free_offsets,
        parameter[is_free], of_gradient, of_weights,
    )  # fmt: skip


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
