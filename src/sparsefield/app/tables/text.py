"""Tables in text with separated cells: encoding, separator, decimal mark, header, and the cells themselves."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl

from sparsefield.app.tables.file_format import DEFAULT_MISSING, FileFormat
from sparsefield.app.tables.values import read_dates, type_columns
from sparsefield.errors import DataError, list_first

SAMPLE_BYTES, SAMPLE_LINES = 1 << 18, 200
"""How much of a text decides its format; more bytes if the first lines are longer."""

SHOWN_ROWS = 3
SEPARATORS = ("\t", ";", "|", ",")
"""Of separators that fit equally well, the first is taken, because commas also occur in numbers and in text."""

WHOLE = re.compile(r"[+-]?\d+")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
COMMA_NUMBER = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)?,\d+([eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}([.,]\d{3})+")
YEARS = range(1800, 2101)

_ALPHABETS = [
    (page, letters)
    for page, alphabets in (
        ("cp1252", "äöüß àâæçéèêëîïôœùûüÿ áéíñóúüªº àáâãçéêíóôõúüªº àèéìíîòóùú åäöéü åæøéèêôóò"),
        ("cp1250", "áčďéěíňóřšťúůýž ąćęłńóśźż áéíóöőúüű čćđšž ăâîşţ"),
        ("cp1254", "çğıöşüâîû"),
        ("cp1252", "àáâãäåæçèéêëìíîïñòóôõöøœùúûüÿß"),
    )
    for letters in alphabets.split()
]
"""Letters beyond ASCII of languages, with their code pages; of equally good ones the first is taken.

