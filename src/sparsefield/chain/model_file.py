"""This module saves linear chains as safetensors files; loading runs no code."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from sparsefield.chain.features import ChainFeatures
from sparsefield.chain.model import ChainModel, ChainRecord
from sparsefield.chain.source import ChainSource
from sparsefield.errors import ModelFileError
from sparsefield.model.atomic_write import write_atomically
from sparsefield.model.model_document import CHAIN_FORMAT, is_chain_file, read_metadata, refuse_absent_model
from sparsefield.model.model_file import with_sorted_header

VERSION = "2"
MAX_WEIGHT = 1e100


def save_chain(model: ChainModel, path: str | os.PathLike[str], extra: dict[str, Any]) -> None:
    """Write a chain to a file atomically; ``extra`` holds JSON values of the estimator."""
    from safetensors.numpy import save

    document = {
        "attributes": list(model.attributes),
        "classes": model.classes.tolist(),
        "record": asdict(model.record),
        "extra": extra,
    }
    tensors = {
        "document": np.frombuffer(json.dumps(document).encode(), dtype=np.uint8),
        "offsets": np.ascontiguousarray(model.features.offsets, dtype=np.int64),
        "labels": np.ascontiguousarray(model.features.labels, dtype=np.int32),
        "steps": np.ascontiguousarray(model.features.steps, dtype=np.int64),
        "weights": np.ascontiguousarray(model.theta, dtype=np.float64),
    }
    write_atomically(path, with_sorted_header(save(tensors, {"format": CHAIN_FORMAT, "version": VERSION})))


def load_chain(path: str | os.PathLike[str]) -> tuple[ChainModel, dict[str, Any]]:
    """Read a chain that `save_chain` wrote, and the estimator's extra values."""
    from safetensors import SafetensorError, safe_open

    refuse_absent_model(Path(path))
    if not is_chain_file(path):
        raise ModelFileError(f"{path}: not a chain that sparsefield saved.")
    if read_metadata(path).get("version") != VERSION:
        raise ModelFileError(
            f"{path}: the file has another format than {VERSION}, which this version reads: fit the chain again."
        )
    try:
        with safe_open(Path(path), framework="np") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        document = json.loads(tensors["document"].tobytes())
        return _build(document, tensors), dict(document["extra"])
    except RecursionError:
        raise ModelFileError(f"{path}: this chain has damaged contents (too many nested values).") from None
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path}: this chain has damaged contents ({error}).") from error


def _build(document: dict[str, Any], tensors: dict[str, np.ndarray]) -> ChainModel:
    attributes, classes = tuple(document["attributes"]), np.array(document["classes"])
    features = ChainFeatures(tensors["offsets"], tensors["labels"], tensors["steps"], len(classes))
    record = ChainRecord(**document["record"])
    if record.source is not None:
        record = replace(record, source=ChainSource.from_plain(document["record"]["source"]))
    model = ChainModel(attributes, classes, features, tensors["weights"], record)
    _check(model)
    return model


def _check(model: ChainModel) -> None:
    """Raise ValueError for a chain that no fit can produce, because kernels trust it."""
    features, m = model.features, len(model.classes)
    offsets, labels, steps = features.offsets, features.labels, features.steps
    fits = (
        (offsets.dtype == np.int64 and labels.dtype == np.int32 and steps.dtype == np.int64)
        and offsets.ndim == labels.ndim == steps.ndim == model.theta.ndim == model.classes.ndim == 1
        and len(set(model.attributes)) == len(model.attributes) == len(offsets) - 1
        and all(isinstance(name, str) for name in model.attributes)
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
