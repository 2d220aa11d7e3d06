"""Gibbs chains over a factor graph, simulated annealing and importance sampling; enumeration of small components.

Each connected component has its own stream of random numbers, which is derived from a seed and from the component's
key. What a component draws depends on nothing else, so that the beliefs of a row do not depend on the other rows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sparsefield.kernels.elementary import FAST, exp_nonpositive, mix, uniform


class Event(NamedTuple):
    """The event that each of some missing cells of one component is in one of a set of states."""

    cells: np.ndarray
    """(cells of the event,): empty for no event."""
    states: np.ndarray
    """(states of all missing cells,): true for the states of these cells that belong to the event."""


@njit(nogil=True, cache=True, inline="always")
def factor_logits(graph, cell, codes, z):
    """Set z to the logits of a cell given the codes of all others and return the largest."""
    first, states = graph.offsets[cell], graph.offsets[cell + 1] - graph.offsets[cell]
    factor_offsets, strides, tables = graph.factor_offsets, graph.edge_stride, graph.tables
    for s in range(states):
        z[s] = graph.unary_logits[first + s]
    for k in range(graph.cell_edge_offsets[cell], graph.cell_edge_offsets[cell + 1]):
        edge = graph.cell_edges[k]
        f = graph.edge_factor[edge]
        entry = graph.table_starts[f]
        for e in range(factor_offsets[f], factor_offsets[f + 1]):
            if e != edge:
                entry += strides[e] * codes[graph.edge_cell[e]]
        for s in range(states):
            z[s] += tables[entry + strides[edge] * s]
    top = z[0]
    for s in range(1, states):
        top = max(top, z[s])
    return top


@njit(nogil=True, cache=True, inline="always")
def _draw_state(z, states, stream):
    """Replace the logits z of some states by probabilities; return a state drawn from them, and the advanced stream."""
    top = z[0]
    for s in range(1, states):
        top = max(top, z[s])
    total = 0.0
    for s in range(states):
        z[s] = exp_nonpositive(z[s] - top)
    for s in range(states):
        total += z[s]
    for s in range(states):
        z[s] /= total
    left, stream = uniform(stream)
    for s in range(states):
        left -= z[s]
        if left < 0.0:
            return s, stream
    return np.int64(z[:states].argmax()), stream  # rounding: take the most probable state


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
def _transpose_tables(graph, components):
    """Return the tables of the pairs of cells in some components with the first cell varying fastest."""
    out, done = np.empty_like(graph.tables), np.zeros(graph.tables.shape[0], dtype=np.bool_)
    for p in components:
        for f in graph.component_factors[graph.component_factor_offsets[p] : graph.component_factor_offsets[p + 1]]:
            first, start = graph.factor_offsets[f], graph.table_starts[f]
            if graph.factor_offsets[f + 1] != first + 2 or done[start]:
                continue
            width, done[start] = graph.edge_stride[first], True
            height = (graph.table_offsets[f + 1] - graph.table_offsets[f]) // width
            for s in range(height):
                for t in range(width):
                    out[start + t * height + s] = graph.tables[start + s * width + t]
    return out


@njit(nogil=True, cache=True, fastmath=FAST)
def run_chains(graph, components, seed, chains, burn_in, sweeps, event, codes, z, sums, squares, event_sums):
    """Run chains over some components and sum the conditional probability of each state, and its square.

    ``sums`` and ``squares`` have one row per half chain. ``event_sums`` (half chains, 2) receives the same two sums of
    the conditional probability of the event, where there is one.
    """
    logits, offsets, cells = np.empty(graph.offsets[-1]), graph.offsets, graph.component_cells
    transposed = _transpose_tables(graph, components)
    for p in range(components.shape[0]):
        first, last = graph.component_offsets[components[p]], graph.component_offsets[components[p] + 1]
        for chain in range(chains):
            stream = _initialize(graph, components[p], seed, chain, codes)
            for k in range(first, last):
                factor_logits(graph, cells[k], codes, logits[offsets[cells[k]] :])
            for sweep in range(burn_in + sweeps):
                half = 2 * chain + (1 if 2 * (sweep - burn_in) >= sweeps else 0)
                for k in range(first, last):
                    cell = cells[k]
                    start, states, before = offsets[cell], offsets[cell + 1] - offsets[cell], codes[cell]
                    for s in range(states):
                        z[s] = logits[start + s]
                    codes[cell], stream = _draw_state(z, states, stream)
                    if codes[cell] != before:
                        _move(graph, transposed, cell, before, codes, logits)
                    if sweep >= burn_in:
                        own_sums, own_squares = sums[half, start:], squares[half, start:]
                        for s in range(states):
                            own_sums[s] += z[s]
                            own_squares[s] += z[s] * z[s]
                if event is not None and sweep >= burn_in:
                    probability = _event_probability(graph, event, codes, z)
                    event_sums[half, 0] += probability
                    event_sums[half, 1] += probability * probability


@njit(nogil=True, cache=True, inline="always")
def _move(graph, transposed, cell, before, codes, logits):
    """Update the logits of all other cells after a cell has got another code than ``before``."""
    offsets, factor_offsets, strides, tables = graph.offsets, graph.factor_offsets, graph.edge_stride, graph.tables
    for k in range(graph.cell_edge_offsets[cell], graph.cell_edge_offsets[cell + 1]):
        edge = graph.cell_edges[k]
        f, lag = graph.edge_factor[edge], strides[edge] * (before - codes[cell])
        entry = graph.table_starts[f]
        if factor_offsets[f + 1] - factor_offsets[f] == 2:
            other = graph.edge_cell[2 * factor_offsets[f] + 1 - edge]
            states, own = offsets[other + 1] - offsets[other], logits[offsets[other] : offsets[other + 1]]
            rows = tables[entry:] if edge == factor_offsets[f] else transposed[entry:]
            new, old = rows[states * codes[cell] :], rows[states * before :]
            for s in range(states):  # indices that may be negative could not be vectorized
                own[s] += new[s] - old[s]
            continue
        for e in range(factor_offsets[f], factor_offsets[f + 1]):
            entry += strides[e] * codes[graph.edge_cell[e]]
        for e in range(factor_offsets[f], factor_offsets[f + 1]):
            other = graph.edge_cell[e]
            at = entry - strides[e] * codes[other]
            for s in range(offsets[other], offsets[other + 1] if e != edge else 0):
                logits[s] += tables[at] - tables[at + lag]
                at += strides[e]


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
        entry = graph.table_starts[f]
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
def _sweep(graph, component, base, share, codes, z, stream):
    """Draw each cell given all others, with logits between those of independent cells and those of the field.

    With a share of 0 the draws are independent; with a base of 0 the share is the inverse of a temperature.
    """
    for k in range(graph.component_offsets[component], graph.component_offsets[component + 1]):
        cell = graph.component_cells[k]
        first, states = graph.offsets[cell], graph.offsets[cell + 1] - graph.offsets[cell]
        factor_logits(graph, cell, codes, z)
        for s in range(states):
            z[s] = (1.0 - share) * base[first + s] + share * z[s]
        codes[cell], stream = _draw_state(z, states, stream)
    return stream


@njit(nogil=True, cache=True)
def anneal(graph, component, seed, restarts, sweeps, codes, z):
    """Improve ``codes`` by simulated annealing with restarts and return the best log-potential.

    Each restart cools from temperature 2 to 1/20 and ends with iterated conditional modes, as do the given codes.
    """
    best = iterated_conditional_modes(graph, component, codes, z)
    best_codes, nothing = np.empty(codes.shape[0], dtype=np.int64), np.zeros(graph.offsets[-1])
    _copy_codes(codes, best_codes)
    for restart in range(restarts):
        stream = _initialize(graph, component, seed, restart, codes)
        for sweep in range(sweeps):
            temperature = 2.0 * 40.0 ** (-sweep / max(sweeps - 1, 1))
            stream = _sweep(graph, component, nothing, 1.0 / temperature, codes, z, stream)
        found = iterated_conditional_modes(graph, component, codes, z)
        if found > best:
            best = found
            _copy_codes(codes, best_codes)
    _copy_codes(best_codes, codes)
    return best


@njit(nogil=True, cache=True)
def _gain(graph, component, base, codes):
    """Return by how much the log-potential of the field exceeds that of independent cells."""
    total = log_potential(graph, component, codes)
    for k in range(graph.component_offsets[component], graph.component_offsets[component + 1]):
        cell = graph.component_cells[k]
        total -= base[graph.offsets[cell] + codes[cell]]
    return total


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
        stream = _sweep(graph, component, base, 0.0, codes, z, stream)
        total = _gain(graph, component, base, codes)
        for step in range(1, steps):
            stream = _sweep(graph, component, base, step / steps, codes, z, stream)
            total += _gain(graph, component, base, codes)
        out[chain] = total / steps


@njit(nogil=True, cache=True)
def enumerate_components(graph, components, most, deepest, widest, beliefs):
    """Set ``beliefs`` (states of all missing cells,) to the marginals of the cells of some components.

    ``most``, ``deepest`` and ``widest`` are the largest numbers of joint states, of cells and of states of a cell.
    """
    codes, potentials = np.zeros(graph.offsets.shape[0] - 1, dtype=np.int64), np.empty(most)
    code, potential, z = np.empty(deepest, dtype=np.int64), np.zeros(deepest + 1), np.empty((deepest, widest))
    offsets, cells = graph.offsets, graph.component_cells
    for k in range(components.shape[0]):
        first, last = graph.component_offsets[components[k]], graph.component_offsets[components[k] + 1]
        # The log-potential of a joint state is a sum of logits, each given the cells before it, with all later ones in
        # their reference states.
        leaf, depth, top = 0, 0, -np.inf
        code[0] = -1
        while depth >= 0:
            cell = cells[first + depth]
            if code[depth] < 0:
                factor_logits(graph, cell, codes, z[depth])
            code[depth] += 1
            if code[depth] == offsets[cell + 1] - offsets[cell]:
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
            cell = cells[first + depth]
            start, states = offsets[cell], offsets[cell + 1] - offsets[cell]
            for s in range(states):
                beliefs[start + s] = 0.0
            for i in range(leaf):
                beliefs[start + (i // inner) % states] += potentials[i] / norm
            inner *= states
