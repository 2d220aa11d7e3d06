"""Mean-field updates of every target cell of a block (Eq. 3), with loss, errors (Definition 1) and gradient (Eq. 12).

Pseudo-likelihood (`pl`) updates every cell from q0. Contrastive divergence (`cd`) updates the variables in order, and
each update uses the ones before it.
"""

import math

import numpy as np
from numba import njit

from sparsefield.kernels.coded_columns import normalize_states, state_logits
from sparsefield.kernels.conjunctions import multiply
from sparsefield.kernels.elementary import (
    FAST,
    add_four_scaled,
    add_scaled,
    dot,
    exp_below_in_place,
    exp_minus_abs,
    four_dots,
)

_CHUNK_ROWS = 128
"""Rows of a variable with many states that are processed together."""

_PRODUCT_LIMIT = 1e200
"""Largest product of the normalizers of a row before its logarithm is taken: one logarithm replaces many."""

# A call that hands over a tuple counts the references of all its arrays, which takes longer than a variable of a short
# block. So what `sweep` calls for every variable has plain arrays as arguments.


@njit(nogil=True, cache=True, fastmath=FAST)
def logits(graph, theta, state, columns, factors, sources, z):
    """Set z = b_s + sum_r w_sr q_r for the rows of a block; ``factors`` and ``sources`` are buffers for four arcs."""
    first, last = graph.arc_offsets[state], graph.arc_offsets[state + 1]
    bias = theta[graph.first + state]
    _add_arcs(bias, first, last, graph.arc_feature, graph.arc_source, theta, columns, factors, sources, z)
    if graph.term_offsets[state] < graph.term_offsets[state + 1]:
        _add_terms(graph, theta, state, columns, factors, sources, z)


@njit(nogil=True, cache=True, fastmath=FAST)
def _add_arcs(bias, first, last, arc_feature, arc_source, theta, columns, factors, sources, z):
    """Set z to a bias plus the arcs of a state, those from first to last."""
    for i in range(z.shape[0]):
        z[i] = bias
    pending = 0
    for k in range(first, last):
        weight = theta[arc_feature[k]]
        if weight != 0.0:
            factors[pending] = weight
            sources[pending] = arc_source[k]
            pending += 1
            if pending == 4:
                add_four_scaled(z, factors, columns, sources)
                pending = 0
    for k in range(pending):
        add_scaled(z, factors[k], columns[sources[k]])


@njit(nogil=True, cache=True, fastmath=FAST)
def _add_terms(graph, theta, state, columns, factors, sources, z):
    """Add the arcs from conjunctions to the logits of a state."""
    k, end = graph.term_offsets[state], graph.term_offsets[state + 1]
    inner = np.empty(z.shape[0])
    while k < end:
        stop = k + graph.term_run[k]
        for i in range(inner.shape[0]):
            inner[i] = 0.0
        pending = 0
        for j in range(k, stop):
            weight = theta[graph.term_feature[j]]
            if weight != 0.0:
                factors[pending] = weight
                sources[pending] = graph.term_source[j, 0]
                pending += 1
                if pending == 4:
                    add_four_scaled(inner, factors, columns, sources)
                    pending = 0
        for j in range(pending):
            add_scaled(inner, factors[j], columns[sources[j]])
        multiply(inner, columns, graph.term_source[k])
        for i in range(inner.shape[0]):
            z[i] += inner[i]
        k = stop


@njit(nogil=True, cache=True, fastmath=FAST)
def _fold_products(products, logs):
    """Move the products of normalizers into the sums of their logarithms."""
    for i in range(products.shape[0]):
        logs[i] += math.log(products[i])
        products[i] = 1.0


@njit(nogil=True, cache=True, fastmath=FAST)
def _update_binary(z, u, products, logs, q1):
    """Set q1 to the beliefs of a binary variable and add its log-normalizer to products and logs."""
    for i in range(z.shape[0]):
        d = 1.0 + u[i]
        q1[i] = (1.0 if z[i] > 0.0 else u[i]) / d
        products[i] *= d
        logs[i] += z[i] if z[i] > 0.0 else 0.0


