"""Conditionals of sparse rows (Eq. 3): only the variables that a row touches are updated.

A row touches the variables that are not in their reference state, and those that share a feature with a column that is
on. All others have their baseline belief, the softmax of their biases, which is the same in every row and enters
in closed form. A pass is exact and costs (cells that are on) x (features of each), whatever the number of variables.
"""

import math

import numpy as np
from numba import njit

from sparsefield.kernels.elementary import FAST, exp_nonpositive

_PRODUCT_LIMIT = 1e200
"""Largest product of the normalizers of a row before its logarithm is taken: one logarithm replaces many."""

BIAS, BELIEF, VARIANCE, LOG_NORMALIZER = 0, 1, 2, 3
"""Columns of ``baseline``: bias, baseline belief p, variance p (1 - p), and the log-normalizer of the
variable, stored at its first state and 0 at the others."""


@njit(nogil=True, cache=True)
def _workspace(rows, columns, offsets, widest, n_states):
    """Return memory for any row: slots of all states, touched states, slots of arcs, and three numbers per state."""
    n_touched, n_arcs = 0, 0
    for row in range(rows.shape[0] - 1):
        count = 0
        for k in range(rows[row], rows[row + 1]):
            count += offsets[columns[k] + 1] - offsets[columns[k]]
        n_arcs = max(n_arcs, count)
        n_touched = max(n_touched, (rows[row + 1] - rows[row] + count) * widest)
    n_touched = min(n_touched, n_states)
    slot = np.empty(n_states, dtype=np.int32)
    for s in range(n_states):
        slot[s] = -1
    states, arc_slots = np.empty(n_touched, dtype=np.int32), np.empty(n_arcs, dtype=np.int32)
    return slot, states, arc_slots, np.empty(n_touched), np.empty(n_touched), np.empty(n_touched)


@njit(nogil=True, cache=True)
def _logits(on, offsets, targets, weights, variables, target_offsets, widest, baseline, slot, states, z, arc_slots):
    """Compute the logits of all states that a row touches and return their number.

    A state that is touched for the first time gets a slot, and so do the other states of its variable. ``arc_slots``
    receives the slot of the target of each arc. The code for new slots is written twice: a function call with arrays
    would dominate the running time.
    """
    count = 0
    for k in range(on.shape[0]):
        state = on[k]
        if state < baseline.shape[0] and slot[state] < 0:
            first, last = state, state + 1
            if widest > 1:
                first, last = target_offsets[variables[state]], target_offsets[variables[state] + 1]
            for s in range(first, last):
                slot[s], states[count], z[count] = count, s, baseline[s, BIAS]
                count += 1
    t = 0
    for k in range(on.shape[0]):
        for j in range(offsets[on[k]], offsets[on[k] + 1]):
            state = targets[j]
            if slot[state] < 0:
                first, last = state, state + 1
                if widest > 1:
                    first, last = target_offsets[variables[state]], target_offsets[variables[state] + 1]
                for s in range(first, last):
                    slot[s], states[count], z[count] = count, s, baseline[s, BIAS]
                    count += 1
            position = slot[state]
            z[position] += weights[j]
            arc_slots[t] = position
            t += 1
    return count


@njit(nogil=True, cache=True, fastmath=FAST)
def _beliefs(variables, target_offsets, widest, count, states, z, u, q):
    """Set q to the softmax of the logits of each variable and return the sum of the log-normalizers."""
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
        end = p + target_offsets[variable + 1] - target_offsets[variable]
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
def loss_and_gradient(block, arcs, baseline, per_arc, per_state):
    """Compute the loss and gradient of the rows of a block, minus those at the baseline beliefs of all variables.

    Parameters
    ----------
    block : offsets, columns that are on, weight
    arcs : by source column: offsets, target, weight; variable of a state, target_offsets, widest
    baseline : (states, 4), see above
    per_arc : (arcs, 2), output: error q - q0 and variance q (1 - q) at the target, summed over rows with the source on
    per_state : (states, 2), output: q - p and q (1 - q) - p (1 - p), summed over rows

    Returns
    -------
    loss : sum over rows of the log-normalizers, minus those of the baseline and the logits of the states that are on
    touched : number of states that all rows touch
    """
    # Arrays are unpacked from their tuples here: each access in a loop would cost an atomic reference count.
    rows, columns, row_weight = block.offsets, block.columns, block.weight
    offsets, targets, weights = arcs.offsets, arcs.target, arcs.weight
    variables, target_offsets, widest = arcs.variable, arcs.target_offsets, arcs.widest
    slot, states, arc_slots, z, u, q = _workspace(rows, columns, offsets, widest, baseline.shape[0])
    loss, all_touched = 0.0, 0
    for row in range(row_weight.shape[0]):
        on = columns[rows[row] : rows[row + 1]]
        count = _logits(
            on, offsets, targets, weights, variables, target_offsets, widest, baseline, slot, states, z, arc_slots
        )
        all_touched += count
        row_loss = _beliefs(variables, target_offsets, widest, count, states, z, u, q)
        weight = row_weight[row]
        for p in range(count):
            s = states[p]
            u[p] = weight * q[p] * (1.0 - q[p])
            row_loss -= baseline[s, LOG_NORMALIZER]
            per_state[s, 0] += weight * (q[p] - baseline[s, BELIEF])
            per_state[s, 1] += u[p] - weight * baseline[s, VARIANCE]
        for k in range(on.shape[0]):
            if on[k] < baseline.shape[0]:
                row_loss -= z[slot[on[k]]]
                q[slot[on[k]]] -= 1.0
        loss += weight * row_loss
        for p in range(count):
            q[p] *= weight
            slot[states[p]] = -1
        t = 0
        for k in range(on.shape[0]):
            for j in range(offsets[on[k]], offsets[on[k] + 1]):
                per_arc[j, 0] += q[arc_slots[t]]
                per_arc[j, 1] += u[arc_slots[t]]
                t += 1
    return loss, all_touched


