"""This module multiplies the columns of features, whose products are then scored like columns."""

import numpy as np
from numba import njit

from sparsefield.kernels.elementary import FAST


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
