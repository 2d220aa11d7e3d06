"""This module reads columns of text as dates, where all their cells are dates of one format, and writes them alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

SAMPLE_ROWS = 1000
"""How many cells are tried first."""

YEAR_FIRST = re.compile(r"\d{4}([-/.])\d{1,2}\1\d{1,2}(.*)")
YEAR_LAST = re.compile(r"\d{1,2}([-/.])\d{1,2}\1\d{4}(.*)")
CLOCK = re.compile(r"([T ])\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?")

PARTS = {"%Y": "year", "%m": "month", "%d": "day"}


@dataclass(frozen=True)
class DateColumns:
    """The columns of a table of text that hold dates."""

    formats: dict[str, str]
    """{column: its format, such as "%d.%m.%Y"}"""
    ambiguous: tuple[str, ...] = ()
    """Columns in which the day or the month may come first."""

    @property
    def order(self) -> str | None:
        """What comes first in all columns whose year is last; None if there are none, or both occur."""
        found = {
            "day-first" if one.startswith("%d") else "month-first" for one in self.formats.values() if one[1] != "Y"
        }
        return found.pop() if len(found) == 1 else None


def date_formats(cells: pl.Series, order: str | None = None) -> list[str]:
    """Return the formats in which all cells are dates: none, one, or two if day and month cannot be told apart.

    Parameters
    ----------
    cells : text without spaces around it; nulls are skipped
    order : "day-first" or "month-first" decides; dates with dots have the day first by default

    Examples
    --------
    >>> import polars as pl
    >>> date_formats(pl.Series(["29.01.2024", "1.2.2024"]))
    ['%d.%m.%Y']
    >>> date_formats(pl.Series(["01/02/2024", "03/04/2024"]))
    ['%d/%m/%Y', '%m/%d/%Y']
    """
    first = next((cell for cell in cells.head(SAMPLE_ROWS) if cell is not None), None)
    possible = [] if first is None else _formats_of(first, order)
    for part in (cells.head(SAMPLE_ROWS), cells):
        possible = [one for one in possible if parse_dates(part, one).null_count() == part.null_count()]
    return possible


def _formats_of(cell: str, order: str | None) -> list[str]:
    """Return the formats that one cell may have."""
    for pattern in (YEAR_FIRST, YEAR_LAST):
        found = pattern.fullmatch(cell)
        clock = CLOCK.fullmatch(found[2]) if found and found[2] else None
        if found is None or (found[2] and clock is None):
            continue
        mark = found[1]
        orders = ["%Y %m %d"] if pattern is YEAR_FIRST else _orders(mark, order)
        time = "" if clock is None else f"{clock[1]}%H:%M" + ("" if clock[2] is None else ":%S%.f")
        return [one.replace(" ", mark) + time for one in orders]
    return []


def _orders(mark: str, order: str | None) -> list[str]:
    if order == "month-first":
        return ["%m %d %Y"]
    return ["%d %m %Y"] if order == "day-first" or mark == "." else ["%d %m %Y", "%m %d %Y"]


def parse_dates(cells: pl.Series, format: str) -> pl.Series:
    """Return the dates, or the times if the format has hours, of cells; null where a cell is none."""
    import polars as pl

    if "%H" in format:
        return cells.str.to_datetime(format, time_unit="us", strict=False)
    return cells.str.to_date(format, strict=False).cast(pl.Date)


def write_dates(dates: pl.Series, format: str, like: pl.Series) -> pl.Series:
    """Return dates as text in a format, with leading zeros unless the cells of a column do without them."""
    texts = dates.dt.to_string(format if "%.f" not in format or _has_fractions(like) else format.replace("%.f", ""))
    if not like.str.contains(r"(^|[-/. T])\d([-/.: T]|$)").any():
        return texts
    return texts.str.replace_all(r"(^|[-/. ])0(\d)", "${1}${2}")


def _has_fractions(cells: pl.Series) -> bool:
    return bool(cells.str.contains(r":\d{2}\.\d+$").any())


def read_dates(table: pl.DataFrame, order: str | None = None) -> tuple[pl.DataFrame, DateColumns]:
    """Return a table whose columns of dates kept as text are dates, and their formats.

    Parameters
    ----------
    table : table; only columns of text without spaces around cells are tried
    order : "day-first" or "month-first" decides where both are possible; "text" leaves all columns as they are
    """
    import polars as pl

    formats, ambiguous = {}, []
    for name in [] if order == "text" else [name for name, dtype in table.schema.items() if dtype == pl.String]:
        found = date_formats(table[name], order)
        if len(found) == 1:
            formats[name] = found[0]
        elif found:
            ambiguous.append(name)
    dates = [parse_dates(table[name], format) for name, format in formats.items()]
    return table.with_columns(dates) if dates else table, DateColumns(formats, tuple(ambiguous))


def describe_dates(formats: Sequence[tuple[str, str]]) -> str:
    """Return the columns of dates and their formats in words.

    Examples
    --------
    >>> describe_dates([("born", "%d.%m.%Y"), ("seen", "%d.%m.%Y")])
    "dates in 'born', 'seen' (day.month.year)"
    """
    columns: dict[str, list[str]] = {}
    for name, format in formats:
        columns.setdefault(format, []).append(name)
    return "; ".join(f"dates in {_list(names)} ({_in_words(format)})" for format, names in columns.items())


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:5]))
    return f"{shown} and {len(names) - 5:,} more" if len(names) > 5 else shown


def _in_words(format: str) -> str:
    words = re.split("[T ]", format)[0]
    for part, word in PARTS.items():
        words = words.replace(part, word)
    return f"{words} and time" if "%H" in format else words
