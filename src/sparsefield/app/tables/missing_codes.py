"""This module finds values that probably mean that a value is missing, such as -99 or "k.A."."""

from __future__ import annotations

import polars as pl

from sparsefield.app.tables.column_entries import MOST_CODES
from sparsefield.app.tables.column_statistics import ColumnStatistics

NUMBER_CODES = tuple(sign * int(digit * length) for digit in "789" for length in range(1, 6) for sign in (-1, 1))
NUMBER_CODES += tuple(sign * code for code in (97, 98, 997, 998, 9997, 9998) for sign in (-1, 1))
"""Numbers that surveys use for missing answers; they are suspected only if they are far from all other values."""

FEWEST_WORDS = 3
"""Levels without digits among which numbers such as 99 are suspected."""

LIKELY_NEXT = (8, 9, 98, 99)
"""Codes that are suspected in an ordinal column even if they are near: 1 to 7, and 9."""

TEXT_CODES = frozenset(
    {
        "", "-", "--", "---", ".", "..", "?", "??", "x", "n/a", "#n/a", "na", "n.a.", "n. a.", "nan", "null", "nil",
        "missing", "unknown", "not known", "not available", "not applicable", "not stated", "not specified",
        "no answer", "no response", "refused", "refusal", "don't know", "don\u2019t know", "dont know", "do not know",
        "dk", "dk/na", "prefer not to say", "prefer not to answer", "undisclosed", "unspecified",
        "k.a.", "k. a.", "k.a", "keine angabe", "keine angaben", "ohne angabe", "o.a.", "unbekannt", "weiß nicht",
        "weiss nicht", "keine antwort", "fehlend", "nicht bekannt", "verweigert", "nicht zutreffend",
        "inconnu", "non renseigné", "sans réponse", "nsp", "desconocido", "no sabe", "sconosciuto", "onbekend",
    }
)  # fmt: skip
"""Texts for missing answers, in lower case and without spaces at their ends."""


def find_missing_codes(column: ColumnStatistics) -> dict[str, int]:
    """Return {suspected value: its number of rows}, of text or of numbers."""
    if column.is_text and column.counts is not None:
        return _find_texts(column.counts)
    return _find_numbers(column) if column.values.dtype.is_numeric() else {}


def are_text_codes(levels: pl.Series) -> pl.Series:
    """Return which levels are texts for missing answers."""
    return levels.str.strip_chars().str.to_lowercase().is_in(list(TEXT_CODES))


def _find_texts(counts: pl.DataFrame) -> dict[str, int]:
    levels = counts["level"].str.strip_chars()
    among_words = (
        counts.filter(~levels.str.contains(r"\d")).height >= FEWEST_WORDS
    )  # then positive numbers are odd, too
    numbers = [str(code) for code in NUMBER_CODES if code <= -9 or (among_words and code >= 9)]
    are_codes = are_text_codes(counts["level"]) | levels.is_in(numbers)
    found = counts.filter(are_codes)
    return dict(found.head(MOST_CODES).iter_rows()) if counts.height > 1 else {}


def _find_numbers(column: ColumnStatistics) -> dict[str, int]:
    """Return codes that are far outside the other numbers; the extremes are such codes, or there are none."""
    if column.low not in NUMBER_CODES and column.high not in NUMBER_CODES:
        return {}
    numbers = column.values.drop_nulls().cast(pl.Float64)
    are_codes = numbers.is_in([float(code) for code in NUMBER_CODES])
    codes = numbers.filter(are_codes).alias("code").value_counts(name="rows")
    others = numbers.filter(~are_codes).unique().to_numpy()
    if not len(others):
        return {}
    low, high, found = others.min(), others.max(), {}
    near = column.kind.kind == "ordinal" and len(others) == high - low + 1
    # The nearest first: a code that is not far is one of the other values, and the range grows by it.
    for code, rows in sorted(codes.iter_rows(), key=lambda pair: max(low - pair[0], pair[0] - high)):
        if _is_far(code, low, high, near=near):
            found[f"{code:.0f}"] = rows
        else:
            low, high = min(low, code), max(high, code)
    return found


def _is_far(code: float, low: float, high: float, *, near: bool) -> bool:
    """Return whether a code is outside a range by its width, or negative where no other number is."""
    if low <= code <= high:
        return False
    if code < 0 <= low:
        return True
    gap = max(low - code, code - high)
    return gap >= max(high - low, 2.0) or (near and code in LIKELY_NEXT and gap >= 2)
