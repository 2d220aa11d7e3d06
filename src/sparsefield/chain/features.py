"""This module defines the features of a linear chain: pairs of attribute and label, and of a label and the next one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sparsefield.kernels.chain_scores import padded_width

MOST_ROW_WEIGHTS = 5 * 10**7
"""Above this number, weights are not spread over rows of all labels."""


@dataclass(frozen=True)
class ChainFeatures:
    """State features by attribute, and transition features; weights are in this order."""

    offsets: np.ndarray
    """(attributes + 1,): attribute a has the state features from offsets[a] to offsets[a + 1]."""
    labels: np.ndarray
    """(state features,): their labels, ascending within an attribute."""
    steps: np.ndarray
    """(transition features,): label x n_labels + next label, ascending."""
    n_labels: int

    @property
    def n_states(self) -> int:
        """Number of state features."""
        return len(self.labels)

    @property
    def size(self) -> int:
        """Number of weights."""
        return len(self.labels) + len(self.steps)

    @property
    def attributes(self) -> np.ndarray:
        """The attribute of each state feature, (state features,)."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @property
    def keys(self) -> np.ndarray:
        """A number for each feature, ascending, (features,): attributes first, then transitions."""
        first = (len(self.offsets) - 1) * self.n_labels
        return np.concatenate([self.attributes * self.n_labels + self.labels, first + self.steps])

    @cached_property
    def _positions(self) -> np.ndarray | None:
        """Places of the state features in rows of labels; None where rows of all attributes are too large."""
        width = padded_width(self.n_labels)
        if (len(self.offsets) - 1) * width > MOST_ROW_WEIGHTS:
            return None
        return self.attributes * width + self.labels

    def kernel_weights(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the weights of state features as kernels take them: see `chain_scores.state_scores`."""
        if self._positions is None:
            return self.offsets, self.labels, theta, np.empty(0)
        rows = np.zeros((len(self.offsets) - 1) * padded_width(self.n_labels))
        rows[self._positions] = theta[: self.n_states]
        return self.offsets, self.labels, theta, rows

    def transitions(self, theta: np.ndarray) -> np.ndarray:
        """Return the weights of all transitions, (labels, labels), 0 where there is no feature."""
        found = np.zeros(self.n_labels * self.n_labels)
        found[self.steps] = theta[self.n_states :]
        return found.reshape(self.n_labels, self.n_labels)


def features_of_keys(keys: np.ndarray, n_attributes: int, n_labels: int) -> ChainFeatures:
    """Return the features of some ascending `ChainFeatures.keys`."""
    first = n_attributes * n_labels
    states = keys[: np.searchsorted(keys, first)]
    counts = np.bincount(states // n_labels, minlength=n_attributes)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return ChainFeatures(offsets, (states % n_labels).astype(np.int32), keys[len(states) :] - first, n_labels)
