"""This module computes sums over rows of products of columns: gradients and moments of features of three or more."""

import numpy as np
from numba import njit

from sparsefield.kernels.elementary import FAST, dot, four_dots


@njit(nogil=True, cache=True, fastmath=FAST)
def multiply(values, columns, which):
    """Multiply values by all columns in ``which`` but the first; negative entries are skipped."""
    for j in range(1, which.shape[0]):
        if which[j] >= 0:
            column = columns[which[j]]
            for i in range(values.shape[0]):
                values[i] *= column[i]


@njit(nogil=True, cache=True, fastmath=FAST)
def add_conjunctions(graph, errors, expectations, out):
    """Add the gradient of features of three or more columns (Eq. 14): error x product of the other columns.

    The columns that the terms of a run share are multiplied once.
    """
    scaled = np.empty(errors.shape[1])
    source, feature = graph.term_source, graph.term_feature
    for state in range(errors.shape[0]):
        k, end = graph.term_offsets[state], graph.term_offsets[state + 1]
        while k < end:
            stop = k + graph.term_run[k]
            for i in range(scaled.shape[0]):
                scaled[i] = errors[state, i]
            multiply(scaled, expectations, source[k])
            while k + 4 <= stop:
                a, b, c, d = four_dots(
                    scaled, expectations, source[k, 0], source[k + 1, 0], source[k + 2, 0], source[k + 3, 0]
                )
                out[feature[k]] += a
                out[feature[k + 1]] += b
                out[feature[k + 2]] += c
                out[feature[k + 3]] += d
                k += 4
            while k < stop:
                out[feature[k]] += dot(scaled, expectations[source[k, 0]])
                k += 1


@njit(nogil=True, cache=True, fastmath=FAST)
def add_changed_conjunctions(graph, errors, beliefs, weight, out):
    """Add the change of each feature of three or more columns from q0 to q1 under cd, prod (q0 + error) - prod q0."""
    rows = weight.shape[0]
    before, change, error = np.empty(rows), np.empty(rows), np.empty(rows)
    for f in range(graph.members.shape[0]):
        members = graph.members[f]
        for i in range(rows):
            before[i] = weight[i]
            change[i] = 0.0
        for k in range(members.shape[0]):
            if members[k] < 0:
                continue
            column = beliefs[members[k]]
            if members[k] < errors.shape[0]:
                for i in range(rows):
                    error[i] = errors[members[k], i] / (weight[i] + 1e-300)
            else:
                for i in range(rows):
                    error[i] = 0.0
            for i in range(rows):  # (before + change) (q + e) - before q
                change[i] = change[i] * (column[i] + error[i]) + before[i] * error[i]
                before[i] *= column[i]
        total = 0.0
        for i in range(rows):
            total += change[i]
        out[graph.member_feature[f]] += total


@njit(nogil=True, cache=True, fastmath=FAST)
def product_moments(beliefs, weight, which, out):
    """Set out[k] to the weighted sums of the product of the columns which[k], and of its square."""
    rows = weight.shape[0]
    product = np.empty(rows)
    for k in range(which.shape[0]):
        for i in range(rows):
            product[i] = 1.0
        for j in range(which.shape[1]):
            if which[k, j] >= 0:
                column = beliefs[which[k, j]]
                for i in range(rows):
                    product[i] *= column[i]
        total, square = 0.0, 0.0
        for i in range(rows):
            total += weight[i] * product[i]
            square += weight[i] * product[i] * product[i]
        out[k, 0] = total
        out[k, 1] = square
