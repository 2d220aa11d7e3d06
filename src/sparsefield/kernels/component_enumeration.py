"""This module computes exact marginals of small connected components of a factor graph by enumeration."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from sparsefield.kernels.gibbs_chains import factor_logits


@njit(nogil=True, cache=True)
def enumerate_components(graph, components, most, deepest, widest, beliefs):
    """Set ``beliefs`` (states of all missing cells,) to the marginals of the cells of some components.

    ``most``, ``deepest`` and ``widest`` are the largest numbers of joint states, of cells and of states of a cell.
    """
    codes, potentials = np.zeros(graph.offsets.shape[0] - 1, dtype=np.int64), np.empty(most)
    code, potential, z = np.empty(deepest, dtype=np.int64), np.zeros(deepest + 1), np.empty((deepest, widest))
    for k in range(components.shape[0]):
        first, last = graph.component_offsets[components[k]], graph.component_offsets[components[k] + 1]
        # The log-potential of a joint state is a sum of logits, each given the cells before it, with all later ones in
        # their reference states.
        leaf, depth, top = 0, 0, -np.inf
        code[0] = -1
        while depth >= 0:
            cell = graph.component_cells[first + depth]
            if code[depth] < 0:
                factor_logits(graph, cell, codes, z[depth])
            code[depth] += 1
            if code[depth] == graph.offsets[cell + 1] - graph.offsets[cell]:
                codes[cell] = 0
                depth -= 1
                continue
            codes[cell] = code[depth]
            total = potential[depth] + z[depth, code[depth]] - z[depth, 0]
            if first + depth == last - 1:
                potentials[leaf] = total
                top = max(top, total)
                leaf += 1
            else:
                depth += 1
                potential[depth], code[depth] = total, -1
        norm = 0.0
        for i in range(leaf):
            potentials[i] = math.exp(potentials[i] - top)
            norm += potentials[i]
        # The last cell changes fastest.
        inner = 1
        for depth in range(last - first - 1, -1, -1):
            cell = graph.component_cells[first + depth]
            start, states = graph.offsets[cell], graph.offsets[cell + 1] - graph.offsets[cell]
            for s in range(states):
                beliefs[start + s] = 0.0
            for i in range(leaf):
                beliefs[start + (i // inner) % states] += potentials[i] / norm
            inner *= states
