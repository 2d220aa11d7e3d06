"""This module finds values that probably mean that a value is missing, such as -99 or "k.A."."""

from __future__ import annotations

import polars as pl

from sparsefield.codebook.column_statistics import ColumnStatistics

NUMBER_CODES = tuple(sign * int(digit * length) for digit in "789" for length in range(1, 6) for sign in (-1, 1))
NUMBER_CODES += tuple(sign * code for code in (97, 98, 997, 998, 9997, 9998) for sign in (-1, 1))
"""Numbers that surveys use for missing answers; they are suspected only if they are far from all other values."""

LIKELY_NEXT = (9, 99, 999)
"""Codes that are suspected in an ordinal column even if they are near: 1 to 7, and 9."""

TEXT_CODES = frozenset(
    {
        "", "-", "--", "---", ".", "..", "?", "??", "x", "n/a", "#n/a", "na", "n.a.", "n. a.", "nan", "null", "nil",
        "missing", "unknown", "not known", "not available", "not applicable", "not stated", "not specified", "no answer",
        "no response", "refused", "refusal", "don't know", "don’t know", "dont know", "do not know", "dk", "dk/na",
        "prefer not to say", "prefer not to answer", "undisclosed", "unspecified",
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


def _find_texts(counts: pl.DataFrame) -> dict[str, int]:
    codes = [*TEXT_CODES, *(str(code) for code in NUMBER_CODES if code <= -9)]
    found = counts.filter(pl.col("level").str.strip_chars().str.to_lowercase().is_in(codes))
    found = found if found.height < counts.height or counts.height > 1 else found.clear()
    return dict(found.head(10).iter_rows())


def _find_numbers(column: ColumnStatistics) -> dict[str, int]:
    """Return codes that are far outside the other numbers; the extremes are such codes, or there are none."""
    if column.low not in NUMBER_CODES and column.high not in NUMBER_CODES:
        return {}
    present = column.values.drop_nulls()
    others = present.filter(~present.is_in(pl.Series(NUMBER_CODES).cast(present.dtype, strict=False).drop_nulls()))
    if column.kind.kind == "ordinal" or not len(others):  # codes among few levels may be levels
        others = present.filter(~present.is_in([code for code in NUMBER_CODES if code in _isolated(present)]))
    if not len(others):
        return {}
    low, high = float(others.min()), float(others.max())  # pyright: ignore[reportArgumentType]
    near = column.kind.kind == "ordinal" and others.n_unique() == high - low + 1
    return {
        str(code): int((present == code).sum())
        for code in sorted(NUMBER_CODES)
        if column.low <= code <= column.high and _is_far(code, low, high, near=near) and (present == code).any()
    }


def _isolated(present: pl.Series) -> list[float]:
    """Return the levels of a column at its ends that are more than one from the next level."""
    levels = present.unique().sort().cast(pl.Float64).to_list()
    first = next((k for k in range(1, len(levels)) if levels[k] - levels[k - 1] <= 1), len(levels)) - 1
    last = next((k for k in range(len(levels) - 1, 0, -1) if levels[k] - levels[k - 1] <= 1), 0)
    return levels[:first] + levels[last + 1 :]


def _is_far(code: float, low: float, high: float, *, near: bool) -> bool:
    """Return whether a code is outside a range by its width, or negative where no other number is."""
    if low <= code <= high:
        return False
    if code < 0 <= low:
        return True
    gap = max(low - code, code - high)
    return gap >= max(high - low, 2.0) or (near and code in LIKELY_NEXT and gap >= 2)
