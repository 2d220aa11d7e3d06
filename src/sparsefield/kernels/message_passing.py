"""Belief propagation over a factor graph: messages from factors to gaps, in logarithms.

A message is a list of log-ratios, the largest of them 0; none is ever infinite, because weights are finite. The message
that moves most is updated first: how much a message moves is the range of the change of its logarithms, which bounds
what it can do to any belief (Ihler, Fisher and Willsky 2005).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit


class Queue(NamedTuple):
    """A part's edges, the one whose message moves most first."""

    residual: np.ndarray
    """(edges,): how much a message would move."""
    heap: np.ndarray
    """(edges,)"""
    position: np.ndarray
    """(edges,): where an edge stands in the heap."""


class Space(NamedTuple):
    """Room for one run over all parts of a graph."""

    messages: np.ndarray
    pending: np.ndarray
    """What a message would be now."""
    beliefs: np.ndarray
    """(states of all gaps,): logits, not normalized."""
    queue: Queue
    order: np.ndarray
    """(factors,): a part's factors as they are met from its first gap; ``towards`` is the edge to where one came
    from, -1 while a factor is not met."""
    towards: np.ndarray
    met: np.ndarray
    """(gaps,)"""
    incoming: np.ndarray
    """(largest sum of states of a factor's gaps,)"""
    digit: np.ndarray
    """(largest number of a factor's gaps,)"""


@njit(nogil=True, cache=True)
def propagate(graph, parts, tolerance, max_updates, damping, hard, space):
    """Settle some parts; returns which of them did. ``hard`` takes maxima where sums would stand (max-product)."""
    settled = np.ones(parts.shape[0], dtype=np.bool_)
    for p in range(parts.shape[0]):
        part = parts[p]
        first, last = graph.part_factor_offsets[part], graph.part_factor_offsets[part + 1]
        if first == last:
            continue
        _meet(graph, part, space)
        for i in range(last - 1, first - 1, -1):
            _renew(graph, space.towards[space.order[i]], hard, space)
        for i in range(first, last):
            f = space.order[i]
            for edge in range(graph.factor_offsets[f], graph.factor_offsets[f + 1]):
                if edge != space.towards[f]:
                    _renew(graph, edge, hard, space)
        settled[p] = _settle(graph, part, tolerance, max_updates, damping, hard, space)
    return settled


@njit(nogil=True, cache=True, inline="always")
def _meet(graph, part, space):
    """Walk a part breadth first from its first gap."""
    count = graph.part_factor_offsets[part]
    done = count
    space.met[graph.component_cells[graph.part_offsets[part]]] = True
    missing_cell = graph.component_cells[graph.part_offsets[part]]
    while True:
        for k in range(graph.cell_edge_offsets[missing_cell], graph.cell_edge_offsets[missing_cell + 1]):
            edge = graph.cell_edges[k]
            f = graph.edge_factor[edge]
            if space.towards[f] < 0:
                space.towards[f] = edge
                space.order[count] = f
                count += 1
        # The next gap that is not met yet, in the order of the factors.
        missing_cell = -1
        while done < count and missing_cell < 0:
            f = space.order[done]
            for edge in range(graph.factor_offsets[f], graph.factor_offsets[f + 1]):
                if not space.met[graph.edge_cell[edge]]:
                    missing_cell = graph.edge_cell[edge]
                    break
            if missing_cell < 0:
                done += 1
        if missing_cell < 0:
            return
        space.met[missing_cell] = True


@njit(nogil=True, cache=True)
def _renew(graph, edge, hard, space):
    """Compute a message and put it into place."""
    _compute(graph, edge, hard, space)
    for k in range(graph.message_offsets[edge], graph.message_offsets[edge + 1]):
        space.messages[k] = space.pending[k]
    space.queue.residual[edge] = 0.0
    _believe(graph, graph.edge_cell[edge], space)


@njit(nogil=True, cache=True, inline="always")
def _believe(graph, missing_cell, space):
    """Add up what is said about a gap: afresh, so that no rounding errors gather."""
    first, states = graph.offsets[missing_cell], graph.offsets[missing_cell + 1] - graph.offsets[missing_cell]
    for s in range(states):
        space.beliefs[first + s] = graph.unary[first + s]
    for k in range(graph.cell_edge_offsets[missing_cell], graph.cell_edge_offsets[missing_cell + 1]):
        start = graph.message_offsets[graph.cell_edges[k]]
        for s in range(states):
            space.beliefs[first + s] += space.messages[start + s]


