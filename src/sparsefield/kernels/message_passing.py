"""Belief propagation over a factor graph, with messages from factors to cells in logs.

A message is a vector of log-ratios whose maximum is 0; none is infinite, because weights are finite. Messages are
updated one after another, until the residuals of all are small: the range of the change of a message in logs, which
bounds its effect on any belief (Ihler, Fisher and Willsky 2005).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sparsefield.kernels.elementary import FAST, exp_nonpositive

LEAST_SUM = 1e-300
"""Sums that are smaller are replaced by this one, so that no message is infinite."""


class MessageState(NamedTuple):
    """The messages of one run over a graph, with workspace."""

    messages: np.ndarray
    pending: np.ndarray
    """(largest number of states of a cell,): the message of an update."""
    beliefs: np.ndarray
    """(states of all cells,): logits, not normalized."""
    order: np.ndarray
    """(factors,): the factors of each component in breadth-first order from its first cell."""
    parent_edge: np.ndarray
    """(factors,): the edge to the cell from which a factor was reached, -1 before that."""
    visited: np.ndarray
    """(cells,)"""
    incoming: np.ndarray
    """(largest number of states of the cells of a factor,)"""
    potentials: np.ndarray
    """The tables; where messages are sums, exponentials below the largest entry of each table, and 0 at first."""


@njit(nogil=True, cache=True, fastmath=FAST)
def propagate(graph, components, tolerance, max_updates, damping, max_product, state):
    """Run belief propagation on some components; ``max_product`` replaces sums by maxima.

    Returns how often all messages of each component were updated until none changed, ``max_updates`` + 1 if some did.
    """
    rounds = np.zeros(components.shape[0], dtype=np.int64)
    for p in range(components.shape[0]):
        component = components[p]
        first, last = graph.component_factor_offsets[component], graph.component_factor_offsets[component + 1]
        if first == last:
            continue
        _order_factors(graph, component, state)
        for f in graph.component_factors[first : first if max_product else last]:
            top, begin = -np.inf, graph.table_starts[f]
            end = begin + graph.table_offsets[f + 1] - graph.table_offsets[f]
            for entry in range(begin, end if state.potentials[begin] == 0.0 else begin):
                top = max(top, graph.tables[entry])
            for entry in range(begin, end if state.potentials[begin] == 0.0 else begin):
                state.potentials[entry] = exp_nonpositive(graph.tables[entry] - top)
        for number in range(-1, max_updates + 2):  # inward, outward, and then all messages
            rounds[p] = max(number, 0)
            if number > max_updates:
                break
            largest = 0.0
            for i in range(last - first):
                f = state.order[last - 1 - i if number < 0 else first + i]
                for edge in range(graph.factor_offsets[f], graph.factor_offsets[f + 1]):
                    if number > 0 or (edge == state.parent_edge[f]) == (number < 0):
                        kept = damping if number > 0 else 0.0
                        largest = max(largest, _update_message(graph, edge, kept, max_product, state))
            if number > 0 and largest <= tolerance:
                break
    return rounds


@njit(nogil=True, cache=True)
def factor_beliefs(graph, state, marginals, log_sums):
    """Set marginals to the probabilities of the joint states of each factor, and log_sums (factors,) to their norms.

    The potential of a factor is multiplied by the messages that its cells receive from all other factors.
    """
    for f in range(graph.factor_offsets.shape[0] - 1):
        first, last = graph.factor_offsets[f], graph.factor_offsets[f + 1]
        start, end = graph.table_offsets[f], graph.table_offsets[f + 1]
        top = -np.inf
        for entry in range(start, end):
            value, rest = graph.tables[graph.table_starts[f] + entry - start], entry - start
            for edge in range(last - 1, first - 1, -1):
                cell = graph.edge_cell[edge]
                states = graph.offsets[cell + 1] - graph.offsets[cell]
                code = rest % states
                rest //= states
                value += state.beliefs[graph.offsets[cell] + code] - state.messages[graph.message_offsets[edge] + code]
            marginals[entry] = value
            top = max(top, value)
        total = 0.0
        for entry in range(start, end):
            marginals[entry] = math.exp(marginals[entry] - top)
            total += marginals[entry]
        for entry in range(start, end):
            marginals[entry] /= total
        log_sums[f] = top + math.log(total)


@njit(nogil=True, cache=True, inline="always")
def _order_factors(graph, component, state):
    """Order the factors of a component breadth first from its first cell."""
    count = graph.component_factor_offsets[component]
    done = count
    state.visited[graph.component_cells[graph.component_offsets[component]]] = True
    cell = graph.component_cells[graph.component_offsets[component]]
    while True:
        for k in range(graph.cell_edge_offsets[cell], graph.cell_edge_offsets[cell + 1]):
            edge = graph.cell_edges[k]
            f = graph.edge_factor[edge]
            if state.parent_edge[f] < 0:
                state.parent_edge[f] = edge
                state.order[count] = f
                count += 1
        # Find the next cell that was not visited, in the order of the factors.
        cell = -1
        while done < count and cell < 0:
            f = state.order[done]
            for edge in range(graph.factor_offsets[f], graph.factor_offsets[f + 1]):
                if not state.visited[graph.edge_cell[edge]]:
                    cell = graph.edge_cell[edge]
                    break
            if cell < 0:
                done += 1
        if cell < 0:
            return
        state.visited[cell] = True


@njit(nogil=True, cache=True, inline="always")
def _update_message(graph, edge, damping, max_product, state):
    """Update a message, of which a share is kept, and the belief of its cell; return the residual before."""
    f, filled, pending, incoming = graph.edge_factor[edge], 0, state.pending, state.incoming
    first, last = graph.factor_offsets[f], graph.factor_offsets[f + 1]
    for other in range(first, last):
        # The sum of the messages to the cell from all other factors; nothing for the target cell itself.
        cell, start = graph.offsets[graph.edge_cell[other]], graph.message_offsets[other]
        states, top = graph.message_offsets[other + 1] - start, -np.inf
        for s in range(states):
            incoming[filled + s] = 0.0 if other == edge else state.beliefs[cell + s] - state.messages[start + s]
            top = max(top, incoming[filled + s])
        for s in range(0 if max_product else states):
            incoming[filled + s] = exp_nonpositive(incoming[filled + s] - top)
        filled += states
    out, states = graph.message_offsets[edge], graph.message_offsets[edge + 1] - graph.message_offsets[edge]
    for s in range(states):
        pending[s] = -np.inf if max_product else 0.0
    if last - first == 2:
        # The target cell is the first or the second of a matrix.
        other = first + last - 1 - edge
        begin, others = graph.table_starts[f], graph.message_offsets[other + 1] - graph.message_offsets[other]
        for s in range(states if edge == first else 0):
            row, total, top = state.potentials[begin + s * others :], 0.0, -np.inf
            for t in range(0 if max_product else others):
                total += row[t] * incoming[states + t]
            for t in range(others if max_product else 0):
                top = max(top, row[t] + incoming[states + t])
            pending[s] = top if max_product else total
        for t in range(0 if edge == first else others):
            row, received = state.potentials[begin + t * states :], incoming[t]
            for s in range(0 if max_product else states):
                pending[s] += row[s] * received
            for s in range(states if max_product else 0):
                pending[s] = max(pending[s], row[s] + received)
    else:
        for entry in range(graph.table_offsets[f + 1] - graph.table_offsets[f]):
            value, start, target = state.potentials[graph.table_starts[f] + entry], 0, 0
            for e in range(first, last):
                size = graph.message_offsets[e + 1] - graph.message_offsets[e]
                code = entry // graph.edge_stride[e] % size
                target = code if e == edge else target
                value = value + incoming[start + code] if max_product else value * incoming[start + code]
                start += size
            pending[target] = max(pending[target], value) if max_product else pending[target] + value
    top, low, high = -np.inf, np.inf, -np.inf
    for s in range(states):
        pending[s] = pending[s] if max_product else math.log(max(pending[s], LEAST_SUM))
        top = max(top, pending[s])
    begin = graph.offsets[graph.edge_cell[edge]]
    for s in range(states):
        change = pending[s] - top - state.messages[out + s]
        low, high = min(low, change), max(high, change)
        state.messages[out + s] += (1.0 - damping) * change
        state.beliefs[begin + s] += (1.0 - damping) * change
    return high - low
