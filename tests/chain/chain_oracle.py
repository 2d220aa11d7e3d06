"""A slow, obvious oracle of linear chains: all labelings, one by one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np


@dataclass(frozen=True)
class Enumerated:
    """All labelings of one sequence, and their scores."""

    paths: np.ndarray
    scores: np.ndarray

    @property
    def log_sum(self) -> float:
        top = self.scores.max()
        return float(top + np.log(np.exp(self.scores - top).sum()))

    @property
    def probabilities(self) -> np.ndarray:
        return np.exp(self.scores - self.log_sum)

    def marginals(self, n_labels: int) -> np.ndarray:
        return np.array([np.bincount(column, self.probabilities, n_labels) for column in self.paths.T])

    def with_labels(self, codes: np.ndarray) -> Enumerated:
        """The labelings that agree with the known labels."""
        kept = ((self.paths == codes) | (codes < 0)).all(axis=1)
        return Enumerated(self.paths[kept], self.scores[kept])


def enumerate_labelings(scores: np.ndarray, transitions: np.ndarray) -> Enumerated:
    """All labelings, from scores (tokens, labels) and transitions (labels, labels)."""
    n, m = scores.shape
    paths = np.array(list(product(range(m), repeat=n)))
    totals = [
        sum(scores[t, k] for t, k in enumerate(path)) + sum(transitions[a, b] for a, b in pairwise(path))
        for path in paths
    ]
    return Enumerated(paths, np.array(totals))
