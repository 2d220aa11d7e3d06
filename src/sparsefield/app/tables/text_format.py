"""This module finds the separator, the quotation mark, the decimal mark and the header of a text file from a sample."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from sparsefield.app.tables.file_format import FileFormat
from sparsefield.app.tables.read_options import ReadOptions

SAMPLE_BYTES = 1 << 18
"""How many bytes of a text, which may be more if the first lines are longer, decide its format."""

SAMPLE_LINES = 200
SEPARATORS = ("\t", ";", "|", ",")
"""Of separators that fit equally well, the first is taken, because commas also occur in numbers and in text."""

WHOLE = re.compile(r"[+-]?\d+")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
COMMA_NUMBER = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)?,\d+([eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
POINTS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+")
YEARS = range(1800, 2101)


def find_format(data: bytes, reading: ReadOptions) -> FileFormat:
    """Return the format of a text, given as UTF-8; options that are given are not found out.

    Parameters
    ----------
    data : text in UTF-8 without a byte order mark
    reading : options
    """
    ending = line_ending_of(data)
    lines = sample_lines(data, ending)
    quote = "'" if _has_single_quotes(lines) else '"'
    separator = reading.separator or find_separator(lines, quote)
    rows = split_lines(lines, separator, quote)
    decimal = reading.decimal or find_decimal(rows, separator)
    header = has_header(rows, decimal) if reading.header is None else reading.header
    found = FileFormat(separator=separator, quote=quote, decimal=decimal, header=header, line_ending=ending)
    return replace(found, title="TSV" if separator == "\t" else "CSV", quoting=_find_quoting(lines, separator, quote))


def line_ending_of(data: bytes) -> str:
    """Return the first line ending of a text; a newline if there is none."""
    first = re.search(rb"\r\n|\n|\r", data[: 1 << 26])
    return "\n" if first is None else first[0].decode()


def sample_lines(data: bytes, ending: str = "\n") -> list[str]:
    """Return the first lines that are not blank, without one that is cut off."""
    size, mark = SAMPLE_BYTES, ending.encode()
    while data.count(mark, 0, size) < 3 and size < len(data):
        size *= 4
    lines = data[:size].decode(errors="ignore").split(ending)
    if size < len(data):
        lines.pop()
    return [line for line in lines if line.strip()][:SAMPLE_LINES]


def split_lines(lines: Sequence[str], separator: str, quote: str) -> list[list[str]]:
    """Return the cells of each row; a row ends where a line ends outside quotes."""
    try:
        return list(csv.reader((line + "\n" for line in lines), delimiter=separator, quotechar=quote))
    except csv.Error:
        return [line.split(separator) for line in lines]


def find_separator(lines: Sequence[str], quote: str) -> str:
    """Return the separator that gives most rows as many cells as the first row, and more than one.

    Examples
    --------
    >>> find_separator(["a;b", "1,5;2", "2,5;3"], '"')
    ';'
    """
    shares = {separator: _share_of_equal_rows(split_lines(lines, separator, quote)) for separator in SEPARATORS}
    best = max(shares.values(), default=0.0)
    return next((mark for mark in SEPARATORS if shares[mark] == best), ",") if best > 0 else ","


def _share_of_equal_rows(rows: Sequence[Sequence[str]]) -> float:
    """Return the share of rows with the cells of the first row, or half that of the most frequent count."""
    counts = [len(row) for row in rows]
    if not counts:
        return 0.0
    common, times = Counter(counts).most_common(1)[0]
    same = counts.count(counts[0]) if counts[0] > 1 else 0
    return max(same / len(counts), 0.5 * times / len(counts) if common > 1 and counts[0] > 1 else 0.0)


def find_decimal(rows: Sequence[Sequence[str]], separator: str) -> str:
    """Return the decimal mark: a comma where cells are not separated by commas and have numbers such as 3,14.

    Numbers such as 1,234 and 1.234 say nothing, because their marks may be between thousands.
    """
    if separator == ",":
        return "."
    cells = [cell.strip() for row in rows[:SAMPLE_LINES] for cell in row]
    commas = sum(bool(COMMA_NUMBER.fullmatch(cell)) and not THOUSANDS.fullmatch(cell) for cell in cells)
    points = sum("." in cell and bool(NUMBER.fullmatch(cell)) and not POINTS.fullmatch(cell) for cell in cells)
    return "," if commas > points else "."


def has_header(rows: Sequence[Sequence[str]], decimal: str) -> bool:
    """Return whether the first row has names rather than values.

    It has values if a cell is a number with a fraction in a column of numbers, or if all cells are whole numbers that
    are neither ascending nor years, above columns of numbers.
    """
    if len(rows) < 2 or not rows[0]:
        return True
    first = [_plain(cell, decimal) for cell in rows[0]]
    body = [[_plain(cell, decimal) for cell in row] for row in rows[1:] if len(row) == len(first)]
    if not body:
        return True
    numeric = [all(not row[k] or NUMBER.fullmatch(row[k]) for row in body) for k in range(len(first))]
    for cell, over_numbers in zip(first, numeric, strict=True):
        if over_numbers and NUMBER.fullmatch(cell) and not WHOLE.fullmatch(cell):
            return False
    if not all(numeric) or not all(WHOLE.fullmatch(cell) for cell in first):
        return True
    whole = [int(cell) for cell in first]
    ascending = all(low < high for low, high in pairwise(whole))
    return ascending or (all(number in YEARS for number in whole) and len(set(whole)) == len(whole))


def _plain(cell: str, decimal: str) -> str:
    return cell.strip().replace(",", ".") if decimal == "," else cell.strip()


def _has_single_quotes(lines: Sequence[str]) -> bool:
    """Return whether cells begin and end with a single quote, and none with a double one."""
    text = "\n".join(lines)
    edge = r"(?:^|[,;\t|])[ ]*{0}(?:[^{0}\n]|{0}{0})*{0}[ ]*(?=$|[,;\t|])"
    single = len(re.findall(edge.format("'"), text, re.MULTILINE))
    started = len(re.findall(r"(?:^|[,;\t|])[ ]*'", text, re.MULTILINE))
    return single >= 2 and single == started and not re.search(edge.format('"'), text, re.MULTILINE)


def _find_quoting(lines: Sequence[str], separator: str, quote: str) -> str:
    """Return which cells are in quotes: "always", "text" or "necessary"."""
    plain = [line for line in lines if line.count(quote) % 2 == 0]
    quoted = unquoted = text = 0
    inside = rf"{quote}(?:[^{quote}]|{quote}{quote})*{quote}"
    for line in plain:
        for cell in re.findall(rf"(?:^|(?<={re.escape(separator)}))({inside}|[^{re.escape(separator)}]*)", line):
            if len(cell) > 1 and cell[0] == quote == cell[-1]:
                quoted += 1
            else:
                unquoted += bool(cell.strip())
                text += bool(cell.strip()) and not NUMBER.fullmatch(cell.strip().replace(",", "."))
    if not quoted or text:
        return "necessary"
    return "text" if unquoted else "always"
