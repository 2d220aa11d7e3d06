"""Seen cells given all other cells of their row, with latent variables summed out, and the gradient of that.

For a joint state h of the latent variables let r_h = p(h | row) and p_h = p(cell | other cells, h). Then
p(h | other cells) is in proportion to r_h / p_h, and p(cell | other cells) = 1 / sum_h (r_h / p_h).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from sparsefield.kernels.elementary import FAST, exp_nonpositive
from sparsefield.kernels.mean_field_sweep import logits

_ROWS = 256
"""Rows that are worked on together: what is kept of every joint state then stays in the cache."""

_RAREST = 1e-200
"""A cell counts as no less probable than this, so that a trial step too far gives a large loss, not a NaN."""


@njit(nogil=True, cache=True, fastmath=FAST)
def _predict_binary(z, pull, p, base):
    """Probabilities of both states of a variable, whose logit is z and what a joint state adds."""
    for i in range(z.shape[0]):
        logit = z[i] + pull
        u = exp_nonpositive(-abs(logit))
        p[i] = (1.0 if logit > 0.0 else u) / (1.0 + u)
        base[i] = (u if logit > 0.0 else 1.0) / (1.0 + u)


@njit(nogil=True, cache=True, fastmath=FAST)
def _predict_categorical(z, start, count, width, pull, p, base, top):
    """The same for any number of states; the base's logit is 0."""
    for i in range(count):
        top[i] = 0.0
    for s in range(width):
        for i in range(count):
            logit = z[s, start + i] + pull[s]
            top[i] = logit if logit > top[i] else top[i]
    for i in range(count):
        base[i] = exp_nonpositive(-top[i])
    total = base[:count].copy()
    for s in range(width):
        for i in range(count):
            p[s, i] = exp_nonpositive(z[s, start + i] + pull[s] - top[i])
            total[i] += p[s, i]
    for s in range(width):
        for i in range(count):
            p[s, i] /= total[i]
    for i in range(count):
        base[i] /= total[i]


@njit(nogil=True, cache=True, fastmath=FAST)
def _look(codes, width, x, seen):
    """x[code] and seen: 1 or 0."""
    for i in range(codes.shape[0]):
        seen[i] = 1.0 if codes[i] >= 0 else 0.0
    for s in range(width + 1):
        for i in range(codes.shape[0]):
            x[s, i] = 1.0 if codes[i] == s else 0.0


@njit(nogil=True, cache=True, fastmath=FAST)
def _share(x, width, seen, p, base, posterior, share, sums):
    """share = r_h / p_h, of a gap r_h; and its sum over joint states."""
    for i in range(posterior.shape[0]):
        share[i] = 1.0 - seen[i] + base[i] * x[0, i]
    for s in range(width):
        for i in range(posterior.shape[0]):
            share[i] += p[s, i] * x[s + 1, i]
    for i in range(posterior.shape[0]):
        share[i] = posterior[i] / (share[i] if share[i] > _RAREST else _RAREST)
        sums[i] += share[i]


@njit(nogil=True, cache=True, fastmath=FAST)
def _blame(share, factor, seen, weight, posterior, moved):
    """share = p(h | other cells) x row weight, 0 in a gap; moved += how far that is from p(h | row)."""
    for i in range(posterior.shape[0]):
        share[i] *= factor[i]
        moved[i] += share[i] - seen[i] * weight[i] * posterior[i]


@njit(nogil=True, cache=True, fastmath=FAST)
def _add_errors(share, p, x, errors):
    """errors += share x (p - x); returns the sum of that."""
    total = 0.0
    for i in range(errors.shape[0]):
        error = share[i] * (p[i] - x[i])
        errors[i] += error
        total += error
    return total


@njit(nogil=True, cache=True, fastmath=FAST)
def sum_out(block, graph, theta, pull, posterior, errors, moved, totals):
    """The loss of the seen cells of a block: - sum of ln p(cell | other cells).

    Parameters
    ----------
    block : codes, beliefs, weight
    graph : arcs between columns that are not hidden
    theta : all weights
    pull : (joint states, states that are not hidden) what a joint state adds to the logit of a state
    posterior : (joint states, rows) p(h | row)
    errors : (states, rows) out: (p(state | other cells) - 1 if it is there) x row weight; latent states are left alone
    moved : (joint states, rows) out: sum over the cells of (p(h | other cells) - p(h | row)) x row weight
    totals : (columns, joint states) out: sum over rows of p(h | other cells) x (p_h(state) - 1 if it is there) x row
        weight
    """
    joint, rows = posterior.shape
    z = np.empty((graph.widest, rows))
    factors, which = np.empty(4), np.empty(4, dtype=np.int64)
    p, x = np.empty((joint, graph.widest, _ROWS)), np.empty((graph.widest + 1, _ROWS))
    share = np.empty((joint, _ROWS))
    base, seen, sums, top = np.empty(_ROWS), np.empty(_ROWS), np.empty(_ROWS), np.empty(_ROWS)
    loss = 0.0
    for v in range(block.codes.shape[0]):
        first, last = graph.state_offsets[v], graph.state_offsets[v + 1]
        if last > pull.shape[1]:
            break
        width = last - first
        if width == 0:
            continue
        for s in range(width):
            logits(graph, theta, first + s, block.beliefs, factors, which, z[s])
        for start in range(0, rows, _ROWS):
            count = min(_ROWS, rows - start)
            end = start + count
            weight = block.weight[start:end]
            _look(block.codes[v, start:end], width, x, seen)
            for i in range(count):
                sums[i] = 0.0
            for h in range(joint):
                if width == 1:
                    _predict_binary(z[0, start:end], pull[h, first], p[h, 0], base)
                else:
                    _predict_categorical(z, start, count, width, pull[h, first:last], p[h], base, top)
                _share(x, width, seen, p[h], base, posterior[h, start:end], share[h], sums)
            for i in range(count):
                loss += weight[i] * math.log(sums[i])
                sums[i] = seen[i] * weight[i] / sums[i]
            for h in range(joint):
                _blame(share[h], sums, seen, weight, posterior[h, start:end], moved[h, start:end])
                for s in range(width):
                    totals[first + s, h] += _add_errors(share[h], p[h, s], x[s + 1], errors[first + s, start:end])
    return loss
