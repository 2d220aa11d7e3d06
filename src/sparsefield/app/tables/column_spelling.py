"""This module finds out how columns of text spell their numbers and booleans."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sparsefield.model.text_style import ColumnSpelling

if TYPE_CHECKING:
    import polars as pl

SAMPLE_CELLS = 1000
"""How many cells decide about decimals; the exact number of decimals of a column is known from its values."""

MOST_DECIMALS = 15
"""Numbers with more decimals are written with all their digits."""


def find_spellings(texts: pl.DataFrame, typed: pl.DataFrame, decimal: str) -> tuple[ColumnSpelling, ...]:
    """Return the spellings of the columns that became floats or booleans.

    Parameters
    ----------
    texts : cells as the file has them
    typed : the same columns with their types, null where a value is missing
    decimal : decimal mark
    """
    import polars as pl

    names = [name for name, dtype in typed.schema.items() if dtype in (pl.Float64, pl.Boolean)]
    names = [name for name in names if texts.schema[name] == pl.String]
    return tuple(find_spelling(texts[name].filter(typed[name].is_not_null()), decimal) for name in names)


def find_spelling(cells: pl.Series, decimal: str) -> ColumnSpelling:
    """Return the spelling of a column, given its cells that are not missing.

    Examples
    --------
    >>> import polars as pl
    >>> find_spelling(pl.Series("price", ["1.200,50", "3,00"]), ",")
    ColumnSpelling(name='price', decimals=2, thousands=True, true='', false='', date='')
    """
    sample = cells.head(SAMPLE_CELLS).str.strip_chars()
    words = _boolean_words(sample)
    if words is not None:
        return ColumnSpelling(cells.name, true=words[0], false=words[1])
    other = "," if decimal == "." else "."
    thousands = bool(cells.str.contains(rf"\d{re.escape(other)}\d\d\d").any())
    return ColumnSpelling(cells.name, _shown_decimals(sample, decimal), thousands)


def _shown_decimals(cells: pl.Series, decimal: str) -> int | None:
    """Return the number of decimals if all cells have as many, or if some end in zeros; else None."""
    if not len(cells) or cells.str.contains("[eE]").any():
        return None
    fractions = cells.str.extract(rf"{re.escape(decimal)}(\d*)$").fill_null("")
    lengths = fractions.str.len_chars()
    most: Any = lengths.max()
    padded = lengths.n_unique() == 1 or bool(fractions.str.ends_with("0").any())
    return int(most) if padded and most <= MOST_DECIMALS else None


def _boolean_words(cells: pl.Series) -> tuple[str, str] | None:
    """Return the words for true and false, None if there are others; a word that does not occur is like the other."""
    found = {word.lower(): word for word in cells.unique(maintain_order=True)}
    if not found or not set(found) <= {"true", "false"}:
        return None
    any_word = next(iter(found.values()))
    change = str.upper if any_word.isupper() else str.title if any_word.istitle() else str.lower
    return found.get("true", change("true")), found.get("false", change("false"))
