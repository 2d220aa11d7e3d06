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
"""Normalizers are multiplied along a row, and one logarithm is taken before the product could overflow."""

BIAS, REST, SPREAD, LOG = 0, 1, 2, 3
"""Columns of ``resting``: unary weight, resting belief p, p (1 - p), and the log-normalizer of the state's variable,
given at its first state and 0 at the others."""


@njit(nogil=True, cache=True)
def _need(on, offsets, widest):
    """Upper bounds for one row: states that it touches, and arcs that it walks."""
    walked = 0
    for k in range(on.shape[0]):
        walked += offsets[on[k] + 1] - offsets[on[k]]
    return (on.shape[0] + walked) * widest, walked


@njit(nogil=True, cache=True)
def _logits(on, offsets, targets, weights, variables, state_offsets, widest, resting, slot, states, z, trail):
    """Logits of all states that a row touches; returns how many. The trail keeps the place of each arc's target.

    A state that is touched for the first time gets a place, and so do the other states of its variable. That is
    written out twice: a call with arrays, here, takes longer than all else.
    """
    count = 0
    for k in range(on.shape[0]):
        state = on[k]
        if state < resting.shape[0] and slot[state] < 0:
            first, last = state, state + 1
            if widest > 1:
                first, last = state_offsets[variables[state]], state_offsets[variables[state] + 1]
            for s in range(first, last):
                slot[s], states[count], z[count] = count, s, resting[s, 0]
                count += 1
    t = 0
    for k in range(on.shape[0]):
        for j in range(offsets[on[k]], offsets[on[k] + 1]):
            state = targets[j]
            if slot[state] < 0:
                first, last = state, state + 1
                if widest > 1:
                    first, last = state_offsets[variables[state]], state_offsets[variables[state] + 1]
                for s in range(first, last):
                    slot[s], states[count], z[count] = count, s, resting[s, 0]
                    count += 1
            place = slot[state]
            z[place] += weights[j]
            trail[t] = place
            t += 1
    return count


@njit(nogil=True, cache=True, fastmath=FAST)
def _beliefs(variables, state_offsets, widest, count, states, z, u, q):
    """q = softmax of the logits, variable by variable; returns the sum of the log-normalizers."""
    for p in range(count):
        u[p] = exp_nonpositive(-abs(z[p]))
    total, product = 0.0, 1.0
    if widest == 1:
        for p in range(count):
            q[p] = (1.0 if z[p] > 0.0 else u[p]) / (1.0 + u[p])
            total += z[p] if z[p] > 0.0 else 0.0
        for p in range(count):
            product *= 1.0 + u[p]
            if product > _PRODUCT_LIMIT:
                total += math.log(product)
                product = 1.0
        return total + math.log(product)
    p = 0
    while p < count:
        variable = variables[states[p]]
        end = p + state_offsets[variable + 1] - state_offsets[variable]
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


@njit(nogil=True, cache=True)
def loss_and_gradient(block, arcs, resting, per_arc, per_state):
    """Loss and gradient of a block's rows, less what the resting beliefs of all variables would give.

    Parameters
    ----------
    block : offsets, columns that are on, weight
    arcs : by source column: offsets, target, weight; variable of a state, state_offsets, widest
    resting : (states, 4), see above
    per_arc : (arcs, 2) out: error q - q0 and uncertainty q (1 - q) at the arc's target, summed over the rows in which
        its source is on
    per_state : (states, 2) out: q - p and q (1 - q) - p (1 - p), summed over rows

    Returns
    -------
    loss : sum over rows of log-normalizers beyond the resting ones, less the logits of what is on
    touched : how many states all rows touch
    """
    # Arrays are taken out of their tuples once: within a loop every look into a tuple costs a locked counter.
    rows, columns, row_weight = block.offsets, block.columns, block.weight
    offsets, targets, weights = arcs.offsets, arcs.target, arcs.weight
    variables, state_offsets, widest = arcs.variable, arcs.state_offsets, arcs.widest
    slot = np.full(resting.shape[0], -1, dtype=np.int32)
    room, length = 1024, 4096
    states, trail = np.empty(room, dtype=np.int32), np.empty(length, dtype=np.int32)
    z, u, q = np.empty(room), np.empty(room), np.empty(room)
    loss, all_touched = 0.0, 0
    for row in range(row_weight.shape[0]):
        on = columns[rows[row] : rows[row + 1]]
        touched, walked = _need(on, offsets, widest)
        if touched > room:
            room = 2 * touched
            states, z, u, q = np.empty(room, dtype=np.int32), np.empty(room), np.empty(room), np.empty(room)
        if walked > length:
            length = 2 * walked
            trail = np.empty(length, dtype=np.int32)
        count = _logits(
            on, offsets, targets, weights, variables, state_offsets, widest, resting, slot, states, z, trail
        )
        all_touched += count
        row_loss = _beliefs(variables, state_offsets, widest, count, states, z, u, q)
        weight = row_weight[row]
        for p in range(count):
            s = states[p]
            u[p] = weight * q[p] * (1.0 - q[p])
            row_loss -= resting[s, 3]
            per_state[s, 0] += weight * (q[p] - resting[s, 1])
            per_state[s, 1] += u[p] - weight * resting[s, 2]
        for k in range(on.shape[0]):
            if on[k] < resting.shape[0]:
                row_loss -= z[slot[on[k]]]
                q[slot[on[k]]] -= 1.0
        loss += weight * row_loss
        for p in range(count):
            q[p] *= weight
            slot[states[p]] = -1
        t = 0
        for k in range(on.shape[0]):
            for j in range(offsets[on[k]], offsets[on[k] + 1]):
                per_arc[j, 0] += q[trail[t]]
                per_arc[j, 1] += u[trail[t]]
                t += 1
    return loss, all_touched


