"""This module computes the Hessians of the regressions of binary variables, each minimized over its bias."""

import math

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  # loaded before the number of its threads is limited
from numba import njit

from sparsefield.kernels.elementary import FAST

CHUNK = 64
"""Sources whose products with all sources before them are one product of matrices: the other half is symmetric."""

_ROUNDS = 4
"""Rounds in which the rows that are all kept are told from those that are sampled."""


@njit(nogil=True, cache=True, fastmath=FAST)
def binary_hessians(variables, targets, graph, block, columns, p, max_rows, least, matrices, of_weights, of_biases):
    """Set the Hessians of some binary variables with free biases, whose sources are columns or products of columns.

    Parameters
    ----------
    variables, targets : the variables, and the column of each among those of all targets
    graph : arc_offsets, arc_source, term_offsets, term_source
    block : weight, cell_offsets, missing_rows
    columns : (columns, rows) float32
    p : (variables, rows): probabilities of the state that the column stands for
    max_rows : number of rows of a variable, at most: see `choose_rows`
    least : added to the curvature of a bias
    matrices : output, the Hessians of the weights of arcs, then terms, one after the other, float32
    of_weights : output, for each arc and term the factor of its step in that of the bias
    of_biases : (variables,), output, inverse curvatures of the biases
    """
    variance = np.empty(columns.shape[1])
    rows, place = np.empty(columns.shape[1], dtype=np.int64), np.empty(columns.shape[0], dtype=np.int64)
    arc, entry = 0, 0
    for k in range(variables.shape[0]):
        v = variables[k]
        for i in range(variance.shape[0]):
            variance[i] = p[k, i] * (1.0 - p[k, i]) * block.weight[i]
        for g in range(block.cell_offsets[v], block.cell_offsets[v + 1]):
            variance[block.missing_rows[g]] = 0.0
        n_rows = choose_rows(variance, max_rows, rows)
        arcs = graph.arc_source[graph.arc_offsets[targets[k]] : graph.arc_offsets[targets[k] + 1]]
        terms = graph.term_source[graph.term_offsets[targets[k]] : graph.term_offsets[targets[k] + 1]]
        count = arcs.shape[0] + terms.shape[0]
        values = np.empty((count + 1, n_rows), dtype=np.float32)
        _set_sources(arcs, terms, columns, rows[:n_rows], variance, place, values)
        hessian = np.empty((count + 1, count + 1), dtype=np.float32)
        for start in range(0, count + 1, CHUNK):
            stop = min(start + CHUNK, count + 1)
            hessian[start:stop, :stop] = np.dot(values[start:stop], values[:stop].T)
        inverse = 1.0 / (hessian[0, 0] + least)
        of_biases[k] = inverse
        for a in range(count):
            of_weights[arc + a] = inverse * hessian[a + 1, 0]
        for a in range(count):
            cross = hessian[a + 1, 0]
            for b in range(a + 1):
                value = hessian[a + 1, b + 1] - cross * of_weights[arc + b]
                matrices[entry + a * count + b] = value
                matrices[entry + b * count + a] = value
        arc += count
        entry += count * count


@njit(nogil=True, cache=True, fastmath=FAST)
def choose_rows(variance, max_rows, rows):
    """Set ``rows`` to about ``max_rows`` rows at most, make their variances stand for all, and return their number.

    Rows of large variance are all kept. Others are sampled at even intervals of the sum of their variances, so that
    each is kept with a probability in proportion to its variance, and those that are kept have the same variance.
    """
    step, bound, total = 0.0, np.inf, 0.0
    for _ in range(_ROUNDS):
        total, positive, large = 0.0, 0, 0
        for i in range(variance.shape[0]):
            if variance[i] >= bound:
                large += 1
            elif variance[i] > 0.0:
                positive += 1
                total += variance[i]
        if large + positive <= max_rows or large >= max_rows:
            break
        step = total / (max_rows - large)
        if bound == step:
            break
        bound = step
    count, position = 0, 0.5 * step
    for i in range(variance.shape[0]):
        value = variance[i]
        if value <= 0.0:
            continue
        if step > 0.0 and value < bound:
            position -= value
            if position > 0.0:
                continue
            while position <= 0.0:
                position += step
            variance[i] = step
        rows[count] = i
        count += 1
    return count


@njit(nogil=True, cache=True, fastmath=FAST)
def _set_sources(arcs, terms, columns, rows, variance, place, values):
    """Set values (1 + arcs + terms, rows) to 1 and the sources of a variable, times the standard deviation in each row.

    ``place`` (columns,) is memory for the place of each column in values.
    """
    for i in range(rows.shape[0]):
        values[0, i] = math.sqrt(variance[rows[i]])
    place[:] = -1
    for k in range(arcs.shape[0]):
        place[arcs[k]] = k + 1
        _gather_scaled(columns[arcs[k]], rows, values[0], values[k + 1])
    scratch = np.empty((terms.shape[1] if terms.shape[0] else 0, rows.shape[0]), dtype=np.float32)
    held = np.full(scratch.shape[0], -1)
    for k in range(terms.shape[0]):
        out = values[arcs.shape[0] + 1 + k]
        first = terms[k, 0]
        if place[first] >= 0:
            out[:] = values[place[first]]
        else:
            _gather_scaled(columns[first], rows, values[0], out)
        for j in range(1, terms.shape[1]):
            if terms[k, j] >= 0:
                if held[j] != terms[k, j]:
                    held[j] = terms[k, j]
                    _gather(columns[held[j]], rows, scratch[j])
                _multiply(out, scratch[j])


@njit(nogil=True, cache=True, fastmath=FAST)
def _gather_scaled(column, rows, scale, out):
    for i in range(rows.shape[0]):
        out[i] = scale[i] * column[rows[i]]


@njit(nogil=True, cache=True, fastmath=FAST)
def _gather(column, rows, out):
    for i in range(rows.shape[0]):
        out[i] = column[rows[i]]


@njit(nogil=True, cache=True, fastmath=FAST)
def _multiply(values, column):
    for i in range(values.shape[0]):
        values[i] *= column[i]
