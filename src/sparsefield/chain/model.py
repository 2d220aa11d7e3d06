"""A fitted linear chain: features, weights, and its safetensors file, which runs no code when it is loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparsefield.data.labels import Label
from sparsefield.errors import DataError
from sparsefield.kernels.chain_scores import PADDING_SCORE, padded_width
from sparsefield.model.fit_record import FitRecord, Record
from sparsefield.model.model_file import CHAIN_FORMAT, MAX_WEIGHT, damaged, read_model

MOST_ROW_WEIGHTS = 5 * 10**7
"""Above this number, weights are not spread over rows of all labels."""

FEATURE_ARRAYS = {"offsets": np.int64, "labels": np.int32, "steps": np.int64, "intercepts": np.int64}

StateWeights = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class ChainFeatures:
    """State features by attribute, transition features, and intercepts of labels; weights are in this order."""

    offsets: np.ndarray
    """(attributes + 1,): attribute a has the state features from offsets[a] to offsets[a + 1]."""
    labels: np.ndarray
    """(state features,): their labels, ascending within an attribute."""
    steps: np.ndarray
    """(transition features,): label x n_labels + next label, ascending."""
    intercepts: np.ndarray
    """(intercepts,): their labels, ascending."""
    n_labels: int

    @property
    def n_states(self) -> int:
        """Number of state features."""
        return len(self.labels)

    @property
    def n_pairs(self) -> int:
        """Number of state and transition features."""
        return len(self.labels) + len(self.steps)

    @property
    def size(self) -> int:
        """Number of weights."""
        return self.n_pairs + len(self.intercepts)

    @cached_property
    def attributes(self) -> np.ndarray:
        """The attribute of each state feature, (state features,)."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @cached_property
    def keys(self) -> np.ndarray:
        """A number for each feature, ascending, (features,): attributes first, then transitions, then intercepts."""
        m = self.n_labels
        first = (len(self.offsets) - 1) * m
        return np.concatenate([self.attributes * m + self.labels, first + self.steps, first + m * m + self.intercepts])


