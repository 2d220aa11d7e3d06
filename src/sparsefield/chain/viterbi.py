"""Most probable labelings of linear chains: the best one (Viterbi), and the n best."""

from __future__ import annotations

import numpy as np
from numba import njit

from sparsefield.chain.model import ChainWeights
from sparsefield.compute.block_collection import Engine
from sparsefield.data.sparse_matrix import SparseMatrix
from sparsefield.kernels.chain_scores import padded_width, state_scores
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
def best_paths(table, parameters, first, last, paths):
    """Set paths, (tokens,), to the most probable labels of the chains from ``first`` to ``last``.

    ``table`` and ``parameters`` are as in `sparsefield.chain.forward_backward.chain_errors`. Of equally probable
    labels, the first is taken.
    """
    weights, base, transitions = parameters
    offsets = table[0]
    m, longest = transitions.shape[0], np.diff(offsets[first : last + 1]).max()
    scores = np.empty(longest * padded_width(m))
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


def n_best_paths(scores: np.ndarray, transitions: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ``count`` best labelings of one chain, best first, (labelings, tokens), and their scores.

    The labelings that end in each label are kept as (labels, ranks), for the next token; there may be fewer.
    """
    n = len(scores)
    best, came = scores[0][:, None], []
    for t in range(1, n):
        ranks = best.shape[1]
        totals = (best.reshape(-1, 1) + np.repeat(transitions, ranks, axis=0) + scores[t]).T
        order = np.argsort(-totals, axis=1, kind="stable")[:, :count]
        best = np.take_along_axis(totals, order, axis=1)
        came.append(np.divmod(order, ranks))
    order = np.argsort(-best, axis=None, kind="stable")[:count]
    label, rank = np.divmod(order, best.shape[1])
    paths = np.empty((len(order), n), dtype=np.int64)
    paths[:, n - 1] = label
    for t in range(n - 2, -1, -1):
        labels, ranks = came[t]
        label, rank = labels[label, rank], ranks[label, rank]
        paths[:, t] = label
    return paths, best.ravel()[order]


def best_labels(weights: ChainWeights, table: SparseMatrix, engine: Engine) -> np.ndarray:
    """Return the numbers of the labels of the most probable labeling of each sequence, (tokens,)."""
    paths = np.zeros(table.n_rows, dtype=np.int64)

    def label(block: tuple[int, int]) -> None:
        best_paths(table.arrays, weights.parameters, *block, paths)

    engine.map(label, table.sequence_blocks)
    return paths


def n_best_labels(
    weights: ChainWeights, table: SparseMatrix, n: int, engine: Engine
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return, for each sequence, the ``n`` best labelings, (labelings, tokens), and their scores, (labelings,)."""
    states, base, transitions = weights.parameters

    def search(s: int) -> tuple[np.ndarray, np.ndarray]:
        begin, end = int(table.sequences[s]), int(table.sequences[s + 1])
        if begin == end:
            return np.zeros((1, 0), dtype=np.int64), np.zeros(1)
        scores = np.empty((end - begin, len(base)))
        state_scores(table.arrays, states, base, begin, end, scores.ravel())
        return n_best_paths(scores[:, : len(transitions)], transitions, n)

    return engine.map(search, range(table.n_sequences))
