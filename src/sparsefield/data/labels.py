"""What cells hold: labels of categories, and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsefield import config
from sparsefield.data.frames import RawColumn
from sparsefield.errors import DataError

__all__ = ["Label", "as_label", "as_numbers", "factorize", "label_order", "unified", "whole_labels"]

Label = str | int | float | bool


def factorize(column: RawColumn, *, part: bool = False) -> tuple[list[Label], np.ndarray]:
    """Distinct labels in sorted order, and (rows,) their index per cell, -1 for a gap.

    Of a ``part`` of a column of objects floats stay floats: whether all are whole numbers only all parts can tell.
    """
    values = _whole(column.values)
    codes = np.full(len(column.seen), -1, dtype=np.int64)
    if values.dtype.kind in "iu" and _small_range(values):
        labels, inverse = _factorize_small_range(values)
    elif values.dtype.kind in "biufU":
        # Zero has two signs, and which of them a sort puts first is left to chance.
        values = values + 0.0 if values.dtype.kind == "f" else values
        distinct, inverse = np.unique(values, return_inverse=True)
        labels = [as_label(v, column.name) for v in distinct.tolist()]
    else:
        labels, inverse = _factorize_objects(values, column.name)
        labels = labels if part else whole_labels(labels)
    codes[column.seen] = inverse
    return labels, codes


def _whole(values: np.ndarray) -> np.ndarray:
    """Floats that are all whole numbers as integers: pandas turns 0/1 with gaps into floats."""
    if values.dtype.kind == "f" and np.isfinite(values).all() and (np.abs(values) < 2**53).all():
        integers = values.astype(np.int64)
        if (integers == values).all():
            return integers
    return values


def _small_range(values: np.ndarray) -> bool:
    """Whether counting integers is cheaper than sorting them."""
    if not len(values):
        return False
    # Python's integers, since the distance between hashes of 64 bits does not fit into NumPy's.
    low, high = int(values.min()), int(values.max())
    return high - low < 4 * len(values) + 1024 and high <= np.iinfo(np.int64).max


def _factorize_small_range(values: np.ndarray) -> tuple[list[Label], np.ndarray]:
    """Integers close together, by counting instead of sorting."""
    low = int(values.min())
    shifted = values.astype(np.int64) - low
    present = np.bincount(shifted) > 0
    rank = np.cumsum(present) - 1
    return list((np.flatnonzero(present) + low).tolist()), rank[shifted]


def _factorize_objects(values: np.ndarray, name: str) -> tuple[list[Label], np.ndarray]:
    index: dict[Label, int] = {}
    cells = values.tolist()
    try:
        # What differs is found first, since it is much less than all cells, and only it has to be looked at.
        place = {v: index.setdefault(as_label(v, name), len(index)) for v in dict.fromkeys(cells)}
    except TypeError:  # of something that has no hash, and is no label either
        place = {as_label(v, name): 0 for v in cells}
    met = np.fromiter(map(place.__getitem__, cells), dtype=np.int64, count=len(cells))
    labels: list[Label] = sorted(index, key=label_order)
    rank = np.empty(len(index), dtype=np.int64)
    rank[[index[v] for v in labels]] = np.arange(len(labels))
    return labels, rank[met] if len(met) else met


def whole_labels(labels: list[Label]) -> list[Label]:
    """Floats that are all whole numbers as integers; other labels as they are."""
    if all(isinstance(v, float) and v.is_integer() for v in labels):
        return [int(v) for v in labels]
    return labels


def unified(labels: list[Label], are_objects: bool | None) -> list[Label]:
    """Labels from parts of a column as if they had come in one.

    Parts of whole numbers are read as integers, but one column of numbers has one type.
    """
    if are_objects:
        return whole_labels(labels)
    return [float(label) for label in labels] if any(isinstance(v, float) for v in labels) else labels


def label_order(label: Label) -> tuple[bool, Label]:
    """Numbers before words, so that a column that mixes them still has one order."""
    return isinstance(label, str), label


def as_label(value: Any, name: str) -> Label:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (str, int, float, bool)):
        if isinstance(value, float) and not np.isfinite(value):
            raise DataError(f"Column {name!r} holds infinity: replace it by a number or a gap.")
        return value
    if isinstance(value, dict):
        raise DataError(f"Column {name!r} holds dict values: argument must be a string or a number as a category.")
    raise DataError(
        f"Column {name!r} holds a {type(value).__name__}; categories are strings, numbers or booleans. "
        f"Convert it first, for instance with astype(str)."
    )


def as_numbers(column: RawColumn) -> np.ndarray:
    """The seen values of a numeric column as floats."""
    try:
        values = column.values.astype(config.FLOAT)
    except (TypeError, ValueError):
        raise DataError(
            f"Column {column.name!r} is read as numeric but holds text: argument must be a string or a number that "
            "converts. List the numeric columns yourself with numeric=[...]."
        ) from None
    if not np.isfinite(values).all():
        raise DataError(f"Observed column {column.name!r} holds infinity: replace it by a number or a gap.")
    return values
