"""This module makes texts with several labels: topics that attract or repel each other, and words of these topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

__all__ = ["LabeledTexts", "TopicModel", "make_topics"]

Array = np.ndarray[Any, np.dtype[Any]]

SWEEPS = 60
"""Gibbs sweeps from which the labels of a text are drawn."""


@dataclass(frozen=True)
class LabeledTexts:
    """Texts as TF-IDF rows, and their labels."""

    X: Any
    """(texts, words)"""
    Y: Array
    """(texts, labels): 0 and 1."""


@dataclass(frozen=True)
class TopicModel:
    """The labels of a text are a draw from an Ising model, and each of its words is of one of its topics, or common."""

    biases: Array
    """(labels,)"""
    couplings: Array
    """(labels, labels), symmetric: what a label adds to the logit of another one."""
    words: Array
    """(labels + 1, vocabulary): the distribution of words of each topic, and last of common words."""
    common: float
    """Share of the words of a text that are common."""
    length: float
    """Mean number of words."""

    def draw_labels(self, count: int, rng: np.random.Generator) -> Array:
        """Return the labels of some texts, (texts, labels)."""
        Y = (rng.random((count, len(self.biases))) < 0.2).astype(np.int64)
        for _ in range(SWEEPS):
            for k in range(len(self.biases)):
                logit = self.biases[k] + Y @ self.couplings[:, k]
                Y[:, k] = rng.random(count) < 1.0 / (1.0 + np.exp(-logit))
        return Y

    def draw_counts(self, Y: Array, rng: np.random.Generator) -> Any:
        """Return the counts of words in texts with given labels, (texts, words)."""
        lengths = 3 + rng.poisson(self.length, len(Y))
        rows = []
        for labels, length in zip(Y, lengths, strict=True):
            topics = np.flatnonzero(labels)
            shares = np.zeros(len(self.words))
            shares[-1] = self.common if len(topics) else 1.0
            shares[topics] = (1.0 - self.common) / max(len(topics), 1)
            rows.append(sp.csr_matrix(rng.multinomial(length, shares @ self.words)))
        return sp.csr_matrix(sp.vstack(rows), dtype=np.float64)

    def draw(self, counts: tuple[int, ...], seed: int) -> list[LabeledTexts]:
        """Return parts of some numbers of texts; word frequencies for TF-IDF are those of the first part."""
        rng = np.random.default_rng(seed)
        labels = [self.draw_labels(count, rng) for count in counts]
        words = [self.draw_counts(Y, rng) for Y in labels]
        weighting = TfidfTransformer(sublinear_tf=True).fit(words[0])
        return [LabeledTexts(weighting.transform(X), Y) for X, Y in zip(words, labels, strict=True)]


def make_topics(
    n_labels: int = 20, vocabulary: int = 5000, *, common: float = 0.5, length: float = 60.0, seed: int = 0
) -> TopicModel:
    """Return topics, each of which attracts or repels about three others, with words of Zipf's frequencies."""
    rng = np.random.default_rng(seed)
    couplings = np.zeros((n_labels, n_labels))
    pairs = [(a, b) for a in range(n_labels) for b in range(a)]
    for a, b in rng.permutation(pairs)[: round(1.5 * n_labels)]:
        couplings[a, b] = couplings[b, a] = rng.choice([-2.0, 2.0]) * rng.uniform(0.75, 1.25)
    zipf = 1.0 / (10.0 + np.arange(vocabulary))
    words = np.zeros((n_labels + 1, vocabulary))
    words[-1] = rng.permutation(zipf)
    n_own = min(150, vocabulary // 4)
    for topic in range(n_labels):
        words[topic, rng.choice(vocabulary, n_own, replace=False)] = zipf[:n_own]
    return TopicModel(np.full(n_labels, -2.3), couplings, words / words.sum(axis=1, keepdims=True), common, length)
