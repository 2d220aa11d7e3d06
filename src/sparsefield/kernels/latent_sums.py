"""Conditionals of observed cells with latent variables summed out, and their gradient.

For a joint state h of the latent variables let r_h = p(h | row) and p_h = p(cell | other cells, h). Then
p(h | other cells) is proportional to r_h / p_h, and p(cell | other cells) = 1 / sum_h (r_h / p_h).
"""

import math

import numpy as np
from numba import njit

from sparsefield.kernels.coded_columns import exponentiate_states, invert, scale_rows, state_logits
from sparsefield.kernels.elementary import FAST, exp_nonpositive
from sparsefield.kernels.mean_field_sweep import logits

_CHUNK_ROWS = 256
"""Rows that are processed together, few enough for the intermediate results of all joint states to stay in cache."""

_MIN_PROBABILITY = 1e-200
"""Lower bound of the probability of a cell, so that a trial step that is too long gives a large loss, not NaN."""


@njit(nogil=True, cache=True, fastmath=FAST, forceinline=True)
def _add_errors(ratio, value, p, errors):
    """Add ratio x value x p to errors and return the sum of that term."""
    total = 0.0
    for i in range(errors.shape[0]):
        error = ratio[i] * value * p[i]
        errors[i] += error
        total += error
    return total


@njit(nogil=True, cache=True, fastmath=FAST)
def sum_out(block, graph, theta, shift, posterior, errors, change, totals, probabilities):
    """Return the loss of the observed cells of a block, minus the sum of ln p(cell | other cells).

    Parameters
    ----------
    block : codes, beliefs, weight
    graph : arcs between columns that are not latent
    theta : all weights
    shift : (joint states, non-latent target columns), the term that a joint state adds to the logit of a column
    posterior : (joint states, rows), p(h | row)
    errors : (target columns, rows), output: (expectation given the other cells - value) x row weight; columns of latent
        variables are not written
    change : (joint states, rows), output: sum over cells of (p(h | other cells) - p(h | row)) x row weight
    totals : (columns, joint states), output: sum over rows of p(h | other cells) x (expectation given h - value) x row
        weight
    probabilities : (states, rows) or (0, rows), output: p(state | other cells) x row weight
    """
    joint, rows = posterior.shape
    z, coding = np.empty((graph.widest, rows)), graph.coding
    factors, sources = np.empty(4), np.empty(4, dtype=np.int64)
    p, ratio = np.empty((joint, coding.most_states, _CHUNK_ROWS)), np.empty((joint, _CHUNK_ROWS))
    observed, sums, shifted = np.empty(_CHUNK_ROWS), np.empty(_CHUNK_ROWS), np.zeros((graph.widest, _CHUNK_ROWS))
    top, total = np.empty(_CHUNK_ROWS), np.empty(_CHUNK_ROWS)
    loss = 0.0
    for v in range(block.codes.shape[0]):
        first, last = graph.target_offsets[v], graph.target_offsets[v + 1]
        if last > shift.shape[1]:
            break
        width, start_state = last - first, coding.state_offsets[v]
        if width == 0:
            if probabilities.shape[0]:
                for i in range(rows):
                    probabilities[start_state, i] = block.weight[i]  # a constant column has one state
            continue
        for s in range(width):
            logits(graph, theta, first + s, block.beliefs, factors, sources, z[s])
        for start in range(0, rows, _CHUNK_ROWS):
            count = min(_CHUNK_ROWS, rows - start)
            end = start + count
            weight, codes = block.weight[start:end], block.codes[v, start:end]
            for i in range(count):
                sums[i] = 0.0
                observed[i] = 1.0 if codes[i] >= 0 else 0.0
            for h in range(joint):
                part, ratio_h = posterior[h, start:end], ratio[h]
                if width == 1 and coding.has_reference[v]:
                    logits_of_rows, one, base = z[0, start:end], p[h, 1], p[h, 0]
                    for i in range(count):
                        logit = logits_of_rows[i] + shift[h, first]
                        u = exp_nonpositive(-abs(logit))
                        one[i] = (1.0 if logit > 0.0 else u) / (1.0 + u)
                        base[i] = (u if logit > 0.0 else 1.0) / (1.0 + u)
                else:
                    for s in range(width):
                        for i in range(count):
                            shifted[s, i] = z[s, start + i] + shift[h, first + s]
                    states = p[h, : coding.state_offsets[v + 1] - start_state]
                    state_logits(coding, v, shifted, np.int64(0), states, top[:count])
                    exponentiate_states(states, top[:count], total[:count])
                    invert(total[:count])
                    scale_rows(states, np.int64(0), total[:count])
                for i in range(count):  # r_h / p_h, or r_h for a missing cell
                    likelihood = p[h, codes[i], i] if codes[i] >= 0 else 1.0
                    ratio_h[i] = part[i] / max(likelihood, _MIN_PROBABILITY)
                    sums[i] += ratio_h[i]
            for i in range(count):
                loss += weight[i] * math.log(sums[i])
                sums[i] = observed[i] * weight[i] / sums[i]
            for h in range(joint):
                part, change_h, ratio_h = posterior[h, start:end], change[h, start:end], ratio[h]
                for i in range(count):  # p(h | other cells) x row weight, 0 for missing cells
                    ratio_h[i] *= sums[i]
                    change_h[i] += ratio_h[i] - observed[i] * weight[i] * part[i]
                for k in range(coding.state_offsets[v + 1] - start_state):
                    state = start_state + k
                    if probabilities.shape[0]:
                        _add_errors(ratio[h], 1.0, p[h, k], probabilities[state, start:end])
                    column = coding.indicator[state]
                    if column >= 0:
                        found = _add_errors(ratio[h], 1.0, p[h, k], errors[first + column, start:end])
                        totals[first + column, h] += found
                    for d in range(coding.n_scores[v]):
                        score = coding.scores[state, d]
                        totals[first + d, h] += _add_errors(ratio[h], score, p[h, k], errors[first + d, start:end])
                for s in range(width):
                    value = block.beliefs[first + s, start:end]
                    totals[first + s, h] += _add_errors(ratio[h], -1.0, value, errors[first + s, start:end])
    return loss
