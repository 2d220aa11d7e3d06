"""Products of columns: gradients, moments, errors and expectations of features of three or more columns (Eq. 14)."""

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


@njit(nogil=True, cache=True, fastmath=FAST)
def product_factors(errors, expectations, weight, members, averaged, change, before):
    """Set the weighted errors and the expectations of products of columns.

    Parameters
    ----------
    errors : (target columns, rows), each times the row's weight
    expectations : (columns, rows)
    weight : (rows,)
    members : (features, columns), padded with -1
    averaged : whether the expectations are (q0 + q1) / 2; then an error of a product is prod q1 - prod q0
    change : (features, rows), output: the errors of the products, times the row's weight
    before : (features, rows), output: the expectations of the products
    """
    rows = weight.shape[0]
    inverse, error, no_error = np.empty(rows), np.empty(rows), np.zeros(rows)
    for i in range(rows):
        inverse[i] = 1.0 / weight[i] if weight[i] > 0.0 else 0.0
    for f in range(members.shape[0]):
        made, product = change[f], before[f]
        for i in range(rows):
            made[i], product[i] = 0.0, 1.0
        for k in range(members.shape[1]):
            column = members[f, k]
            if column < 0:
                continue
            if column >= errors.shape[0]:
                _multiply(made, product, expectations[column], no_error, 0.0)
                continue
            for i in range(rows):
                error[i] = errors[column, i] * inverse[i]
            _multiply(made, product, expectations[column], error, 0.5 if averaged else 0.0)
        for i in range(rows):
            product[i] += 0.5 * made[i] if averaged else 0.0
            made[i] *= weight[i]


@njit(nogil=True, cache=True, fastmath=FAST)
def _multiply(change, before, expectation, error, half):
    """Multiply products by a column that changes from expectation - half x error to expectation + half x error."""
    for i in range(change.shape[0]):
        change[i] = change[i] * (expectation[i] + half * error[i]) + before[i] * error[i]
        before[i] *= expectation[i] - half * error[i]


@njit(nogil=True, cache=True)
def add_changed_conjunctions(graph, errors, expectations, weight, out):
    """Add the change of each feature of three or more columns from q0 to q1 under cd, <f>_q1 - <f>_q0 (Eq. 10)."""
    change, before = np.empty((1, weight.shape[0])), np.empty((1, weight.shape[0]))
    for f in range(graph.members.shape[0]):
        product_factors(errors, expectations, weight, graph.members[f : f + 1], True, change, before)
        out[graph.member_feature[f]] += change.sum()
