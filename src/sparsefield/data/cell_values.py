"""Dates, durations, decimal numbers and intervals as plain numbers and text, and back; checks of Unicode."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from sparsefield.errors import DataError

SECONDS_OF_DAY = 86400

DATED = ((date, np.datetime64), (timedelta, np.timedelta64), (time,))
"""The types of dates, of durations and of times of day."""


_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)\s*")


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

    Dates and times are days since 1970, durations and times of day are days; decimal numbers are floats; intervals are
    text.
    """
    if values.dtype.kind == "O":
        values = _plain_objects(name, values)
    if values.dtype.kind == "M":
        values = values - np.datetime64(0, "D")
    return (values / np.timedelta64(1, "D"), True) if values.dtype.kind == "m" else (values, False)


def plain_labels(name: str, values: Sequence[Any]) -> list[Any]:
    """Return the categories of a column as `plain_values` returns its cells."""
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    return plain_values(name, array)[0].tolist()


def _plain_objects(name: str, values: np.ndarray) -> np.ndarray:
    types = set(map(type, values.tolist()))
    for family in DATED:
        if any(issubclass(one, family) for one in types):
            if not all(issubclass(one, family) for one in types):
                raise DataError(f"Column {name!r} holds dates or times beside other values: give it one type.")
            return _as_numpy_dates(values)
    if any(issubclass(one, Decimal) for one in types):
        values = _convert(values, lambda value: float(value) if isinstance(value, Decimal) else value)
        types = {float if issubclass(one, Decimal) else one for one in types}
        values = values.astype(np.float64) if types <= {float, int} else values
    if any(_is_interval(one) for one in types):
        values = _convert(values, lambda value: str(value) if _is_interval(type(value)) else value)
    return values


def _convert(values: np.ndarray, function: Any) -> np.ndarray:
    made = np.empty(len(values), dtype=object)
    made[:] = [function(value) for value in values]
    return made


def _is_interval(kind: type) -> bool:
    """Return whether a type is pandas' Interval, without an import of pandas."""
    return kind.__name__ == "Interval" and kind.__module__.startswith("pandas")


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


def days_as_dates(days: Sequence[float]) -> list[date]:
    """Return days since 1970 as dates."""
    return [date(1970, 1, 1) + timedelta(days=round(one)) for one in days]


def days_as_times(days: Sequence[float], zone: Any = None, per_second: int = 1) -> list[datetime]:
    """Return days since 1970 as times, to the second or to a part of it, in a time zone or without one."""
    zone = ZoneInfo(zone) if isinstance(zone, str) else zone
    start = datetime(1970, 1, 1, tzinfo=None if zone is None else UTC)
    found = [
        start + timedelta(microseconds=round(one * SECONDS_OF_DAY * per_second) * (10**6 // per_second)) for one in days
    ]
    return found if zone is None else [one.astimezone(zone) for one in found]


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
    """Return labels as values of the type of a column's cells; those that have none of that type stay as they are."""
    known = [cell for cell in cells if not is_missing(cell)]
    if not known:
        return labels
    first = known[0]
    if any(isinstance(label, str) for label in labels):
        by_text = {str(cell): cell for cell in known if _is_interval(type(cell))}
        return [by_text.get(label, label) for label in labels]
    if isinstance(first, (bool, np.bool_)):
        same = all(isinstance(cell, (bool, np.bool_)) for cell in known)
        return [bool(label) if same and label in (0, 1) else label for label in labels]
    if isinstance(first, (np.datetime64, np.timedelta64)):
        return days_as_numpy(first.dtype, labels)
    if isinstance(first, datetime):
        found = days_as_times(labels, first.tzinfo)
        make: Any = type(first)  # datetime, or pandas' Timestamp
        return list(found) if make is datetime else [make(one) for one in found]
    if isinstance(first, date):
        return list(days_as_dates(labels))
    if isinstance(first, timedelta):
        return [type(first)(seconds=round(one * SECONDS_OF_DAY)) for one in labels]
    if isinstance(first, time):
        return [one.time().replace(tzinfo=first.tzinfo) for one in days_as_times(labels)]
    if isinstance(first, Decimal):
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


def refuse_half_characters(name: str, labels: Iterable[object], cells: np.ndarray, present: np.ndarray) -> None:
    """Raise a DataError about the first cell of a column whose label is text but no valid Unicode.

    Parameters
    ----------
    name : name of the column
    labels : distinct values of the cells
    cells : values that are not missing, (values,)
    present : which rows have a value, (rows,)
    """
    odd = {label for label in labels if isinstance(label, str) and not is_valid_text(label)}
    if odd:
        row, text = next((row, cell) for row, cell in zip(np.flatnonzero(present), cells, strict=True) if cell in odd)
        raise DataError(f"Column {name!r} holds {describe_half_character(text)} (row {row:,}): correct it.")


def describe_half_character(text: object) -> str:
    return f"text that is no valid Unicode, {str(text)[:40]!r}"
