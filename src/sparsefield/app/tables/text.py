"""Tables in text with separated cells: separator, decimal mark, header, and the cells themselves."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import polars as pl

from sparsefield.app.tables.encoding import find_encoding, to_utf8
from sparsefield.app.tables.read_options import SEPARATOR_WORDS, ReadOptions
from sparsefield.app.tables.source import FileFormat
from sparsefield.app.tables.values import date_order, read_dates, type_columns
from sparsefield.errors import DataError

SAMPLE_BYTES = 1 << 18
"""How many bytes of a text, which may be more if the first lines are longer, decide its format."""

SAMPLE_LINES = 200
SHOWN_ROWS = 3
SEPARATORS = ("\t", ";", "|", ",")
"""Of separators that fit equally well, the first is taken, because commas also occur in numbers and in text."""

WHOLE = re.compile(r"[+-]?\d+")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
COMMA_NUMBER = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)?,\d+([eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}([.,]\d{3})+")
YEARS = range(1800, 2101)


def read_text(data: bytes, name: str, reading: ReadOptions) -> tuple[pl.DataFrame, pl.DataFrame, FileFormat]:
    """Return the cells of a text file as text, the table of their values, and how the file is written.

    Parameters
    ----------
    data : the file
    name : its name, for messages
    reading : options; what they leave open is found out
    """
    if not data.strip():
        raise DataError(f"{name}: the file is empty: give a file with a header and rows.")
    encoding = reading.encoding or find_encoding(data, name)
    data = to_utf8(data, encoding, name).lstrip(b"\r\n")
    place = data.find(b"\0")
    if place >= 0:
        line = data.count(b"\n", 0, place) + 1
        raise DataError(
            f"{name}: line {line:,} has a NUL byte, which text does not have: is the file damaged or binary? Export "
            "the table again, or remove these bytes."
        )
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    first = re.match(rb"(?i)sep=([ -~\t])\r?\n", data)  # which Excel understands
    if first:
        data = data[first.end() :]
        reading = replace(reading, separator=reading.separator or first[1].decode())
    found = replace(find_format(data, reading, name), encoding=encoding, date_order=reading.dates)
    cells = _parse(data if data.endswith(b"\n") else data + b"\n", name, found)
    found = replace(found, missing=reading.missing_words(has_nulls=False))
    table, found = with_types(cells, found)
    return cells, table, found


def with_types(cells: pl.DataFrame, found: FileFormat) -> tuple[pl.DataFrame, FileFormat]:
    """Return the values of cells of text, and the format with the formats of their dates."""
    table, dates = read_dates(type_columns(cells, found.missing, found.decimal), found.date_order)
    return table, replace(found, dates=dates, date_order=found.date_order or date_order(dates))


def find_format(data: bytes, reading: ReadOptions, name: str = "") -> FileFormat:
    """Return the format of a text, given as UTF-8; options that are given are not found out.

    Parameters
    ----------
    data : text in UTF-8 without a byte order mark
    reading : options
    name : name of the file, for messages
    """
    size = SAMPLE_BYTES
    while data.count(b"\n", 0, size) < 3 and size < len(data):
        size *= 4
    lines = data[:size].decode(errors="ignore").splitlines(keepends=True)
    ending = "\r\n" if lines[0].endswith("\r\n") else "\n"
    lines = [line for line in lines[: len(lines) - (size < len(data))] if line.strip()][:SAMPLE_LINES]
    quote = "'" if _has_single_quotes("".join(lines)) else '"'
    separator = reading.separator or _find_separator(lines, quote)
    rows = _split(lines, separator, quote)
    if reading.separator is not None and len(lines) > 1 and not any(separator in line for line in lines):
        fitting = _find_separator(lines, quote)
        if {len(row) for row in _split(lines, fitting, quote)} - {1} == {len(_split(lines[:1], fitting, quote)[0])}:
            raise DataError(
                f"{name}: no line has the separator {separator!r}, but all have equally many cells with {fitting!r}: "
                f"give --set read.separator={shlex.quote(SEPARATOR_WORDS.get(fitting, fitting))}, or leave it out."
            )
    decimal = reading.decimal or _find_decimal(rows, separator)
    header = _has_header(rows, decimal) if reading.header is None else reading.header
    return FileFormat(separator=separator, quote=quote, decimal=decimal, header=header, line_ending=ending)


def _split(lines: Sequence[str], separator: str, quote: str) -> list[list[str]]:
    """Return the cells of each row; a row ends where a line ends outside quotes."""
    try:
        return list(csv.reader(lines, delimiter=separator, quotechar=quote))
    except csv.Error:
        return [line.split(separator) for line in lines]


def _find_separator(lines: Sequence[str], quote: str) -> str:
    """Return the separator that gives most rows as many cells as the first row, and more than one."""

    def share_of_equal_rows(separator: str) -> float:
        widths = [len(row) for row in _split(lines, separator, quote)]
        if not widths or widths[0] == 1:
            return 0.0
        common, times = Counter(widths).most_common(1)[0]
        return max(widths.count(widths[0]), 0.5 * times * (common > 1)) / len(widths)

    best = max(SEPARATORS, key=share_of_equal_rows)
    return best if share_of_equal_rows(best) > 0 else ","


def _find_decimal(rows: Sequence[Sequence[str]], separator: str) -> str:
    """Return the decimal mark: a comma where cells are not separated by commas and have numbers such as 3,14.

    Numbers such as 1,234 and 1.234 say nothing, because their marks may be between thousands.
    """
    cells = [cell.strip() for row in rows for cell in row]
    cells = [cell for cell in cells if not THOUSANDS.fullmatch(cell)]
    commas = sum(bool(COMMA_NUMBER.fullmatch(cell)) for cell in cells)
    points = sum("." in cell and bool(NUMBER.fullmatch(cell)) for cell in cells)
    return "," if separator != "," and commas > points else "."


def _has_header(rows: Sequence[Sequence[str]], decimal: str) -> bool:
    """Return whether the first row has names rather than values.

    It has values if a cell is a number with a fraction in a column of numbers, or if all cells are whole numbers that
    are neither ascending nor years, above columns of numbers.
    """
    plain = [[cell.strip().replace(decimal, ".") for cell in row] for row in rows]
    body = [row for row in plain[1:] if len(row) == len(plain[0])]
    if not body or not plain[0]:
        return True
    first = plain[0]
    numeric = [all(not row[k] or NUMBER.fullmatch(row[k]) for row in body) for k in range(len(first))]
    for cell, over_numbers in zip(first, numeric, strict=True):
        if over_numbers and NUMBER.fullmatch(cell) and not WHOLE.fullmatch(cell):
            return False
    if not all(numeric) or not all(WHOLE.fullmatch(cell) for cell in first):
        return True
    whole = [int(cell) for cell in first]
    ascending = all(low < high for low, high in pairwise(whole))
    return ascending or (all(number in YEARS for number in whole) and len(set(whole)) == len(whole))


def _has_single_quotes(text: str) -> bool:
    """Return whether cells begin and end with a single quote, and none with a double one."""
    edge = r"(?:^|[,;\t|])[ ]*{0}(?:[^{0}\n]|{0}{0})*{0}[ ]*(?=$|[,;\t|])"
    single = len(re.findall(edge.format("'"), text, re.MULTILINE))
    started = len(re.findall(r"(?:^|[,;\t|])[ ]*'", text, re.MULTILINE))
    return single >= 2 and single == started and not re.search(edge.format('"'), text, re.MULTILINE)


def _parse(data: bytes, name: str, found: FileFormat) -> pl.DataFrame:
    """Return all cells as text, with the names of the columns: by polars, or by `csv` where rows may be ragged."""
    first = next(row for _, row in _records(data, name, found))
    names = [cell.strip() for cell in first] if found.header else [f"x{k}" for k in range(len(first))]
    if found.header:
        check_header(names, name)
    quoted = found.quote.encode()
    bare = re.sub(quoted + b"[^" + quoted + b"]*" + quoted, b"", data) if quoted in data else data
    if len(names) > 1 and re.search(rb"(?:^|\n)\r?\n", bare) and bare is data:
        data = bare = re.sub(rb"(?:\r?\n)+", b"\n", data)  # blank lines; of a single column they are missing values
    # Rows with more cells than the first are refused by polars, so that the total shows that none has fewer.
    if bare.count(found.separator.encode()) == (len(names) - 1) * bare.count(b"\n") and quoted not in bare:
        try:
            table = pl.read_csv(
                data, has_header=False, separator=found.separator, quote_char=found.quote, infer_schema=False
            )
        except pl.exceptions.PolarsError:
            table = pl.DataFrame()
        if table.shape == (bare.count(b"\n"), len(names)):
            table.columns = names
            return table.slice(int(found.header))
    return _parse_slowly(data, name, found, names)


def check_header(names: Sequence[str], file: str) -> None:
    """Refuse names that occur twice."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        shown = ", ".join(repr(name) for name in twice[:5])
        raise DataError(
            f"{file}: several columns are named {shown}: make the names unique. (If the file has no header, use "
            "--set read.header=no on the command line or header = false in a schema file.)"
        )


