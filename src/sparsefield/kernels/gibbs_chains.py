"""This module runs Gibbs chains over a factor graph, and simulated annealing for its most probable states.

Each connected component has its own stream of random numbers, which is derived from a seed and from the component's
key. What a component draws depends on nothing else, so that the beliefs of a row do not depend on the other rows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sparsefield.kernels.factor_tables import mix


class Event(NamedTuple):
    """The event that each of some missing cells of one component is in one of a set of states."""

    cells: np.ndarray
    """(cells of the event,): empty for no event."""
    states: np.ndarray
    """(states of all missing cells,): true for the states of these cells that belong to the event."""


@njit(nogil=True, cache=True)
def uniform(stream):
    """Return a uniform number in [0, 1) and the advanced stream (SplitMix64)."""
    stream += np.uint64(0x9E3779B97F4A7C15)
    return np.float64(mix(stream, 0) >> np.uint64(11)) * 2.0**-53, stream


@njit(nogil=True, cache=True, inline="always")
def factor_logits(graph, cell, codes, z):
    """Set z to the logits of a cell given the codes of all others and return the largest."""
    first, states = graph.offsets[cell], graph.offsets[cell + 1] - graph.offsets[cell]
    for s in range(states):
        z[s] = graph.unary_logits[first + s]
    for k in range(graph.cell_edge_offsets[cell], graph.cell_edge_offsets[cell + 1]):
        edge = graph.cell_edges[k]
        f = graph.edge_factor[edge]
        entry = graph.table_offsets[f]
        for e in range(graph.factor_offsets[f], graph.factor_offsets[f + 1]):
            if e != edge:
                entry += graph.edge_stride[e] * codes[graph.edge_cell[e]]
        for s in range(states):
            z[s] += graph.tables[entry + graph.edge_stride[edge] * s]
    top = z[0]
    for s in range(1, states):
        top = max(top, z[s])
    return top


@njit(nogil=True, cache=True, inline="always")
def _draw(graph, cell, codes, temperature, z, stream):
    """Draw a cell given all others, with logits divided by ``temperature``; ``z`` receives its probabilities."""
    states = graph.offsets[cell + 1] - graph.offsets[cell]
    top = factor_logits(graph, cell, codes, z)
    total = 0.0
    for s in range(states):
        z[s] = math.exp((z[s] - top) / temperature)
        total += z[s]
    left, stream = uniform(stream)
    codes[cell] = 0
    drawn = False
    for s in range(states):
        z[s] /= total
        left -= z[s]
        if left < 0.0 and not drawn:
            codes[cell], drawn = s, True
    if not drawn:  # rounding: take the most probable state
        for s in range(states):
            if z[s] > z[codes[cell]]:
                codes[cell] = s
    return stream


@njit(nogil=True, cache=True)
def _initialize(graph, component, seed, chain, codes):
    """Draw initial states, shifted by one for each chain, so that chains start far from each other."""
    stream = mix(graph.component_keys[component], seed)
    for k in range(graph.component_offsets[component], graph.component_offsets[component + 1]):
        cell = graph.component_cells[k]
        states = graph.offsets[cell + 1] - graph.offsets[cell]
        u, stream = uniform(stream)
        codes[cell] = (np.int64(u * states) + chain) % states
    return mix(stream, chain)


@njit(nogil=True, cache=True)
def run_chains(graph, components, seed, chains, burn_in, sweeps, event, codes, z, sums, squares, event_sums):
    """Run chains over some components and sum the conditional probability of each state, and its square.

    ``sums`` and ``squares`` have one row per half chain. ``event_sums`` (half chains, 2) receives the same two sums of
    the conditional probability of the event.
    """
    for p in range(components.shape[0]):
        first, last = graph.component_offsets[components[p]], graph.component_offsets[components[p] + 1]
        for chain in range(chains):
            stream = _initialize(graph, components[p], seed, chain, codes)
            for sweep in range(burn_in + sweeps):
                half = 2 * chain + (1 if 2 * (sweep - burn_in) >= sweeps else 0)
                for k in range(first, last):
                    cell = graph.component_cells[k]
                    stream = _draw(graph, cell, codes, 1.0, z, stream)
                    if sweep >= burn_in:
                        _accumulate(z, graph.offsets[cell], graph.offsets[cell + 1], sums[half], squares[half])
                if sweep >= burn_in and event.cells.shape[0]:
                    probability = _event_probability(graph, event, codes, z)
                    event_sums[half, 0] += probability
                    event_sums[half, 1] += probability * probability


@njit(nogil=True, cache=True, inline="always")
def _accumulate(z, first, last, sums, squares):
    for at in range(first, last):
        sums[at] += z[at - first]
        squares[at] += z[at - first] * z[at - first]


@njit(nogil=True, cache=True)
def _event_probability(graph, event, codes, z):
    """Return the probability of an event given all codes but that of its first cell."""
    for k in range(1, event.cells.shape[0]):
        cell = event.cells[k]
        if not event.states[graph.offsets[cell] + codes[cell]]:
            return 0.0
    cell = event.cells[0]
    top = factor_logits(graph, cell, codes, z)
    total, wanted = 0.0, 0.0
    for s in range(graph.offsets[cell + 1] - graph.offsets[cell]):
        p = math.exp(z[s] - top)
        total += p
        if event.states[graph.offsets[cell] + s]:
            wanted += p
    return wanted / total


@njit(nogil=True, cache=True)
def log_potential(graph, component, codes):
    """Return the log-potential (unnormalized log-probability) of the codes of a component."""
    total = 0.0
    for k in range(graph.component_offsets[component], graph.component_offsets[component + 1]):
        cell = graph.component_cells[k]
        total += graph.unary_logits[graph.offsets[cell] + codes[cell]]
    for k in range(graph.component_factor_offsets[component], graph.component_factor_offsets[component + 1]):
        f = graph.component_factors[k]
        entry = graph.table_offsets[f]
        for e in range(graph.factor_offsets[f], graph.factor_offsets[f + 1]):
            entry += graph.edge_stride[e] * codes[graph.edge_cell[e]]
        total += graph.tables[entry]
    return total


@njit(nogil=True, cache=True)
def iterated_conditional_modes(graph, component, codes, z):
    """Move each cell to its most probable state given the others until none changes (iterated conditional modes).

    Returns the log-potential.
    """
    moved = True
    while moved:  # ends, because each move gains more than rounding errors
        moved = False
        for k in range(graph.component_offsets[component], graph.component_offsets[component + 1]):
            cell = graph.component_cells[k]
            top = factor_logits(graph, cell, codes, z)
            if z[codes[cell]] < top - 1e-12 * (1.0 + abs(top)):
                moved = True
                for s in range(graph.offsets[cell + 1] - graph.offsets[cell]):
                    if z[s] == top:
                        codes[cell] = s
                        break
    return log_potential(graph, component, codes)


@njit(nogil=True, cache=True)
def _copy_codes(codes, out):
    """Set out to the codes; a slice assignment would take seconds to compile."""
    for cell in range(codes.shape[0]):
        out[cell] = codes[cell]


@njit(nogil=True, cache=True)
def anneal(graph, component, seed, restarts, sweeps, codes, z):
    """Improve ``codes`` by simulated annealing with restarts and return the best log-potential.

    Each restart cools from temperature 2 to 1/20 and ends with iterated conditional modes, as do the given codes.
    """
    best = iterated_conditional_modes(graph, component, codes, z)
    best_codes = np.empty(codes.shape[0], dtype=np.int64)
    _copy_codes(codes, best_codes)
    for restart in range(restarts):
        stream = _initialize(graph, component, seed, restart, codes)
        for sweep in range(sweeps):
            temperature = 2.0 * 40.0 ** (-sweep / max(sweeps - 1, 1))
            for k in range(graph.component_offsets[component], graph.component_offsets[component + 1]):
                stream = _draw(graph, graph.component_cells[k], codes, temperature, z, stream)
        found = iterated_conditional_modes(graph, component, codes, z)
        if found > best:
            best = found
            _copy_codes(codes, best_codes)
    _copy_codes(best_codes, codes)
    return best