Cells are too short for charset-normalizer to tell code pages of Latin letters apart: it reads "Müller" as cp1250.
"""

_OLDER = {"cp1252": "cp850", "cp1250": "cp852", "cp1254": "cp857"}
"""Code pages of DOS that are tried where those of Windows do not fit."""

_LATIN_FIT = 0.9
"""The share of letters that must belong to the alphabet of one language."""


def read_text(data: bytes, name: str, options: FileFormat) -> tuple[pl.DataFrame, pl.DataFrame, FileFormat]:
    """Return the values of a text file, its cells as text, and its format, whose open options are found out.

    ``name`` is the name of the file in messages.
    """
    encoding = options.encoding or find_encoding(data, name)
    try:
        text = data.decode(encoding).removeprefix("\ufeff").lstrip("\r\n")
    except UnicodeDecodeError as error:
        line = data[: error.start].decode(encoding, errors="replace").count("\n") + 1
        what = f"line {line:,} is not text in {encoding} (byte 0x{data[error.start]:02x})"
        raise DataError(f"{name}: {what}: give its encoding, such as --set read.encoding=cp1252.") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        what = f"line {line:,} has a NUL byte, so this is no table that can be read"
        raise DataError(f"{name}: {what}: save the table as CSV, Parquet or Excel.")
    first = re.match(r"(?i)sep=([ -~\t])\r?\n", text)  # which Excel understands
    if first:
        text = text[first.end() :]
        options = replace(options, separator=options.separator or first[1])
    if not text.strip():
        raise DataError(f"{name}: the file is empty: give a file with a header and rows.")
    found = find_format(text, replace(options, kind="csv", encoding=encoding))
    cells = _parse(text, name, found)
    table, found = with_types(cells, found)
    return table, cells, found


def with_types(cells: pl.DataFrame, found: FileFormat) -> tuple[pl.DataFrame, FileFormat]:
    """Return the values of cells of text, and the format with the formats of their dates."""
    table = type_columns(cells, found.missing_words, found.decimal or ".")
    table, formats = read_dates(table, found.dates)
    # What comes first in all columns whose year is last; None if there are none, or both occur.
    orders = {"day-first" if form.startswith("%d") else "month-first" for form in formats.values() if form[1] != "Y"}
    order = found.dates or (orders.pop() if len(orders) == 1 else None)
    return table, replace(found, date_formats=formats, dates=order)


def find_encoding(data: bytes, name: str) -> str:
    """Return the encoding of a text: by its byte order mark, else UTF-8 where valid, else a code page."""
    if data.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        data.decode()
        return "utf-8"
    except UnicodeDecodeError as error:
        sample = b"\n".join(re.findall(rb"[^\r\n]{0,1000}[\x80-\xff][^\r\n]{0,1000}", data)[:1000])
        text = sample.decode(errors="replace")
        bad, good = text.count("\ufffd"), sum(sign > "\x7f" for sign in text)
        if good > 3 * bad:  # no code page would read the other lines rightly
            line, byte = data.count(b"\n", 0, error.start) + 1, f"byte 0x{data[error.start]:02x}"
            what = f"line {line:,} is not UTF-8 ({byte}), although most of the file is"
            raise DataError(f"{name}: {what}: correct it, or give --set read.encoding=cp1252 or another.") from None
    return guess_code_page(sample)


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
        for pages in (_ALPHABETS, [(_OLDER[page], letters) for page, letters in _ALPHABETS]):
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


def find_format(text: str, options: FileFormat) -> FileFormat:
    """Return the format of a text; options that are given are not found out."""
    size = SAMPLE_BYTES
    while text.count("\n", 0, size) < 3 and size < len(text):
        size *= 4
    lines = text[:size].splitlines(keepends=True)
    ending = "\r\n" if lines[0].endswith("\r\n") else "\n"
    lines = [line for line in lines[: len(lines) - (size < len(text))] if line.strip()][:SAMPLE_LINES]
    separator = options.separator or _find_separator(lines, options.decimal)
    rows = [[cell.strip() for cell in row] for row in _split(lines, separator)]
    decimal = options.decimal
    if decimal is None:
        # Numbers such as 1,234 and 1.234 say nothing, because their marks may be between thousands.
        cells = [cell for row in rows for cell in row if not THOUSANDS.fullmatch(cell)]
        commas = sum(bool(COMMA_NUMBER.fullmatch(cell)) for cell in cells)
        points = sum("." in cell and bool(NUMBER.fullmatch(cell)) for cell in cells)
        decimal = "," if separator != "," and commas > points else "."
    header = options.header
    if header is None:
        header = _has_header([[cell.replace(decimal, ".") for cell in row] for row in rows])
    return replace(options, separator=separator, decimal=decimal, header=header, line_ending=ending)


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row has names: a text above numbers, no fractions, no whole numbers like those below.

    Whole numbers above numbers are names if they are ascending, or years, and do not all occur below.
    """
    first, others = rows[0], rows[1:]
    if not others:
        return True
    below = [[row[k] for row in others if k < len(row) and row[k] not in DEFAULT_MISSING] for k in range(len(first))]
    are_numbers = [all(NUMBER.fullmatch(cell) for cell in cells) for cells in below]
    texts = [cell not in DEFAULT_MISSING and not NUMBER.fullmatch(cell) for cell in first]
    if any(map(all, zip(texts, are_numbers, below, strict=True))):
        return True
    if any(NUMBER.fullmatch(cell) and not WHOLE.fullmatch(cell) for cell in first):
        return False
    if any(texts) or not all(are_numbers):
        return True
    whole = [int(cell) for cell in first if WHOLE.fullmatch(cell)]
    is_sorted = whole == sorted(set(whole)) or (len(set(whole)) == len(whole) and set(whole) <= set(YEARS))
    return is_sorted and not {str(number) for number in whole} <= {cell for cells in below for cell in cells}


def _split(lines: Sequence[str], separator: str) -> list[list[str]]:
    """Return the cells of each row; a row ends where a line ends outside quotes."""
    try:
        return list(csv.reader(lines, delimiter=separator))
    except csv.Error:
        return [line.split(separator) for line in lines]


