"""Rows of which few cells are on: one update of what a row touches, everything else staying at its resting belief.

A row touches the variables that are off their base state, and those that share a feature with a column that is on. All
others sit at softmax of their unary weights, the same in every row; what they add is known in closed form. So a pass
costs (cells on) x (features at each), however many variables there are, and leaves nothing out.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from sparsefield.kernels.elementary import FAST, exp_nonpositive

_PRODUCT_LIMIT = 1e200
"""Normalisers are multiplied along a row, and one logarithm is taken before the product could overflow."""

BIAS, REST, SPREAD, LOG = 0, 1, 2, 3
"""Columns of ``resting``: unary weight, resting belief p, p (1 - p), and the log-normaliser of the state's variable,
given at its first state and 0 at the others."""


@njit(nogil=True, cache=True)
def _need(block, arcs, row):
    """Upper bounds for one row: states that it touches, and arcs that it walks."""
    walked = 0
    for k in range(block.offsets[row], block.offsets[row + 1]):
        column = block.columns[k]
        walked += arcs.offsets[column + 1] - arcs.offsets[column]
    return (block.offsets[row + 1] - block.offsets[row] + walked) * arcs.widest, walked


@njit(nogil=True, cache=True, inline="always")
def _touch(arcs, resting, state, count, slot, states, z):
    """Give all states of the variable of ``state`` a place; returns how many are given now."""
    first = state
    last = state + 1
    if arcs.widest > 1:
        variable = arcs.variable[state]
        first, last = arcs.state_offsets[variable], arcs.state_offsets[variable + 1]
    for s in range(first, last):
        slot[s] = count
        states[count] = s
        z[count] = resting[s, 0]
        count += 1
    return count


@njit(nogil=True, cache=True, fastmath=FAST)
def _logits(block, arcs, resting, row, slot, states, z, trail):
    """Logits of all states that a row touches; returns how many. The trail keeps the place of each arc's target."""
    n_states = resting.shape[0]
    count = 0
    for k in range(block.offsets[row], block.offsets[row + 1]):
        column = block.columns[k]
        if column < n_states and slot[column] < 0:
            count = _touch(arcs, resting, column, count, slot, states, z)
    t = 0
    for k in range(block.offsets[row], block.offsets[row + 1]):
        column = block.columns[k]
        for j in range(arcs.offsets[column], arcs.offsets[column + 1]):
            target = arcs.target[j]
            if slot[target] < 0:
                count = _touch(arcs, resting, target, count, slot, states, z)
            place = slot[target]
            z[place] += arcs.weight[j]
            trail[t] = place
            t += 1
    return count


@njit(nogil=True, cache=True, fastmath=FAST)
def _beliefs(arcs, count, states, z, u, q):
    """q = softmax of the logits, variable by variable; returns the sum of the log-normalisers."""
    for p in range(count):
        u[p] = exp_nonpositive(-abs(z[p]))
    total, product, p = 0.0, 1.0, 0
    if arcs.widest == 1:
        for p in range(count):
            d = 1.0 + u[p]
            q[p] = (1.0 if z[p] > 0.0 else u[p]) / d
            total += z[p] if z[p] > 0.0 else 0.0
        for p in range(count):
            product *= 1.0 + u[p]
            if product > _PRODUCT_LIMIT:
                total += math.log(product)
                product = 1.0
        return total + math.log(product)
    while p < count:
        variable = arcs.variable[states[p]]
        end = p + arcs.state_offsets[variable + 1] - arcs.state_offsets[variable]
        top = 0.0
        for s in range(p, end):
            top = max(top, z[s])
        norm = math.exp(-top)
        for s in range(p, end):
            q[s] = math.exp(z[s] - top)
            norm += q[s]
        for s in range(p, end):
            q[s] /= norm
        total += top + math.log(norm)
        p = end
    return total


