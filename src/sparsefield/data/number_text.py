"""This module writes numbers for people: with few digits, and dates, times and durations as such."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from sparsefield.data.column_types import DATED, family_of

LARGEST_PLAIN, SMALLEST_PLAIN = 1e15, 1e-5
"""Numbers beyond these magnitudes are written with an exponent."""


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
        return _write_date(number, dtype)
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
    text = f"{number:.{digits}g}"
    return (
        text if "e" not in text else f"{float(text):.20f}".rstrip("0").rstrip(".") if size < 1 else f"{float(text):.0f}"
    )


def _write_date(days: float, dtype: str) -> str:
    found = DATED.fullmatch(dtype)
    assert found is not None
    try:
        if found[1] == "date":
            return (datetime(1970, 1, 1) + timedelta(days=round(days))).date().isoformat()
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=days)
        moment = moment.astimezone(ZoneInfo(found[3])) if found[3] else moment
    except (OverflowError, ValueError):
        return f"{days:.4g} days after 1970-01-01"
    return moment.strftime("%Y-%m-%d %H:%M").removesuffix(" 00:00")
