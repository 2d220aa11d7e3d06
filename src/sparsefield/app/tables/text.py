"""Tables in text with separated cells: encoding, separator, decimal mark, header, and the cells themselves."""

from __future__ import annotations

import codecs
import csv
import io
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl

from sparsefield.app.tables.read_options import SEPARATOR_WORDS, FileFormat, ReadOptions, encoding_title
from sparsefield.app.tables.values import date_order, read_dates, type_columns
from sparsefield.errors import DataError

SAMPLE_BYTES, SAMPLE_LINES = 1 << 18, 200
"""How much of a text decides its format; more bytes if the first lines are longer."""

UNUSUAL_BYTES = 1 << 16
"""How many bytes around characters beyond ASCII decide a code page."""

SHOWN_ROWS = 3
SEPARATORS = ("\t", ";", "|", ",")
"""Of separators that fit equally well, the first is taken, because commas also occur in numbers and in text."""

WHOLE = re.compile(r"[+-]?\d+")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
COMMA_NUMBER = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)?,\d+([eE][+-]?\d+)?")
YEARS = range(1800, 2101)
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}([.,]\d{3})+")

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks, and encodings that read and write them."""

_ALPHABETS = (
    ("cp1252", "äöüß"),
    ("cp1252", "àâæçéèêëîïôœùûüÿ"),
    ("cp1252", "áéíñóúüªº"),
    ("cp1252", "àáâãçéêíóôõúüªº"),
    ("cp1252", "àèéìíîòóùú"),
    ("cp1252", "åäöéü"),
    ("cp1252", "åæøéèêôóò"),
    ("cp1250", "áčďéěíňóřšťúůýž"),
    ("cp1250", "ąćęłńóśźż"),
    ("cp1250", "áéíóöőúüű"),
    ("cp1250", "čćđšž"),
    ("cp1250", "ăâîşţ"),
    ("cp1254", "çğıöşüâîû"),
    ("cp1252", "àáâãäåæçèéêëìíîïñòóôõöøœùúûüÿß"),
)
"""Letters beyond ASCII of languages, with their code pages; of equally good ones the first is taken.

