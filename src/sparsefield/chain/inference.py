"""This module infers the labels of linear chains exactly: best labelings, marginals, log-likelihoods and samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.chain.forward_backward import chain_marginals
from sparsefield.chain.model import ChainModel
from sparsefield.chain.viterbi import best_paths, draw_paths, n_best_paths
from sparsefield.compute.block_collection import Engine
from sparsefield.data.token_table import TokenTable
from sparsefield.kernels.chain_scores import base_scores, padded_width, state_scores


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
