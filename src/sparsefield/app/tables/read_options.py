"""Options for reading a table, the format of its file, and the record of both that a model keeps."""

from __future__ import annotations

import codecs
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from sparsefield.errors import DataError, ModelFileError

DEFAULT_MISSING = (
    "", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "NULL", "null", "?", ".", "\\N",
    "#N/A", "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!",
)  # fmt: skip
"""Words for missing values in text files and spreadsheets; "none", "-" and "missing" may be answers."""

SEPARATOR_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
SEPARATOR_WORDS = {"\t": "tab", " ": "space"}
"""Names of separators that are hard to see."""

SEPARATED_BY = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars", " ": "spaces"}
DATE_CHOICES = ("day-first", "month-first", "text")

TITLES = {
    "csv": "CSV",
    "jsonl": "JSON lines",
    "parquet": "Parquet",
    "arrow": "Arrow file",
    "arrow-stream": "Arrow stream",
    "sheet": "spreadsheet",
    "spss": "SPSS file",
    "stata": "Stata file",
    "sas": "SAS file",
    "sas-transport": "SAS transport file",
    "sqlite": "SQLite table",
}
"""{kind of file: its name}"""


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
    sheet, table : str or None
        The sheet of a spreadsheet, or the table of a database file; needed if there are several.
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
            separator = SEPARATOR_NAMES.get(self.separator.lower(), self.separator)
            if len(separator) != 1 or not separator.isascii():
                raise DataError(f"The separator must be one character, or 'tab'; got {self.separator!r}.")
            object.__setattr__(self, "separator", separator)
        try:
            "a".encode(self.encoding or "utf-8")
        except (LookupError, UnicodeError):
            raise DataError(
                f"The encoding {self.encoding!r} is unknown: give one such as utf-8, cp1252, latin-1 or utf-16."
            ) from None
        if self.decimal not in (None, ".", ","):
            raise DataError(f"The decimal mark must be '.' or ','; got {self.decimal!r}.")
        if self.dates not in (None, *DATE_CHOICES):
            raise DataError(f"Dates are {', '.join(DATE_CHOICES[:-1])} or {DATE_CHOICES[-1]}; got {self.dates!r}.")
        if self.decimal is not None and self.decimal == self.separator:
            raise DataError(f"The separator and the decimal mark are both {self.decimal!r}: change one of them.")

    def missing_words(self, *, has_nulls: bool) -> tuple[str, ...]:
        """Return the words for missing values of a file; ``has_nulls`` is whether its format marks missing values."""
        words = [*(self.missing_only or (() if has_nulls else DEFAULT_MISSING)), *self.missing]
        return tuple(dict.fromkeys(words if has_nulls else ["", *words]))

    def as_words(self) -> str:
        """Return the options as words of the command line.

        Examples
        --------
        >>> ReadOptions(missing=("-99", "k.A."), separator=";", header=False).as_words()
        "--missing -99 --missing k.A. --set read.header=no --set 'read.separator=;'"
        """
        words = [part for value in self.missing for part in ("--missing", value)]
        header = None if self.header is None else "yes" if self.header else "no"
        settings = {"missing_only": ",".join(self.missing_only) or None, "header": header}
        for name in ("separator", "encoding", "decimal", "dates", "sheet", "table"):
            settings[name] = getattr(self, name)
        for name, value in settings.items():
            words += [] if value is None else ["--set", f"read.{name}={SEPARATOR_WORDS.get(value, value)}"]
        return shlex.join(words)


