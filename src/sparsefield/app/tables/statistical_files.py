"""This module reads the files of SPSS, Stata and SAS with their labels and missing values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.errors import DataError

if TYPE_CHECKING:
    import polars as pl

READERS = {"spss": "read_sav", "stata": "read_dta", "sas": "read_sas7bdat", "sas-transport": "read_xport"}


def read_statistical(path: Path, kind: str, name: str) -> pl.DataFrame:
    """Read a file of SPSS, Stata or SAS.

    Values that the file declares missing are null. A column whose values all have labels has the labels: as an Enum, in
    the order of the values, if its measure is ordinal, otherwise as text. Other labeled columns keep their numbers.
    Dates are dates.

    Parameters
    ----------
    path : the file
    kind : "spss", "stata", "sas" or "sas-transport"
    name : name of the file, for messages
    """
    import polars as pl

    try:
        import pyreadstat
    except ImportError:
        raise DataError(
            f"{name}: this is a file of SPSS, Stata or SAS: pip install 'sparsefield[files]' to read it."
        ) from None
    try:
        cells, about = getattr(pyreadstat, READERS[kind])(str(path), output_format="dict")
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, ValueError) as error:
        line = " ".join(str(error).split()).rstrip(".")
        raise DataError(f"{name}: the file cannot be read ({line}): export it again, or save it as CSV.") from None
    labels, measures = about.variable_value_labels, about.variable_measure
    return pl.DataFrame(
        [
            _column(column, values, labels.get(column, {}), measures.get(column) == "ordinal")
            for column, values in cells.items()
        ]
    )


def _column(name: str, values: Any, labels: dict[Any, str], ordered: bool) -> pl.Series:
    import polars as pl

    column = pl.Series(name, list(values), strict=False)
    if column.dtype == pl.String:
        column = column.set(column.str.strip_chars() == "", None)
    if column.dtype.is_float():
        column = column.fill_nan(None)
        whole = column.drop_nulls()
        if len(whole) and bool((whole == whole.round()).all() and whole.abs().max() < 2**53):  # pyright: ignore
            column = column.cast(pl.Int64)
    # Stata labels its missing values .a to .z by letters, in columns of numbers as well.
    if column.dtype.is_numeric():
        labels = {value: label for value, label in labels.items() if not isinstance(value, str)}
    used = set(column.drop_nulls().unique().to_list()) if labels else set()
    return _with_labels(column, labels, ordered) if used and used <= labels.keys() else column


def _with_labels(column: pl.Series, labels: dict[Any, str], ordered: bool) -> pl.Series:
    """Return the labels of values; labels that several values share also have the value."""
    import polars as pl

    texts = list(labels.values())
    used = set(column.drop_nulls().to_list())
    # Labels of values that are missing by declaration, such as "refused", are no levels.
    spelled = {
        value: text
        if texts.count(text) == 1
        else f"{text} ({value:g})"
        if isinstance(value, float)
        else f"{text} ({value})"
        for value, text in sorted(labels.items())
    }
    found = [None if value is None else spelled[value] for value in column]
    levels = [text for value, text in spelled.items() if value in used or not _outside(value, used)]
    return pl.Series(column.name, found, dtype=pl.Enum(levels) if ordered else pl.String)


def _outside(value: Any, used: set[Any]) -> bool:
    return not min(used) <= value <= max(used)
