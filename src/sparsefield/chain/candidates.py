"""This module scores the candidate features of a linear chain by the gradient of the exact likelihood.

The score of a pair of attribute and label is its expected count minus its observed count. A feature without a weight
improves the penalized likelihood exactly if its score is beyond l1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.chain.features import ChainFeatures
from sparsefield.chain.likelihood import ChainLikelihood
from sparsefield.kernels.chain_scores import large_sums


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
