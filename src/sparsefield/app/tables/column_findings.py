"""This module decides what is worth saying about a column, and whether it can be learned from."""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from sparsefield.app.pages.short_names import shorten
from sparsefield.app.tables.column_entries import Finding
from sparsefield.app.tables.column_statistics import ColumnStatistics
from sparsefield.app.tables.missing_codes import find_missing_codes
from sparsefield.app.tables.ordered_levels import find_order
from sparsefield.app.tables.text_contents import (
    KeptAsText,
    find_dates,
    find_numbers,
    find_spellings,
    is_free_text,
    is_long_text,
)
from sparsefield.data.schema_learning import is_identifier

FEW_VALUES = 10
"""Columns with at most this many values are not taken for identifiers."""

MANY_LEVELS = 50
"""Number of levels of a column of text beyond which most of them are too rare to be learned from."""

RARE_ROWS = 5
"""A level is rare if fewer rows have it."""

NEARLY = 0.05
"""A column of so many rows that a few of them are less than this share is nearly constant if only they differ."""

SHOWN_LEVELS, LABEL_LENGTH = 3, 24

IDENTIFIER_NAME = re.compile(
    r"(?i:(?:^|[\W_])(?:id|ids|nr|key|uuid|guid|idx|index|respondent|participant|subject|record|case|serial|row)(?:[\W_]|$))"
    r"|^$|^[Uu]nnamed|[a-z]I[dD]$"
)
"""Names that identifiers have: respondent, customer_id, PassengerId; that of a pandas index is empty in a CSV."""

YEARS = (1500, 2200)

LARGEST_EXACT = 2**53
"""Larger integers are not numbers that a fit accepts."""


def find_role(column: ColumnStatistics, decimal: str = ".") -> Finding | None:
    """Return the finding that a column is empty, an identifier, free text, or dates or numbers kept as text.

    ``decimal`` is the decimal mark of the file that was read.
    """
    if not column.n_values:
        return Finding("empty", "no values at all")
    if column.is_text:
        return _role_of_text(column, decimal)
    if column.is_whole and column.kind.kind == "numeric":
        return _role_of_integers(column)
    if column.counts is not None and is_identifier(column.n_distinct, column.n_values):
        return Finding("identifier", _count_distinct(column))
    return None


def left_out(column: ColumnStatistics, role: Finding | None) -> str:
    """Return why a column cannot be learned from, or an empty text."""
    if role is None:
        return ""
    names = {"empty": "empty", "identifier": "an identifier", "free text": "free text"}
    if role.type in names:
        return names[role.type]
    as_text = role.type in ("dates as text", "numbers as text")
    return f"{role.type}, nearly all different" if as_text and _is_mostly_different(column) else ""


def _role_of_text(column: ColumnStatistics, decimal: str) -> Finding | None:
    levels = column.counts["level"] if column.counts is not None else pl.Series([], dtype=pl.String)
    dates = find_dates(levels)
    if dates is not None:
        how = ", day or month first" if dates.readable.startswith("day") else ""
        return Finding("dates as text", _describe_kept(levels, dates, how), dates.others, dates.readable)
    numbers = find_numbers(levels, decimal)
    if numbers is not None:
        marks = {",": ", with a decimal comma", ".": ", with a decimal point"} | {decimal: ""}
        how = marks.get(numbers.readable, ", with commas, separators or units")
        return Finding("numbers as text", _describe_kept(levels, numbers, how), numbers.others, numbers.readable)
    if column.counts is not None and is_free_text(column.counts, column.n_values):
        return Finding("free text", f"{_count_distinct(column)}, long")
    return Finding("identifier", _count_distinct(column)) if _is_mostly_different(column) else None


def _describe_kept(levels: pl.Series, kept: KeptAsText, how: str) -> str:
    """Return an example of numbers or dates that are kept as text, and the texts that are none."""
    example = next((level for level in levels if level not in kept.others), levels[0])
    others = f", except {_list_levels(kept.others)}" if kept.others else ""
    return f"such as {example!r}{how}{others}"


