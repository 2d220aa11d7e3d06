"""This module gives types to columns of text: whole numbers, numbers, booleans or text."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from sparsefield.io.missing_words import is_missing_text, missing_numbers

if TYPE_CHECKING:
    import polars as pl

SAMPLE_ROWS = 1000
"""How many cells are tried first, because most columns of text show in their first rows that they are."""

MOST_SPELLINGS = 100
"""The largest number of different cells of a column of booleans, with words for missing values."""

LEADING_ZERO = r"^\s*[+-]?0\d"


def type_columns(table: pl.DataFrame, words: Sequence[str], decimal: str = ".", *, strip: bool = True) -> pl.DataFrame:
    """Return a table of text with the type of each column, and with nulls for missing values.

    A column is of numbers or booleans if all its values are. Numbers with leading zeros, such as postal codes, stay
    text. Spaces around a cell are not part of it.

    Parameters
    ----------
    table : columns of text; others are unchanged
    words : words for missing values
    decimal : decimal mark
    strip : whether cells may have spaces around them
    """
    import polars as pl

    if strip:
        table = table.with_columns(pl.col(pl.String).str.strip_chars())
    whole = {} if missing_numbers(words) else _whole_columns(table)
    rest = [column for name, column in zip(table.columns, table.get_columns(), strict=True) if name not in whole]
    with ThreadPoolExecutor(os.cpu_count()) as threads:  # polars runs outside of Python's lock
        typed = threads.map(lambda column: _type_column(column, words, decimal), rest)
        found = whole | {column.name: column for column in typed}
    return pl.DataFrame({name: found[name] for name in table.columns})


def _whole_columns(table: pl.DataFrame) -> dict[str, pl.Series]:
    """Return the columns of whole numbers without words; they are cast at once, which uses all threads."""
    import polars as pl

    names = [name for name, dtype in table.schema.items() if dtype == pl.String]
    for rows in (table.select(names).head(SAMPLE_ROWS), table):
        texts = rows.select(names)
        casts = texts.with_columns(pl.all().cast(pl.Int64, strict=False))
        nulls = zip(names, texts.null_count().row(0), casts.null_count().row(0), strict=True)
        names = [name for name, before, after in nulls if before == after]
    if not names or not table.height:
        return {}
    zeros = table.select((pl.col(names).str.len_bytes() > 1) & _starts_with_zero(pl.col(names))).select(pl.all().any())
    empty = table.select(names).null_count().row(0)
    kept = zip(names, zeros.row(0), empty, strict=True)
    return {name: casts[name] for name, zero, nulls in kept if not zero and nulls < table.height}


def _starts_with_zero(cells: pl.Expr) -> pl.Expr:
    return cells.str.starts_with("0") | cells.str.starts_with("-0") | cells.str.starts_with("+0")


def _type_column(column: pl.Series, words: Sequence[str], decimal: str) -> pl.Series:
    import polars as pl

    if column.dtype != pl.String:
        return column
    for kind in (pl.Int64, pl.Float64):
        if not _is_of(column.head(SAMPLE_ROWS), kind, words, decimal)[0]:
            continue
        fits, found = _is_of(column, kind, words, decimal)
        if fits and found.null_count() < len(found):
            if _has_leading_zeros(column) or (kind == pl.Float64 and _has_long_numbers(column)):
                break
            return _without(found, missing_numbers(words))
    states = column.unique().drop_nulls()
    gone = states.filter(_are_missing(states, words))
    return _booleans(column.set(column.is_in(gone.to_list()), None) if len(gone) else column, states)


def _is_of(column: pl.Series, kind: Any, words: Sequence[str], decimal: str) -> tuple[bool, pl.Series]:
    """Return whether all cells are numbers of a kind or missing, and the numbers."""
    import polars as pl

    found = column.cast(kind, strict=False) if kind == pl.Int64 else numbers_of(column, decimal)
    if found.null_count() == column.null_count():
        return True, found
    rest = column.filter(found.is_null() & column.is_not_null())
    for cells in (rest.head(SAMPLE_ROWS), rest):
        if not _are_missing(cells.unique(), words).all():
            return False, found
    return True, found


def _are_missing(cells: pl.Series, words: Sequence[str]) -> pl.Series:
    import polars as pl

    return cells.to_frame("cell").select(is_missing_text(pl.col("cell"), words)).to_series()


def numbers_of(bare: pl.Series, decimal: str = ".", *, known: bool = False) -> pl.Series:
    """Return the numbers of a column of text without spaces around cells, null where a cell is none.

    Marks between thousands are dropped only where a cell has a decimal mark or a second such mark, as in 1.234,56, or
    if it is ``known`` that the column has numbers.

    Examples
    --------
    >>> import polars as pl
    >>> numbers_of(pl.Series(["3,5", "1.234,5", "x"]), ",").to_list()
    [3.5, 1234.5, None]
    """

    other = "," if decimal == "." else "."
    grouped = bare.str.contains(other, literal=True)
    if grouped.any():
        mark, point = f"\\{other}", f"\\{decimal}"
        clear = bare.str.contains(rf"^[+-]?\d{{1,3}}({mark}\d{{3}})+{point}\d+$|^[+-]?\d{{1,3}}({mark}\d{{3}}){{2,}}$")
        if decimal == "," and not (known or clear.any()):
            return _cast(bare.set(grouped, None).str.replace(",", ".", literal=True))
        # One clear cell makes the marks of the whole column clear.
        whole = bare.str.contains(rf"^[+-]?\d{{1,3}}({mark}\d{{3}})*({point}\d+)?$") & (known or clear.any())
        bare = bare.zip_with(~(grouped & whole), bare.str.replace_all(other, "", literal=True))
        if decimal == ",":
            bare = bare.set(grouped & ~whole, None)
    return _cast(bare.str.replace(",", ".", literal=True) if decimal == "," else bare)


def _cast(column: pl.Series) -> pl.Series:
    import polars as pl

    return column.cast(pl.Float64, strict=False)


def _has_long_numbers(column: pl.Series) -> bool:
    """Return whether there are whole numbers beyond 64 bits, such as serial numbers, which floats would merge."""
    return bool(column.str.contains(r"^[+-]?\d{19,}$").any())


def _has_leading_zeros(column: pl.Series) -> bool:
    first = column.str.starts_with("0") | column.str.starts_with("-0") | column.str.starts_with("+0")
    odd = column.filter(first & (column.str.len_bytes() > 1))
    return bool(odd.str.contains(LEADING_ZERO).any())


def _without(column: pl.Series, numbers: Sequence[float]) -> pl.Series:
    import polars as pl

    if column.dtype.is_float():
        column = column.fill_nan(None)
    return column.set(column.cast(pl.Float64).is_in(list(numbers)), None) if numbers else column


def _booleans(column: pl.Series, states: pl.Series) -> pl.Series:
    """Return a column as booleans if all its values are true and false, in any case."""
    if column.null_count() == len(column) or len(states) > MOST_SPELLINGS:
        return column
    if not column.unique().drop_nulls().str.to_lowercase().is_in(["true", "false"]).all():
        return column
    return (column.str.to_lowercase() == "true").alias(column.name)
