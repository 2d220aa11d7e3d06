"""The exact conditional log-likelihood of linear chains, its gradient, and scores of candidate features by it.

The score of a pair of attribute and label is its expected count minus its observed count. A feature without a weight
improves the penalized likelihood exactly if its score is beyond l1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.chain.forward_backward import chain_errors
from sparsefield.chain.model import ChainFeatures
from sparsefield.compute.block_collection import Engine
from sparsefield.compute.tree_sum import tree_sum
from sparsefield.data.token_table import TokenTable
from sparsefield.kernels.chain_scores import feature_sums, large_sums, padded_width


class ChainLikelihood:
    """Minus the log-likelihood of the labels of sequences; labels that are not known are summed out.

    Parameters
    ----------
    table : TokenTable
    codes : (tokens,) numbers of labels, -1 where a label is not known
    n_labels : int
    engine : threads
    """

    def __init__(self, table: TokenTable, codes: np.ndarray, n_labels: int, engine: Engine) -> None:
        self.table, self.codes, self.n_labels, self.engine = table, codes, n_labels, engine
        self.width: int = padded_width(n_labels)
        self.errors = np.zeros((table.n_tokens, self.width))
        """p(label) - p(label | known labels) of each token, where the likelihood was last evaluated."""
        self.pair_errors = np.zeros((n_labels, n_labels))
        """The same of a label and the next one, summed over tokens."""

    def evaluate(self, features: ChainFeatures, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the loss and its gradient, (features,)."""
        loss = self.update_errors(features, theta)
        return loss, self.gradient(features)

    def update_errors(self, features: ChainFeatures, theta: np.ndarray) -> float:
        """Compute the errors of all labels, and return the loss."""
        transitions, weights = features.transitions(theta), features.kernel_weights(theta)

        def evaluate_block(block: tuple[int, int]) -> tuple[float, np.ndarray]:
            pairs = np.empty((self.n_labels, self.n_labels))
            loss = chain_errors(self.table.arrays, weights, transitions, self.codes, *block, self.errors.ravel(), pairs)
            return loss, pairs

        loss, self.pair_errors = tree_sum(self.engine.map(evaluate_block, self.table.sequence_blocks))
        return float(loss)

    def gradient(self, features: ChainFeatures) -> np.ndarray:
        """Return the gradient of the loss where it was last evaluated."""
        return np.concatenate([self.sum_states(features, self.errors), self.pair_errors.ravel()[features.steps]])

    def sum_states(self, features: ChainFeatures, errors: np.ndarray) -> np.ndarray:
        """Return the sum over tokens of attribute x error of the label, (state features,)."""
        sums = np.empty(features.n_states)

        def sum_block(block: tuple[int, int]) -> None:
            feature_sums(
                self.table.by_attribute, features.offsets, features.labels, errors.ravel(), self.width, *block, sums
            )

        self.engine.map(sum_block, self.table.attribute_blocks)
        return sums


@dataclass(frozen=True)
class ScoredFeatures:
    """Candidates whose scores are beyond a threshold."""

    keys: np.ndarray
    """`ChainFeatures.keys`, ascending."""
    scores: np.ndarray


def score_candidates(
    likelihood: ChainLikelihood, errors: np.ndarray, candidates: ChainFeatures | None, threshold: float
) -> ScoredFeatures:
    """Return the state features with a score beyond the threshold.

    Parameters
    ----------
    likelihood : of all attributes
    errors : errors of the labels of all tokens under the current weights, (tokens, width)
    candidates : the features to score; None takes all pairs of an attribute and a label
    threshold : float
    """
    if candidates is not None:
        scores = likelihood.sum_states(candidates, errors)
        large = np.flatnonzero(np.abs(scores) > threshold)
        return ScoredFeatures(candidates.keys[large], scores[large])
    table, m = likelihood.table, likelihood.n_labels

    def search(block: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        room = (block[1] - block[0]) * m
        keys, sums = np.empty(room, dtype=np.int64), np.empty(room)
        count = large_sums(table.by_attribute, errors.ravel(), m, threshold, *block, keys, sums)
        return keys[:count].copy(), sums[:count].copy()

    found = likelihood.engine.map(search, table.attribute_blocks)
    return ScoredFeatures(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
