"""Gibbs chains over a factor graph, and the search for a most probable assignment.

Every part has random numbers of its own, made of a seed and of its key: what a part draws depends on nothing else, so
that a row's beliefs are the same alone and among others.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sparsefield.kernels.factor_tables import mix


class Event(NamedTuple):
    """That some gaps of one part are in some of their states."""

    missing: np.ndarray
    """None: there is nothing to look for."""
    states: np.ndarray
    """(states of all gaps,): the wanted ones of these gaps."""


@njit(nogil=True, cache=True, inline="always")
def _uniform(stream):
    """A number in [0, 1), and the stream one further (SplitMix64)."""
    stream += np.uint64(0x9E3779B97F4A7C15)
    return np.float64(mix(stream, 0) >> np.uint64(11)) * 2.0**-53, stream


@njit(nogil=True, cache=True, inline="always")
def _logits(graph, missing_cell, codes, z):
    """Logits of a gap given the codes of all others; returns the largest."""
    first, states = graph.offsets[missing_cell], graph.offsets[missing_cell + 1] - graph.offsets[missing_cell]
    for s in range(states):
        z[s] = graph.unary[first + s]
    for k in range(graph.cell_edge_offsets[missing_cell], graph.cell_edge_offsets[missing_cell + 1]):
        edge = graph.cell_edges[k]
        f = graph.edge_factor[edge]
        cell = graph.table_offsets[f]
        for e in range(graph.factor_offsets[f], graph.factor_offsets[f + 1]):
            if e != edge:
                cell += graph.edge_stride[e] * codes[graph.edge_cell[e]]
        for s in range(states):
            z[s] += graph.tables[cell + graph.edge_stride[edge] * s]
    top = z[0]
    for s in range(1, states):
        top = max(top, z[s])
    return top


@njit(nogil=True, cache=True, inline="always")
def _draw(graph, missing_cell, codes, heat, z, stream):
    """Draw a gap given all others, and leave its probabilities in ``z``; ``heat`` divides the logits."""
    states = graph.offsets[missing_cell + 1] - graph.offsets[missing_cell]
    top = _logits(graph, missing_cell, codes, z)
    total = 0.0
    for s in range(states):
        z[s] = math.exp((z[s] - top) / heat)
        total += z[s]
    left, stream = _uniform(stream)
    codes[missing_cell] = 0
    drawn = False
    for s in range(states):
        z[s] /= total
        left -= z[s]
        if left < 0.0 and not drawn:
            codes[missing_cell], drawn = s, True
    if not drawn:  # rounding; the likeliest
        for s in range(states):
            if z[s] > z[codes[missing_cell]]:
                codes[missing_cell] = s
    return stream


@njit(nogil=True, cache=True)
def _start(graph, part, seed, chain, codes):
    """Random states, each chain one further than the last, so that chains start far from each other."""
    stream = mix(graph.part_keys[part], seed)
    for k in range(graph.part_offsets[part], graph.part_offsets[part + 1]):
        missing_cell = graph.component_cells[k]
        states = graph.offsets[missing_cell + 1] - graph.offsets[missing_cell]
        u, stream = _uniform(stream)
        codes[missing_cell] = (np.int64(u * states) + chain) % states
    return mix(stream, chain)


@njit(nogil=True, cache=True)
def run_chains(graph, parts, seed, chains, burn_in, sweeps, event, codes, z, sums, squares, hits):
    """Chains over some parts: per half chain, sums and sums of squares of the conditional probability of each state.

    ``hits`` gets the same of an event's probability.
    """
    for p in range(parts.shape[0]):
        first, last = graph.part_offsets[parts[p]], graph.part_offsets[parts[p] + 1]
        for chain in range(chains):
            stream = _start(graph, parts[p], seed, chain, codes)
            for sweep in range(burn_in + sweeps):
                half = 2 * chain + (1 if 2 * (sweep - burn_in) >= sweeps else 0)
                for k in range(first, last):
                    missing_cell = graph.component_cells[k]
                    stream = _draw(graph, missing_cell, codes, 1.0, z, stream)
                    if sweep >= burn_in:
                        _note(
                            z, graph.offsets[missing_cell], graph.offsets[missing_cell + 1], sums[half], squares[half]
                        )
                if sweep >= burn_in and event.missing.shape[0]:
                    chance = _chance(graph, event, codes, z)
                    hits[half, 0] += chance
                    hits[half, 1] += chance * chance


@njit(nogil=True, cache=True, inline="always")
def _note(z, first, last, sums, squares):
    for at in range(first, last):
        sums[at] += z[at - first]
        squares[at] += z[at - first] * z[at - first]


@njit(nogil=True, cache=True)
def _chance(graph, event, codes, z):
    """Probability that the first gap of an event is in one of its states given the others, if those are in theirs."""
    for k in range(1, event.missing.shape[0]):
        missing_cell = event.missing[k]
        if not event.states[graph.offsets[missing_cell] + codes[missing_cell]]:
            return 0.0
    missing_cell = event.missing[0]
    top = _logits(graph, missing_cell, codes, z)
    total, wanted = 0.0, 0.0
    for s in range(graph.offsets[missing_cell + 1] - graph.offsets[missing_cell]):
        p = math.exp(z[s] - top)
        total += p
        if event.states[graph.offsets[missing_cell] + s]:
            wanted += p
    return wanted / total


@njit(nogil=True, cache=True)
def potential(graph, part, codes):
    """ln of the exponential of everything that a part's codes say."""
    total = 0.0
    for k in range(graph.part_offsets[part], graph.part_offsets[part + 1]):
        missing_cell = graph.component_cells[k]
        total += graph.unary[graph.offsets[missing_cell] + codes[missing_cell]]
    for k in range(graph.part_factor_offsets[part], graph.part_factor_offsets[part + 1]):
        f = graph.part_factors[k]
        cell = graph.table_offsets[f]
        for e in range(graph.factor_offsets[f], graph.factor_offsets[f + 1]):
            cell += graph.edge_stride[e] * codes[graph.edge_cell[e]]
        total += graph.tables[cell]
    return total


@njit(nogil=True, cache=True)
def climb(graph, part, codes, z):
    """Put each gap into its best state given the others, until that changes nothing; returns the potential."""
    moved = True
    while moved:  # each move gains more than rounding could feign, so that there is an end
        moved = False
        for k in range(graph.part_offsets[part], graph.part_offsets[part + 1]):
            missing_cell = graph.component_cells[k]
            top = _logits(graph, missing_cell, codes, z)
            if z[codes[missing_cell]] < top - 1e-12 * (1.0 + abs(top)):
                moved = True
                for s in range(graph.offsets[missing_cell + 1] - graph.offsets[missing_cell]):
                    if z[s] == top:
                        codes[missing_cell] = s
                        break
    return potential(graph, part, codes)


@njit(nogil=True, cache=True)
def search(graph, part, seed, restarts, sweeps, codes, z):
    """The best of ``codes`` and of restarts, each cooled down from twice the heat to a twentieth, and then climbed."""
    best = climb(graph, part, codes, z)
    kept = codes.copy()
    for restart in range(restarts):
        stream = _start(graph, part, seed, restart, codes)
        for sweep in range(sweeps):
            heat = 2.0 * 40.0 ** (-sweep / max(sweeps - 1, 1))
            for k in range(graph.part_offsets[part], graph.part_offsets[part + 1]):
                stream = _draw(graph, graph.component_cells[k], codes, heat, z, stream)
        found = climb(graph, part, codes, z)
        if found > best:
            best = found
            kept[:] = codes
    codes[:] = kept
    return best