Cells are too short for charset-normalizer to tell code pages of Latin letters apart: it reads "Nuñez" as "Nuńez".
"""

_OLDER = {"cp1252": ("mac-roman", "cp850"), "cp1250": ("iso8859-2", "cp852"), "cp1254": ("cp857",)}
"""Code pages of other systems that are tried where those of Windows do not fit."""

_LATIN_FIT = 0.9
"""The share of letters that must belong to the alphabet of one language."""


def read_text(data: bytes, name: str, reading: ReadOptions) -> tuple[pl.DataFrame, pl.DataFrame, FileFormat]:
    """Return the cells of a text file as text, the table of their values, and how the file is written.

    Parameters
    ----------
    data : the file
    name : its name, for messages
    reading : options; what they leave open is found out
    """
    encoding = reading.encoding or find_encoding(data, name)
    data = _to_utf8(data, encoding, name).lstrip(b"\r\n")
    place = data.find(b"\0")
    if place >= 0:
        raise DataError(
            f"{name}: line {data.count(bytes([10]), 0, place) + 1:,} has a NUL byte, which text does not have: is the "
            "file damaged or binary? Export the table again, or remove these bytes."
        )
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    first = re.match(rb"(?i)sep=([ -~\t])\r?\n", data)  # which Excel understands
    if first:
        data = data[first.end() :]
        reading = replace(reading, separator=reading.separator or first[1].decode())
    if not data.strip():
        raise DataError(f"{name}: the file is empty: give a file with a header and rows.")
    found = replace(find_format(data, reading, name), encoding=encoding, date_order=reading.dates)
    cells = _parse(data if data.endswith(b"\n") else data + b"\n", name, found)
    table, found = with_types(cells, replace(found, missing=reading.missing_words(has_nulls=False)))
    return cells, table, found


def with_types(cells: pl.DataFrame, found: FileFormat) -> tuple[pl.DataFrame, FileFormat]:
    """Return the values of cells of text, and the format with the formats of their dates."""
    table, dates = read_dates(type_columns(cells, found.missing, found.decimal), found.date_order)
    return table, replace(found, dates=dates, date_order=found.date_order or date_order(dates))


def find_encoding(data: bytes, name: str) -> str:
    """Return the encoding of a text: by its byte order mark, else UTF-8 or UTF-16 where valid, else a code page.

    Parameters
    ----------
    data : the whole file
    name : its name, for messages
    """
    marked = next((encoding for mark, encoding in _BOMS if data.startswith(mark)), "") or wide_encoding(data)
    if marked:
        return marked
    try:
        data.decode()
        return "utf-8"
    except UnicodeDecodeError as error:
        lines, length = [], 0
        for line in re.finditer(rb"[^\r\n]{0,1000}[\x80-\xff][^\r\n]{0,1000}", data):
            lines.append(line[0])
            length += len(line[0])
            if length > UNUSUAL_BYTES:
                break
        sample = b"\n".join(lines)
        text = sample.decode(errors="replace")
        bad, good = text.count("\ufffd"), sum(sign > "\x7f" for sign in text)
        if good - bad > 2 * bad:  # no code page would read the other lines rightly
            raise DataError(
                f"{name}: line {data.count(bytes([10]), 0, error.start) + 1:,} is not UTF-8 (byte "
                f"0x{data[error.start]:02x}), although most of the file is: correct the line, or give the encoding of "
                "the file, such as --set read.encoding=cp1252."
            ) from None
    return guess_code_page(sample)


def wide_encoding(data: bytes) -> str:
    """Return UTF-16 without a byte order mark, where nearly every second byte of western text is NUL; else nothing."""
    even, odd = data[:4096:2], data[1:4096:2]
    if len(odd) < 2:
        return ""
    if odd.count(0) > 0.7 * len(odd) and even.count(0) < 0.1 * len(even):
        return "utf-16-le"
    return "utf-16-be" if even.count(0) > 0.7 * len(even) and odd.count(0) < 0.1 * len(odd) else ""


def guess_code_page(sample: bytes) -> str:
    """Return the code page of text that is not UTF-8.

    Text in Latin letters has few characters beyond ASCII, and they belong to the alphabet of one language. Text in
    other letters is left to charset-normalizer.

    Examples
    --------
    >>> guess_code_page("größer, süß".encode("cp1252")), guess_code_page("příliš žluťoučký".encode("cp1250"))
    ('cp1252', 'cp1250')
    """
    unusual = re.findall(rb"[\x80-\xff]+", sample)
    if sum(len(run) for run in unusual if len(run) > 2) <= 0.4 * sum(map(len, unusual)):
        older = [(old, letters) for page, letters in _ALPHABETS for old in _OLDER[page]]
        for pages in (_ALPHABETS, older):
            fits = [_share_of_letters(sample, page, letters) for page, letters in pages]
            if max(fits) >= _LATIN_FIT:
                return pages[fits.index(max(fits))][0]
    from charset_normalizer import from_bytes

    best = from_bytes(sample).best()
    return "cp1252" if best is None else best.encoding


def _share_of_letters(sample: bytes, page: str, letters: str) -> float:
    """Return the share of characters beyond ASCII that are of an alphabet, or signs such as the euro.

    Signs within words and capital letters after small ones, as where a code page is wrong, do not count.
    """
    try:
        text = sample.decode(page)
    except UnicodeDecodeError:
        return 0.0
    unusual = [sign for sign in text if sign > "\x7f"]
    known = {*letters, *letters.upper(), *"İµªº\xa0"}
    bad = sum(sign not in known and (sign.isalpha() or not sign.isprintable()) for sign in unusual)
    bad += len(re.findall(r"(?<=\w)[¹²³¿¡ª¼½¾](?=\w)|(?<=[^\W\d_])[¬¦¶¤†‡°±·¨](?=\w)", text))
    bad += sum(pair[1].isupper() for pair in re.findall(r"[a-z][^\W\d_a-zA-Z]", text))
    return 1 - bad / max(len(unusual), 1)


def _to_utf8(data: bytes, encoding: str, name: str) -> bytes:
    """Return the text as UTF-8 without a byte order mark; refuse bytes that the encoding does not have."""
    if encoding == "utf-8" and data.isascii():
        return data
    try:
        return data.decode(encoding).removeprefix("\ufeff").encode()
    except UnicodeDecodeError as error:
        line = data[: error.start].decode(encoding, errors="replace").count("\n") + 1
        raise DataError(
            f"{name}: line {line:,} is not text in {encoding_title(encoding)} (byte 0x{data[error.start]:02x}): give "
            "the encoding of the file, such as --set read.encoding=cp1252, or save the file as UTF-8."
        ) from None


def find_format(data: bytes, reading: ReadOptions, name: str = "") -> FileFormat:
    """Return the format of a text in UTF-8 without a byte order mark; options that are given are not found out."""
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
    decimal = reading.decimal
    if decimal is None:
        # Numbers such as 1,234 and 1.234 say nothing, because their marks may be between thousands.
        cells = [cell.strip() for row in rows for cell in row]
        cells = [cell for cell in cells if not THOUSANDS.fullmatch(cell)]
        commas = sum(bool(COMMA_NUMBER.fullmatch(cell)) for cell in cells)
        points = sum("." in cell and bool(NUMBER.fullmatch(cell)) for cell in cells)
        decimal = "," if separator != "," and commas > points else "."
    header = reading.header
    if header is None:  # names are no numbers with fractions, and whole numbers above numbers if ascending, or years
        plain = [[cell.strip().replace(decimal, ".") for cell in row] for row in rows]
        first = plain[0] if len(plain) > 1 else []
        whole = [int(cell) for cell in first if WHOLE.fullmatch(cell)]
        is_named = len(whole) < len(first) or any(c and not NUMBER.fullmatch(c) for row in plain[1:] for c in row)
        is_named |= whole == sorted(set(whole)) or (len(set(whole)) == len(whole) and set(whole) <= set(YEARS))
        header = is_named and not any(NUMBER.fullmatch(cell) and not WHOLE.fullmatch(cell) for cell in first)
    return FileFormat(separator=separator, quote=quote, decimal=decimal, header=header, line_ending=ending)


def _has_single_quotes(text: str) -> bool:
    """Return whether cells begin and end with a single quote, and none with a double one."""
    edge = r"(?:^|[,;\t|])[ ]*{0}(?:[^{0}\n]|{0}{0})*{0}[ ]*(?=$|[,;\t|])"
    single = len(re.findall(edge.format("'"), text, re.MULTILINE))
    started = len(re.findall(r"(?:^|[,;\t|])[ ]*'", text, re.MULTILINE))
    return single >= 2 and single == started and not re.search(edge.format('"'), text, re.MULTILINE)


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


def check_header(names: Sequence[str], file: str) -> None:
    """Refuse names that occur twice."""
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise DataError(
            f"{file}: several columns are named {', '.join(map(repr, twice[:5]))}: make the names unique. (If the file "
            "has no header, use --set read.header=no on the command line or header = false in a schema file.)"
        )


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
    # Python's csv module also understands quotes within cells.
    rows = [(line, cells or [""]) for line, cells in _records(data, name, found) if cells or len(names) == 1]
    ragged = [(line, len(cells)) for line, cells in rows if len(cells) != len(names)]
    if ragged:
        if found.header and [cells for _, cells in ragged] == [len(names) + 1] * (len(rows) - 1):
            raise DataError(
                f"{name}: every row has {len(names) + 1} cells, one more than the header, as where the first column "
                f"has no name or lines end in {found.separator!r}: add a name to the header, or remove the extra cells."
            )
        shown = ", ".join(f"line {line:,} has {cells:,}" for line, cells in ragged[:SHOWN_ROWS])
        shown += f" and {len(ragged) - SHOWN_ROWS:,} more rows are so" if len(ragged) > SHOWN_ROWS else ""
        raise DataError(
            f"{name}: {len(ragged):,} row(s) do not have the {len(names):,} cells of the first: {shown}; correct them, "
            f"and put cells that contain {found.separator!r} in quotes. (If {found.separator!r} does not separate the "
            "cells, give --set read.separator=...)"
        )
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