@njit(nogil=True, cache=True, fastmath=FAST)
def pass_rows(block, arcs, resting, per_arc, per_state):
    """Loss and gradient of a block's rows, less what the resting beliefs of all variables would give.

    Parameters
    ----------
    block : offsets, columns that are on, weight
    arcs : by source column: offsets, target, weight; variable of a state, state_offsets, widest
    resting : (states, 4), see above
    per_arc : (arcs,) out: error at the arc's target, summed over the rows in which its source is on
    per_state : (states, 2) out: q - p and q (1 - q) - p (1 - p), summed over rows

    Returns
    -------
    loss : sum over rows of log-normalisers beyond the resting ones, less the logits of what is on
    """
    slot = np.full(resting.shape[0], -1, dtype=np.int32)
    room, length = 1024, 4096
    states, trail = np.empty(room, dtype=np.int32), np.empty(length, dtype=np.int32)
    z, u, q = np.empty(room), np.empty(room), np.empty(room)
    loss = 0.0
    for row in range(block.weight.shape[0]):
        touched, walked = _need(block, arcs, row)
        if touched > room:
            room = 2 * touched
            states, z, u, q = np.empty(room, dtype=np.int32), np.empty(room), np.empty(room), np.empty(room)
        if walked > length:
            length = 2 * walked
            trail = np.empty(length, dtype=np.int32)
        weight = block.weight[row]
        count = _logits(block, arcs, resting, row, slot, states, z, trail)
        row_loss = _beliefs(arcs, count, states, z, u, q)
        for p in range(count):
            s = states[p]
            row_loss -= resting[s, 3]
            per_state[s, 0] += weight * (q[p] - resting[s, 1])
            per_state[s, 1] += weight * (q[p] * (1.0 - q[p]) - resting[s, 2])
        for k in range(block.offsets[row], block.offsets[row + 1]):
            column = block.columns[k]
            if column < resting.shape[0]:
                row_loss -= z[slot[column]]
                q[slot[column]] -= 1.0
        loss += weight * row_loss
        t = 0
        for k in range(block.offsets[row], block.offsets[row + 1]):
            column = block.columns[k]
            for j in range(arcs.offsets[column], arcs.offsets[column + 1]):
                per_arc[j] += weight * q[trail[t]]
                t += 1
        for p in range(count):
            slot[states[p]] = -1
    return loss


@njit(nogil=True, cache=True)
def errors_of_rows(block, arcs, resting, threshold, number, counts, columns, entries):
    """Errors of a block's rows beyond ``threshold``, less those of the resting beliefs, as a sparse matrix.

    States go by their new ``number``, ascending within a row; those without one (-1), and those that do not differ
    from rest, are left out.

    Parameters
    ----------
    counts : (rows,) out: entries of each row
    columns, entries : some room; larger arrays are made where it does not suffice

    Returns
    -------
    columns, entries, how many of them are filled
    """
    slot = np.full(resting.shape[0], -1, dtype=np.int32)
    room, length = 1024, 4096
    states, trail = np.empty(room, dtype=np.int32), np.empty(length, dtype=np.int32)
    z, u, q = np.empty(room), np.empty(room), np.empty(room)
    keys = np.empty(room, dtype=np.int64)
    filled = 0
    for row in range(block.weight.shape[0]):
        touched, walked = _need(block, arcs, row)
        if touched > room:
            room = 2 * touched
            states, z, u, q = np.empty(room, dtype=np.int32), np.empty(room), np.empty(room), np.empty(room)
            keys = np.empty(room, dtype=np.int64)
        if walked > length:
            length = 2 * walked
            trail = np.empty(length, dtype=np.int32)
        count = _logits(block, arcs, resting, row, slot, states, z, trail)
        _beliefs(arcs, count, states, z, u, q)
        for k in range(block.offsets[row], block.offsets[row + 1]):
            column = block.columns[k]
            if column < resting.shape[0]:
                q[slot[column]] -= 1.0
        found = 0
        for p in range(count):
            s = states[p]
            slot[s] = -1
            error = q[p] if abs(q[p]) > threshold else 0.0
            rest = resting[s, 1] if resting[s, 1] > threshold else 0.0
            if number[s] >= 0 and error != rest:
                q[p] = error - rest
                keys[found] = np.int64(number[s]) << 32 | p
                found += 1
        keys[:found].sort()
        if filled + found > columns.shape[0]:
            size = 2 * (filled + found)
            more_columns, more_entries = np.empty(size, dtype=np.int32), np.empty(size)
            more_columns[:filled], more_entries[:filled] = columns[:filled], entries[:filled]
            columns, entries = more_columns, more_entries
        for k in range(found):
            columns[filled] = keys[k] >> 32
            entries[filled] = block.weight[row] * q[keys[k] & 0xFFFFFFFF]
            filled += 1
        counts[row] = found
    return columns, entries, filled
