"""This module computes the expectations of ground features from the marginals of factors."""

from __future__ import annotations

from numba import njit

from sparsefield.kernels.factor_tables import column_value


@njit(nogil=True, cache=True)
def expected_features(problem, features, factors, factor_of_feature, marginals, out):
    """Set out (ground features,) to the expectations of the products of columns.

    ``marginals`` has the probabilities of the joint states of each factor, as its table has log-potentials.
    """
    coding = problem.coding
    for f in range(factor_of_feature.shape[0]):
        factor, total = factor_of_feature[f], 0.0
        first, last = factors.offsets[factor], factors.offsets[factor + 1]
        for entry in range(factors.table_offsets[factor], factors.table_offsets[factor + 1]):
            value, rest, member = marginals[entry], entry - factors.table_offsets[factor], features.offsets[f + 1] - 1
            for m in range(last - 1, first - 1, -1):
                code = rest % factors.states[m]
                rest //= factors.states[m]
                if member >= features.offsets[f] and features.cell[member] == factors.cell[m]:
                    variable = problem.cell_variable[factors.cell[m]]
                    value *= column_value(coding, variable, code, features.column[member])
                    member -= 1
            total += value
        out[f] = total