@njit(nogil=True, cache=True, fastmath=FAST)
def _set_state_logit(base, a, b, z_a, z_b, z_c, logit, highest):
    """Set the logit of a state with scores a and b, and raise the highest logit of each row to it."""
    for i in range(logit.shape[0]):
        value = base + a * z_a[i] + b * z_b[i] + z_c[i]
        logit[i] = value
        highest[i] = value if value > highest[i] else highest[i]


@njit(nogil=True, cache=True, fastmath=FAST)
def _update_coded(coding, v, codes, z, p, top, total, products, logs, q1):
    """Set q1 to the expected columns of a variable with column logits z; add its log-normalizer.

    The base measures of observed states are subtracted from logs. Rows are processed in chunks, so that the logits p of
    all states (states, chunk) stay in cache. Scores that a variable does not have are 0.
    """
    first, n_scores, second = coding.state_offsets[v], coding.n_scores[v], min(1, z.shape[0] - 1)
    zeros, rest = np.zeros(p.shape[1]), np.empty(p.shape[1])
    for start in range(0, codes.shape[0], p.shape[1]):
        rows = min(p.shape[1], codes.shape[0] - start)
        stop = start + rows
        highest, sums = top[:rows], total[:rows]
        for i in range(rows):
            highest[i], sums[i], rest[i] = -np.inf, 0.0, 0.0
        z_a, z_b = z[0, start:stop], z[second, start:stop]
        for k in range(p.shape[0]):
            base, column, logit = coding.log_base[first + k], coding.indicator[first + k], p[k, :rows]
            a, b = coding.scores[first + k, 0], coding.scores[first + k, 1]
            z_c = z[column, start:stop] if column >= 0 else zeros[:rows]
            _set_state_logit(base, a, b, z_a, z_b, z_c, logit, highest)
        for c in range(q1.shape[0]):
            for i in range(start, stop):
                q1[c, i] = 0.0
        q_a, q_b = q1[0, start:stop], q1[second, start:stop]
        for k in range(p.shape[0]):
            column, logit = coding.indicator[first + k], p[k, :rows]
            a, b = coding.scores[first + k, 0], coding.scores[first + k, 1]
            q_c = q1[column, start:stop] if column >= 0 else rest[:rows]
            exp_below_in_place(logit, highest)
            add_scaled(q_a, a, logit)
            add_scaled(q_b, b, logit)
            add_scaled(q_c, 1.0, logit)
        add_scaled(sums, 1.0, rest[:rows])
        for c in range(n_scores, q1.shape[0]):
            add_scaled(sums, 1.0, q1[c, start:stop])
        for i in range(rows):
            products[start + i] *= sums[i]
            logs[start + i] += highest[i]
            if codes[start + i] >= 0:
                logs[start + i] -= coding.log_base[first + codes[start + i]]
            sums[i] = 1.0 / sums[i]
        for c in range(q1.shape[0]):
            expected = q1[c, start:stop]
            for i in range(rows):
                expected[i] *= sums[i]


@njit(nogil=True, cache=True, fastmath=FAST)
def _neutralize_missing(missing_rows, weight, log_base, z):
    """Set the logits of the missing cells of a variable to 0 and return the loss that they then add."""
    added, total = 0.0, 0.0
    for row in missing_rows:
        added += weight[row]
        for s in range(z.shape[0]):
            z[s, row] = 0.0
    for k in range(log_base.shape[0]):
        total += math.exp(log_base[k])
    return added * math.log(total)


