"""This module finds the cells that hold a word for a missing value, such as NA or -99."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

DEFAULT_MISSING = (
    "",
    "NA",
    "N/A",
    "n/a",
    "<NA>",
    "NaN",
    "nan",
    "NULL",
    "null",
    "?",
    ".",
    "\\N",
    "#N/A",
    "#NULL!",
    "#DIV/0!",
    "#VALUE!",
    "#REF!",
    "#NAME?",
    "#NUM!",
)
"""Words for missing values in text files and spreadsheets; an answer such as "none", "-" or "missing" is none."""


def missing_numbers(words: Sequence[str]) -> list[float]:
    """Return the words that are finite numbers, as numbers.

    Examples
    --------
    >>> missing_numbers(["NA", "-99", "9.5"])
    [-99.0, 9.5]
    """
    found = [float(word) for word in words if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)", word.strip())]
    return [number for number in found if math.isfinite(number)]


def is_missing_text(cells: pl.Expr, words: Sequence[str]) -> pl.Expr:
    """Return whether cells of text are missing: null, or a word, also between spaces or as -99.0 for -99."""
    return is_word(cells.str.strip_chars(), words).fill_null(True)


def is_word(bare: pl.Expr, words: Sequence[str]) -> pl.Expr:
    """Return whether cells of text without spaces around them are words for missing values; null for null."""
    found = bare.is_in(list({word.strip() for word in words}))
    spelled = [re.escape(f"{number:g}") for number in missing_numbers(words) if number.is_integer()]
    if spelled:
        found = found | bare.str.contains(rf"^(?:{'|'.join(spelled)})[.,]0*$")
    return found


def missing_cells(table: pl.DataFrame, words: Sequence[str]) -> pl.DataFrame:
    """Return a table of booleans that are true for missing values: nulls, NaN, and cells that hold one of the words."""
    import polars as pl

    wanted, numbers = [], missing_numbers(words)
    for name, dtype in table.schema.items():
        column = pl.col(name)
        if dtype == pl.String:
            wanted.append(is_missing_text(column, words))
        elif dtype in (pl.Categorical, pl.Enum):
            wanted.append(is_missing_text(column.cast(pl.String), words))
        else:
            found = column.is_null()
            if dtype.is_float():
                found = found | column.is_nan().fill_null(False)
            if numbers and dtype.is_numeric():
                found = found | column.cast(pl.Float64).is_in(numbers).fill_null(False)
            wanted.append(found.alias(name))
    return table.select(wanted)


def with_nulls(table: pl.DataFrame, words: Sequence[str]) -> pl.DataFrame:
    """Return a table with nulls in place of the words and numbers for missing values."""
    import polars as pl

    if not words or not table.width:
        return table
    missing = missing_cells(table, words).get_columns()
    columns = zip(table.get_columns(), missing, strict=True)
    return pl.DataFrame({column.name: _set_null(column, cells, words) for column, cells in columns})


def _set_null(column: pl.Series, cells: pl.Series, words: Sequence[str]) -> pl.Series:
    """Return a column with nulls in some cells; words are no longer levels of it."""
    import polars as pl

    if column.dtype == pl.String or column.dtype.is_numeric():
        return column.set(cells, None)
    if not isinstance(column.dtype, (pl.Categorical, pl.Enum)) or not cells.any():
        return column
    texts = column.cast(pl.String).set(cells, None)
    if isinstance(column.dtype, pl.Enum):
        return texts.cast(pl.Enum([level for level in column.dtype.categories if level.strip() not in words]))
    return texts.cast(column.dtype)
