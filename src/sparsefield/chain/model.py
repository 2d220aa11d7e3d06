"""This module defines a fitted linear chain: attributes, labels, features and their weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparsefield.chain.features import ChainFeatures
from sparsefield.chain.source import ChainSource
from sparsefield.chain.vocabulary import Vocabulary


@dataclass(frozen=True)
class ChainRecord:
    """What is known of the fit of a chain."""

    l1: float
    l2: float
    objective: float
    kkt_violation: float
    converged: bool
    n_iter: int
    n_sequences: int = 0
    n_tokens: int = 0
    source: ChainSource | None = None
    """How the sequences were read, if the command line read them."""


@dataclass(frozen=True)
class ChainModel:
    """A linear chain with weights."""

    attributes: tuple[str, ...]
    classes: np.ndarray
    features: ChainFeatures
    theta: np.ndarray
    """(features,)"""
    record: ChainRecord

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The number of each attribute that has a weight; others change no label."""
        used = np.flatnonzero(np.diff(self.features.offsets)).tolist()
        return Vocabulary({self.attributes[k]: k for k in used}, len(self.attributes))

    @cached_property
    def transitions(self) -> np.ndarray:
        """Weights of a label and the next one, (labels, labels)."""
        return self.features.transitions(self.theta)

    @cached_property
    def kernel_weights(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Weights of state features as kernels take them."""
        return self.features.kernel_weights(self.theta)

    def state_table(self) -> dict[str, list[Any]]:
        """Return the columns attribute, label and weight of the state features, strongest first."""
        weights = self.theta[: self.features.n_states]
        order = np.argsort(-np.abs(weights), kind="stable")
        names = [self.attributes[a] for a in self.features.attributes[order]]
        labels = self.classes[self.features.labels[order]].tolist()
        return {"attribute": names, "label": labels, "weight": weights[order].tolist()}

    def transition_table(self) -> dict[str, list[Any]]:
        """Return the columns label, next_label and weight of the transition features, strongest first."""
        weights = self.theta[self.features.n_states :]
        order = np.argsort(-np.abs(weights), kind="stable")
        steps, m = self.features.steps[order], self.features.n_labels
        return {
            "label": self.classes[steps // m].tolist(),
            "next_label": self.classes[steps % m].tolist(),
            "weight": weights[order].tolist(),
        }
