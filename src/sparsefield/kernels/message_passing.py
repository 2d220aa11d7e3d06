"""Residual belief propagation over a factor graph, with messages from factors to cells in logs.

A message is a vector of log-ratios whose maximum is 0; none is infinite, because weights are finite. The message with
the largest residual is updated first. A residual is the range of the change of a message in logs, which bounds its
effect on any belief (Ihler, Fisher and Willsky 2005).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit


class ResidualQueue(NamedTuple):
    """A binary heap of the edges of one component, the largest residual first."""

    residual: np.ndarray
    """(edges,): how much an update would change the message."""
    heap: np.ndarray
    """(edges,)"""
    position: np.ndarray
    """(edges,): index of an edge in the heap."""


class MessageState(NamedTuple):
    """The messages of one run over a graph, with workspace."""

    messages: np.ndarray
    pending: np.ndarray
    """Messages as an update would make them."""
    beliefs: np.ndarray
    """(states of all cells,): logits, not normalized."""
    queue: ResidualQueue
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
            _update_message(graph, state.parent_edge[state.order[i]], max_product, state)
        for i in range(first, last):
            f = state.order[i]
            for edge in range(graph.factor_offsets[f], graph.factor_offsets[f + 1]):
                if edge != state.parent_edge[f]:
                    _update_message(graph, edge, max_product, state)
        converged[p] = _run_residual_updates(graph, component, tolerance, max_updates, damping, max_product, state)
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
def _update_message(graph, edge, max_product, state):
    """Compute a message and store it."""
    _compute_message(graph, edge, max_product, state)
    for k in range(graph.message_offsets[edge], graph.message_offsets[edge + 1]):
        state.messages[k] = state.pending[k]
    state.queue.residual[edge] = 0.0
    _update_belief(graph, graph.edge_cell[edge], state)


@njit(nogil=True, cache=True, inline="always")
def _update_belief(graph, cell, state):
    """Sum the messages to a cell from scratch, so that rounding errors do not accumulate."""
    first, states = graph.offsets[cell], graph.offsets[cell + 1] - graph.offsets[cell]
    for s in range(states):
        state.beliefs[first + s] = graph.unary_logits[first + s]
    for k in range(graph.cell_edge_offsets[cell], graph.cell_edge_offsets[cell + 1]):
        start = graph.message_offsets[graph.cell_edges[k]]
        for s in range(states):
            state.beliefs[first + s] += state.messages[start + s]


@njit(nogil=True, cache=True)
def _compute_message(graph, edge, max_product, state):
    """Compute the pending message of an edge and its residual."""
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
    for s in range(states):
        state.pending[out + s] = -np.inf
    _sum_out(graph, f, edge, True, state, out)
    if not max_product:
        for s in range(states):
            state.incoming[filled + s] = state.pending[out + s]
            state.pending[out + s] = 0.0
        _sum_out(graph, f, edge, False, state, out)
        for s in range(states):
            state.pending[out + s] = state.incoming[filled + s] + math.log(state.pending[out + s])
    top = state.pending[out]
    for s in range(1, states):
        top = max(top, state.pending[out + s])
    low, high = np.inf, -np.inf
    for s in range(states):
        state.pending[out + s] -= top
        change = state.pending[out + s] - state.messages[out + s]
        low, high = min(low, change), max(high, change)
    state.queue.residual[edge] = high - low


@njit(nogil=True, cache=True, inline="always")
def _sum_out(graph, f, edge, largest, state, out):
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
            state.pending[out + s] = max(state.pending[out + s], value)
        else:
            state.pending[out + s] += math.exp(value - state.incoming[total + s])
        for e in range(last - 1, first - 1, -1):
            state.digit[e - first] += 1
            if state.digit[e - first] < graph.message_offsets[e + 1] - graph.message_offsets[e]:
                break
            state.digit[e - first] = 0


@njit(nogil=True, cache=True, inline="always")
def _run_residual_updates(graph, component, tolerance, max_updates, damping, max_product, state):
    """Update the message with the largest residual until all are within ``tolerance``; return False at the cap."""
    size = 0
    for i in range(graph.component_factor_offsets[component], graph.component_factor_offsets[component + 1]):
        f = state.order[i]
        for edge in range(graph.factor_offsets[f], graph.factor_offsets[f + 1]):
            _compute_message(graph, edge, max_product, state)
            state.queue.heap[size], state.queue.position[edge] = edge, size
            size += 1
            _sift_up(state.queue, size - 1)
    for _ in range(max_updates * size):
        edge = state.queue.heap[0]
        if state.queue.residual[edge] <= tolerance:
            return True
        for k in range(graph.message_offsets[edge], graph.message_offsets[edge + 1]):
            state.messages[k] = damping * state.messages[k] + (1.0 - damping) * state.pending[k]
        state.queue.residual[edge] *= damping
        _sift_down(state.queue, 0, size)
        cell = graph.edge_cell[edge]
        _update_belief(graph, cell, state)
        for k in range(graph.cell_edge_offsets[cell], graph.cell_edge_offsets[cell + 1]):
            f = graph.edge_factor[graph.cell_edges[k]]
            if f == graph.edge_factor[edge]:
                continue
            for e in range(graph.factor_offsets[f], graph.factor_offsets[f + 1]):
                if graph.edge_cell[e] != cell:
                    _compute_message(graph, e, max_product, state)
                    _sift_up(state.queue, state.queue.position[e])
                    _sift_down(state.queue, state.queue.position[e], size)
    return state.queue.residual[state.queue.heap[0]] <= tolerance


@njit(nogil=True, cache=True, inline="always")
def _sift_up(queue, at):
    edge = queue.heap[at]
    while at > 0:
        above = (at - 1) // 2
        if queue.residual[queue.heap[above]] >= queue.residual[edge]:
            break
        queue.heap[at] = queue.heap[above]
        queue.position[queue.heap[at]] = at
        at = above
    queue.heap[at], queue.position[edge] = edge, at


@njit(nogil=True, cache=True, inline="always")
def _sift_down(queue, at, size):
    edge = queue.heap[at]
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and queue.residual[queue.heap[below + 1]] > queue.residual[queue.heap[below]]:
            below += 1
        if queue.residual[queue.heap[below]] <= queue.residual[edge]:
            break
        queue.heap[at] = queue.heap[below]
        queue.position[queue.heap[at]] = at
        at = below
    queue.heap[at], queue.position[edge] = edge, at