def features_of_keys(keys: np.ndarray, n_attributes: int, n_labels: int) -> ChainFeatures:
    """Return the features of some ascending `ChainFeatures.keys`."""
    first = n_attributes * n_labels
    states, steps, intercepts = np.split(keys, np.searchsorted(keys, [first, first + n_labels**2]))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(states // n_labels, minlength=n_attributes))])
    labels = (states % n_labels).astype(np.int32)
    return ChainFeatures(offsets, labels, steps - first, intercepts - first - n_labels**2, n_labels)


@dataclass(frozen=True)
class ChainWeights:
    """Features and their weights."""

    features: ChainFeatures
    theta: np.ndarray
    """(features,)"""

    @cached_property
    def parameters(self) -> tuple[StateWeights, np.ndarray, np.ndarray]:
        """What kernels take: state weights, scores of a token without attributes, and transitions (labels, labels).

        See `sparsefield.kernels.chain_scores.state_scores`.
        """
        features, theta, m = self.features, self.theta, self.features.n_labels
        width = padded_width(m)
        rows = np.empty(0)
        if (len(features.offsets) - 1) * width <= MOST_ROW_WEIGHTS:
            rows = np.zeros((len(features.offsets) - 1) * width)
            rows[features.attributes * width + features.labels] = theta[: features.n_states]
        base = np.concatenate([np.zeros(m), np.full(width - m, PADDING_SCORE)])
        base[features.intercepts] = theta[features.n_pairs :]
        transitions = np.zeros(m * m)
        transitions[features.steps] = theta[features.n_states : features.n_pairs]
        return (features.offsets, features.labels, theta, rows), base, transitions.reshape(m, m)


@dataclass(frozen=True)
class ChainModel:
    """A linear chain with weights."""

    attributes: tuple[str, ...]
    classes: np.ndarray
    weights: ChainWeights
    record: FitRecord

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each attribute that has a weight; others change no label."""
        used = np.flatnonzero(np.diff(self.weights.features.offsets)).tolist()
        return {self.attributes[k]: k for k in used}

    def renumbered(self, numbers: Mapping[str, int], classes: np.ndarray) -> ChainWeights:
        """Return the weights by other numbers of attributes and labels; those that are not there are left out."""
        features, m = self.weights.features, len(classes)
        place = {label: k for k, label in enumerate(classes.tolist())}
        attribute = np.array([numbers.get(name, -1) for name in self.attributes], dtype=np.int64)[features.attributes]
        label = np.array([place.get(name, -1) for name in self.classes.tolist()], dtype=np.int64)
        before, after = (label[part] for part in np.divmod(features.steps, features.n_labels))
        state, intercept = label[features.labels], label[features.intercepts]
        first = len(numbers) * m
        keys = np.concatenate([attribute * m + state, first + before * m + after, first + m * m + intercept])
        there = np.concatenate([(attribute >= 0) & (state >= 0), (before >= 0) & (after >= 0), intercept >= 0])
        order = np.argsort(keys[there])
        return ChainWeights(features_of_keys(keys[there][order], len(numbers), m), self.weights.theta[there][order])


def learn_classes(labels: list[Any]) -> np.ndarray:
    """Return the different labels, sorted, as an array; of dtype object unless all are of one type."""
    known = set(labels) - {None}
    if not known:
        raise DataError("y has no known label: at least one token needs one.")
    if len(set(map(type, known))) > 1 and not all(isinstance(label, (int, float, np.number)) for label in known):
        raise DataError("y has labels of several types: make all of them strings, or all numbers.")
    return np.array(sorted(known))


def encode_labels(labels: list[Any], classes: np.ndarray) -> np.ndarray:
    """Return the number of each label, -1 where it is not known, (tokens,)."""
    number = {label: k for k, label in enumerate(classes.tolist())}
    number[None] = -1
    try:
        return np.fromiter((number[label] for label in labels), dtype=np.int64, count=len(labels))
    except KeyError:
        unknown = sorted({str(label) for label in labels if label not in number})
        raise DataError(f"y has unknown labels {', '.join(unknown[:5])}: use None for labels not known.") from None


class ChainFileRecord(Record, frozen=True):
    """All that a model file says about a chain besides numbers of labels and weights."""

    attributes: tuple[str, ...]
    classes: tuple[Label, ...]
    record: FitRecord
    params: dict[str, Any]
    kind: str
    """How the data were given: the kind of frames, and the columns of sequences and of labels."""
    sequence: str | None = None
    label_column: str | None = None


def load_chain(path: str | os.PathLike[str]) -> tuple[ChainModel, ChainFileRecord]:
    """Read the chain of a model file, and what else the file says."""
    record, arrays = read_model(path, ChainFileRecord, CHAIN_FORMAT)
    try:
        classes = learn_classes(list(record.classes))
        if classes.tolist() != list(record.classes):
            raise ValueError("the labels are not in order")
        if None in (record.record.l1, record.record.objective, record.record.kkt_violation):
            raise ValueError("the record of the fit is not complete")
        features = ChainFeatures(**{name: arrays[name] for name in FEATURE_ARRAYS}, n_labels=len(classes))
        model = ChainModel(record.attributes, classes, ChainWeights(features, arrays["weights"]), record.record)
        _check(model)
    except (KeyError, ValueError, IndexError, OverflowError) as error:
        raise damaged(path, error) from error
    return model, record


def _check(model: ChainModel) -> None:
    """Raise ValueError for a chain that no fit can produce, because kernels trust it."""
    features, weights, m = model.weights.features, model.weights.theta, len(model.classes)
    arrays = {name: getattr(features, name) for name in FEATURE_ARRAYS}
    fits = (
        all(array.ndim == 1 and array.dtype == FEATURE_ARRAYS[name] for name, array in arrays.items())
        and len(set(model.attributes)) == len(model.attributes) == len(features.offsets) - 1
        and (m > 0 and len(set(model.classes.tolist())) == m and model.classes.dtype.kind in "Uifb")
        and (features.offsets[0] == 0 and features.offsets[-1] == features.n_states)
        and bool((np.diff(features.offsets) >= 0).all())
    )
    if not fits:
        raise ValueError("attributes, labels and features do not match")
    for values, stop in ((features.labels, m), (features.steps, m * m), (features.intercepts, m)):
        if not ((values >= 0) & (values < stop)).all():
            raise ValueError("a feature refers to a label that does not exist")
    if not (np.diff(features.keys) > 0).all():
        raise ValueError("the features are not in order")
    if weights.shape != (features.size,) or weights.dtype != np.float64 or not (np.abs(weights) <= MAX_WEIGHT).all():
        raise ValueError("the weights are not finite, or do not match the features")
