"""Model files of linear chains; loading runs no code."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from msgspec.structs import asdict

from sparsefield.chain.features import ChainFeatures
from sparsefield.chain.model import ChainModel, ChainRecord
from sparsefield.data.labels import Label
from sparsefield.model.fit_record import Record
from sparsefield.model.model_file import CHAIN_FORMAT, MAX_WEIGHT, damaged, read_model, write_model


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
