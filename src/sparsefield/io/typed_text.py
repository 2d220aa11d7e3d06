"""This module gives types to columns of text: whole numbers, numbers, booleans or text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparsefield.io.missing_words import is_missing_text, missing_numbers

if TYPE_CHECKING:
    import polars as pl

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

    columns = [column for column in table.get_columns()]
    if strip:
        columns = table.with_columns(pl.col(pl.String).str.strip_chars()).get_columns()
    # Casts of all columns at once use all threads.
    as_whole = pl.DataFrame(columns).with_columns(pl.col(pl.String).cast(pl.Int64, strict=False)).get_columns()
    return pl.DataFrame(
        [
            _type_column(column, whole, words, decimal) if column.dtype == pl.String else column
            for column, whole in zip(columns, as_whole, strict=True)
        ]
    )


def _type_column(column: pl.Series, whole: pl.Series, words: Sequence[str], decimal: str) -> pl.Series:
    import polars as pl

    for kind in (pl.Int64, pl.Float64):
        found = whole if kind == pl.Int64 else numbers_of(column, decimal)
        if found.null_count() == len(found) and column.null_count() < len(column):
            continue
        rest = column.filter(found.is_null() & column.is_not_null()).unique()
        if rest.to_frame().select(is_missing_text(pl.col(column.name), words).all()).item():
            if _has_leading_zeros(column):
                break
            return _without(found, missing_numbers(words))
    bare = column.set(column.to_frame().select(is_missing_text(pl.col(column.name), words)).to_series(), None)
    return _booleans(bare)


def numbers_of(column: pl.Series, decimal: str = ".") -> pl.Series:
    """Return the numbers of a column of text, null where a cell is none.

    Marks between thousands are dropped only where a cell has a decimal mark or a second such mark, as in 1.234,56.

    Examples
    --------
    >>> import polars as pl
    >>> numbers_of(pl.Series(["3,5", "1.234,5", "x"]), ",").to_list()
    [3.5, 1234.5, None]
    """

    bare = column.str.strip_chars()
    other = "," if decimal == "." else "."
    grouped = bare.str.contains(other, literal=True)
    if grouped.any():
        mark, point = f"\\{other}", f"\\{decimal}"
        clear = bare.str.contains(rf"^[+-]?\d{{1,3}}({mark}\d{{3}})+{point}\d+$|^[+-]?\d{{1,3}}({mark}\d{{3}}){{2,}}$")
        if decimal == "," and not clear.any():
            return _cast(bare.set(grouped, None).str.replace(",", ".", literal=True))
        # One clear cell makes the marks of the whole column clear.
        whole = bare.str.contains(rf"^[+-]?\d{{1,3}}({mark}\d{{3}})*({point}\d+)?$") & clear.any()
        bare = bare.zip_with(~(grouped & whole), bare.str.replace_all(other, "", literal=True))
        if decimal == ",":
            bare = bare.set(grouped & ~whole, None)
    return _cast(bare.str.replace(",", ".", literal=True) if decimal == "," else bare)


def _cast(column: pl.Series) -> pl.Series:
    import polars as pl

    return column.cast(pl.Float64, strict=False)


def _has_leading_zeros(column: pl.Series) -> bool:
    first = column.str.starts_with("0") | column.str.starts_with("-0") | column.str.starts_with("+0")
    odd = column.filter(first & (column.str.len_bytes() > 1))
    return bool(odd.str.contains(LEADING_ZERO).any())


def _without(column: pl.Series, numbers: Sequence[float]) -> pl.Series:
    import polars as pl

    if column.dtype.is_float():
        column = column.fill_nan(None)
    return column.set(column.cast(pl.Float64).is_in(list(numbers)), None) if numbers else column


def _booleans(column: pl.Series) -> pl.Series:
    if column.null_count() == len(column):
        return column
    lower = column.str.to_lowercase() if column.str.len_bytes().max() in (4, 5) else None
    if lower is None or not lower.is_in(["true", "false"]).all():
        return column
    return (lower == "true").alias(column.name)
