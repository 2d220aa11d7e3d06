"""The exact conditional log-likelihood of linear chains: loss, gradient, scores of candidates, and marginals.

The score of a pair of attribute and label is its expected count minus its observed count. A feature without a weight
improves the penalized likelihood exactly if its score is beyond l1.
"""

from __future__ import annotations

import numpy as np

from sparsefield.chain.forward_backward import chain_errors, chain_marginals
from sparsefield.chain.model import ChainFeatures, ChainWeights, features_of_keys
from sparsefield.compute.block_collection import Engine
from sparsefield.compute import tree_sum
from sparsefield.data.memory import refuse_beyond_memory
from sparsefield.data.sparse_matrix import SparseMatrix, cumulate
from sparsefield.kernels.chain_scores import feature_sums, padded_width


class ChainProblem:
    """Minus the weighted log-likelihood of the labels of sequences; labels that are not known are summed out.

    Parameters
    ----------
    table : SparseMatrix
    codes : (tokens,) numbers of labels, -1 where a label is not known
    n_labels : int
    engine : threads
    sequence_weights : (sequences,), 1 when left out
    """

    def __init__(
        self,
        table: SparseMatrix,
        codes: np.ndarray,
        n_labels: int,
        engine: Engine,
        sequence_weights: np.ndarray | None = None,
    ) -> None:
        self.table, self.codes, self.n_labels, self.engine = table, codes, n_labels, engine
        self.sequence_weights = np.ones(table.n_sequences) if sequence_weights is None else sequence_weights
        self.errors = np.zeros((table.n_rows, padded_width(n_labels)))
        """Weight of the sequence x (p(label) - p(label | known labels)) of each token, at the last evaluation."""
        self.pair_errors = np.zeros((n_labels, n_labels))
        """The same of a label and the next one, summed over tokens."""

    @property
    def token_weights(self) -> np.ndarray:
        """The weight of the sequence of each token, (tokens,)."""
        return np.repeat(self.sequence_weights, np.diff(self.table.sequences))

    @property
    def known_tokens(self) -> np.ndarray:
        """The number of known labels of each sequence, times its weight, (sequences,)."""
        return np.diff(cumulate(self.codes >= 0)[self.table.sequences]) * self.sequence_weights

    def select_sequences(self, chosen: np.ndarray) -> ChainProblem:
        """Return the problem of some sequences."""
        table, tokens = self.table.select_sequences(chosen)
        return ChainProblem(table, self.codes[tokens], self.n_labels, self.engine, self.sequence_weights[chosen])

    def select_attributes(self, chosen: np.ndarray) -> ChainProblem:
        """Return the problem with some attributes only, numbered in their ascending order."""
        table = self.table.select_columns(chosen)
        return ChainProblem(table, self.codes, self.n_labels, self.engine, self.sequence_weights)

    def evaluate(self, weights: ChainWeights) -> tuple[float, np.ndarray]:
        """Return the loss and its gradient, (features,)."""
        parameters = weights.parameters

        def evaluate_block(block: tuple[int, int]) -> tuple[float, np.ndarray]:
            pairs = np.empty((self.n_labels, self.n_labels))
            errors = self.errors.ravel()
            loss = chain_errors(self.table.arrays, parameters, self.codes, self.sequence_weights, *block, errors, pairs)
            return loss, pairs

        loss, self.pair_errors = tree_sum(self.engine.map(evaluate_block, self.table.sequence_blocks))
        features = weights.features
        parts = [self.state_sums(features, self.errors), self.pair_errors.ravel()[features.steps]]
        if len(features.intercepts):
            parts.append(self.errors.sum(axis=0)[features.intercepts])
        return float(loss), np.concatenate(parts)

    def state_sums(self, features: ChainFeatures, errors: np.ndarray) -> np.ndarray:
        """Return the sum over tokens of attribute x error of the label, (state features,)."""
        sums = np.empty(features.n_states)
        offsets, labels, width = features.offsets, features.labels, errors.shape[1]

        def sum_block(block: tuple[int, int]) -> None:
            feature_sums(self.table.by_column, offsets, labels, errors.ravel(), width, *block, sums)

        self.engine.map(sum_block, self.table.column_blocks)
        return sums

    def curvature(self, features: ChainFeatures) -> np.ndarray:
        """Return the diagonal of the Hessian where all weights are 0, (features,); transitions by their mean."""
        table, m, weights = self.table, self.n_labels, self.token_weights
        spread = (m - 1) / m**2 if m > 1 else 1.0
        squares = np.repeat(weights, np.diff(table.offsets)) * (np.square(table.values) if len(table.values) else 1.0)
        sizes = np.bincount(table.columns, squares, minlength=table.n_columns)
        n_steps = float(self.sequence_weights @ np.maximum(np.diff(table.sequences) - 1, 0))
        return np.concatenate(
            [
                np.repeat(sizes, np.diff(features.offsets)) * spread,
                np.full(len(features.steps), max(n_steps, 1.0) / m**2),
                np.full(len(features.intercepts), weights.sum() * spread),
            ]
        )

    def log_likelihoods(self, weights: ChainWeights) -> np.ndarray:
        """Return ln p(known labels) of each sequence, whatever its weight, (sequences,)."""
        _, known = sum_chains(weights, self.table, self.engine, self.codes)
        return known - sum_chains(weights, self.table, self.engine)[1]


def candidate_features(
    problem: ChainProblem, all_states: bool, all_transitions: bool, intercept: bool
) -> ChainFeatures:
    """Return the pairs of attribute and label, and of label and next label, that occur in the data, or all pairs.

    A label that is not known may be any. All labels have an intercept, or none.
    """
    table, codes, m = problem.table, problem.codes, problem.n_labels
    first = table.n_columns * m
    if all_states:
        refuse_beyond_memory(40.0 * first, f"The {first:,} weights of all states", lambda: "leave all_states out.")
        states = np.arange(first)
    else:
        owner = np.repeat(codes, np.diff(table.offsets))
        known, attributes = owner >= 0, table.columns.astype(np.int64)
        free = np.unique(attributes[~known])[:, None] * m + np.arange(m)
        states = np.union1d(attributes[known] * m + owner[known], free)
    steps = np.arange(m * m)
    if not all_transitions and (codes >= 0).all():
        follows = np.ones(len(codes), dtype=bool)
        follows[table.sequences[:-1][np.diff(table.sequences) > 0]] = False
        later = np.flatnonzero(follows)
        steps = np.unique(codes[later - 1] * m + codes[later])
    intercepts = np.arange(m if intercept else 0) + m * m
    return features_of_keys(np.concatenate([states, first + steps, first + intercepts]), table.n_columns, m)


def sum_chains(
    weights: ChainWeights, table: SparseMatrix, engine: Engine, codes: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return marginals, (tokens, labels), and the logarithm of the sum over labelings, (sequences,).

    The sum is over all labelings, or over those with the known labels in ``codes``, (tokens,).
    """
    m = weights.features.n_labels
    known = np.full(table.n_rows, -1) if codes is None else codes
    marginals, log_sums = np.zeros((table.n_rows, padded_width(m))), np.zeros(table.n_sequences)

    def sum_block(block: tuple[int, int]) -> None:
        chain_marginals(table.arrays, weights.parameters, known, *block, marginals.ravel(), log_sums)

    engine.map(sum_block, table.sequence_blocks)
    return marginals[:, :m], log_sums