@njit(nogil=True, cache=True, fastmath=FAST)
def _missing_entropy(missing_rows, weight, q0):
    """Return the weighted sum of q0 ln q0 over the missing cells of a variable (0 ln 0 = 0)."""
    total = 0.0
    for row in missing_rows:
        base = 1.0
        for s in range(q0.shape[0]):
            q = q0[s, row]
            base -= q
            if q > 0.0:
                total += weight[row] * q * math.log(q)
        if base > 0.0:
            total += weight[row] * base * math.log(base)
    return total


@njit(nogil=True, cache=True, fastmath=FAST)
def _score_variable(q0, z, q1, weight, logs):
    """Subtract the expected logits under q0 from the log-normalizer and turn q1 into errors."""
    for s in range(z.shape[0]):
        for i in range(weight.shape[0]):
            logs[i] -= q0[s, i] * z[s, i]
            q1[s, i] = (q1[s, i] - q0[s, i]) * weight[i]


@njit(nogil=True, cache=True, fastmath=FAST)
def sweep(block, graph, theta, sequential, current, errors, sums):
    """Update every target cell once and return the loss of the block.

    The loss of a cell is KL(q0 || q1), which for an observed cell is - ln q1 of its state.

    Parameters
    ----------
    block : codes, beliefs (q0), weight, cell_offsets, missing_rows
    graph : index of the first bias, target_offsets and coding of the targets, and arcs: for each target column its
        (source column, feature)
    theta : biases of all tables, then pair weights
    sequential : False for pl, where missing cells have no loss; True for cd, where they are updated and have one
    current : (columns, rows), the beliefs that logits are computed from: q0 itself for pl, a copy to update for cd
    errors : (target columns, rows), output: (q1 - q0) x row weight (Definition 1)
    sums : (target columns, rows), the sums of w_sr q_r over the arcs of each state; empty to compute them here
    """
    rows, weight, beliefs, codes = block.weight.shape[0], block.weight, block.beliefs, block.codes
    cell_offsets, missing_rows, target_offsets = block.cell_offsets, block.missing_rows, graph.target_offsets
    arc_offsets, arc_feature, arc_source = graph.arc_offsets, graph.arc_feature, graph.arc_source
    term_offsets, first_bias, coding = graph.term_offsets, graph.first, graph.coding
    state_offsets, log_base, has_reference = coding.state_offsets, coding.log_base, coding.has_reference
    products, logs = np.ones(rows), np.zeros(rows)
    top, total = np.empty(rows), np.empty(rows)
    logit_space = np.empty((graph.widest, rows))
    state_space = np.empty((coding.most_states, _CHUNK_ROWS))
    factors, sources = np.empty(4), np.empty(4, dtype=np.int64)
    bound = 1.0
    loss = 0.0
    for v in range(codes.shape[0]):
        first, last = target_offsets[v], target_offsets[v + 1]
        if first == last:
            continue
        states = state_offsets[v + 1] - state_offsets[v]
        bound *= states
        if bound > _PRODUCT_LIMIT:
            _fold_products(products, logs)
            bound = float(states)
        z, q0, q1 = logit_space[: last - first], beliefs[first:last], errors[first:last]
        for s in range(last - first):
            state = first + s
            bias = theta[first_bias + state]
            if sums.shape[0] == 0:
                start, stop = arc_offsets[state], arc_offsets[state + 1]
                _add_arcs(bias, start, stop, arc_feature, arc_source, theta, current, factors, sources, z[s])
            else:
                total_of_state = sums[state]
                for i in range(rows):
                    z[s, i] = bias + total_of_state[i]
            if term_offsets[state] < term_offsets[state + 1]:
                _add_terms(graph, theta, state, current, factors, sources, z[s])
        missing = missing_rows[cell_offsets[v] : cell_offsets[v + 1]]
        if missing.shape[0] > 0:
            if sequential:
                loss += _missing_entropy(missing, weight, q0)
            else:
                loss -= _neutralize_missing(missing, weight, log_base[state_offsets[v] : state_offsets[v + 1]], z)
        if has_reference[v] and last - first == 1:
            exp_minus_abs(z[0], total)
            _update_binary(z[0], total, products, logs, q1[0])
        else:
            _update_coded(coding, v, codes[v], z, state_space[:states], top, total, products, logs, q1)
        if sequential:
            for s in range(last - first):
                for i in range(rows):
                    current[first + s, i] = q1[s, i]
        _score_variable(q0, z, q1, weight, logs)
        if not sequential:
            for row in missing:
                for s in range(last - first):
                    q1[s, row] = 0.0
    _fold_products(products, logs)
    return loss + dot(weight, logs)


