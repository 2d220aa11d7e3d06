"""Labels and numbers from the values of cells."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsefield import config
from sparsefield.data.cell_values import describe_half_character, is_valid_text, refuse_half_characters
from sparsefield.errors import DataError

if TYPE_CHECKING:
    from sparsefield.data.frames import RawColumn

Label = str | int | float | bool

BEYOND_FLOATS = "integers that are too large for floats: drop it if it is an identifier, or divide it by a constant."


def factorize(column: RawColumn, *, part: bool = False) -> tuple[list[Label], np.ndarray]:
    """Return the sorted distinct labels, and their index per cell, -1 for missing cells, (rows,).

    In a ``part`` of an object column, floats stay floats: only all parts together show whether all are integers.
    """
    values = as_integers(column.values)
    if values.dtype.kind in "iu" and (counted := _factorize_small_range(values)):
        labels, inverse = counted
    elif values.dtype.kind in "biufU":
        # Zero has two signs, and their order after sorting is undefined.
        values = values + 0.0 if values.dtype.kind == "f" else values
        distinct, inverse = np.unique(values, return_inverse=True)
        labels = [_as_label(v, column.name) for v in distinct.tolist()]
    else:
        labels, inverse = _factorize_objects(values, column.name)
        labels = labels if part else _integer_labels(labels)
    refuse_half_characters(column.name, labels, values, column.present)
    if len(inverse) == len(column.present):
        return labels, inverse
    codes = np.full(len(column.present), -1, dtype=np.int64)
    codes[column.present] = inverse
    return labels, codes


def as_integers(values: np.ndarray) -> np.ndarray:
    """Convert floats to integers if all are whole: pandas stores 0/1 with missing cells as floats."""
    # Half floats cannot be compared with 2^53, which is beyond their range.
    wide = values.astype(np.float64) if values.dtype == np.float16 else values
    if values.dtype.kind == "f" and np.isfinite(values).all() and (np.abs(wide) < 2**53).all():
        integers = values.astype(np.int64)
        if (integers == values).all():
            return integers
    return values


def distinct_whole_numbers(values: np.ndarray) -> np.ndarray:
    """Return the sorted distinct values of an array of whole numbers, which may be floats."""
    found = _count_small_range(values)
    return np.unique(values) if found is None else np.flatnonzero(found[0]) + found[2]


def _factorize_small_range(values: np.ndarray) -> tuple[list[Label], np.ndarray] | None:
    """Factorize integers by counting; None if their range is so large that sorting is cheaper."""
    found = _count_small_range(values)
    if found is None:
        return None
    present, shifted, low = found
    codes = shifted if present.all() else (np.cumsum(present) - 1)[shifted]
    return list((np.flatnonzero(present) + low).tolist()), codes


def _count_small_range(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, int] | None:
    """Return which values from the smallest to the largest occur, the distances of all from the smallest, and that one.

    None if their range is so large that sorting is cheaper than counting.
    """
    if not len(values):
        return None
    # Python integers, since the difference of two 64-bit integers may not fit into NumPy's.
    low, high = int(values.min()), int(values.max())
    limits = np.iinfo(np.int64)
    if high - low >= 4 * len(values) + 1024 or low < limits.min or high > limits.max:
        return None
    from sparsefield.kernels.coded_columns import mark_distances

    # One type only, since the kernel is compiled for each.
    distances, occurs = values.astype(np.int64), np.zeros(high - low + 1, dtype=bool)
    mark_distances(distances, low, occurs)
    return occurs, distances, low


def _factorize_objects(values: np.ndarray, name: str) -> tuple[list[Label], np.ndarray]:
    index: dict[Label, int] = {}
    cells = values.tolist()
    try:
        # Distinct values first, since these are far fewer than cells, and only they need a conversion.
        position = {v: index.setdefault(_as_label(v, name), len(index)) for v in dict.fromkeys(cells)}
    except TypeError:  # unhashable values, which are no labels either
        position = {_as_label(v, name): 0 for v in cells}
    codes = np.fromiter(map(position.__getitem__, cells), dtype=np.int64, count=len(cells))
    labels: list[Label] = sorted(index, key=label_sort_key)
    rank = np.empty(len(index), dtype=np.int64)
    rank[[index[v] for v in labels]] = np.arange(len(labels))
    # Of True, 1 and 1.0, which are equal, the dictionary keeps the first, and rows may have any order.
    labels = [whole_label(v) for v in labels] if len(_number_types(cells)) > 1 else labels
    return labels, rank[codes] if len(codes) else codes


def _number_types(values: Iterable[Any]) -> set[type]:
    """Return which of booleans, integers and floats occur."""
    types = {type(value) for value in values}
    kinds = ((bool, (bool, np.bool_)), (int, (int, np.integer)), (float, (float, np.floating)))
    return {
        kind
        for kind, those in kinds
        if any(issubclass(one, those) and (kind is bool or not issubclass(one, bool)) for one in types)
    }


def whole_label(label: Label) -> Label:
    """Return a boolean or a whole float as the integer that it is equal to; other labels as they are."""
    return int(label) if isinstance(label, bool) or _is_whole_float(label) else label


def _is_whole_float(label: Label) -> bool:
    """Return whether a label is a float that an integer of 64 bits, too, can express without loss."""
    return isinstance(label, float) and label.is_integer() and abs(label) < 2**53


def _integer_labels(labels: list[Label]) -> list[Label]:
    """Convert float labels to integers if all are whole."""
    if all(_is_whole_float(v) for v in labels):
        return [int(v) for v in labels]
    return labels


def unify_labels(labels: list[Label], are_objects: bool | None) -> list[Label]:
    """Return labels from partitions of a column with the types they would have in the whole column.

    Partitions of whole numbers are read as integers, but all numbers of a column have one type. Among objects, booleans
    and whole floats beside other numbers are integers.
    """
    if are_objects or any(isinstance(v, bool) for v in labels):
        several = len(_number_types(labels)) > 1
        return [whole_label(v) for v in labels] if several else _integer_labels(labels)
    return [float(label) for label in labels] if any(isinstance(v, float) for v in labels) else labels


def label_sort_key(label: Label) -> tuple[bool, Label]:
    """Return a sort key that puts numbers before text, so that mixed columns have an order."""
    return isinstance(label, str), label


def as_label(value: Any, name: str) -> Label:
    """Return a value that was given for a column as a label; a DataError for what is none."""
    label = _as_label(value, name)
    if isinstance(label, str) and not is_valid_text(label):
        raise DataError(f"Column {name!r} is given {describe_half_character(label)}: correct it.")
    return label


def _as_label(value: Any, name: str) -> Label:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (str, int, float, bool)):
        if isinstance(value, float) and not np.isfinite(value):
            raise DataError(f"Column {name!r} holds infinity: replace it by a number or empty the cell.")
        return value
    if isinstance(value, dict):
        raise DataError(f"Column {name!r} holds dict values: argument must be a string or a number as a category.")
    raise DataError(
        f"Column {name!r} holds a {type(value).__name__}; categories are strings, numbers or booleans. "
        f"Convert it first, for instance with astype(str)."
    )


def as_numbers(column: RawColumn) -> np.ndarray:
    """Return the values of a numeric column as floats."""
    try:
        values = column.values.astype(config.FLOAT)
    except OverflowError:
        raise DataError(f"Column {column.name!r} holds {BEYOND_FLOATS}") from None
    except (TypeError, ValueError):
        raise DataError(
            f"Column {column.name!r} is read as numeric but holds text: argument must be a string or a number that "
            f"converts. Correct its cells, or give it another kind, such as kinds={{{column.name!r}: 'nominal'}}."
        ) from None
    _refuse_large_integers(column, values)
    if not np.isfinite(values).all():
        raise DataError(f"Column {column.name!r} holds infinity: replace it by a number, or leave the cell empty.")
    return values


def _refuse_large_integers(column: RawColumn, numbers: np.ndarray) -> None:
    """Raise a DataError about integers between which floats do not distinguish."""
    if column.in_days or column.values.dtype.kind not in "iuO":
        return
    large = column.values[np.abs(numbers) >= 2.0**53].tolist()
    odd = next((value for value in large if isinstance(value, (int, np.integer)) and abs(int(value)) > 2**53), None)
    if odd is not None:
        raise DataError(
            f"Column {column.name!r} is numeric and holds integers beyond 2^53 such as {odd}, whose last digits would "
            "be lost: drop it if it is an identifier, subtract a constant from it, convert it to floats if these "
            f"digits do not matter, or give it another kind, such as kinds={{{column.name!r}: 'nominal'}}."
        )
