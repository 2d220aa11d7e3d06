"""This module recognizes what a column of text holds: dates, numbers, sentences, or several spellings of a level."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

SAMPLED_LEVELS = 2_000
"""A column with more levels is searched for dates and numbers only if these are among as many of its levels."""

ENOUGH = 0.8
"""Smallest share of the levels that are dates or numbers in a column that is said to hold them."""

DATE = (
    r"^\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})|\d{1,2} [A-Za-z]{3,9}\.? \d{4})"
    r"([T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?\s*([+-]\d{2}:?\d{2}|Z)?)?\s*$"
)
PLAIN_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
WRITTEN_NUMBER = r"^\s*[$€£]?\s*[+-]?(\d+|\d{1,3}([,. ']\d{3})+)([.,]\d+)?\s*(%|€|\$|£)?\s*$"
LEADING_ZERO = r"^\s*[+-]?0\d"

LONG_TEXT, MANY_WORDS = 30, 4
"""Mean numbers of characters and of words of a cell of free text."""

FREE_SHARE, FREE_LEVELS = 0.3, 20
"""Free text has more levels than this share of its cells, and more than this number."""


@dataclass(frozen=True)
class NumbersAsText:
    """The numbers in a column of text."""

    plain: bool
    """Whether all of them can be read as they are; otherwise they have decimal commas, units or separators."""
    others: tuple[str, ...]
    """The levels that are no numbers."""


def are_dates(levels: pl.Series) -> bool:
    """Return whether most levels are dates."""
    return _are_mostly(levels, DATE)


def find_numbers(levels: pl.Series) -> NumbersAsText | None:
    """Return what is known of the numbers if most levels are numbers, and no codes with leading zeros."""
    if not _are_mostly(levels, WRITTEN_NUMBER) and not _are_mostly(levels, PLAIN_NUMBER):
        return None
    if levels.str.contains(LEADING_ZERO).any():
        return None
    plain = levels.str.contains(PLAIN_NUMBER)
    numbers = plain | levels.str.contains(WRITTEN_NUMBER)
    return NumbersAsText(bool((plain | ~numbers).all()), tuple(levels.filter(~numbers)))


def is_free_text(counts: pl.DataFrame, n_values: int) -> bool:
    """Return whether cells are long, of several words, and mostly different."""
    if counts.height <= max(FREE_LEVELS, FREE_SHARE * n_values):
        return False
    length = pl.col("level").str.len_chars()
    words = pl.col("level").str.count_matches(r"\S+")
    total = counts.select((length * pl.col("rows")).sum(), (words * pl.col("rows")).sum().alias("words")).row(0)
    return total[0] >= LONG_TEXT * n_values and total[1] >= MANY_WORDS * n_values


def find_spellings(levels: pl.Series) -> list[tuple[str, ...]]:
    """Return groups of levels that differ only in case or in spaces."""
    same = levels.str.to_lowercase().str.strip_chars()
    same = same.str.replace_all(r"\s+", " ") if same.str.contains(r"\s\s|[^\S ]").any() else same
    if same.n_unique() == len(levels):
        return []
    groups = pl.DataFrame({"same": same, "level": levels}).group_by("same", maintain_order=True).all()
    return [tuple(group) for group in groups["level"] if len(group) > 1]


def _are_mostly(levels: pl.Series, pattern: str) -> bool:
    """Return whether at least `ENOUGH` of the levels, and three, match a pattern."""
    if len(levels) > SAMPLED_LEVELS and not _share(levels.gather_every(len(levels) // SAMPLED_LEVELS), pattern) > 0.5:
        return False
    return len(levels) >= 3 and _share(levels, pattern) >= ENOUGH


def _share(levels: pl.Series, pattern: str) -> float:
    return int(levels.str.contains(pattern).sum()) / len(levels)
