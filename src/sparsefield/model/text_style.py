"""This module defines how a table is written as text, and how its columns spell their values."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, fields
from typing import Any, Self

QUOTING = ("necessary", "text", "always")
DATE_FORMAT = re.compile(r"(%[YmdHMS]|%\.f|[-/.:T ])*")


@dataclass(frozen=True)
class ColumnSpelling:
    """How a column of text spells its numbers, booleans or dates.

    Attributes
    ----------
    name : str
        The column.
    decimals : int or None
        The decimals of every number, zeros at the end included; None where each number has as many as it needs.
    thousands : bool
        Whether there are marks between thousands.
    true, false : str
        The words of a column of booleans, else empty.
    date : str
        The format of a column of dates, such as "%d.%m.%Y", else empty.
    """

    name: str
    decimals: int | None = None
    thousands: bool = False
    true: str = ""
    false: str = ""
    date: str = ""


@dataclass(frozen=True)
class TextStyle:
    """How a table is written as text.

    Attributes
    ----------
    encoding : str
        Python's name of the encoding.
    bom : bool
        Whether a byte order mark precedes the text.
    separator, quote, decimal : str
        The separator of cells, the quotation mark, and the decimal mark.
    quoting : str
        Which cells are in quotes: "necessary", "text" (all but numbers) or "always".
    header : bool
        Whether the first line has the names of the columns.
    line_ending : str
    spellings : tuple of ColumnSpelling
        The columns of numbers with fractions, of booleans, and of dates.
    """

    encoding: str = "utf-8"
    bom: bool = False
    separator: str = ","
    quote: str = '"'
    decimal: str = "."
    quoting: str = "necessary"
    header: bool = True
    line_ending: str = "\n"
    spellings: tuple[ColumnSpelling, ...] = ()

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Return the style that ``dataclasses.asdict`` and JSON made plain.

        Raises
        ------
        ValueError, TypeError
            Where entries are unknown, or no text can be written so.
        """
        spellings = tuple(ColumnSpelling(**spelling) for spelling in plain["spellings"])
        found = cls(**{**plain, "spellings": spellings})
        odd = [field.name for field in fields(cls) if not _fits(field.name, getattr(found, field.name))]
        if odd:
            raise ValueError(f"the style of the source has {odd[0]} = {str(getattr(found, odd[0]))[:40]!r}")
        return found


def _fits(name: str, value: Any) -> bool:
    if name == "spellings":
        return all(_is_spelling(spelling) for spelling in value)
    if name in ("bom", "header"):
        return isinstance(value, bool)
    if not isinstance(value, str):
        return False
    if name == "encoding":
        return _is_encoding(value)
    known = {"decimal": (".", ","), "quoting": QUOTING, "line_ending": ("\n", "\r\n", "\r")}
    return value in known[name] if name in known else len(value) == 1


def _is_spelling(spelling: ColumnSpelling) -> bool:
    words = (spelling.name, spelling.true, spelling.false, spelling.date)
    number = spelling.decimals is None or type(spelling.decimals) is int
    if not (number and isinstance(spelling.thousands, bool) and all(isinstance(word, str) for word in words)):
        return False
    return DATE_FORMAT.fullmatch(spelling.date) is not None


def _is_encoding(name: str) -> bool:
    try:
        codecs.lookup(name)
    except LookupError:
        return False
    return True
