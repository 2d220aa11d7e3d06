"""This module describes how a table file was read, so that others of its kind can be read and written alike."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, fields

from sparsefield.app.tables.date_text import describe_dates
from sparsefield.model.text_style import TextStyle

SEPARATED_BY = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars", " ": "spaces"}

ENCODING_TITLES = {
    "utf-8": "UTF-8",
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16 (big-endian)",
    "utf-32-le": "UTF-32",
    "utf-32-be": "UTF-32 (big-endian)",
    "iso8859-1": "Latin-1",
    "mac-roman": "Mac Roman",
}

TEXT_KIND = "csv"


@dataclass(frozen=True)
class FileFormat(TextStyle):
    """The format of a file, all of it plain values; fields that a kind of file does not have keep their defaults.

    Those of text files are in `TextStyle`.

    Attributes
    ----------
    kind : str
        The kind of the file, such as "csv", "parquet" or "excel", as in `sparsefield.app.tables.file_kinds.KINDS`.
    title : str
        The kind in words, such as "CSV" or "Parquet".
    compression : str or None
        Such as "gzip".
    table : str or None
        The sheet or the table that was read.
    missing : tuple of str
        The words for missing values.
    dates : tuple of (column, format)
        The columns of text that were read as dates, with formats such as "%d.%m.%Y".
    date_order : str or None
        "day-first" or "month-first" if that was given or found; "text" if dates are left as they are.
    """

    kind: str = TEXT_KIND
    title: str = "CSV"
    compression: str | None = None
    table: str | None = None
    missing: tuple[str, ...] = ()
    dates: tuple[tuple[str, str], ...] = ()
    date_order: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether the file is text with separated cells."""
        return self.kind == TEXT_KIND

    @property
    def style(self) -> TextStyle | None:
        """How the file is written as text; None if it is not text."""
        return TextStyle(**{one.name: getattr(self, one.name) for one in fields(TextStyle)}) if self.is_text else None

    @property
    def is_plain(self) -> bool:
        """Whether nothing is to be said about the format: a CSV in UTF-8 with commas and without dates, or Parquet."""
        if self.compression is not None or self.dates:
            return False
        usual = (self.encoding, self.separator, self.quote, self.decimal, self.header)
        return self.kind == "parquet" or (self.is_text and usual == ("utf-8", ",", '"', ".", True))

    def describe(self) -> str:
        """Return the format in words.

        Examples
        --------
        >>> FileFormat(encoding="cp1252", separator=";", decimal=",").describe()
        'CSV in Windows-1252, separated by semicolons, decimal comma'
        """
        parts = [self.title + (f" {self.table!r}" if self.table is not None else "")]
        if self.is_text:
            parts[0] += f" in {encoding_title(self.encoding)}"
            parts.append(f"separated by {SEPARATED_BY.get(self.separator, repr(self.separator))}")
            parts += ["decimal comma"] * (self.decimal == ",") + ["single quotes"] * (self.quote == "'")
            parts += ["without a header"] * (not self.header)
        if self.compression is not None:
            parts.append(f"compressed with {self.compression}")
        return ", ".join(parts + [describe_dates(self.dates)] * bool(self.dates))


def encoding_title(name: str) -> str:
    """Return the usual name of an encoding.

    Examples
    --------
    >>> encoding_title("cp1252"), encoding_title("latin-1"), encoding_title("koi8_r")
    ('Windows-1252', 'Latin-1', 'koi8-r')
    """
    known = codecs.lookup(name).name
    if known.startswith("cp125"):
        return f"Windows-{known[2:]}"
    return ENCODING_TITLES.get(known, known)
