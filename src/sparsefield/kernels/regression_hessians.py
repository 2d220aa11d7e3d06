"""This module computes the Hessians of the regressions of binary variables, each minimized over its bias."""

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  # loaded before the number of its threads is limited
from numba import njit

from sparsefield.kernels.elementary import FAST


@njit(nogil=True, cache=True, fastmath=FAST)
def binary_hessians(variables, targets, graph, block, columns, p, least, matrices, of_weights, of_biases):
    """Set the Hessians of some binary variables, which have an arc from each of their sources and a free bias.

    Parameters
    ----------
    variables, targets : the variables, and the column of each among those of all targets
    graph : arc_offsets, arc_source
    block : weight, cell_offsets, missing_rows
    columns : (columns, rows) float32
    p : (variables, rows): probabilities of the state that the column stands for
    least : added to the curvature of a bias
    matrices : output, the Hessians of the weights of arcs, one after the other, float32
    of_weights : output, for each arc the factor of its step in that of the bias
    of_biases : (variables,), output, inverse curvatures of the biases
    """
    rows = columns.shape[1]
    variance = np.empty(rows, dtype=np.float32)
    arc, entry = 0, 0
    for k in range(variables.shape[0]):
        v, start, stop = variables[k], graph.arc_offsets[targets[k]], graph.arc_offsets[targets[k] + 1]
        for i in range(rows):
            variance[i] = p[k, i] * (1.0 - p[k, i]) * block.weight[i]
        for g in range(block.cell_offsets[v], block.cell_offsets[v + 1]):
            variance[block.missing_rows[g]] = 0.0
        count = stop - start
        values, scaled = np.empty((count + 1, rows), dtype=np.float32), np.empty((count + 1, rows), dtype=np.float32)
        for i in range(rows):
            values[0, i] = 1.0
            scaled[0, i] = variance[i]
        for j in range(count):
            _scale(columns[graph.arc_source[start + j]], variance, values[j + 1], scaled[j + 1])
        hessian = np.dot(scaled, values.T)
        inverse = 1.0 / (hessian[0, 0] + least)
        of_biases[k] = inverse
        for a in range(count):
            of_weights[arc + a] = inverse * hessian[0, a + 1]
        for a in range(count):
            cross = hessian[a + 1, 0]
            for b in range(count):
                matrices[entry + b] = hessian[a + 1, b + 1] - cross * of_weights[arc + b]
            entry += count
        arc += count


@njit(nogil=True, cache=True, fastmath=FAST)
def _scale(column, variance, value, scaled):
    for i in range(column.shape[0]):
        value[i] = column[i]
        scaled[i] = column[i] * variance[i]
