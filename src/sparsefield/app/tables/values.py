"""Values of cells of text: missing words, numbers, booleans and dates."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
import polars.selectors as cs

if TYPE_CHECKING:
    from sparsefield.data.frames import Source

SAMPLE_ROWS = 1000
"""How many cells are tried first, because most columns of text show in their first rows that they are."""

LEADING_ZERO = r"^[+-]?0\d"
LONG_NUMBER = r"^[+-]?\d{19,}$"
"""Whole numbers of more than 64 bits, such as serial numbers, would lose digits."""

YEAR_FIRST = re.compile(r"\d{4}([-/.])\d{1,2}\1\d{1,2}(.*)")
YEAR_LAST = re.compile(r"\d{1,2}([-/.])\d{1,2}\1\d{4}(.*)")
CLOCK = re.compile(r"([T ])\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?")


def missing_numbers(words: Sequence[str]) -> list[float]:
    """Return the words that are finite numbers, as numbers.

    Examples
    --------
    >>> missing_numbers(["NA", "-99", "9.5"])
    [-99.0, 9.5]
    """
    numbers = [float(word) for word in words if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)", word.strip())]
    return [number for number in numbers if math.isfinite(number)]


def missing_cells(table: pl.DataFrame, words: Sequence[str]) -> pl.DataFrame:
    """Return a table of booleans that are true for missing values: nulls, NaN, and cells that hold one of the words.

    A word may stand between spaces, and -99 also stands for -99.0.
    """
    columns, numbers, bare_words = [], missing_numbers(words), list({word.strip() for word in words})
    whole = "|".join(re.escape(f"{number:.0f}") for number in numbers if number.is_integer())
    for name, dtype in table.schema.items():
        column = pl.col(name)
        if dtype in (pl.String, pl.Categorical, pl.Enum):
            bare = column.cast(pl.String).str.strip_chars()
            missing = bare.is_in(bare_words)
            missing = (missing | bare.str.contains(rf"^(?:{whole})[.,]0*$") if whole else missing).fill_null(True)
        else:
            missing = column.is_null()
            if dtype.is_float():
                missing = missing | column.is_nan().fill_null(False)
            if numbers and dtype.is_numeric():
                missing = missing | column.cast(pl.Float64).is_in(numbers).fill_null(False)
        columns.append(missing.alias(name))
    return table.select(columns)


def with_nulls(table: pl.DataFrame, words: Sequence[str]) -> pl.DataFrame:
    """Return a table with nulls in place of the words and numbers for missing values; words are no longer levels."""
    if not words or not table.width:
        return table
    columns = []
    for column, missing in zip(table.get_columns(), missing_cells(table, words).get_columns(), strict=True):
        if missing.any():
            known = column.to_frame().select(pl.when(~missing).then(pl.all())).to_series()
            if isinstance(column.dtype, pl.Enum):
                levels = [level for level in column.dtype.categories if level.strip() not in words]
                known = known.cast(pl.String).cast(pl.Enum(levels))
            columns.append(known)
    return table.with_columns(columns)


def type_columns(table: pl.DataFrame, words: Sequence[str], decimal: str = ".") -> pl.DataFrame:
    """Return a table of text with the type of each column, and with nulls for missing values.

    A column is of whole numbers, numbers or booleans if all its values are. Numbers with leading zeros, such as postal
    codes, stay text. Spaces around a cell are not part of it.

    Columns of other types only lose ``words`` for missing values.
    """
    table = with_nulls(table.with_columns(cs.string().str.strip_chars()), words)
    cells = pl.all()
    plain = pl.when(~cells.str.contains(".", literal=True)).then(cells).str.replace(",", ".", literal=True)
    truth = cells.str.to_lowercase().replace_strict(
        {"true": True, "false": False}, default=None, return_dtype=pl.Boolean
    )
    whole, number = cells.cast(pl.Int64, strict=False), (cells if decimal == "." else plain)
    for values in (whole, number.cast(pl.Float64, strict=False), truth):
        typed = _readable(table.select(cs.string()), values)
        codes = table.select(cs.by_name(*typed.columns).str.contains(rf"{LEADING_ZERO}|{LONG_NUMBER}").any())
        are_codes = codes.row(0, named=True) if typed.width else {}
        table = table.with_columns(column for column in typed.get_columns() if not are_codes[column.name])
    for column in table.select(cs.string()).get_columns():
        if any(cell is not None and re.match(r"[+-]?\d{1,3}[.,]\d{3}", cell) for cell in column.head(SAMPLE_ROWS)):
            numbers = numbers_of(column, decimal)
            if numbers.null_count() == column.null_count() and not column.str.contains(LEADING_ZERO).any():
                table = table.with_columns(numbers)
    return table


def _readable(texts: pl.DataFrame, read: pl.Expr) -> pl.DataFrame:
    """Return the values of the columns whose cells can all be read, the missing ones excepted."""
    names, values = texts.columns, texts
    for rows in (texts.head(SAMPLE_ROWS), texts):
        rows = rows.select(names)
        values = rows.select(read)
        pairs = zip(values.get_columns(), rows.get_columns(), strict=True)
        names = [column.name for column, text in pairs if column.null_count() == text.null_count()]
    return values.select(name for name in names if values[name].null_count() < values.height)


def numbers_of(cells: pl.Series, decimal: str = ".", *, known: bool = False) -> pl.Series:
    """Return the numbers of a column of text without spaces around cells, null where a cell is none.

    Marks between thousands are dropped only where a cell has a decimal mark or a second such mark, as in 1.234,56, or
    if it is ``known`` that the column has numbers; then the mark of "4." is dropped, too.

    Examples
    --------
    >>> numbers_of(pl.Series(["3,5", "1.234,5", "x"]), ",").to_list()
    [3.5, 1234.5, None]
    """
    cells = cells.str.replace(r"^([+-]?\d+)[.,]$", "${1}") if known else cells
    other = "," if decimal == "." else "."
    mark, point = re.escape(other), re.escape(decimal)
    clear = cells.str.contains(rf"^[+-]?\d{{1,3}}({mark}\d{{3}})+{point}\d+$|^[+-]?\d{{1,3}}({mark}\d{{3}}){{2,}}$")
    # One clear cell makes the marks of the whole column clear.
    pattern = rf"^[+-]?\d{{1,3}}({mark}\d{{3}})+({point}\d+)?$" if known or clear.any() else "^$"
    marks = cells.str.contains(pattern)
    bare = cells.zip_with(~marks, cells.str.replace_all(other, "", literal=True))
    if decimal == ",":
        bare = bare.set(bare.str.contains(".", literal=True), None).str.replace(",", ".", literal=True)
    return bare.cast(pl.Float64, strict=False)


def date_formats(cells: pl.Series, order: str | None = None) -> list[str]:
    """Return the formats in which all cells are dates: none, one, or two if day and month cannot be told apart.

    Cells have no spaces around them, and nulls are skipped. The order "day-first" or "month-first" decides; dates with
    dots have the day first by default.

    Examples
    --------
    >>> date_formats(pl.Series(["29.01.2024", "1.2.2024"]))
    ['%d.%m.%Y']
    >>> date_formats(pl.Series(["01/02/2024", "03/04/2024"]))
    ['%d/%m/%Y', '%m/%d/%Y']
    """
    first = next((cell for cell in cells.head(SAMPLE_ROWS) if cell is not None), "")
    match = YEAR_FIRST.fullmatch(first) or YEAR_LAST.fullmatch(first)
    clock = CLOCK.fullmatch(match[2]) if match and match[2] else None
    if match is None or (match[2] and clock is None):
        return []
    orders = ["%d %m %Y", "%m %d %Y"]
    if YEAR_FIRST.fullmatch(first):
        orders = ["%Y %m %d"]
    elif order == "month-first":
        orders = orders[1:]
    elif order == "day-first" or match[1] == ".":
        orders = orders[:1]
    time = "" if clock is None else f"{clock[1]}%H:%M" + ("" if clock[2] is None else ":%S%.f")
    formats = [day.replace(" ", match[1]) + time for day in orders]
    for part in (cells.head(SAMPLE_ROWS), cells):
        formats = [form for form in formats if parse_dates(part, form).null_count() == part.null_count()]
    return formats


def parse_dates(cells: pl.Series, form: str) -> pl.Series:
    """Return the dates, or the times if the format has hours, of cells; null where a cell is none."""
    if "%H" in form:
        return cells.str.to_datetime(form, time_unit="us", strict=False)
    return cells.str.to_date(form, strict=False)


def read_dates(table: pl.DataFrame, order: str | None = None) -> tuple[pl.DataFrame, dict[str, str]]:
    """Return a table whose columns of dates kept as text are dates, and {column: format}; order "text" leaves all."""
    formats = {}
    for column in [] if order == "text" else table.select(cs.string()).get_columns():
        possible = date_formats(column, order)
        if len(possible) == 1:
            formats[column.name] = possible[0]
    return table.with_columns(parse_dates(table[name], form) for name, form in formats.items()), formats


def as_polars(source: Source) -> pl.DataFrame:
    """Return a frame of numbers, booleans, times and text; categories and other types become text, NaN null."""
    if source.kind == "polars":
        frame = nw.to_native(source.native)
    else:
        frame = pl.DataFrame([_as_series(source, name) for name in source.names])
    frame = frame.with_columns(cs.decimal().cast(pl.Float64), pl.col(pl.Categorical, pl.Enum, pl.Null).cast(pl.String))
    others = frame.select(~(cs.float() | cs.integer() | cs.temporal() | cs.boolean() | cs.string())).get_columns()
    texts = [[None if cell is None else str(cell) for cell in column.to_list()] for column in others]
    columns = [pl.Series(column.name, cells, dtype=pl.String) for column, cells in zip(others, texts, strict=True)]
    return frame.with_columns(columns).with_columns(cs.float().fill_nan(None))


def _as_series(source: Source, name: str) -> pl.Series:
    if source.kind not in ("array", "sparse"):
        try:
            return source.native[:, source.names.index(name)].to_polars().alias(name)
        except Exception:  # libraries have no common exception for cells of several types
            pass
    raw = source.column(name)
    values = raw.values.tolist()
    types = set(map(type, values))
    if types != {bool} and not types <= {int, float}:
        values = list(map(str, values))
    known = pl.Series(name, values, dtype=None if types else pl.String, strict=False)
    return known.gather(pl.Series(np.cumsum(raw.present) - 1).set(pl.Series(~raw.present), None)).alias(name)


def as_whole(column: pl.Series) -> pl.Series:
    """Return a column of floats as integers if all its values are whole; others as they are."""
    if not column.dtype.is_float():
        return column
    whole = column.cast(pl.Int64, strict=False)
    is_lossless = whole.null_count() == column.null_count() < len(column) and (column == whole).all()
    return whole if is_lossless else column
