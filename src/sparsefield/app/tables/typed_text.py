"""This module gives types to columns of text: whole numbers, numbers, booleans or text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sparsefield.app.tables.missing_words import is_missing_text, is_word, missing_numbers

if TYPE_CHECKING:
    import polars as pl

SAMPLE_ROWS = 1000
"""How many cells are tried first, because most columns of text show in their first rows that they are."""

LEADING_ZERO = r"^[+-]?0\d"
THOUSANDS = re.compile(r"[+-]?\d{1,3},\d{3}")
LONG_NUMBER = r"^[+-]?\d{19,}$"


def type_columns(
    table: pl.DataFrame, words: Sequence[str], decimal: str = ".", *, strip: bool = True, zeros: bool = True
) -> pl.DataFrame:
    """Return a table of text with the type of each column, and with nulls for missing values.

    A column is of numbers or booleans if all its values are. Numbers with leading zeros, such as postal codes, stay
    text. Spaces around a cell are not part of it.

    Parameters
    ----------
    table : columns of text; others are unchanged
    words : words for missing values
    decimal : decimal mark
    strip : whether cells may have spaces around them
    zeros : whether cells may be numbers with leading zeros
    """
    import polars as pl

    if strip:
        table = table.with_columns(pl.col(pl.String).str.strip_chars())
    texts = [name for name, dtype in table.schema.items() if dtype == pl.String]
    found: dict[str, pl.Series] = {}
    for kind in (pl.Int64, pl.Float64) if table.height else ():
        # All columns at once, because polars then uses all threads.
        numbers = _number_columns(table.select(texts), kind, words, decimal)
        codes = _codes(table, numbers, kind, zeros) if numbers else set()
        found |= {name: column for name, column in numbers.items() if name not in codes}
        texts = [name for name in texts if name not in numbers]
    gone = missing_numbers(words)
    typed = table.with_columns(_without(column, gone) for column in found.values())
    return _type_texts(typed, [name for name, dtype in typed.schema.items() if dtype == pl.String], words)


def _number_columns(texts: pl.DataFrame, kind: Any, words: Sequence[str], decimal: str) -> dict[str, pl.Series]:
    """Return the columns whose cells are all numbers of a kind, or missing, and not all missing."""
    sample = texts.head(SAMPLE_ROWS)
    likely = _cast_columns(sample, kind, words, decimal)
    numbers = likely if texts.height <= SAMPLE_ROWS else _cast_columns(texts.select(list(likely)), kind, words, decimal)
    return {name: column for name, column in numbers.items() if column.null_count() < len(column)}


def _cast_columns(texts: pl.DataFrame, kind: Any, words: Sequence[str], decimal: str) -> dict[str, pl.Series]:
    """Return the columns whose cells are all numbers of a kind, or missing."""
    import polars as pl

    plain = kind == pl.Int64 or decimal == "."
    casts = texts.select(pl.all().cast(kind, strict=False)) if plain else texts
    found: dict[str, pl.Series] = {}
    for text, column in zip(texts.get_columns(), casts.get_columns(), strict=True):
        if plain and _is_complete(text, column, words):
            found[text.name] = column
        elif kind == pl.Float64 and (not plain or _may_have_thousands(text)):
            numbers = numbers_of(text, decimal)
            if _is_complete(text, numbers, words):
                found[text.name] = numbers
    return found


def _may_have_thousands(text: pl.Series) -> bool:
    return any(cell is not None and THOUSANDS.match(cell) for cell in text.head(SAMPLE_ROWS).to_list())


def _is_complete(text: pl.Series, numbers: pl.Series, words: Sequence[str]) -> bool:
    """Return whether all cells of text that are no numbers are missing."""
    import polars as pl

    if numbers.null_count() == text.null_count():
        return True
    if len(text) > SAMPLE_ROWS:
        odd = set(text.filter(numbers.is_null() & text.is_not_null()).unique().head(SAMPLE_ROWS))
    else:  # a list of few cells is faster than polars
        odd = {cell for cell, number in zip(text.to_list(), numbers.to_list(), strict=True) if number is None} - {None}
    rest = odd - {word.strip() for word in words}
    if not rest or not missing_numbers(words):
        return not rest
    return bool(_are_missing(pl.Series(list(rest)), words).all())


def _are_missing(cells: pl.Series, words: Sequence[str]) -> pl.Series:
    import polars as pl

    return cells.to_frame("cell").select(is_missing_text(pl.col("cell"), words)).to_series()


def _codes(table: pl.DataFrame, numbers: dict[str, pl.Series], kind: Any, zeros: bool) -> set[str]:
    """Return the columns that only look like numbers: with leading zeros, or whole numbers beyond 64 bits."""
    import polars as pl

    found: set[str] = set()
    if zeros:
        odd = table.select(pl.col(list(numbers)).str.contains(LEADING_ZERO).any()).row(0, named=True)
        found |= {name for name, is_odd in odd.items() if is_odd}
    if kind == pl.Float64:
        most = pl.DataFrame(list(numbers.values())).select(pl.all().abs().fill_nan(None).max()).row(0, named=True)
        large = [name for name, value in most.items() if value is not None and value >= 1e18]
        found |= {name for name in large if table[name].str.contains(LONG_NUMBER).any()}
    return found


def _without(column: pl.Series, numbers: Sequence[float]) -> pl.Series:
    import polars as pl

    if column.dtype.is_float():
        column = column.fill_nan(None)
    return column.set(column.cast(pl.Float64).is_in(list(numbers)), None) if numbers else column


def _type_texts(table: pl.DataFrame, names: Sequence[str], words: Sequence[str]) -> pl.DataFrame:
    """Return a table whose columns of text have nulls in place of words, or are booleans."""
    import polars as pl

    if not names or not table.height:
        return table
    gone = table.select(is_word(pl.col(names), words).any()).row(0, named=True)
    with_words = [name for name, is_there in gone.items() if is_there]
    table = table.with_columns(pl.when(~is_word(pl.col(with_words), words)).then(pl.col(with_words)))
    likely = _spell_booleans(table.select(names).head(SAMPLE_ROWS))
    return table.with_columns(_spell_booleans(table.select(likely.columns)).get_columns()) if likely.width else table


def _spell_booleans(texts: pl.DataFrame) -> pl.DataFrame:
    """Return the columns whose values are all true and false, in any case, as booleans."""
    import polars as pl

    lower = texts.select(pl.all().str.to_lowercase())
    fits = lower.select(pl.all().is_in(["true", "false"]).all() & pl.all().is_not_null().any()).row(0)
    names = [name for name, fit in zip(lower.columns, fits, strict=True) if fit]
    return lower.select(pl.col(names) == "true")


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
