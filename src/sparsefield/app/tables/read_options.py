"""Options for reading a table from a file."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from sparsefield.errors import DataError

DEFAULT_MISSING = (
    "", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "NULL", "null", "?", ".", "\\N",
    "#N/A", "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!",
)  # fmt: skip
"""Words for missing values in text files and spreadsheets; "none", "-" and "missing" may be answers."""

SEPARATOR_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
DATE_CHOICES = ("day-first", "month-first", "text")

SEPARATOR_WORDS = {"\t": "tab", " ": "space"}
"""Names of separators that are hard to see."""


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading a table from a file; what is None is found out from the file.

    Attributes
    ----------
    missing : tuple of str
        Words for missing values, in addition to the default ones; an empty cell is always missing. The default ones,
        such as NA, are for text files and spreadsheets; in other files, which have nulls, only words given here count.
        A number, such as -99, also stands for -99.0, and in columns of numbers.
    missing_only : tuple of str
        Words for missing values that replace the default ones; empty keeps those.
    header : bool or None
        Whether the first line of a text file or a sheet has the column names; otherwise they are x0, x1, ...
    separator : str or None
        The separator of the cells of a text file: one character, or its name, such as "tab".
    encoding : str or None
        The encoding of a text file, such as "cp1252".
    decimal : str or None
        The decimal mark of a text file, "." or ",".
    dates : str or None
        How columns of dates in a text file or a sheet are read: "day-first" or "month-first" where both are possible,
        as in 01/02/2024, or "text" to leave all dates as they are.
    sheet : str or None
        The sheet of a spreadsheet; needed if there are several.
    table : str or None
        The table of a database file; needed if there are several.
    """

    missing: tuple[str, ...] = ()
    missing_only: tuple[str, ...] = ()
    header: bool | None = None
    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    dates: str | None = None
    sheet: str | None = None
    table: str | None = None

    def __post_init__(self) -> None:
        if self.separator is not None:
            object.__setattr__(self, "separator", resolve_separator(self.separator))
        if self.encoding is not None:
            check_encoding(self.encoding)
        if self.decimal not in (None, ".", ","):
            raise DataError(f"The decimal mark must be '.' or ','; got {self.decimal!r}.")
        if self.dates not in (None, *DATE_CHOICES):
            raise DataError(f"Dates are {', '.join(DATE_CHOICES[:-1])} or {DATE_CHOICES[-1]}; got {self.dates!r}.")
        if self.decimal is not None and self.decimal == self.separator:
            raise DataError(f"The separator and the decimal mark are both {self.decimal!r}: change one of them.")

    def missing_words(self, *, has_nulls: bool) -> tuple[str, ...]:
        """Return the words for missing values of a file; ``has_nulls`` is whether its format marks missing values."""
        defaults = () if has_nulls else DEFAULT_MISSING
        words = [*(self.missing_only or defaults), *self.missing]
        return tuple(dict.fromkeys(words if has_nulls else ["", *words]))

    def as_words(self) -> str:
        """Return the options as words of the command line.

        Examples
        --------
        >>> ReadOptions(missing=("-99", "k.A."), separator=";", header=False).as_words()
        "--missing -99 --missing k.A. --set read.header=no --set 'read.separator=;'"
        """
        words = [part for value in self.missing for part in ("--missing", value)]
        settings = {
            "missing_only": ",".join(self.missing_only) or None,
            "header": None if self.header is None else "no",
        }
        for name in ("separator", "encoding", "decimal", "dates", "sheet", "table"):
            value = getattr(self, name)
            settings[name] = None if value is None else SEPARATOR_WORDS.get(value, value)
        for name, value in settings.items():
            words += [] if value is None else ["--set", f"read.{name}={value}"]
        return shlex.join(words)


def resolve_separator(word: str) -> str:
    """Return the separator that is given as one character or by its name."""
    separator = SEPARATOR_NAMES.get(word.lower(), word)
    if len(separator) != 1 or not separator.isascii():
        raise DataError(f"The separator must be one character, or 'tab'; got {word!r}.")
    return separator


def check_encoding(name: str) -> None:
    """Refuse a name that is not an encoding of text that Python knows."""
    try:
        "a".encode(name)
    except (LookupError, UnicodeError):
        raise DataError(
            f"The encoding {name!r} is unknown: give one such as utf-8, cp1252, latin-1 or utf-16."
        ) from None
