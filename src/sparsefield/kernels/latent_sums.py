"""This module computes the conditionals of observed cells with latent variables summed out, and their gradient.

For a joint state h of the latent variables let r_h = p(h | row) and p_h = p(cell | other cells, h). Then
p(h | other cells) is proportional to r_h / p_h, and p(cell | other cells) = 1 / sum_h (r_h / p_h).
"""

import math

import numpy as np
from numba import njit

from sparsefield.kernels.elementary import FAST, exp_nonpositive
from sparsefield.kernels.mean_field_sweep import logits

_CHUNK_ROWS = 256
"""Rows that are processed together, few enough for the intermediate results of all joint states to stay in cache."""

_MIN_PROBABILITY = 1e-200
"""Lower bound of the probability of a cell, so that a trial step that is too long gives a large loss, not NaN."""


@njit(nogil=True, cache=True, fastmath=FAST, forceinline=True)
def _predict_binary(z, shift, p, base):
    """Set p and base to the probabilities of state 1 and of the reference state, given the logit z + shift."""
    for i in range(z.shape[0]):
        logit = z[i] + shift
        u = exp_nonpositive(-abs(logit))
        p[i] = (1.0 if logit > 0.0 else u) / (1.0 + u)
        base[i] = (u if logit > 0.0 else 1.0) / (1.0 + u)


@njit(nogil=True, cache=True, fastmath=FAST, forceinline=True)
def _predict_categorical(z, start, count, width, shift, p, base, top):
    """Set p and base to the probabilities of all states of a variable; the logit of the reference state is 0."""
    for i in range(count):
        top[i] = 0.0
    for s in range(width):
        for i in range(count):
            logit = z[s, start + i] + shift[s]
            top[i] = logit if logit > top[i] else top[i]
    for i in range(count):
        base[i] = exp_nonpositive(-top[i])
    total = base[:count].copy()
    for s in range(width):
        for i in range(count):
            p[s, i] = exp_nonpositive(z[s, start + i] + shift[s] - top[i])
            total[i] += p[s, i]
    for s in range(width):
        for i in range(count):
            p[s, i] /= total[i]
    for i in range(count):
        base[i] /= total[i]


@njit(nogil=True, cache=True, fastmath=FAST, forceinline=True)
def _one_hot(codes, width, x, observed):
    """Set x to the one-hot codes, reference state first, and observed to 1 where there is a code, else to 0."""
    for i in range(codes.shape[0]):
        observed[i] = 1.0 if codes[i] >= 0 else 0.0
    for s in range(width + 1):
        for i in range(codes.shape[0]):
            x[s, i] = 1.0 if codes[i] == s else 0.0


@njit(nogil=True, cache=True, fastmath=FAST, forceinline=True)
def _likelihood_ratio(x, width, observed, p, base, posterior, ratio, sums):
    """Set ratio to r_h / p_h, or to r_h for a missing cell, and add it to sums."""
    for i in range(posterior.shape[0]):
        ratio[i] = 1.0 - observed[i] + base[i] * x[0, i]
    for s in range(width):
        for i in range(posterior.shape[0]):
            ratio[i] += p[s, i] * x[s + 1, i]
    for i in range(posterior.shape[0]):
        ratio[i] = posterior[i] / (ratio[i] if ratio[i] > _MIN_PROBABILITY else _MIN_PROBABILITY)
        sums[i] += ratio[i]


@njit(nogil=True, cache=True, fastmath=FAST, forceinline=True)
def _leave_one_out(ratio, factor, observed, weight, posterior, change):
    """Turn ratio into p(h | other cells) x row weight, 0 for missing cells; add its difference to r_h to change."""
    for i in range(posterior.shape[0]):
        ratio[i] *= factor[i]
        change[i] += ratio[i] - observed[i] * weight[i] * posterior[i]


@njit(nogil=True, cache=True, fastmath=FAST, forceinline=True)
def _add_errors(ratio, p, x, errors):
    """Add ratio x (p - x) to errors and return the sum of that term."""
    total = 0.0
    for i in range(errors.shape[0]):
        error = ratio[i] * (p[i] - x[i])
        errors[i] += error
        total += error
    return total


@njit(nogil=True, cache=True, fastmath=FAST)
def sum_out(block, graph, theta, shift, posterior, errors, change, totals):
    """Return the loss of the observed cells of a block, minus the sum of ln p(cell | other cells).

    Parameters
    ----------
    block : codes, beliefs, weight
    graph : arcs between columns that are not latent
    theta : all weights
    shift : (joint states, non-latent states), the term that a joint state adds to the logit of a state
    posterior : (joint states, rows), p(h | row)
    errors : (states, rows), output: (p(state | other cells) - x) x row weight, where x is 1 if the cell has the state
        and 0 otherwise; latent states are not written
    change : (joint states, rows), output: sum over cells of (p(h | other cells) - p(h | row)) x row weight
    totals : (columns, joint states), output: sum over rows of p(h | other cells) x (p_h(state) - x) x row weight
    """
    joint, rows = posterior.shape
    z = np.empty((graph.widest, rows))
    factors, sources = np.empty(4), np.empty(4, dtype=np.int64)
    p, x = np.empty((joint, graph.widest, _CHUNK_ROWS)), np.empty((graph.widest + 1, _CHUNK_ROWS))
    ratio = np.empty((joint, _CHUNK_ROWS))
    base, observed, sums, top = (
        np.empty(_CHUNK_ROWS),
        np.empty(_CHUNK_ROWS),
        np.empty(_CHUNK_ROWS),
        np.empty(_CHUNK_ROWS),
    )
    loss = 0.0
    for v in range(block.codes.shape[0]):
        first, last = graph.state_offsets[v], graph.state_offsets[v + 1]
        if last > shift.shape[1]:
            break
        width = last - first
        if width == 0:
            continue
        for s in range(width):
            logits(graph, theta, first + s, block.beliefs, factors, sources, z[s])
        for start in range(0, rows, _CHUNK_ROWS):
            count = min(_CHUNK_ROWS, rows - start)
            end = start + count
            weight = block.weight[start:end]
            _one_hot(block.codes[v, start:end], width, x, observed)
            for i in range(count):
                sums[i] = 0.0
            for h in range(joint):
                if width == 1:
                    _predict_binary(z[0, start:end], shift[h, first], p[h, 0], base)
                else:
                    _predict_categorical(z, start, count, width, shift[h, first:last], p[h], base, top)
                _likelihood_ratio(x, width, observed, p[h], base, posterior[h, start:end], ratio[h], sums)
            for i in range(count):
                loss += weight[i] * math.log(sums[i])
                sums[i] = observed[i] * weight[i] / sums[i]
            for h in range(joint):
                _leave_one_out(ratio[h], sums, observed, weight, posterior[h, start:end], change[h, start:end])
                for s in range(width):
                    totals[first + s, h] += _add_errors(ratio[h], p[h, s], x[s + 1], errors[first + s, start:end])
    return loss
