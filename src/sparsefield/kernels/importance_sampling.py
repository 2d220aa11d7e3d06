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
def _start(graph, component, base, codes, stream):
    """Draw independent codes of the cells of a component."""
    for k in range(graph.component_offsets[component], graph.component_offsets[component + 1]):
        cell = graph.component_cells[k]
        first, last = graph.offsets[cell], graph.offsets[cell + 1]
        codes[cell], stream = _draw_state(base, first, last - first, stream)
    return stream


@njit(nogil=True, cache=True)
def _gain(graph, component, base, codes):
    """Return by how much the log-potential of the field exceeds that of independent cells."""
    total = log_potential(graph, component, codes)
    for k in range(graph.component_offsets[component], graph.component_offsets[component + 1]):
        cell = graph.component_cells[k]
        total -= base[graph.offsets[cell] + codes[cell]]
    return total


@njit(nogil=True, cache=True)
def _sweep(graph, component, base, share, codes, z, stream):
    """Draw each cell given all others, with logits between those of independent cells and those of the field."""
    for k in range(graph.component_offsets[component], graph.component_offsets[component + 1]):
        cell = graph.component_cells[k]
        first, states = graph.offsets[cell], graph.offsets[cell + 1] - graph.offsets[cell]
        factor_logits(graph, cell, codes, z)
        for s in range(states):
            z[s] = (1.0 - share) * base[first + s] + share * z[s]
        codes[cell], stream = _draw_state(z, 0, states, stream)
    return stream


@njit(nogil=True, cache=True)
def anneal_chains(graph, component, base, steps, seed, first_chain, z, out):
    """Set out (chains,) to the logarithms of the importance weights of chains with consecutive numbers.

    A chain starts with independent cells of log-probabilities ``base`` (states of all cells,). Step k of ``steps`` has
    the log-potential (1 - k / steps) base + k / steps x that of the field; each step but the last has a Gibbs sweep.
    The draws of a chain follow from the seed, the key of the component and the number of the chain. ``z`` has room for
    the states of a cell.
    """
    codes = np.zeros(graph.offsets.shape[0] - 1, dtype=np.int64)
    for chain in range(out.shape[0]):
        stream = mix(mix(graph.component_keys[component], seed), first_chain + chain)
        stream = _start(graph, component, base, codes, stream)
        total = _gain(graph, component, base, codes)
        for step in range(1, steps):
            stream = _sweep(graph, component, base, step / steps, codes, z, stream)
            total += _gain(graph, component, base, codes)
        out[chain] = total / steps
