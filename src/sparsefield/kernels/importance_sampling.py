"""This module runs chains of annealed importance sampling over components of a factor graph."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from sparsefield.kernels.factor_tables import mix
from sparsefield.kernels.gibbs_chains import factor_logits, log_potential, uniform


@njit(nogil=True, cache=True, inline="always")
def _draw_state(z, first, states, stream):
    """Return a state drawn from logits z[first:first + states], and the advanced stream."""
    top = z[first]
    for s in range(1, states):
        top = max(top, z[first + s])
    total = 0.0
    for s in range(states):
        total += math.exp(z[first + s] - top)
    u, stream = uniform(stream)
    left, code = u * total, states - 1
    for s in range(states):
        left -= math.exp(z[first + s] - top)
        if left < 0.0:
            code = s
            break
    return code, stream


@njit(nogil=True, cache=True)
def anneal_chains(graph, component, base, steps, seed, first_chain, out):
    """Set out (chains,) to the logarithms of the importance weights of chains with consecutive numbers.

    A chain starts with independent cells of log-probabilities ``base`` (states of all cells,). Step k of ``steps`` has
    the log-potential (1 - k / steps) base + k / steps x that of the field; a Gibbs sweep follows each step but the last.
    The numbers of a chain follow from the seed, the key of the component and the number of the chain.
    """
    first, last = graph.component_offsets[component], graph.component_offsets[component + 1]
    widest = 1
    for k in range(first, last):
        cell = graph.component_cells[k]
        widest = max(widest, graph.offsets[cell + 1] - graph.offsets[cell])
    z = np.empty(widest)
    codes = np.zeros(graph.offsets.shape[0] - 1, dtype=np.int64)
    for chain in range(out.shape[0]):
        stream = mix(mix(graph.component_keys[component], seed), first_chain + chain)
        for k in range(first, last):
            cell = graph.component_cells[k]
            codes[cell], stream = _draw_state(base, graph.offsets[cell], graph.offsets[cell + 1] - graph.offsets[cell], stream)
        total = 0.0
        for step in range(1, steps + 1):
            difference = log_potential(graph, component, codes)
            for k in range(first, last):
                cell = graph.component_cells[k]
                difference -= base[graph.offsets[cell] + codes[cell]]
            total += difference / steps
            if step == steps:
                break
            share = step / steps
            for k in range(first, last):
                cell = graph.component_cells[k]
                states = graph.offsets[cell + 1] - graph.offsets[cell]
                factor_logits(graph, cell, codes, z)
                for s in range(states):
                    z[s] = (1.0 - share) * base[graph.offsets[cell] + s] + share * z[s]
                codes[cell], stream = _draw_state(z, 0, states, stream)
        out[chain] = total
