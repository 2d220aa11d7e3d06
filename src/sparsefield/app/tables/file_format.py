"""The format of a file with a table, given as options or found out, and its record in a model."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sparsefield.errors import DataError, ModelFileError, list_first

DEFAULT_MISSING = (
    "", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "NULL", "null", "?", ".", "\\N",
    "#N/A", "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!",
)  # fmt: skip
"""Words for missing values in text files and spreadsheets; "none", "-" and "missing" may be answers."""

SEPARATOR_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
SEPARATED_BY = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars", " ": "spaces"}
DATE_CHOICES = ("day-first", "month-first", "text")

TITLES = {
    "csv": "CSV",
    "jsonl": "JSON lines",
    "parquet": "Parquet",
    "arrow": "Arrow file",
    "sheet": "spreadsheet",
    "spss": "SPSS file",
    "stata": "Stata file",
    "sas": "SAS file",
    "sas-transport": "SAS transport file",
    "sqlite": "SQLite table",
    "duckdb": "DuckDB table",
}
"""{kind of file: its name}"""

OPTIONS = ("missing", "missing_only", "header", "separator", "encoding", "decimal", "dates", "sheet")
"""Fields of a `FileFormat` that can be given as options."""

OPTIONS_OF_KIND = {"csv": OPTIONS[:-1], "sheet": ("missing", "missing_only", "header", "dates", "sheet")}
"""{kind of file: options that it has}; others have words for missing values, and databases tables."""


@dataclass(frozen=True)
class FileFormat:
    """How a table is written in a file: options for reading it, and what reading found out where they are None.

    Attributes
    ----------
    missing : tuple of str
        Words for missing values beside an empty cell and the default ones, such as NA, which are for text files and
        spreadsheets. A number, such as -99, also stands for -99.0, and in columns of numbers.
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
        The sheet of a spreadsheet, or the table of a database; needed if there are several.
    kind : str
        The kind of the file, a key of `TITLES`; empty for options.
    compression : str
        Such as "gzip"; empty without one.
    line_ending : str
    date_formats : {column: format}
        The columns of text that were read as dates, with formats such as "%d.%m.%Y".
    """

    missing: tuple[str, ...] = ()
    missing_only: tuple[str, ...] = ()
    header: bool | None = None
    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    dates: str | None = None
    sheet: str | None = None
    kind: str = ""
    compression: str = ""
    line_ending: str = "\n"
    date_formats: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        separator = SEPARATOR_NAMES.get((self.separator or "").lower(), self.separator)
        object.__setattr__(self, "separator", separator)
        problems = []
        if separator is not None and (len(separator) != 1 or not separator.isascii()):
            problems.append(f"The separator must be one character, or 'tab'; got {self.separator!r}.")
        try:
            "a".encode(self.encoding or "utf-8")
        except (LookupError, UnicodeError):
            problems.append(f"The encoding {self.encoding!r} is unknown: give one such as utf-8 or cp1252.")
        if self.decimal not in (None, ".", ","):
            problems.append(f"The decimal mark must be '.' or ','; got {self.decimal!r}.")
        if self.dates not in (None, *DATE_CHOICES):
            problems.append(f"Dates are {', '.join(DATE_CHOICES[:-1])} or {DATE_CHOICES[-1]}; got {self.dates!r}.")
        if separator is not None and self.decimal == separator:
            problems.append(f"The separator and the decimal mark are both {separator!r}: change one of them.")
        if problems:
            raise DataError(" ".join(problems))

    @property
    def is_text(self) -> bool:
        """Whether the file is text with separated cells."""
        return self.kind == "csv"

    @property
    def missing_words(self) -> tuple[str, ...]:
        """All words for missing values of the file; the default ones where its kind has no nulls."""
        if self.kind not in ("csv", "sheet"):
            return tuple(dict.fromkeys((*self.missing_only, *self.missing)))
        return tuple(dict.fromkeys(("", *(self.missing_only or DEFAULT_MISSING), *self.missing)))

    @property
    def is_plain(self) -> bool:
        """Whether nothing is to be said about the format: a CSV in UTF-8 with commas and without dates, or Parquet."""
        return self.describe() in ("CSV in utf-8, separated by commas", "Parquet")

    def updated(self, options: FileFormat) -> FileFormat:
        """Return the format with options that are given; words for missing values are added.

        Of a separator and a decimal mark that are the same, the one that is not given is found out.
        """
        given = {name: getattr(options, name) for name in OPTIONS if getattr(options, name) not in (None, ())}
        words = tuple(dict.fromkeys((*self.missing, *options.missing)))
        merged = {name: given.get(name, getattr(self, name)) for name in OPTIONS} | {"missing": words}
        if merged["separator"] is not None and merged["separator"] == merged["decimal"]:
            merged["decimal" if "separator" in given else "separator"] = None
        return replace(self, **merged)

    def as_words(self) -> str:
        """Return the options as words of the command line, without those that are found out in every plain CSV.

        Examples
        --------
        >>> FileFormat(missing=("-99", "k.A."), separator=";", header=False).as_words()
        "--missing -99 --missing k.A. --set read.header=no --set 'read.separator=;'"
        """
        words = [part for value in self.missing for part in ("--missing", value)]
        values = {name: getattr(self, name) for name in OPTIONS[1:]}
        values["missing_only"] = ",".join(self.missing_only) or None
        values["header"] = "no" if self.header is False else None
        usual = [("separator", ","), ("encoding", "utf-8"), ("encoding", "utf-8-sig"), ("decimal", ".")]
        for name, value in values.items():
            if value is not None and (name, value) not in usual:
                words += ["--set", f"read.{name}={'tab' if value == chr(9) else value}"]
        return shlex.join(words)

    def describe(self) -> str:
        """Return the format in words.

        Examples
        --------
        >>> FileFormat(kind="csv", encoding="cp1252", separator=";", decimal=",").describe()
        'CSV in cp1252, separated by semicolons, decimal comma'
        """
        title = "TSV" if self.separator == "\t" and self.is_text else TITLES[self.kind]
        parts = [title if self.sheet is None else f"{title} {self.sheet!r}"]
        if self.is_text:
            parts[0] += f" in {(self.encoding or 'utf-8').removesuffix('-sig')}"
            parts.append(f"separated by {SEPARATED_BY.get(self.separator or ',', repr(self.separator))}")
            parts += ["decimal comma"] * (self.decimal == ",") + ["without a header"] * (self.header is False)
        if self.compression:
            parts.append(f"compressed with {self.compression}")
        for form in dict.fromkeys(self.date_formats.values()):
            names = [name for name, own in self.date_formats.items() if own == form]
            day = re.split("[T ]", form)[0].replace("%Y", "year").replace("%m", "month").replace("%d", "day")
            day += " and time" if "%H" in form else ""
            parts.append(f"dates in {list_first(names, form=repr)} ({day})")
        return ", ".join(parts)


PLAIN = FileFormat(kind="csv", header=True, separator=",", encoding="utf-8", decimal=".")
"""The usual CSV."""


@dataclass(frozen=True)
class HeldOut:
    """Gain in log-likelihood per held-out cell over column frequencies, and in how many of the columns it is clear."""

    cells: int
    gain: float
    error: float
    better: int
    columns: int


@dataclass(frozen=True)
class Source:
    """How the table of a fit was read, so that other files are read alike and the fit can be repeated.

    A model file keeps it as one text, of which the library knows nothing.
    """

    file: str
    """The path of the file, as it was given."""
    format: FileFormat = PLAIN
    identifiers: tuple[str, ...] = ()
    """Columns that were left out by request."""
    left_out: tuple[str, ...] = ()
    """Columns that were left out because they cannot be learned."""
    weight: str | None = None
    """The column with the weights of the rows."""
    group: str | None = None
    """The column whose values say which rows belong together."""
    top_levels: int | None = None
    """Number of levels of a nominal column of text that were kept."""
    command: str = ""
    """The command of the fit."""
    held_out: HeldOut | None = None
    """How well held-out cells were predicted."""

    def as_text(self) -> str:
        """Return the record as JSON."""
        import msgspec

        return msgspec.json.encode(self).decode()


def source_of(text: str) -> Source | None:
    """Return the record that `Source.as_text` wrote; None for an empty text, as of a model that no file made."""
    import msgspec

    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=Source)
    except (msgspec.DecodeError, ValueError) as error:
        raise ModelFileError(f"The model has a damaged record of how its table was read ({error}).") from None
