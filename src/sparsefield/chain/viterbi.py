"""This module finds the best labelings of linear chains and draws labelings at random."""

import math

import numpy as np
from numba import njit

from sparsefield.chain.forward_backward import longest_chain
from sparsefield.kernels.chain_scores import base_scores, padded_width, state_scores
from sparsefield.kernels.elementary import FAST


@njit(nogil=True, cache=True, fastmath=FAST, forceinline=True)
def _viterbi(scores, n, transitions, best, reached, came):
    """Set best to the scores of the best labelings that end in each label, and came to the labels before it."""
    m, width = transitions.shape[0], padded_width(transitions.shape[0])
    for j in range(m):
        best[j] = scores[j]
    for t in range(1, n):
        for j in range(m):
            reached[j] = best[0] + transitions[0, j]
            came[t, j] = 0
        for i in range(1, m):
            for j in range(m):
                value = best[i] + transitions[i, j]
                better = value > reached[j]
                reached[j] = value if better else reached[j]
                came[t, j] = i if better else came[t, j]
        for j in range(m):
            best[j] = reached[j] + scores[t * width + j]


@njit(nogil=True, cache=True, fastmath=FAST)
def best_paths(table, weights, transitions, first, last, paths):
    """Set paths, (tokens,), to the most probable labels of the chains from ``first`` to ``last``.

    ``table`` and ``weights`` are as in `sparsefield.kernels.chain_scores.state_scores`. Of equally probable labels, the
    first is taken.
    """
    offsets = table[0]
    m, longest = transitions.shape[0], longest_chain(offsets, first, last)
    base, scores = base_scores(m), np.empty(longest * padded_width(m))
    best, reached, came = np.empty(m), np.empty(m), np.zeros((longest, m), dtype=np.int64)
    for s in range(first, last):
        begin, end = offsets[s], offsets[s + 1]
        if begin == end:
            continue
        state_scores(table, weights, base, begin, end, scores)
        _viterbi(scores, end - begin, transitions, best, reached, came)
        code = 0
        for j in range(1, m):
            code = j if best[j] > best[code] else code
        for t in range(end - 1, begin - 1, -1):
            paths[t] = code
            code = came[t - begin, code]


@njit(nogil=True, cache=True)
def _insert(value, label, rank, best, labels, ranks):
    """Insert an entry into lists that are sorted by falling value, unless all their entries are as good."""
    k = best.shape[0] - 1
    if not value > best[k]:
        return
    while k > 0 and value > best[k - 1]:
        best[k], labels[k], ranks[k] = best[k - 1], labels[k - 1], ranks[k - 1]
        k -= 1
    best[k], labels[k], ranks[k] = value, label, rank


@njit(nogil=True, cache=True)
def n_best_paths(scores, transitions, count):
    """Return the ``count`` best labelings of one chain, best first, (count, tokens), and their scores, (count,).

    Where there are fewer labelings, the rest have scores of minus infinity.
    """
    n, m = scores.shape
    best = np.full((n, m, count), -np.inf)
    labels, ranks = np.zeros((n, m, count), dtype=np.int64), np.zeros((n, m, count), dtype=np.int64)
    for j in range(m):
        best[0, j, 0] = scores[0, j]
    for t in range(1, n):
        for j in range(m):
            for i in range(m):
                for r in range(count):
                    value = best[t - 1, i, r] + transitions[i, j] + scores[t, j]
                    if not value > best[t, j, count - 1]:
                        break
                    _insert(value, i, r, best[t, j], labels[t, j], ranks[t, j])
    totals = np.full(count, -np.inf)
    ends, end_ranks = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for j in range(m):
        for r in range(count):
            _insert(best[n - 1, j, r], j, r, totals, ends, end_ranks)
    paths = np.zeros((count, n), dtype=np.int64)
    for k in range(count):
        label, rank = ends[k], end_ranks[k]
        for t in range(n - 1, -1, -1):
            paths[k, t] = label
            label, rank = labels[t, label, rank], ranks[t, label, rank]
    return paths, totals


@njit(nogil=True, cache=True)
def _draw(logits, uniform):
    """Return a label drawn in proportion to exp(logits)."""
    chances = np.exp(logits - logits.max())
    left = uniform * chances.sum()
    for j in range(chances.shape[0]):
        left -= chances[j]
        if left < 0.0:
            return j
    return int(np.argmax(chances))


@njit(nogil=True, cache=True)
def draw_paths(scores, transitions, uniforms):
    """Return labelings of one chain, drawn from their distribution, (draws, tokens), by uniform numbers of that shape.

    Sums are taken in the log domain, so that scores may have any size.
    """
    n, m = scores.shape
    alpha, values = scores.copy(), np.empty(m)
    for t in range(1, n):
        for j in range(m):
            for i in range(m):
                values[i] = alpha[t - 1, i] + transitions[i, j]
            top = values.max()
            alpha[t, j] += top + math.log(np.exp(values - top).sum())
    paths = np.empty(uniforms.shape, dtype=np.int64)
    for k in range(uniforms.shape[0]):
        label = _draw(alpha[n - 1], uniforms[k, n - 1])
        paths[k, n - 1] = label
        for t in range(n - 2, -1, -1):
            label = _draw(alpha[t] + transitions[:, label], uniforms[k, t])
            paths[k, t] = label
    return paths
