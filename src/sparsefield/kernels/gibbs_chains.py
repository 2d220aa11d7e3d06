"""Gibbs chains over a factor graph, simulated annealing and importance sampling; enumeration of small components.

Each connected component has its own stream of random numbers, which is derived from a seed and from the component's
key. What a component draws depends on nothing else, so that the beliefs of a row do not depend on the other rows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sparsefield.kernels.coded_columns import write_columns
from sparsefield.kernels.elementary import FAST, exp_nonpositive, mix, uniform
from sparsefield.kernels.row_draws import cell_weights, draw_cell

LEAST_VARIANCE = 1e-10
"""Added to variances before their ratio is taken: probabilities that differ by less than 0.00001 count as equal."""


class Event(NamedTuple):
    """The event that each of some missing cells of one component is in one of a set of states."""

    cells: np.ndarray
    """(cells of the event,)"""
    states: np.ndarray
    """(states of all missing cells,): true for the states of these cells that belong to the event."""


NO_EVENT = Event(np.empty(0, dtype=np.int64), np.empty(0, dtype=bool))


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


@njit(nogil=True, cache=True, fastmath=FAST)
def run_chains(graph, coding, variables, slots, components, seed, chains, burn_in, sweeps, event, out):
    """Set ``out`` to means of conditional probabilities over several chains, all of them at a time, of some components.

    Parameters
    ----------
    variables : (missing cells,), the number of each target in the coding
    slots : `MissingArcs` of all missing cells
    event : belongs to the one component, if it has cells
    out : (3, states of all missing cells + 1), means, their standard errors and R-hat; the event, given all cells but
        its first, comes last
    """
    offsets, slot_offsets, starts = graph.offsets, slots.slot_offsets, graph.component_offsets
    codes, strata, lanes = np.empty((offsets.shape[0] - 1, chains), np.int64), np.arange(chains), np.empty((2, chains))
    sums, values = np.zeros((4, offsets[-1] + 1, chains)), np.zeros((slot_offsets[-1], chains))
    p, z, top, total = np.empty((coding.most_states, chains)), np.empty_like(values), lanes[0], lanes[1]
    for component in components:
        cells, stream = graph.component_cells[starts[component] : starts[component + 1]], np.uint64(0)
        for chain in range(chains):
            stream = _initialize(graph, component, seed, chain, codes[:, chain])
            for cell in cells:
                columns = values[slot_offsets[cell] : slot_offsets[cell + 1]]
                write_columns(coding, variables[cell], codes[cell, chain], columns, chain)
        for sweep in range(burn_in + sweeps):
            half = 2 if 2 * (sweep - burn_in) >= sweeps else 0
            for k in range(cells.shape[0] + (1 if event.cells.shape[0] else 0)):
                cell = cells[k] if k < cells.shape[0] else event.cells[0]
                first, columns = offsets[cell], values[slot_offsets[cell] : slot_offsets[cell + 1]]
                own = p[: offsets[cell + 1] - first]
                cell_weights(coding, slots, variables[cell], cell, values, z[: columns.shape[0]], own, top, total)
                if sweep >= burn_in and k < cells.shape[0]:
                    own_sums, own_squares = sums[half, first:], sums[half + 1, first:]
                    for s in range(own.shape[0]):
                        for c in range(chains):
                            probability = own[s, c] / total[c]
                            own_sums[s, c] += probability
                            own_squares[s, c] += probability * probability
                for c in range(chains if sweep >= burn_in and k == cells.shape[0] else 0):
                    probability = 0.0
                    for s in range(own.shape[0]):
                        probability += own[s, c] / total[c] if event.states[first + s] else 0.0
                    for other in event.cells[1:]:
                        probability *= 1.0 if event.states[offsets[other] + codes[other, c]] else 0.0
                    sums[half, -1, c] += probability
                    sums[half + 1, -1, c] += probability * probability
                if k < cells.shape[0]:
                    stream = draw_cell(coding, variables[cell], own, total, strata, stream, columns, codes[cell])
        for cell in cells:
            for s in range(offsets[cell], offsets[cell + 1]):
                _compare_halves(sums[:, s], sweeps, out[:, s])
        _compare_halves(sums[:, -1], sweeps, out[:, -1])


@njit(nogil=True, cache=True)
def _compare_halves(sums, sweeps, out):
    """Set ``out`` to mean, standard error and R-hat from sums and sums of squares (4, chains) over halves of chains."""
    first, chains = (sweeps + 1) // 2, sums.shape[1]  # with an odd number of sweeps the first half has one more
    within, mean, squares = 0.0, 0.0, 0.0
    for half in range(2):
        count = first if half == 0 else sweeps - first
        for c in range(chains):
            value = sums[2 * half, c] / count
            within += max(sums[2 * half + 1, c] / count - value * value, 0.0) / (2 * chains)
            change = value - mean  # Welford: no difference of large numbers
            mean += change / (half * chains + c + 1)
            squares += change * (value - mean)
    between = squares / (2 * chains - 1)
    out[0], out[1] = mean, math.sqrt(between / (2 * chains))
    out[2] = math.sqrt((within + between + LEAST_VARIANCE) / (within + LEAST_VARIANCE))


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
