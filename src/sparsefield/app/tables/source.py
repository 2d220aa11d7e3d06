"""How a table was read from a file: the format of the file, and the record of it that a model keeps."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.errors import ModelFileError

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
    "duckdb": "DuckDB table",
}
"""{kind of file: its name}"""

SEPARATED_BY = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars", " ": "spaces"}
ENCODING_TITLES = {"utf-8-sig": "UTF-8", "utf-8": "UTF-8", "iso8859-1": "Latin-1", "mac-roman": "Mac Roman"}


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
            parts.append(f"dates in {', '.join(map(repr, names[:5]))}{more} ({_date_in_words(form)})")
        return ", ".join(parts)


def _date_in_words(form: str) -> str:
    day = re.split("[T ]", form)[0]
    for part, word in {"%Y": "year", "%m": "month", "%d": "day"}.items():
        day = day.replace(part, word)
    return f"{day} and time" if "%H" in form else day


def encoding_title(name: str) -> str:
    """Return the usual name of an encoding.

    Examples
    --------
    >>> encoding_title("cp1252"), encoding_title("latin-1"), encoding_title("koi8_r")
    ('Windows-1252', 'Latin-1', 'koi8-r')
    """
    known = codecs.lookup(name).name
    if known.startswith(("utf-16", "utf-32")):
        return known[:6].upper()
    return f"Windows-{known[2:]}" if known.startswith("cp125") else ENCODING_TITLES.get(known, known)


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
