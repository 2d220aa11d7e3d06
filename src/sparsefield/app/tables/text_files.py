"""This module reads a table from text with separated cells."""

from __future__ import annotations

import csv
import io
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sparsefield.app.tables.column_spelling import find_spellings
from sparsefield.app.tables.date_text import read_dates
from sparsefield.app.tables.file_format import FileFormat
from sparsefield.app.tables.read_options import SEPARATOR_WORDS, ReadOptions
from sparsefield.app.tables.record_scan import RecordScan, scan_records
from sparsefield.app.tables.text_encoding import TextEncoding, find_encoding, to_utf8
from sparsefield.app.tables.text_format import find_format, find_separator, sample_lines, split_lines
from sparsefield.app.tables.typed_text import type_columns
from sparsefield.errors import DataError
from sparsefield.model.text_style import ColumnSpelling

if TYPE_CHECKING:
    import polars as pl

SHOWN_ROWS = 3


def read_text(
    data: bytes, name: str, reading: ReadOptions, *, as_text: bool = False
) -> tuple[pl.DataFrame, FileFormat]:
    """Read a table from the bytes of a text file, and say how it is written.

    Parameters
    ----------
    data : the file
    name : its name, for messages
    reading : options; what they leave open is found out
    as_text : whether all cells are returned as their text
    """
    if not data.strip():
        raise DataError(f"{name}: the file is empty: give a file with a header and rows.")
    encoding = find_encoding(data, name)
    if reading.encoding is not None:
        encoding = _given_encoding(reading.encoding, encoding)
    data = to_utf8(data, encoding, name)
    _refuse_nul(data, name)
    data, separator = _without_separator_line(data)
    if separator and reading.separator is None:
        reading = replace(reading, separator=separator)
    data = data.lstrip(b"\r\n")
    found = find_format(data, reading)
    if reading.separator is not None and not separator:
        _refuse_wrong_separator(data, name, found)
    # Of a single column, an empty line is a missing value.
    if data.endswith((b"\n\n", b"\n\r\n", b"\r\r")) and len(_first_cells(data, found)) > 1:
        data = data.rstrip(b"\r\n")
    if found.line_ending == "\r":
        data = data.replace(b"\r", b"\n")
    words = reading.missing_words(has_nulls=False)
    found = replace(found, encoding=encoding.name, bom=encoding.bom, missing=words, date_order=reading.dates)
    texts, scan = _parse(data if data.endswith(b"\n") else data + b"\n", name, found)
    if as_text:
        return texts, found
    table = type_columns(texts, words, found.decimal, strip=scan.spaces, zeros=scan.zeros)
    return with_dates(table, replace(found, spellings=find_spellings(texts, table, found.decimal)))


def with_dates(table: pl.DataFrame, found: FileFormat) -> tuple[pl.DataFrame, FileFormat]:
    """Return a table whose columns of dates kept as text are dates, and the format of its file with theirs."""
    table, dates = read_dates(table, found.date_order)
    order = found.date_order or dates.order
    spelled = tuple(ColumnSpelling(name, date=form.replace("%.f", "")) for name, form in dates.formats.items())
    formats, spellings = tuple(dates.formats.items()), (*found.spellings, *spelled)
    return table, replace(found, dates=formats, date_order=order, spellings=spellings)


def _given_encoding(wanted: str, found: TextEncoding) -> TextEncoding:
    """Return the encoding that an option names; a byte order mark says the rest about UTF-8, UTF-16 and UTF-32."""
    plain = wanted.lower().replace("_", "-")
    if found.bom and found.name.startswith(plain.removesuffix("-sig")):
        return found
    if plain in ("utf-16", "utf-32"):
        return TextEncoding(f"{plain}-le")
    return TextEncoding("utf-8" if plain == "utf-8-sig" else plain)


def _refuse_nul(data: bytes, name: str) -> None:
    place = data.find(b"\0")
    if place >= 0:
        line = data.count(b"\n", 0, place) + 1
        raise DataError(
            f"{name}: line {line:,} has a NUL byte, which text does not have: is the file damaged or binary? Export "
            "the table again, or remove these bytes."
        )


def _refuse_wrong_separator(data: bytes, name: str, found: FileFormat) -> None:
    """Refuse a separator that gives one column where another one gives all rows of a sample equally many cells."""
    lines = sample_lines(data, found.line_ending)
    if any(found.separator in line for line in lines):
        return
    fitting = find_separator(lines, found.quote)
    widths = {len(row) for row in split_lines(lines, fitting, found.quote)}
    if len(lines) > 1 and len(widths) == 1 and widths.pop() > 1:
        raise DataError(
            f"{name}: no line has the separator {found.separator!r}, but all have equally many cells with "
            f"{fitting!r}: give --separator {shlex.quote(SEPARATOR_WORDS.get(fitting, fitting))}, or leave it out."
        )