@dataclass(frozen=True)
class FileFormat:
    """The format of a file; what a kind of file does not have keeps its default.

    Attributes
    ----------
    kind : str
        The kind of the file, a key of `TITLES`.
    compression : str or None
        Such as "gzip".
    table : str or None
        The sheet or the table that was read.
    encoding, separator, quote, decimal, line_ending : str
        Of text; the encoding by Python's name.
    header : bool
        Whether the first line has the names of the columns.
    missing : tuple of str
        The words for missing values.
    dates : {column: format}
        The columns of text that were read as dates, with formats such as "%d.%m.%Y".
    date_order : str or None
        "day-first" or "month-first" if that was given or found; "text" if dates are left as they are.
    """

    kind: str = "csv"
    compression: str | None = None
    table: str | None = None
    encoding: str = "utf-8"
    separator: str = ","
    quote: str = '"'
    decimal: str = "."
    line_ending: str = "\n"
    header: bool = True
    missing: tuple[str, ...] = ()
    dates: Mapping[str, str] = field(default_factory=dict)
    date_order: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether the file is text with separated cells."""
        return self.kind == "csv"

    @property
    def is_plain(self) -> bool:
        """Whether nothing is to be said about the format: a CSV in UTF-8 with commas and without dates, or Parquet."""
        if self.compression is not None or self.dates:
            return False
        parts = (encoding_title(self.encoding), self.separator, self.quote, self.decimal, self.header)
        return self.kind == "parquet" or (self.is_text and parts == ("UTF-8", ",", '"', ".", True))

    def with_options(self, reading: ReadOptions) -> FileFormat:
        """Return the format with the separator, encoding, decimal mark and header of options that are given."""
        names = ("separator", "encoding", "decimal", "header")
        given = {name: getattr(reading, name) for name in names if getattr(reading, name) is not None}
        changed = replace(self, **given)
        if changed.separator != changed.decimal:
            return changed
        return replace(changed, **({"separator": ";"} if reading.separator is None else {"decimal": "."}))

    def describe(self) -> str:
        """Return the format in words.

        Examples
        --------
        >>> FileFormat(encoding="cp1252", separator=";", decimal=",").describe()
        'CSV in Windows-1252, separated by semicolons, decimal comma'
        """
        title = "TSV" if self.is_text and self.separator == "\t" else TITLES[self.kind]
        parts = [title if self.table is None else f"{title} {self.table!r}"]
        if self.is_text:
            parts[0] += f" in {encoding_title(self.encoding)}"
            parts.append(f"separated by {SEPARATED_BY.get(self.separator, repr(self.separator))}")
            parts += ["decimal comma"] * (self.decimal == ",") + ["single quotes"] * (self.quote == "'")
            parts += ["without a header"] * (not self.header)
        if self.compression is not None:
            parts.append(f"compressed with {self.compression}")
        for form in dict.fromkeys(self.dates.values()):
            names = [name for name, own in self.dates.items() if own == form]
            more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
            day = re.split("[T ]", form)[0].replace("%Y", "year").replace("%m", "month").replace("%d", "day")
            day += " and time" if "%H" in form else ""
            parts.append(f"dates in {', '.join(map(repr, names[:5]))}{more} ({day})")
        return ", ".join(parts)


def encoding_title(name: str) -> str:
    """Return the usual name of an encoding.

    Examples
    --------
    >>> encoding_title("cp1252"), encoding_title("latin-1"), encoding_title("koi8_r")
    ('Windows-1252', 'Latin-1', 'koi8-r')
    """
    known = codecs.lookup(name).name
    if known.startswith("utf"):
        return known.removesuffix("-sig")[:6].upper().rstrip("-")
    return f"Windows-{known[2:]}" if known.startswith("cp125") else {"iso8859-1": "Latin-1"}.get(known, known)


@dataclass(frozen=True)
class Source:
    """How the table of a fit was read, so that other files are read alike and the fit can be repeated.

    A model file keeps it as one text, of which the library knows nothing.
    """

    file: str
    """The path of the file, as it was given."""
    reading: ReadOptions = field(default_factory=ReadOptions)
    """The options that were given."""
    format: FileFormat = field(default_factory=FileFormat)
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
    columns: str | None = None
    """The path of the file with the names of the columns of a matrix."""

    def as_text(self) -> str:
        """Return the record as JSON."""
        import msgspec

        return msgspec.json.encode(self).decode()

    def options_for(self, reading: ReadOptions) -> ReadOptions:
        """Return options for another file, with those of the fit where none are given; missing words are added."""
        default, merged = ReadOptions(), {one.name: getattr(reading, one.name) for one in fields(reading)}
        for name, value in merged.items():
            if value == getattr(default, name):
                merged[name] = getattr(self.reading, name)
        merged["missing"] = tuple(dict.fromkeys((*self.reading.missing, *reading.missing)))
        merged["dates"] = merged["dates"] or self.format.date_order
        return ReadOptions(**merged)


def source_of(text: str) -> Source | None:
    """Return the record that `Source.as_text` wrote; None for an empty text, as of a model that no file made.

    Raises
    ------
    ModelFileError
        If the text is no such record.
    """
    import msgspec

    if not text:
        return None
    try:
        source = msgspec.json.decode(text, type=Source)
        "a".encode(source.format.encoding)
        return source
    except (msgspec.DecodeError, LookupError, ValueError) as error:
        raise ModelFileError(f"The model has a damaged record of how its table was read ({error}).") from None
