"""Exact inference for linear chains: best labelings, marginals, log-likelihoods and samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from sparsefield.chain.forward_backward import chain_marginals, longest_chain
from sparsefield.chain.model import ChainModel
from sparsefield.compute.block_collection import Engine
from sparsefield.data.token_table import TokenTable
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


def best_labels(model: ChainModel, table: TokenTable, engine: Engine) -> np.ndarray:
    """Return the numbers of the labels of the most probable labeling of each sequence, (tokens,)."""
    paths = np.zeros(table.n_tokens, dtype=np.int64)
    weights, transitions = model.kernel_weights, model.transitions

    def label(block: tuple[int, int]) -> None:
        best_paths(table.arrays, weights, transitions, *block, paths)

    engine.map(label, table.sequence_blocks)
    return paths


@dataclass(frozen=True)
class ChainSums:
    """Sums over the labelings of sequences."""

    marginals: np.ndarray
    """(tokens, labels)"""
    log_sums: np.ndarray
    """Logarithm of the sum over labelings, (sequences,)."""


def sum_chains(model: ChainModel, table: TokenTable, engine: Engine, codes: np.ndarray | None = None) -> ChainSums:
    """Return marginals and sums over all labelings, or over those with the known labels in ``codes``, (tokens,)."""
    m = model.features.n_labels
    known = np.full(table.n_tokens, -1) if codes is None else codes
    marginals, log_sums = np.zeros((table.n_tokens, padded_width(m))), np.zeros(table.n_sequences)
    weights, transitions = model.kernel_weights, model.transitions

    def sum_block(block: tuple[int, int]) -> None:
        chain_marginals(table.arrays, weights, transitions, known, *block, marginals.ravel(), log_sums)

    engine.map(sum_block, table.sequence_blocks)
    return ChainSums(marginals[:, :m], log_sums)


def log_likelihoods(model: ChainModel, table: TokenTable, codes: np.ndarray, engine: Engine) -> np.ndarray:
    """Return ln p(known labels) of each sequence, (sequences,)."""
    return sum_chains(model, table, engine, codes).log_sums - sum_chains(model, table, engine).log_sums


def sequence_scores(model: ChainModel, table: TokenTable, s: int) -> np.ndarray:
    """Return the scores of the labels of the tokens of a sequence, (tokens, labels)."""
    m, begin, end = model.features.n_labels, int(table.offsets[s]), int(table.offsets[s + 1])
    scores = np.empty((end - begin, padded_width(m)))
    state_scores(table.arrays, model.kernel_weights, base_scores(m), begin, end, scores.ravel())
    return np.ascontiguousarray(scores[:, :m])


def n_best_labels(model: ChainModel, table: TokenTable, n: int, engine: Engine) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return, for each sequence, the ``n`` best labelings, (found, tokens), and their scores, (found,)."""

    def search(s: int) -> tuple[np.ndarray, np.ndarray]:
        scores = sequence_scores(model, table, s)
        if not len(scores):
            return np.zeros((1, 0), dtype=np.int64), np.zeros(1)
        paths, totals = n_best_paths(scores, model.transitions, n)
        return paths[np.isfinite(totals)], totals[np.isfinite(totals)]

    return engine.map(search, range(table.n_sequences))


def draw_labels(model: ChainModel, table: TokenTable, n: int, rng: np.random.Generator, engine: Engine) -> np.ndarray:
    """Return the numbers of labels of ``n`` labelings of each sequence, drawn from their distribution, (n, tokens)."""
    uniforms, found = rng.random((n, table.n_tokens)), np.zeros((n, table.n_tokens), dtype=np.int64)

    def draw(s: int) -> None:
        begin, end = table.offsets[s], table.offsets[s + 1]
        if begin < end:
            scores = sequence_scores(model, table, s)
            found[:, begin:end] = draw_paths(scores, model.transitions, np.ascontiguousarray(uniforms[:, begin:end]))

    engine.map(draw, range(table.n_sequences))
    return found
