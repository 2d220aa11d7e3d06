"""Labels and numbers from the values of cells: dates, durations and decimal numbers become numbers, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from sparsefield import config
from sparsefield.errors import DataError

Label = str | int | float | bool

LARGEST_INTEGER = 2**1023
"""Integers from this size on, about 9e307, are refused: floats do not reach far beyond it."""

BEYOND_FLOATS = "integers that are too large for floats: drop it if it is an identifier, or divide it by a constant."


SECONDS_OF_DAY = 86400

DATED = ((date, np.datetime64), (timedelta, np.timedelta64), (time,))
"""The types of dates, of durations and of times of day."""


_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)\s*")


@dataclass(frozen=True)
class RawColumn:
    """A column of the input: the values of its cells, and a mask of the cells that have one."""

    name: str
    values: np.ndarray
    """Values of the present cells, of any dtype, (present cells,)."""
    present: np.ndarray
    """Whether each cell has a value, bool, (rows,)."""
    in_days: bool = False
    """Whether the values are numbers of days instead of the dates, times or durations of the input."""
    categorical: bool = False
    """Whether the type of the column is that of categories, which are no numbers even if all of them look so."""

    @property
    def holds_numbers(self) -> bool:
        """Whether all values are numbers; booleans and categories are not."""
        if self.categorical or self.values.dtype.kind != "O":
            return not self.categorical and self.values.dtype.kind in "iuf"
        return all(isinstance(value, (int, float, np.number)) and not isinstance(value, bool) for value in self.values)


def factorize(column: RawColumn, *, part: bool = False) -> tuple[list[Label], np.ndarray]:
    """Return the sorted distinct labels, and their index per cell, -1 for missing cells, (rows,).

    In a ``part`` of an object column, floats stay floats: only all parts together show whether all are integers.
    """
    values = as_integers(column.values)
    if values.dtype.kind in "biufU":
        # Zero has two signs, and their order after sorting is undefined.
        values = values + 0.0 if values.dtype.kind == "f" else values
        distinct, inverse = np.unique(values, return_inverse=True)
        labels = distinct.tolist()
        for label in labels if values.dtype.kind == "U" else labels[:1] + labels[-1:]:  # infinity is at the ends
            as_label(label, column.name)
    else:
        labels, inverse = _factorize_objects(values, column.name)
        labels = labels if part else _integer_labels(labels)
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


def _factorize_objects(values: np.ndarray, name: str) -> tuple[list[Label], np.ndarray]:
    index: dict[Label, int] = {}
    cells = values.tolist()
    try:
        # Distinct values first, since these are far fewer than cells, and only they need a conversion.
        position = {v: index.setdefault(as_label(v, name), len(index)) for v in dict.fromkeys(cells)}
    except TypeError:  # unhashable values, which are no labels either
        position = {as_label(v, name): 0 for v in cells}
    codes = np.fromiter(map(position.__getitem__, cells), dtype=np.int64, count=len(cells))
    labels: list[Label] = sorted(index, key=label_sort_key)
    rank = np.empty(len(index), dtype=np.int64)
    rank[[index[v] for v in labels]] = np.arange(len(labels))
    # Of True, 1 and 1.0, which are equal, the dictionary keeps the first, and rows may have any order.
    labels = [whole_label(v) for v in labels] if len(_number_types(cells)) > 1 else labels
    return labels, rank[codes] if len(codes) else codes


def _number_types(values: Iterable[Any]) -> set[type]:
    """Return which of booleans, integers and floats occur."""
    kinds = ((bool, (bool, np.bool_)), (int, (int, np.integer)), (float, (float, np.floating)))
    types = ([kind for kind, those in kinds if issubclass(other, those)] for other in set(map(type, values)))
    return {matching[0] for matching in types if matching}  # a boolean is an integer, too


def whole_label(label: Label) -> Label:
    """Return a boolean or a whole float as the integer that it is equal to; other labels as they are."""
    return int(label) if isinstance(label, bool) or _is_whole_float(label) else label


def _is_whole_float(label: Label) -> bool:
    """Return whether a label is a float that an integer of 64 bits, too, can express without loss."""
    return isinstance(label, float) and label.is_integer() and abs(label) < 2**53


def _integer_labels(labels: list[Label]) -> list[Label]:
    """Convert float labels to integers if all are whole."""
    return [int(label) for label in labels] if all(map(_is_whole_float, labels)) else labels


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
    """Return a value of a column as a label; a DataError for what is none."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (str, int, float, bool)):
        if isinstance(value, float) and not np.isfinite(value):
            raise DataError(f"Column {name!r} holds infinity: replace it by a number or empty the cell.")
        if isinstance(value, int) and abs(value) >= LARGEST_INTEGER:
            raise DataError(f"Column {name!r} holds {BEYOND_FLOATS}")
        if isinstance(value, str) and not is_valid_text(value):
            raise DataError(f"Column {name!r} holds text that is no valid Unicode, {value[:40]!r}: correct it.")
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


