"""This module recognizes what a column of text holds: dates, numbers, sentences, or several spellings of a level."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sparsefield.app.tables.date_text import date_formats
from sparsefield.app.tables.missing_codes import are_text_codes
from sparsefield.app.tables.typed_text import type_columns

SAMPLED_LEVELS = 2_000
"""A column with more levels is searched for dates and numbers only if these are among as many of its levels."""

ENOUGH = 0.8
"""Smallest share of the levels that are dates or numbers in a column that is said to hold them."""

DATE = (
    r"^\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})|\d{1,2} [A-Za-z]{3,9}\.? \d{4})"
    r"([T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?\s*([+-]\d{2}:?\d{2}|Z)?)?\s*$"
)
PLAIN_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
UNITS = (
    "%|€|[$]|£|°C|°F|[cmk]?m|[mk]?g|lbs?|m?l|ms|s|sec|min|h|hrs?|hours?|days?|yrs?|years?|USD|EUR|GBP|CHF|Euro|Jahre"
)
WRITTEN_NUMBER = rf"^\s*[$€£]?\s*[+-]?(\d+|\d{{1,3}}([,. ']\d{{3}})+)([.,]\d+)?\s*(?i:{UNITS})?\.?\s*$"
LEADING_ZERO = r"^\s*[+-]?0\d"

LONG_TEXT, MANY_WORDS = 30, 4
"""Mean numbers of characters and of words of a cell of free text."""

FREE_SHARE, FREE_LEVELS = 0.3, 20
"""Free text has more levels than this share of its cells, and more than this number."""

SINGLE_SHARE = 0.2
"""Share of the cells that are different, from which a column of long and short text may be free text."""

LONG_LEVELS, ROWS_OF_LONG = 5, 100
"""Long text that may be free text has more levels than this number, and at most this number of cells for a level."""


@dataclass(frozen=True)
class KeptAsText:
    """What is known of numbers or dates that are kept as text."""

    readable: str
    """How they are read if the others are missing: a decimal mark, "date" or "day-first or month-first"; or empty."""
    others: tuple[str, ...]
    """The levels that are no numbers or dates."""


def find_dates(levels: pl.Series) -> KeptAsText | None:
    """Return what is known of the dates if most levels are dates."""
    if not _are_mostly(levels, DATE):
        return None
    are_dates = levels.str.contains(DATE)
    formats = date_formats(levels.filter(are_dates).str.strip_chars())
    readable = ("", "date", "day-first or month-first")[len(formats)]
    return KeptAsText(readable, tuple(levels.filter(~are_dates)))


def find_numbers(levels: pl.Series, decimal: str = ".") -> KeptAsText | None:
    """Return what is known of the numbers if most levels are numbers, and no codes with leading zeros.

    ``decimal`` is the decimal mark to try first.
    """
    if not _are_mostly(levels, WRITTEN_NUMBER) and not _are_mostly(levels, PLAIN_NUMBER):
        return None
    if levels.str.contains(LEADING_ZERO).any():
        return None
    are_numbers = levels.str.contains(PLAIN_NUMBER) | levels.str.contains(WRITTEN_NUMBER)
    numbers = levels.filter(are_numbers)
    readable = next((mark for mark in (decimal, *",.") if _can_be_read(numbers, mark)), "")
    return KeptAsText(readable, tuple(levels.filter(~are_numbers)))


def _can_be_read(numbers: pl.Series, decimal: str) -> bool:
    """Return whether a file with this decimal mark is read with numbers in place of these texts."""
    return type_columns(numbers.to_frame(), (), decimal).to_series().dtype.is_numeric()


def is_free_text(counts: pl.DataFrame, n_values: int) -> bool:
    """Return whether cells are long, of several words, and mostly different."""
    return counts.height > max(FREE_LEVELS, FREE_SHARE * n_values) and _are_long(counts)


def is_long_text(counts: pl.DataFrame) -> bool:
    """Return whether cells are long, of several words, and have many levels for their number, but often the same."""
    known = counts.filter(~are_text_codes(counts["level"]))
    varied = known.height > LONG_LEVELS and known["rows"].sum() <= ROWS_OF_LONG * known.height
    return varied and (_are_long(known) or _are_long_where_different(known))


def _are_long_where_different(counts: pl.DataFrame) -> bool:
    """Return whether many cells are long and different, beside short ones that are often the same, such as "none"."""
    once = counts.filter(pl.col("rows") == 1)
    many = once.height > FREE_LEVELS and once.height >= SINGLE_SHARE * int(counts["rows"].sum())
    return many and _are_long(once)


def _are_long(counts: pl.DataFrame) -> bool:
    length = pl.col("level").str.len_chars()
    words = pl.col("level").str.count_matches(r"\S+")
    rows = pl.col("rows")
    sums = counts.select((length * rows).sum(), (words * rows).sum().alias("words"), rows.sum().alias("all")).row(0)
    return sums[0] >= LONG_TEXT * sums[2] and sums[1] >= MANY_WORDS * sums[2]


def find_spellings(levels: pl.Series) -> list[tuple[str, ...]]:
    """Return groups of levels that differ only in case or in spaces."""
    same = levels.str.to_lowercase().str.strip_chars()
    same = same.str.replace_all(r"\s+", " ") if same.str.contains(r"\s\s|[^\S ]").any() else same
    if same.n_unique() == len(levels):
        return []
    groups = pl.DataFrame({"same": same, "level": levels}).group_by("same", maintain_order=True).all()
    return [tuple(group) for group in groups["level"] if len(group) > 1]


def _are_mostly(levels: pl.Series, pattern: str) -> bool:
    """Return whether at least `ENOUGH` of the levels that are no missing codes, and three, match a pattern."""
    levels = levels.filter(~are_text_codes(levels))
    if len(levels) > SAMPLED_LEVELS and not _share(levels.gather_every(len(levels) // SAMPLED_LEVELS), pattern) > 0.5:
        return False
    return len(levels) >= 3 and _share(levels, pattern) >= ENOUGH


def _share(levels: pl.Series, pattern: str) -> float:
    return int(levels.str.contains(pattern).sum()) / len(levels)