@njit(nogil=True, cache=True)
def pair_gradients(block, arcs, baseline, candidate_offsets, candidate_target, out):
    """Add the errors minus the baseline belief at the targets of candidate arcs, over the rows whose source is on.

    Candidate arcs have no weight: a target that a row does not touch has its baseline belief and adds nothing.
    """
    rows, columns, row_weight = block.offsets, block.columns, block.weight
    offsets, targets, weights = arcs.offsets, arcs.target, arcs.weight
    variables, target_offsets, widest = arcs.variable, arcs.target_offsets, arcs.widest
    slot, states, arc_slots, z, u, q = _workspace(rows, columns, offsets, widest, baseline.shape[0])
    for row in range(row_weight.shape[0]):
        on = columns[rows[row] : rows[row + 1]]
        count = _logits(
            on, offsets, targets, weights, variables, target_offsets, widest, baseline, slot, states, z, arc_slots
        )
        _beliefs(variables, target_offsets, widest, count, states, z, u, q)
        for p in range(count):
            q[p] -= baseline[states[p], BELIEF]
        for k in range(on.shape[0]):
            if on[k] < baseline.shape[0]:
                q[slot[on[k]]] -= 1.0
        for k in range(on.shape[0]):
            for j in range(candidate_offsets[on[k]], candidate_offsets[on[k] + 1]):
                position = slot[candidate_target[j]]
                if position >= 0:
                    out[j] += row_weight[row] * q[position]
        for p in range(count):
            slot[states[p]] = -1


@njit(nogil=True, cache=True)
def residuals(block, arcs, baseline, threshold, number, scale, counts, found_columns, found_entries):
    """Compute the errors of a block's rows beyond ``threshold``, minus the baseline belief, as a sparse integer matrix.

    Entries are multiplied by ``scale`` and rounded, so that their sums are exact in any order. ``number`` maps states
    to columns of the matrix; states with -1 and entries of 0 are left out. With a threshold of 0 all errors count, also
    an error of exactly 0 where the baseline belief is not 0.

    Parameters
    ----------
    counts : (rows,), output: number of entries of each row
    found_columns, found_entries : (capacity,) int32 and int64 buffers, which are replaced by larger ones when full

    Returns
    -------
    columns, entries, number of entries
    """
    rows, columns, row_weight = block.offsets, block.columns, block.weight
    offsets, targets, weights = arcs.offsets, arcs.target, arcs.weight
    variables, target_offsets, widest = arcs.variable, arcs.target_offsets, arcs.widest
    slot, states, arc_slots, z, u, q = _workspace(rows, columns, offsets, widest, baseline.shape[0])
    filled = 0
    for row in range(row_weight.shape[0]):
        on = columns[rows[row] : rows[row + 1]]
        count = _logits(
            on, offsets, targets, weights, variables, target_offsets, widest, baseline, slot, states, z, arc_slots
        )
        _beliefs(variables, target_offsets, widest, count, states, z, u, q)
        for k in range(on.shape[0]):
            if on[k] < baseline.shape[0]:
                q[slot[on[k]]] -= 1.0
        if filled + count > found_columns.shape[0]:
            size = 2 * (filled + count)
            more_columns, more_entries = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int64)
            for k in range(filled):  # a slice assignment would take seconds to compile
                more_columns[k], more_entries[k] = found_columns[k], found_entries[k]
            found_columns, found_entries = more_columns, more_entries
        before = filled
        for p in range(count):
            s = states[p]
            slot[s] = -1
            large = threshold == 0.0 or abs(q[p]) > threshold
            if number[s] >= 0 and large:
                entry = np.int64(np.rint(row_weight[row] * (q[p] - baseline[s, BELIEF]) * scale))
                if entry != 0:
                    found_columns[filled], found_entries[filled] = number[s], entry
                    filled += 1
        counts[row] = filled - before
    return found_columns, found_entries, filled