def _find_separator(lines: Sequence[str], decimal: str | None) -> str:
    """Return the separator that gives most rows as many cells as the first row, and more than one."""

    def share_of_equal_rows(separator: str) -> float:
        widths = [len(row) for row in _split(lines, separator)]
        if not widths or widths[0] == 1:
            return 0.0
        common, times = Counter(widths).most_common(1)[0]
        return max(widths.count(widths[0]), 0.5 * times * (common > 1)) / len(widths)

    separators = [separator for separator in SEPARATORS if separator != decimal]
    best = max(separators, key=share_of_equal_rows)
    return best if share_of_equal_rows(best) > 0 else separators[-1]


def unique_names(names: Sequence[str], file: str) -> list[str]:
    """Return the names of columns; those that occurred before get a number, with a warning: name, name_2."""
    unique: dict[str, str] = {}
    for name in names:
        numbered = (f"{name}_{k}" for k in itertools.count(2))
        unique[name if name not in unique else next(new for new in numbered if new not in {*unique, *names})] = name
    if renamed := [f"{old!r} as {new!r}" for new, old in unique.items() if new != old]:
        what = f"several columns have the same name: {list_first(renamed)} from here on"
        warnings.warn(f"{file}: {what}. (Without a header, use --set read.header=no.)", UserWarning, stacklevel=2)
    return list(unique)


def _parse(text: str, name: str, found: FileFormat) -> pl.DataFrame:
    """Return all cells as text, with the names of the columns: by polars, or by `csv` where rows may be ragged."""
    separator, header = found.separator or ",", int(found.header is not False)
    first = next(row for _, row in _records(text, name, separator))
    names = [cell.strip() for cell in first] if header else [f"x{k}" for k in range(len(first))]
    if header:
        names = unique_names(names, name)
    if '"' not in text and "\n" not in text:
        text = text.replace("\r", "\n")  # old Macs; between quotes, line ends belong to cells
    text = text if text.endswith("\n") else text + "\n"
    bare = re.sub('"[^"]*"', "", text) if '"' in text else text
    if len(names) > 1 and bare is text and re.search(r"(?:^|\n)\r?\n", text):
        text = bare = re.sub(r"(?:\r?\n)+", "\n", text)  # blank lines; of a single column they are missing values
    # Rows with more cells than the first are refused by polars, so that the total shows that none has fewer.
    lines = bare.count("\n")
    if bare.count(separator) == (len(names) - 1) * lines and '"' not in bare:
        try:
            table = pl.read_csv(text.encode(), has_header=False, separator=separator, infer_schema=False)
        except pl.exceptions.PolarsError:
            table = pl.DataFrame()
        if table.shape == (lines, len(names)):
            table.columns = names
            return table.slice(header)
    # Python's csv module also understands quotes within cells.
    rows = [(line, cells or [""]) for line, cells in _records(text, name, separator) if cells or len(names) == 1]
    ragged = [(line, len(cells)) for line, cells in rows if len(cells) != len(names)]
    if ragged:
        shown = list_first([f"line {line:,} has {cells:,}" for line, cells in ragged], SHOWN_ROWS)
        raise DataError(
            f"{name}: {len(ragged):,} row(s) do not have the {len(names):,} cells of the first: {shown}; put cells "
            f"with {separator!r} in quotes, name the first column of files of R, or give --set read.separator=..."
        )
    table = pl.DataFrame([cells for _, cells in rows][header:], schema=dict.fromkeys(names, pl.String), orient="row")
    return table.with_columns(pl.when(pl.all() != "").then(pl.all()))


def _records(text: str, name: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line where each row begins, and its cells."""
    line, limit = 1, csv.field_size_limit(2**31 - 1)
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        for cells in reader:
            yield line, cells
            if cells and cells[-1].endswith("\n") and reader.line_num > line + 50:
                raise DataError(f"{name}: a quotation mark that opens in line {line:,} is never closed: close it.")
            line = reader.line_num + 1
    finally:
        csv.field_size_limit(limit)