def _parse_slowly(data: bytes, name: str, found: FileFormat, names: Sequence[str]) -> pl.DataFrame:
    """Parse with Python's csv module, which also understands quotes within cells, and refuse ragged rows."""
    rows = [(line, cells or [""]) for line, cells in _records(data, name, found) if cells or len(names) == 1]
    ragged = [(line, len(cells)) for line, cells in rows if len(cells) != len(names)]
    if ragged:
        raise DataError(f"{name}: {_describe_ragged(ragged, len(rows), found, len(names))}")
    cells = [cells for _, cells in rows][int(found.header) :]
    table = pl.DataFrame(cells, schema=dict.fromkeys(names, pl.String), orient="row")
    return table.with_columns(pl.when(pl.all() != "").then(pl.all()))


def _records(data: bytes, name: str, found: FileFormat) -> Iterator[tuple[int, list[str]]]:
    """Yield the line where each row begins, and its cells."""
    text, line = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline=""), 1
    limit = csv.field_size_limit(2**31 - 1)
    try:
        reader = csv.reader(text, delimiter=found.separator, quotechar=found.quote)
        for cells in reader:
            yield line, cells
            if cells and cells[-1].endswith("\n") and reader.line_num > line + 50:
                raise DataError(
                    f"{name}: a quotation mark that opens in line {line:,} is never closed: close it, or remove it."
                )
            line = reader.line_num + 1
    finally:
        csv.field_size_limit(limit)


def _describe_ragged(ragged: Sequence[tuple[int, int]], n_rows: int, found: FileFormat, width: int) -> str:
    if len(ragged) == n_rows - 1 and {cells for _, cells in ragged} == {width + 1} and found.header:
        return (
            f"every row has {width + 1} cells, one more than the header, as where the first column has no name or "
            f"lines end in {found.separator!r}: add a name to the header, or remove the extra cells."
        )
    shown = ", ".join(f"line {line:,} has {cells:,}" for line, cells in ragged[:SHOWN_ROWS])
    more = f" and {len(ragged) - SHOWN_ROWS:,} more rows are so" if len(ragged) > SHOWN_ROWS else ""
    first = "header" if found.header else "first line"
    return (
        f"{len(ragged):,} row(s) do not have the {width:,} cells of the {first}: {shown}{more}; correct them, and put "
        f"cells that contain {found.separator!r} in quotes. (If {found.separator!r} does not separate the cells, give "
        "--set read.separator=...)"
    )
