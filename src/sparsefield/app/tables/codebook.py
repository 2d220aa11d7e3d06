"""This module inspects a table, and returns its codebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sparsefield import config
from sparsefield.app.pages.short_names import shorten
from sparsefield.app.tables.codebook_advice import missing_codes_of
from sparsefield.app.tables.codebook_contents import CodebookContents
from sparsefield.app.tables.codebook_text import render_text
from sparsefield.app.tables.column_entries import FRACTIONS, ColumnEntry, Finding, LevelCount
from sparsefield.app.tables.column_findings import find_in_values, find_role, left_out
from sparsefield.app.tables.column_statistics import ColumnStatistics, as_polars, summarize
from sparsefield.app.tables.duplicate_columns import count_duplicate_rows, find_duplicates
from sparsefield.app.tables.missing_words import missing_numbers
from sparsefield.app.tables.order_lists import find_order_list
from sparsefield.data.frames import as_source

MOST_LEVELS = 20
"""Number of levels of a column that an entry lists."""

LABEL_LENGTH = 60


@dataclass(frozen=True)
class Codebook(CodebookContents):
    """A codebook describes the columns of a table, and what deserves a look before a fit.

    Printed, it is a table with the columns that have findings first. A notebook shows it as a table, too.

    Attributes
    ----------
    columns : tuple of ColumnEntry
        One entry per column, in the order of the table; ``codebook["age"]`` is that of the column ``age``.
    n_rows, duplicate_rows : int
        Numbers of rows, and of rows that are equal to an earlier one.
    source : str
        A sentence on how the table was read; may be empty.
    missing_share : float
        Share of all cells that are missing.
    left_out : tuple of str
        Columns that commands leave out of a fit unless an option names them.
    advice : list of Advice
        What to do about the findings, with the options to give at the command line.
    options : str
        The options of all advice for one command, without those that depend on what the table does not show.
    """

    def __str__(self) -> str:
        return render_text(self)


def inspect(frame: Any, *, source: str = "", decimal: str = ".") -> Codebook:
    """Describe the columns of a table: kinds, levels, missing values, and what deserves a look before a fit.

    Parameters
    ----------
    frame : pandas, polars, arrow or other frame known to narwhals; or a 2-D array
    source : str
        A sentence on how the table was read.
    decimal : str
        The decimal mark with which the table was read, if it was text.

    Returns
    -------
    Codebook

    Examples
    --------
    >>> import polars as pl
    >>> answers = {"person": range(100, 140), "age": [*range(20, 39), -99] * 2, "smokes": ["yes", "no"] * 20}
    >>> book = inspect(pl.DataFrame(answers))
    >>> [entry.kind for entry in book.columns], book.left_out
    (['numeric', 'numeric', 'nominal'], ('person',))
    >>> book["age"].finding("missing codes").values
    ('-99',)
    >>> print(book.advice[0])
    'person' is an identifier, which cannot be learned: --id person
    """
    table = as_source(frame, "The table", may_be_empty=True)
    values = as_polars(table)
    found = summarize(table, values)
    roles = {column.name: find_role(column, decimal) for column in found}
    reasons = {column.name: left_out(column, roles[column.name]) for column in found}
    equal = find_duplicates(found, {name for name, reason in reasons.items() if reason})
    entries = tuple(
        _make_entry(column, roles[column.name], reasons[column.name], equal.get(column.name)) for column in found
    )
    repeats, orders = count_duplicate_rows(values), find_order_list(found)
    return Codebook(entries, values.height, repeats, source, orders, decimal, _find_code_values(entries, values))


def _find_code_values(entries: Sequence[ColumnEntry], values: pl.DataFrame) -> dict[str, tuple[str, ...]]:
    """Return {missing code that is a number: columns of which it is a value like others}."""
    where = missing_codes_of([entry for entry in entries if not entry.finding("duplicate")])
    kept = [entry.name for entry in entries if not entry.left_out]
    numbers = {code: number for code in where for number in missing_numbers([code])}
    found: dict[str, tuple[str, ...]] = {}
    for code, number in numbers.items():
        others = [name for name in kept if name not in where[code] and values[name].dtype.is_numeric()]
        found[code] = tuple(name for name in others if (values[name] == number).any())
    return {code: names for code, names in found.items() if names}


def _make_entry(
    column: ColumnStatistics, role: Finding | None, reason: str, equal: tuple[str, bool] | None
) -> ColumnEntry:
    findings = [] if role is None else [role]
    if equal is not None:
        how = ", with other labels" if equal[1] else ""
        findings.append(Finding("duplicate", f"same values as {equal[0]!r}{how}", (equal[0],)))
    findings += [] if reason else find_in_values(column)
    low, high, median = _limits(column)
    return ColumnEntry(
        column.name,
        column.kind.kind,
        _explain_kind(column),
        len(column.values),
        column.n_missing,
        column.n_distinct,
        _levels(column),
        low,
        high,
        median,
        tuple(findings),
        reason,
    )


def _explain_kind(column: ColumnStatistics) -> str:
    """Return why a column has its kind, by the rules of `kind_of`."""
    traits, dtype = column.traits, column.values.dtype
    count = f"{column.n_distinct:,} different whole number" + "s" * (column.n_distinct != 1)
    if not column.n_values:
        return "no values"
    if traits.order:
        return "an ordered categorical type"
    if column.kind.kind == "numeric" and traits.fractions:
        return "dates or times" if dtype.is_temporal() else FRACTIONS
    if traits.numbers:
        return f"{count}, more than {config.NUMERIC_STATES}" if column.kind.kind == "numeric" else count
    return "text" if column.is_text else "true and false" if dtype == pl.Boolean else "categories"


def _levels(column: ColumnStatistics) -> tuple[LevelCount, ...]:
    """Return the most frequent levels, those of an ordinal column in their order, or ranges of numbers."""
    if column.counts is None:
        return _ranges(column)
    pairs = list(column.counts.head(MOST_LEVELS).iter_rows())
    if column.kind.kind == "ordinal":
        order = {str(label): k for k, label in enumerate(column.kind.order)}
        pairs.sort(key=lambda pair: order.get(str(pair[0]), 0) if order else pair[0])
    return tuple(
        LevelCount(shorten(format_value(label).replace("\n", " "), LABEL_LENGTH), rows) for label, rows in pairs
    )


def _ranges(column: ColumnStatistics) -> tuple[LevelCount, ...]:
    if column.numbers is None:
        return ()
    ends = [_from_physical(column, limit) for limit in column.numbers.limits]
    return tuple(LevelCount(f"{ends[k]} to {ends[k + 1]}", int(rows)) for k, rows in enumerate(column.numbers.rows))


def _limits(column: ColumnStatistics) -> tuple[str, str, str]:
    if column.numbers is None:
        return "", "", ""
    return format_value(column.low), format_value(column.high), _from_physical(column, column.numbers.median)


def _from_physical(column: ColumnStatistics, number: float) -> str:
    """Return a number as text; that of a column of dates as a date."""
    if not column.values.dtype.is_temporal():
        return format_value(number)
    return format_value(pl.Series([int(number)]).cast(column.values.dtype)[0])


def format_value(value: Any) -> str:
    """Return a value as short text: a number with four digits, and whole numbers with all of them.

    Examples
    --------
    >>> format_value(3.0), format_value(0.123456), format_value(123456)
    ('3', '0.1235', '123456')
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else f"{value:.4g}"