@njit(nogil=True, cache=True)
def pair_gradients(block, arcs, resting, watched_offsets, watched_target, out):
    """Errors at the targets of arcs that are only watched, beyond rest, summed over the rows where their source is on.

    What is watched touches nothing: a target that no other arc leads to stays at rest, and adds nothing here.
    """
    rows, columns, row_weight = block.offsets, block.columns, block.weight
    offsets, targets, weights = arcs.offsets, arcs.target, arcs.weight
    variables, state_offsets, widest = arcs.variable, arcs.state_offsets, arcs.widest
    slot = np.full(resting.shape[0], -1, dtype=np.int32)
    room, length = 1024, 4096
    states, trail = np.empty(room, dtype=np.int32), np.empty(length, dtype=np.int32)
    z, u, q = np.empty(room), np.empty(room), np.empty(room)
    for row in range(row_weight.shape[0]):
        on = columns[rows[row] : rows[row + 1]]
        touched, walked = _need(on, offsets, widest)
        if touched > room:
            room = 2 * touched
            states, z, u, q = np.empty(room, dtype=np.int32), np.empty(room), np.empty(room), np.empty(room)
        if walked > length:
            length = 2 * walked
            trail = np.empty(length, dtype=np.int32)
        count = _logits(
            on, offsets, targets, weights, variables, state_offsets, widest, resting, slot, states, z, trail
        )
        _beliefs(variables, state_offsets, widest, count, states, z, u, q)
        for p in range(count):
            q[p] -= resting[states[p], 1]
        for k in range(on.shape[0]):
            if on[k] < resting.shape[0]:
                q[slot[on[k]]] -= 1.0
        for k in range(on.shape[0]):
            for j in range(watched_offsets[on[k]], watched_offsets[on[k] + 1]):
                place = slot[watched_target[j]]
                if place >= 0:
                    out[j] += row_weight[row] * q[place]
        for p in range(count):
            slot[states[p]] = -1


@njit(nogil=True, cache=True)
def residuals(block, arcs, resting, threshold, number, scale, counts, found_columns, found_entries):
    """Errors of a block's rows beyond ``threshold``, less the error at rest of the same state, as a sparse matrix of
    whole numbers, which are ``scale`` times as large: sums of these are exact, in any order.

    States go by their new ``number``, in any order; those without one (-1), and entries of 0, are left out. With a
    threshold of 0 all errors count, also one of exactly 0 that is not 0 at rest.

    Parameters
    ----------
    counts : (rows,) out: entries of each row
    found_columns, found_entries : (room,) int32 and int64; larger arrays are made where it does not suffice

    Returns
    -------
    columns, entries, how many of them are filled
    """
    rows, columns, row_weight = block.offsets, block.columns, block.weight
    offsets, targets, weights = arcs.offsets, arcs.target, arcs.weight
    variables, state_offsets, widest = arcs.variable, arcs.state_offsets, arcs.widest
    slot = np.full(resting.shape[0], -1, dtype=np.int32)
    room, length = 1024, 4096
    states, trail = np.empty(room, dtype=np.int32), np.empty(length, dtype=np.int32)
    z, u, q = np.empty(room), np.empty(room), np.empty(room)
    filled = 0
    for row in range(row_weight.shape[0]):
        on = columns[rows[row] : rows[row + 1]]
        touched, walked = _need(on, offsets, widest)
        if touched > room:
            room = 2 * touched
            states, z, u, q = np.empty(room, dtype=np.int32), np.empty(room), np.empty(room), np.empty(room)
        if walked > length:
            length = 2 * walked
            trail = np.empty(length, dtype=np.int32)
        count = _logits(
            on, offsets, targets, weights, variables, state_offsets, widest, resting, slot, states, z, trail
        )
        _beliefs(variables, state_offsets, widest, count, states, z, u, q)
        for k in range(on.shape[0]):
            if on[k] < resting.shape[0]:
                q[slot[on[k]]] -= 1.0
        if filled + count > found_columns.shape[0]:
            size = 2 * (filled + count)
            more_columns, more_entries = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int64)
            more_columns[:filled], more_entries[:filled] = found_columns[:filled], found_entries[:filled]
            found_columns, found_entries = more_columns, more_entries
        before = filled
        for p in range(count):
            s = states[p]
            slot[s] = -1
            large = threshold == 0.0 or abs(q[p]) > threshold
            if number[s] >= 0 and large:
                entry = np.int64(np.rint(row_weight[row] * (q[p] - resting[s, 1]) * scale))
                if entry != 0:
                    found_columns[filled], found_entries[filled] = number[s], entry
                    filled += 1
        counts[row] = filled - before
    return found_columns, found_entries, filled