def is_missing(value: Any) -> bool:
    """Return whether a cell is None, NaN, NaT or pandas' NA."""
    if value is None:
        return True
    try:  # NaN is the one value that differs from itself; for pandas' NA the comparison is undefined
        return bool(value != value)
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"


def plain_values(name: str, values: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return the values of a column as numbers, text or booleans, and whether they are numbers of days.

    Dates and times are days since 1970, durations and times of day are days; decimals are floats, intervals text.
    """
    if values.dtype.kind == "O":
        values = _plain_objects(name, values)
    if values.dtype.kind == "M":
        values = values - np.datetime64(0, "D")
    return (values / np.timedelta64(1, "D"), True) if values.dtype.kind == "m" else (values, False)


def plain_labels(name: str, values: Sequence[Any]) -> list[Any]:
    """Return the categories of a column as `plain_values` returns its cells."""
    return plain_values(name, as_objects(list(values)))[0].tolist()


def _plain_objects(name: str, values: np.ndarray) -> np.ndarray:
    types = set(map(type, values.tolist()))
    for family in DATED:
        if any(issubclass(kind, family) for kind in types):
            if not all(issubclass(kind, family) for kind in types):
                raise DataError(f"Column {name!r} holds dates or times beside other values: give it one type.")
            return _as_numpy_dates(values)
    # Decimal numbers become floats, and pandas' intervals text, without an import of pandas.
    converters = {kind: float for kind in types if issubclass(kind, Decimal)}
    converters |= {kind: str for kind in types if kind.__name__ == "Interval" and kind.__module__.startswith("pandas")}
    if not converters:
        return values
    converted = as_objects([converters.get(type(value), lambda same: same)(value) for value in values])
    return converted.astype(np.float64) if {converters.get(kind, kind) for kind in types} <= {float, int} else converted


def as_objects(values: Sequence[Any]) -> np.ndarray:
    """Return values as a flat array of objects, whatever they are."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _as_numpy_dates(values: np.ndarray) -> np.ndarray:
    """Return dates, durations or times of day as an array of NumPy's dates or durations."""
    cells = values.tolist()
    if all(isinstance(cell, (np.datetime64, np.timedelta64)) for cell in cells):
        return np.array(cells)
    if isinstance(cells[0], time):
        cells = [datetime.combine(date.min, cell.replace(tzinfo=None)) - datetime.min for cell in cells]
    cells = [
        cell.astimezone(UTC).replace(tzinfo=None) if isinstance(cell, datetime) and cell.tzinfo else cell
        for cell in cells
    ]
    return np.array(cells, dtype="m8[us]" if isinstance(cells[0], (timedelta, np.timedelta64)) else "M8[us]")


def days_as_numpy(dtype: np.dtype, days: Sequence[float]) -> list[Any]:
    """Return numbers of days as dates or durations of a NumPy type."""
    # In seconds, since numbers of days have rounding errors of nanoseconds.
    unit, per_day = ("D", 1) if np.datetime_data(dtype)[0] in ("Y", "M", "W", "D") else ("s", SECONDS_OF_DAY)
    durations = [np.timedelta64(round(one * per_day), unit) for one in days]
    return [(one if dtype.kind == "m" else np.datetime64(0, "D") + one).astype(dtype) for one in durations]


def as_floats_of(dtype: np.dtype, labels: list[Any]) -> list[Any]:
    """Return numbers rounded to a type of floats; those beyond its range, and text, stay as they are."""
    if any(isinstance(label, str) for label in labels):
        return labels
    with np.errstate(over="ignore"):
        rounded = np.array(labels, dtype=np.float64).astype(dtype)
    return rounded.tolist() if np.isfinite(rounded).all() else labels


def cells_like(cells: Sequence[Any], labels: list[Any]) -> list[Any]:
    """Return labels as booleans, decimal numbers or text if the cells of a column are; otherwise as they are."""
    known = [cell for cell in cells if not is_missing(cell)]
    if not known or any(isinstance(label, str) for label in labels):
        return labels
    if all(isinstance(cell, (bool, np.bool_)) for cell in known):
        return [bool(label) if label in (0, 1) else label for label in labels]
    if isinstance(known[0], Decimal):
        places = max(-int(cell.as_tuple().exponent) for cell in known if isinstance(cell, Decimal) and cell.is_finite())
        return [Decimal(f"{label:.{max(places, 0)}f}") for label in labels]
    if all(isinstance(cell, str) and _NUMBER.fullmatch(cell) for cell in known):
        places = max(len(cell.partition(".")[2].rstrip()) for cell in known)
        return [f"{label:.{places}f}" for label in labels]
    return labels


def is_valid_text(value: object) -> bool:
    """Return whether a value is text without half of a surrogate pair, which no file can hold."""
    if not isinstance(value, str):
        return False
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False
