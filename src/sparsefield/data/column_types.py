"""Types of columns of dates and of categories, so that answers can have them, and numbers written for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import narwhals.stable.v2 as nw
import numpy as np

from sparsefield.data.labels import SECONDS_OF_DAY, as_objects, is_missing, plain_values
from sparsefield.errors import DataError

DATED = re.compile(r"(date|time|datetime|duration)(?:\[(s|ms|us|ns)(?:, (\S+))?\])?")
"""The types of dates, times of day, times and durations, with unit and time zone: ``"datetime[us, Europe/Rome]"``."""

CATEGORIES = ("categorical", "ordered")
"""The types of categorical columns without and with an order."""

FAMILIES = {"date": "dates", "datetime": "dates", "time": "times of day", "duration": "durations"}

LARGEST_PLAIN, SMALLEST_PLAIN = 1e15, 1e-5
"""Numbers beyond these magnitudes are written with an exponent."""


class ColumnType(NamedTuple):
    """The type of a column that its labels do not tell."""

    dtype: str = ""
    """A type of `DATED` or `CATEGORIES`; empty for all other columns, which have the type of their labels."""
    categories: tuple[Any, ...] = ()
    """The categories of a categorical type, if it has fixed ones."""

    @classmethod
    def join(cls, parts: Sequence[ColumnType]) -> ColumnType:
        """Return the type that partitions of a column have in common; those without values have none."""
        types = set(parts) - {cls()}
        if len(types) == 1:
            return types.pop()
        if {part.dtype for part in types} == {"categorical"}:
            return cls("categorical", tuple(dict.fromkeys(label for part in parts for label in part.categories)))
        return cls()


def is_column_type(dtype: Any, categories: Any) -> bool:
    """Return whether a type may be that of a column; types are read from model files."""
    if not isinstance(dtype, str) or not isinstance(categories, tuple):
        return False
    if any(not isinstance(label, (str, int, float)) for label in categories):
        return False
    if dtype in CATEGORIES:
        return len(set(categories)) == len(categories)
    return not categories and (dtype == "" or DATED.fullmatch(dtype) is not None)


def family_of(dtype: str) -> str:
    """Return "dates", "times of day" or "durations" for the type of a column; empty for all others."""
    match = DATED.fullmatch(dtype)
    return FAMILIES[match[1]] if match else ""


def type_of_series(series: nw.Series) -> ColumnType:
    """Return the type of a column of a frame."""
    dtype = series.dtype
    if dtype.is_numeric():
        return ColumnType()
    if dtype == nw.Date:
        return ColumnType("date")
    if dtype == nw.Time:
        return ColumnType("time")
    if isinstance(dtype, nw.Datetime):
        return ColumnType(_times(dtype.time_unit, dtype.time_zone))
    if isinstance(dtype, nw.Duration):
        return ColumnType(f"duration[{dtype.time_unit}]")
    if dtype in (nw.Categorical, nw.Enum):
        # Categories of polars' Categorical are those of all columns, and an array of Arrow has its own in each chunk.
        fixed = dtype == nw.Enum or series.implementation.is_pandas_like()
        name = "ordered" if dtype == nw.Enum else "categorical"
        values, in_days = plain_values(series.name, as_objects(series.cat.get_categories().to_list() if fixed else []))
        return ColumnType() if in_days else ColumnType(name, tuple(values.tolist()))
    return _type_of_cells(series.to_list()) if dtype == nw.Object else ColumnType()


def type_of_array(cells: np.ndarray) -> ColumnType:
    """Return the type of a column of an array."""
    if cells.dtype.kind in "mM":
        return _type_of_numpy(cells.dtype)
    return _type_of_cells(cells.tolist()) if cells.dtype.kind == "O" else ColumnType()


def empty_series(name: str, length: int, column_type: ColumnType, backend: Any) -> nw.Series | None:
    """Return a series of missing cells of a type; None if the library has no such type."""
    dtype, categories = column_type
    dated = DATED.fullmatch(dtype)
    if backend == "pandas":
        import pandas as pd

        kind: Any = object
        if dtype in CATEGORIES:
            kind = pd.CategoricalDtype(list(categories) or None, ordered=dtype == "ordered")
        elif dated and dated[1] in ("datetime", "duration"):
            kind = _with_unit(dated[1], dated[2] or "ns", dated[3])
            return nw.new_series(name, [None] * length, kind, backend=backend)
        return nw.from_native(pd.Series([None] * length, dtype=kind, name=name), series_only=True)
    text = all(isinstance(label, str) for label in categories)
    if dated:
        unit = "ms" if dated[2] == "s" else dated[2] or "us"
        kind = {"date": nw.Date(), "time": nw.Time()}.get(dated[1]) or _with_unit(dated[1], unit, dated[3])
    elif dtype == "ordered" and text and backend == "polars":
        kind = nw.Enum(list(categories))
    elif dtype in CATEGORIES and text:
        # An array of pyarrow 18 cannot be made of nulls and a dictionary type at once.
        return nw.new_series(name, [None] * length, nw.String(), backend=backend).cast(nw.Categorical())
    else:
        return None
    return nw.new_series(name, [None] * length, kind, backend=backend)


def cells_of_days(days: Sequence[float], dtype: str, per_second: int = 1) -> list[Any]:
    """Return numbers of days as cells of a type of `DATED`; times to the second, or to a part of it."""
    kind, unit, zone = _parts_of(dtype)
    if kind == "date":
        return [date(1970, 1, 1) + timedelta(days=round(day)) for day in days]
    if kind == "duration":
        size = {"s": 10**6, "ms": 10**3}.get(unit, 1)  # in microseconds
        return [timedelta(microseconds=round(day * SECONDS_OF_DAY * 10**6 / size) * size) for day in days]
    parts = [round(day * SECONDS_OF_DAY * per_second) * (10**6 // per_second) for day in days]
    times = [datetime(1970, 1, 1, tzinfo=UTC if zone else None) + timedelta(microseconds=part) for part in parts]
    if kind == "time":
        return [moment.time() for moment in times]
    return [moment.astimezone(ZoneInfo(zone)) for moment in times] if zone else times


def _parts_of(dtype: str) -> tuple[str, str, str]:
    """Return the kind, the unit and the time zone of a type of `DATED`; empty text for what it does not have."""
    match = DATED.fullmatch(dtype)
    assert match is not None
    kind, unit, zone = match.groups(default="")
    return kind, unit, zone


def days_of(name: str, value: Any, dtype: str, what: str) -> float:
    """Return a date, time or duration, which may be text or a number of days, as a number of days.

    Parameters
    ----------
    name : the column
    dtype : its type, one of `DATED`
    what : where the value is from, for messages
    """
    given, zone = value, _parts_of(dtype)[2]
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            value = _parse(value, family_of(dtype))
    if isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, np.timedelta64)):
        return float(value)
    family = family_of(_type_of_cells([value]).dtype)
    if family != family_of(dtype):
        example = {"dates": " such as 2020-01-31", "times of day": " such as 16:30"}.get(family_of(dtype), "")
        raise DataError(f"Column {name!r} holds {family_of(dtype)}{example}; {what}= has {given!r}.")
    if isinstance(value, date) and zone:
        value = value if isinstance(value, datetime) else datetime.combine(value, time())
        value = value if value.tzinfo else value.replace(tzinfo=ZoneInfo(zone))
    return float(plain_values(name, as_objects([value]))[0][0])


def _parse(text: str, family: str) -> Any:
    """Return a text as a date, a time or a time of day; None if it is none."""
    try:
        if family == "dates":
            return datetime.fromisoformat(text)
        return time.fromisoformat(text) if family == "times of day" else None
    except ValueError:
        return None


def _with_unit(kind: str, unit: Any, zone: str | None) -> Any:
    return nw.Datetime(unit, zone) if kind == "datetime" else nw.Duration(unit)


def _times(unit: str, zone: Any) -> str:
    return f"datetime[{unit}, {zone}]" if zone else f"datetime[{unit}]"


def _type_of_numpy(dtype: np.dtype) -> ColumnType:
    unit = np.datetime_data(dtype)[0]
    if dtype.kind == "M" and unit in ("Y", "M", "W", "D"):
        return ColumnType("date")
    unit = unit if unit in ("s", "ms", "us", "ns") else "s"
    return ColumnType(_times(unit, None) if dtype.kind == "M" else f"duration[{unit}]")


def _type_of_cells(cells: Sequence[Any]) -> ColumnType:
    """Return the type of the first cell with a value."""
    first = next((cell for cell in cells if not is_missing(cell)), None)
    if isinstance(first, (np.datetime64, np.timedelta64)):
        return _type_of_numpy(first.dtype)
    if isinstance(first, datetime):
        zone = getattr(first.tzinfo, "key", "UTC") if first.tzinfo and first.tzinfo is not UTC else first.tzinfo
        return ColumnType(_times("us", zone))
    if isinstance(first, date):
        return ColumnType("date")
    if isinstance(first, timedelta):
        return ColumnType("duration[us]")
    return ColumnType("time") if isinstance(first, time) else ColumnType()


def write_number(number: float, digits: int = 4, dtype: str = "") -> str:
    """Return a number with so many significant digits; of a column of dates, times or durations, what it means in days.

    Examples
    --------
    >>> write_number(18262.0), write_number(0.00123456), write_number(18262.0, dtype="date")
    ('18262', '0.001235', '2020-01-01')
    >>> write_number(0.5, dtype="time"), write_number(2.25, dtype="duration[us]")
    ('12:00', '2.25 days')
    """
    family = family_of(dtype)
    if family == "dates":
        try:
            (moment,) = cells_of_days([number], dtype)
        except (OverflowError, ValueError):
            return f"{number:.4g} days after 1970-01-01"
        return moment.strftime("%Y-%m-%d %H:%M").removesuffix(" 00:00")
    if family == "times of day":
        minutes = round(number * 24 * 60)
        return f"{minutes // 60:02d}:{minutes % 60:02d}"
    return _plain(number, digits) + (" days" if family else "")


def write_distinct(numbers: Sequence[float], dtype: str = "") -> list[str]:
    """Return ascending numbers with as few digits as distinguish them, but three at least; dates as dates.

    Examples
    --------
    >>> write_distinct([12.0, 18.5, 18400.0])
    ['12', '18.5', '18400']
    """
    shown: list[str] = []
    for digits in range(3, 18):
        shown = [write_number(number, digits, dtype) for number in numbers]
        if len(set(shown)) == len(shown):
            break
    return shown


def _plain(number: float, digits: int) -> str:
    size = abs(number)
    if number != number or (number and not SMALLEST_PLAIN <= size < LARGEST_PLAIN):
        return f"{number:.{digits}g}"
    if size >= 10**digits:  # all digits before the decimal point, since zeros in their place would look exact
        return f"{number:.0f}"
    return np.format_float_positional(number, precision=digits, unique=False, fractional=False, trim="-")