def _is_mostly_different(column: ColumnStatistics) -> bool:
    if is_identifier(column.n_distinct, column.n_values):
        return True
    return column.n_values > FEW_VALUES and column.n_distinct == column.n_values


def _role_of_integers(column: ColumnStatistics) -> Finding | None:
    """Return a finding if integers are numbered rows, or different and named like an identifier; else a question."""
    if not _is_mostly_different(column):
        return None
    named = bool(IDENTIFIER_NAME.search(column.name))
    consecutive = column.high - column.low == column.n_values - 1 and column.n_distinct == column.n_values
    years = column.low >= YEARS[0] and column.high <= YEARS[1]
    if named or (consecutive and not years) or column.high > LARGEST_EXACT:
        how = ", consecutive" if consecutive else ""
        return Finding("identifier", _count_distinct(column) + how)
    return Finding("all different", _count_distinct(column)) if column.n_distinct == column.n_values else None


def _count_distinct(column: ColumnStatistics) -> str:
    if column.n_distinct == column.n_values:
        return f"{column.n_values:,} values, all different"
    return f"{column.n_distinct:,} different values in {column.n_values:,} cells"


def find_in_values(column: ColumnStatistics) -> Iterator[Finding]:
    """Yield findings about the values of a column that can be learned from."""
    codes = find_missing_codes(column)
    if codes:
        shown = ", ".join(f"{_label(code)} ({_rows(rows)})" for code, rows in codes.items())
        yield Finding("missing codes", shown, tuple(codes))
    if column.n_distinct == 1:
        yield Finding("constant", f"only {_label(str(column.values.drop_nulls()[0]))}")
    if column.counts is not None and column.n_distinct > 1:
        yield from _find_in_levels(column, column.counts)


def _find_in_levels(column: ColumnStatistics, counts: pl.DataFrame) -> Iterator[Finding]:
    order = _find_order(column, counts)
    if column.is_text and not order and is_long_text(counts):
        yield Finding("long text", f"{column.n_distinct:,} levels of several words")
    if column.is_text and column.n_distinct > MANY_LEVELS:
        yield Finding("many levels", f"{column.n_distinct:,}")
    if order:
        yield Finding("ordered levels", f"from {_label(order[0])!r} to {_label(order[-1])!r}", order)
    groups = find_spellings(counts["level"]) if column.is_text else []
    if groups:
        more = f" and {len(groups) - 1:,} more" if len(groups) > 1 else ""
        yield Finding(
            "spelling", f"{' and '.join(repr(_label(one)) for one in groups[0])} differ in case or spaces{more}"
        )
    others = column.n_values - int(counts["rows"].max() or 0)  # type: ignore[arg-type]
    if others < RARE_ROWS <= NEARLY * column.n_values:
        most = counts.sort("rows", descending=True)["level"].cast(pl.String)[0]
        yield Finding("nearly constant", f"{_label(most)!r} in all but {_rows(others)}")
        return
    rare = counts.filter(pl.col("rows") < RARE_ROWS)["level"].cast(pl.String)
    if len(rare):
        yield Finding("rare levels", f"{_list_levels(rare.to_list())} in fewer than {RARE_ROWS} rows")


def _find_order(column: ColumnStatistics, counts: pl.DataFrame) -> tuple[str, ...]:
    """Return the levels of a nominal column of text in ascending order, without missing codes; nothing if unknown."""
    if not column.is_text or column.kind.kind != "nominal" or column.n_distinct > MANY_LEVELS:
        return ()
    codes = find_missing_codes(column)
    return find_order([level for level in counts["level"].to_list() if level not in codes])


def _list_levels(levels: list[str] | tuple[str, ...]) -> str:
    shown = ", ".join(repr(_label(level)) for level in levels[:SHOWN_LEVELS])
    return f"{shown} and {len(levels) - SHOWN_LEVELS:,} more" if len(levels) > SHOWN_LEVELS else shown


def _label(text: str) -> str:
    return shorten(text, LABEL_LENGTH)


def _rows(count: int) -> str:
    return f"{count:,} row" + ("" if count == 1 else "s")