@njit(nogil=True, cache=True, fastmath=FAST)
def predict_states(block, graph, theta, out):
    """Set out (states, rows) to the probabilities of every target cell given the other beliefs of its row.

    Returns the sum of the log-probabilities of observed cells.
    """
    rows, coding = block.weight.shape[0], graph.coding
    z, top, total = np.empty((graph.widest, rows)), np.empty(rows), np.empty(rows)
    factors, sources = np.empty(4), np.empty(4, dtype=np.int64)
    log_likelihood = 0.0
    for v in range(block.codes.shape[0]):
        first, start = graph.target_offsets[v], coding.state_offsets[v]
        p = out[start : coding.state_offsets[v + 1]]
        for s in range(graph.target_offsets[v + 1] - first):
            logits(graph, theta, first + s, block.beliefs, factors, sources, z[s])
        state_logits(coding, v, z, p)
        for i in range(rows):
            if block.codes[v, i] >= 0:
                log_likelihood += block.weight[i] * p[block.codes[v, i], i]
        normalize_states(p, top, total)
        for i in range(rows):
            if block.codes[v, i] >= 0:
                log_likelihood -= block.weight[i] * (top[i] + math.log(total[i]))
    return log_likelihood


@njit(nogil=True, cache=True, fastmath=FAST)
def gradient(graph, errors, expectations, out):
    """Set out[f] to the sum over the arcs of feature f of errors . expectations (Eq. 12 and 13); biases come first."""
    for f in range(out.shape[0]):
        out[f] = 0.0
    for state in range(errors.shape[0]):
        error = errors[state]
        total = 0.0
        for i in range(error.shape[0]):
            total += error[i]
        out[graph.first + state] = total
        k, end = graph.arc_offsets[state], graph.arc_offsets[state + 1]
        source, feature = graph.arc_source, graph.arc_feature
        while k + 4 <= end:
            a, b, c, d = four_dots(error, expectations, source[k], source[k + 1], source[k + 2], source[k + 3])
            out[feature[k]] += a
            out[feature[k + 1]] += b
            out[feature[k + 2]] += c
            out[feature[k + 3]] += d
            k += 4
        while k < end:
            out[feature[k]] += dot(error, expectations[source[k]])
            k += 1


@njit(nogil=True, cache=True, fastmath=FAST)
def average_into(current, beliefs, states):
    """Set current = (q0 + q1) / 2 for the target states (Eq. 13); observed columns do not change."""
    for s in range(states):
        for i in range(current.shape[1]):
            current[s, i] = 0.5 * (current[s, i] + beliefs[s, i])


@njit(nogil=True, cache=True, fastmath=FAST)
def bias_hessian(errors, weight, is_score, out):
    """Set out[s] to the sum over rows of p (1 - p), computed from the errors of observed cells.

    For a column that is a score, the squared error stands for its variance.
    """
    inverse = np.empty(weight.shape[0])
    for i in range(weight.shape[0]):
        inverse[i] = 1.0 / (weight[i] + 1e-300)
    for s in range(errors.shape[0]):
        total, error = 0.0, errors[s]
        if is_score[s]:
            for i in range(weight.shape[0]):
                total += error[i] * error[i] * inverse[i]
        else:
            for i in range(weight.shape[0]):
                size = abs(error[i])
                total += size * (weight[i] - size) * inverse[i]
        out[s] = total
