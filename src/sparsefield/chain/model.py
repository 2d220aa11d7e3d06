"""A fitted linear chain: features, weights, and its safetensors file, which runs no code when it is loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from msgspec.structs import asdict

from sparsefield.chain.reading import Vocabulary
from sparsefield.data.labels import Label
from sparsefield.kernels.chain_scores import padded_width
from sparsefield.model.fit_record import Record
from sparsefield.model.model_file import CHAIN_FORMAT, MAX_WEIGHT, damaged, read_model, write_model

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


class ChainEstimatorRecord(Record, frozen=True):
    """The parameters of the estimator, and how its data were given."""

    params: dict[str, Any]
    kind: str
    sequence: str | None = None
    label_column: str | None = None


class ChainFileRecord(Record, frozen=True):
    """All that a model file says about a chain besides numbers of labels and weights."""

    attributes: tuple[str, ...]
    classes: tuple[Label, ...]
    record: ChainRecord
    extra: ChainEstimatorRecord


def save_chain(model: ChainModel, path: str | os.PathLike[str], extra: dict[str, Any]) -> None:
    """Write a chain to a file atomically; ``extra`` has the entries of `ChainEstimatorRecord`."""
    record = ChainFileRecord(
        model.attributes, tuple(model.classes.tolist()), model.record, ChainEstimatorRecord(**extra)
    )
    arrays = {
        "offsets": np.asarray(model.features.offsets, dtype=np.int64),
        "labels": np.asarray(model.features.labels, dtype=np.int32),
        "steps": np.asarray(model.features.steps, dtype=np.int64),
        "weights": np.asarray(model.theta, dtype=np.float64),
    }
    write_model(path, record, arrays, CHAIN_FORMAT)


def load_chain(path: str | os.PathLike[str]) -> tuple[ChainModel, dict[str, Any]]:
    """Read a chain that `save_chain` wrote, and the entries of its `ChainEstimatorRecord`."""
    record, arrays = read_model(path, ChainFileRecord, CHAIN_FORMAT)
    try:
        classes = np.array(record.classes)
        features = ChainFeatures(arrays["offsets"], arrays["labels"], arrays["steps"], len(classes))
        model = ChainModel(record.attributes, classes, features, arrays["weights"], record.record)
        _check(model)
    except (KeyError, ValueError, IndexError, OverflowError) as error:
        raise damaged(path, error) from error
    return model, asdict(record.extra)


def _check(model: ChainModel) -> None:
    """Raise ValueError for a chain that no fit can produce, because kernels trust it."""
    features, m = model.features, len(model.classes)
    offsets, labels, steps = features.offsets, features.labels, features.steps
    fits = (
        (offsets.dtype == np.int64 and labels.dtype == np.int32 and steps.dtype == np.int64)
        and offsets.ndim == labels.ndim == steps.ndim == model.theta.ndim == model.classes.ndim == 1
        and len(set(model.attributes)) == len(model.attributes) == len(offsets) - 1
        and (m > 0 and len(set(model.classes.tolist())) == m and model.classes.dtype.kind in "Uifb")
        and (offsets[0] == 0 and offsets[-1] == len(labels) and bool((np.diff(offsets) >= 0).all()))
    )
    if not fits:
        raise ValueError("attributes, labels and features do not match")
    if not (_within(labels, m) and _within(steps, m * m)):
        raise ValueError("a feature refers to a label that does not exist")
    keys = features.keys
    if len(keys) != len(set(keys.tolist())) or not bool((np.diff(keys) > 0).all()):
        raise ValueError("the features are not in order")
    weights = model.theta
    if weights.shape != keys.shape or weights.dtype != np.float64 or not bool((np.abs(weights) <= MAX_WEIGHT).all()):
        raise ValueError("the weights are not finite, or do not match the features")


def _within(values: np.ndarray, stop: int) -> bool:
    return bool(((values >= 0) & (values < stop)).all())