def _without_separator_line(data: bytes) -> tuple[bytes, str | None]:
    """Return the text after a first line such as ``sep=;``, which Excel understands, and its separator."""
    line, newline, _ = data[:10].partition(b"\n")
    mark = line.strip().lower()
    if newline and len(line.rstrip(b"\r")) == 5 and mark.startswith(b"sep="):
        return data[len(line) + 1 :], line[4:5].decode()
    return data, None


def _parse(data: bytes, name: str, found: FileFormat) -> tuple[pl.DataFrame, RecordScan]:
    """Return all cells as text, with the names of the columns, and what the scan of the bytes says."""
    import polars as pl

    first = _first_cells(data, found)
    names = [name.strip() for name in first] if found.header else [f"x{k}" for k in range(len(first))]
    if found.header:
        check_header(names, name)
    scan = scan_records(data, found, len(names))
    options: dict[str, Any] = {"separator": found.separator, "quote_char": found.quote, "infer_schema": False}
    try:
        table = None if scan.ragged else pl.read_csv(data, has_header=False, **options)
    except pl.exceptions.PolarsError:
        table = None
    if table is None or table.shape != (scan.records, len(names)):
        return _parse_slowly(data, name, found, names), RecordScan(scan.records, True, [])
    table.columns = names
    if len(scan.blank) and len(names) > 1:
        table = table.filter(~pl.int_range(pl.len()).is_in(scan.blank))
    return (table.slice(1) if found.header else table), scan


def _first_cells(data: bytes, found: FileFormat) -> list[str]:
    text = io.TextIOWrapper(io.BytesIO(data[: 1 << 26]), encoding="utf-8", errors="ignore", newline="")
    with _long_cells():
        return next(csv.reader(text, delimiter=found.separator, quotechar=found.quote))


def check_header(names: Sequence[str], file: str) -> None:
    """Refuse names that occur twice."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        shown = ", ".join(repr(name) for name in twice[:5])
        raise DataError(
            f"{file}: several columns are named {shown}: make the names unique. (If the file has no header, use "
            "--no-header on the command line or header = false in a schema file.)"
        )


def _parse_slowly(data: bytes, name: str, found: FileFormat, names: Sequence[str]) -> pl.DataFrame:
    """Parse with Python's csv module, which also understands quotes within cells, and refuse ragged rows."""
    import polars as pl

    rows = [row for row in _records(data, name, found) if row.cells or len(names) == 1]
    odd = [row for row in rows if len(row.cells or [""]) != len(names)]
    if odd:
        raise DataError(f"{name}: {_describe_ragged(odd, rows, found, len(names))}")
    cells = [row.cells or [""] for row in rows][int(found.header) :]
    table = pl.DataFrame(cells, schema=dict.fromkeys(names, pl.String), orient="row")
    return table.with_columns(pl.when(pl.all() != "").then(pl.all()))


@dataclass(frozen=True)
class TextRecord:
    """A row of text, and the line where it begins."""

    line: int
    cells: list[str]


def _records(data: bytes, name: str, found: FileFormat) -> Iterator[TextRecord]:
    content, line = data.decode(), 1
    text = io.StringIO(content, newline="")
    with _long_cells():
        reader = csv.reader(text, delimiter=found.separator, quotechar=found.quote)
        for cells in reader:
            yield TextRecord(line, cells)
            if any("\n" in cell for cell in cells[-1:]) and reader.line_num > line + 50 and text.tell() == len(content):
                raise DataError(
                    f"{name}: a quotation mark that opens in line {line:,} is never closed: close it, or remove it."
                )
            line = reader.line_num + 1


@contextmanager
def _long_cells() -> Iterator[None]:
    """Let Python's csv module read cells of any length."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _describe_ragged(odd: Sequence[TextRecord], rows: Sequence[TextRecord], found: FileFormat, width: int) -> str:
    first = "header" if found.header else "first line"
    counts = {len(row.cells) for row in odd}
    if len(odd) == len(rows) - 1 and counts == {width + 1} and found.header:
        return (
            f"every row has {width + 1} cells, one more than the header, as where the first column has no name or "
            f"lines end in {found.separator!r}: add a name to the header, or remove the extra cells."
        )
    shown = ", ".join(f"line {row.line:,} has {len(row.cells):,}" for row in odd[:SHOWN_ROWS])
    more = f" and {len(odd) - SHOWN_ROWS:,} more rows are so" if len(odd) > SHOWN_ROWS else ""
    return (
        f"{len(odd):,} row(s) do not have the {width:,} cells of the {first}: {shown}{more}; correct them, and put "
        f"cells that contain {found.separator!r} in quotes. (If {found.separator!r} does not separate the cells, give "
        "--separator.)"
    )