@njit(nogil=True, cache=True)
def _compute(graph, edge, hard, space):
    """The message that an edge's factor would send now, and how far that is from the one in place."""
    f = graph.edge_factor[edge]
    filled = 0
    for other in range(graph.factor_offsets[f], graph.factor_offsets[f + 1]):
        # What the gap hears from everyone but this factor; the target itself adds nothing.
        missing_cell, start = graph.edge_cell[other], graph.message_offsets[other]
        for s in range(graph.offsets[missing_cell + 1] - graph.offsets[missing_cell]):
            heard = space.beliefs[graph.offsets[missing_cell] + s] - space.messages[start + s]
            space.incoming[filled] = 0.0 if other == edge else heard
            filled += 1
    out, states = graph.message_offsets[edge], graph.message_offsets[edge + 1] - graph.message_offsets[edge]
    for s in range(states):
        space.pending[out + s] = -np.inf
    _sum_out(graph, f, edge, True, space, out)
    if not hard:
        for s in range(states):
            space.incoming[filled + s] = space.pending[out + s]
            space.pending[out + s] = 0.0
        _sum_out(graph, f, edge, False, space, out)
        for s in range(states):
            space.pending[out + s] = space.incoming[filled + s] + math.log(space.pending[out + s])
    top = space.pending[out]
    for s in range(1, states):
        top = max(top, space.pending[out + s])
    low, high = np.inf, -np.inf
    for s in range(states):
        space.pending[out + s] -= top
        change = space.pending[out + s] - space.messages[out + s]
        low, high = min(low, change), max(high, change)
    space.queue.residual[edge] = high - low


@njit(nogil=True, cache=True, inline="always")
def _sum_out(graph, f, edge, largest, space, out):
    """Go over the cells of a factor's table: per state of the edge's gap, the largest value, or the sum of exponentials
    less that, which stands behind what comes in."""
    first, last = graph.factor_offsets[f], graph.factor_offsets[f + 1]
    total = 0
    for e in range(first, last):
        total += graph.message_offsets[e + 1] - graph.message_offsets[e]
        space.digit[e - first] = 0
    for cell in range(graph.table_offsets[f], graph.table_offsets[f + 1]):
        value, start = graph.tables[cell], 0
        for e in range(first, last):
            value += space.incoming[start + space.digit[e - first]]
            start += graph.message_offsets[e + 1] - graph.message_offsets[e]
        s = space.digit[edge - first]
        if largest:
            space.pending[out + s] = max(space.pending[out + s], value)
        else:
            space.pending[out + s] += math.exp(value - space.incoming[total + s])
        for e in range(last - 1, first - 1, -1):
            space.digit[e - first] += 1
            if space.digit[e - first] < graph.message_offsets[e + 1] - graph.message_offsets[e]:
                break
            space.digit[e - first] = 0


@njit(nogil=True, cache=True, inline="always")
def _settle(graph, part, tolerance, max_updates, damping, hard, space):
    """Update the message that moves most until none moves by more than ``tolerance``; False at the cap."""
    size = 0
    for i in range(graph.part_factor_offsets[part], graph.part_factor_offsets[part + 1]):
        f = space.order[i]
        for edge in range(graph.factor_offsets[f], graph.factor_offsets[f + 1]):
            _compute(graph, edge, hard, space)
            space.queue.heap[size], space.queue.position[edge] = edge, size
            size += 1
            _rise(space.queue, size - 1)
    for _ in range(max_updates * size):
        edge = space.queue.heap[0]
        if space.queue.residual[edge] <= tolerance:
            return True
        for k in range(graph.message_offsets[edge], graph.message_offsets[edge + 1]):
            space.messages[k] = damping * space.messages[k] + (1.0 - damping) * space.pending[k]
        space.queue.residual[edge] *= damping
        _sink(space.queue, 0, size)
        missing_cell = graph.edge_cell[edge]
        _believe(graph, missing_cell, space)
        for k in range(graph.cell_edge_offsets[missing_cell], graph.cell_edge_offsets[missing_cell + 1]):
            f = graph.edge_factor[graph.cell_edges[k]]
            if f == graph.edge_factor[edge]:
                continue
            for e in range(graph.factor_offsets[f], graph.factor_offsets[f + 1]):
                if graph.edge_cell[e] != missing_cell:
                    _compute(graph, e, hard, space)
                    _rise(space.queue, space.queue.position[e])
                    _sink(space.queue, space.queue.position[e], size)
    return space.queue.residual[space.queue.heap[0]] <= tolerance


@njit(nogil=True, cache=True, inline="always")
def _rise(queue, at):
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
def _sink(queue, at, size):
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
