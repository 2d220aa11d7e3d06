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
    """(largest number of states of the cells of a factor, plus those of one cell,)"""
    digit: np.ndarray
    """(largest number of cells of a factor,)"""


@njit(nogil=True, cache=True)
def propagate(graph, components, tolerance, max_updates, damping, max_product, state):
    """Run belief propagation on some components and return which converged; ``max_product`` replaces sums by maxima."""
    converged = np.ones(components.shape[0], dtype=np.bool_)
    for p in range(components.shape[0]):
        component = components[p]
        first, last = graph.component_factor_offsets[component], graph.component_factor_offsets[component + 1]
        if first == last:
            continue
        _order_factors(graph, component, state)
        for i in range(last - 1, first - 1, -1):
            _update_message(graph, state.parent_edge[state.order[i]], 0.0, max_product, state)
        for i in range(first, last):
            f = state.order[i]
            for edge in range(graph.factor_offsets[f], graph.factor_offsets[f + 1]):
                if edge != state.parent_edge[f]:
                    _update_message(graph, edge, 0.0, max_product, state)
        converged[p] = False
        for _ in range(max_updates):
            largest = 0.0
            for i in range(first, last):
                f = state.order[i]
                for edge in range(graph.factor_offsets[f], graph.factor_offsets[f + 1]):
                    largest = max(largest, _update_message(graph, edge, damping, max_product, state))
            if largest <= tolerance:
                converged[p] = True
                break
    return converged


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
            value, rest = graph.tables[entry], entry - start
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


@njit(nogil=True, cache=True)
def _update_message(graph, edge, damping, max_product, state):
    """Update a message, of which a share is kept, and the belief of its cell; return the residual before."""
    f = graph.edge_factor[edge]
    filled = 0
    for other in range(graph.factor_offsets[f], graph.factor_offsets[f + 1]):
        # The sum of the messages to the cell from all other factors; 0 for the target cell itself.
        cell, start = graph.edge_cell[other], graph.message_offsets[other]
        for s in range(graph.offsets[cell + 1] - graph.offsets[cell]):
            received = state.beliefs[graph.offsets[cell] + s] - state.messages[start + s]
            state.incoming[filled] = 0.0 if other == edge else received
            filled += 1
    out, states = graph.message_offsets[edge], graph.message_offsets[edge + 1] - graph.message_offsets[edge]
    pending = state.pending
    for s in range(states):
        pending[s] = -np.inf
    _sum_out(graph, f, edge, True, state)
    if not max_product:
        for s in range(states):
            state.incoming[filled + s] = pending[s]
            pending[s] = 0.0
        _sum_out(graph, f, edge, False, state)
        for s in range(states):
            pending[s] = state.incoming[filled + s] + math.log(pending[s])
    top, low, high = pending[0], np.inf, -np.inf
    for s in range(1, states):
        top = max(top, pending[s])
    for s in range(states):
        change = pending[s] - top - state.messages[out + s]
        low, high = min(low, change), max(high, change)
        state.messages[out + s] += (1.0 - damping) * change
    # The messages to the cell are summed from scratch, so that rounding errors do not accumulate.
    cell = graph.edge_cell[edge]
    first = graph.offsets[cell]
    for s in range(states):
        state.beliefs[first + s] = graph.unary_logits[first + s]
    for k in range(graph.cell_edge_offsets[cell], graph.cell_edge_offsets[cell + 1]):
        start = graph.message_offsets[graph.cell_edges[k]]
        for s in range(states):
            state.beliefs[first + s] += state.messages[start + s]
    return high - low


@njit(nogil=True, cache=True, inline="always")
def _sum_out(graph, f, edge, largest, state):
    """Reduce the table of a factor to the cell of an edge: the largest value per state, or the sum of exponentials
    relative to that value, which ``incoming`` holds after the incoming messages."""
    first, last = graph.factor_offsets[f], graph.factor_offsets[f + 1]
    total = 0
    for e in range(first, last):
        total += graph.message_offsets[e + 1] - graph.message_offsets[e]
        state.digit[e - first] = 0
    for entry in range(graph.table_offsets[f], graph.table_offsets[f + 1]):
        value, start = graph.tables[entry], 0
        for e in range(first, last):
            value += state.incoming[start + state.digit[e - first]]
            start += graph.message_offsets[e + 1] - graph.message_offsets[e]
        s = state.digit[edge - first]
        if largest:
            state.pending[s] = max(state.pending[s], value)
        else:
            state.pending[s] += math.exp(value - state.incoming[total + s])
        for e in range(last - 1, first - 1, -1):
            state.digit[e - first] += 1
            if state.digit[e - first] < graph.message_offsets[e + 1] - graph.message_offsets[e]:
                break
            state.digit[e - first] = 0
