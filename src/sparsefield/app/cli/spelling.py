"""This module spells values as text: as their column spells its own, or as that of the fit did."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sparsefield.app.tables.column_spelling import MOST_DECIMALS, find_spelling
from sparsefield.model.text_style import ColumnSpelling

if TYPE_CHECKING:
    import polars as pl

    from sparsefield.data.schema import Variable

TIME_FORMAT = "%Y-%m-%d %H:%M:%S%.f"
"""Seconds have a fraction only where it is not 0."""


def spell_labels(
    variable: Variable,
    column: pl.Series,
    values: pl.Series,
    labels: pl.Series,
    decimal: str = ".",
    remembered: ColumnSpelling | None = None,
) -> pl.Series:
    """Return labels as the text that a column has for them.

    A state has its most frequent spelling, such as TRUE, 030 or 3.0; a number has the decimals of the column, and its
    marks between thousands.

    Parameters
    ----------
    variable : variable of the model
    column : (rows,) cells, which are text; labels for other columns are returned as they are
    values : (rows,) the same cells with the types of the model; null if missing or unknown
    labels : labels to spell
    decimal : decimal mark of the cells
    remembered : the spelling of the fit, for a column without any value
    """
    import polars as pl

    if column.dtype not in (pl.String, pl.Null) or labels.dtype == pl.Null:
        return labels
    known = values.is_not_null()
    text = column.cast(pl.String).filter(known).str.strip_chars()
    if not len(text) and remembered is not None:
        return spell_column(variable, labels, remembered, decimal)
    if labels.dtype in (pl.Date, pl.Datetime) and len(text):
        return _spell_dates(text, values.filter(known), labels)
    if labels.dtype.is_temporal():
        return _spell_times(labels)
    if {type(state) for state in variable.states} == {str}:
        return labels
    if not len(text):
        return labels
    spelled = {} if variable.numeric else _spellings(values.filter(known), text)
    spelling = find_spelling(text.alias(labels.name), decimal)
    plain = spell_column(variable, labels, spelling, decimal)
    found = [spelled.get(label) or word for label, word in zip(labels, plain.cast(pl.String), strict=True)]
    return pl.Series(labels.name, found, dtype=pl.String)


def _spell_dates(text: pl.Series, values: pl.Series, labels: pl.Series) -> pl.Series:
    """Return dates in the format of the cells of a column."""
    import polars as pl

    from sparsefield.app.tables.date_text import date_formats, parse_dates, write_dates

    known = values.dt.replace_time_zone(None) if isinstance(values.dtype, pl.Datetime) else values
    for format in date_formats(text):
        if bool((parse_dates(text, format).cast(pl.Datetime("us")) == known.cast(pl.Datetime("us"))).all()):
            return write_dates(labels, format, text).alias(labels.name)
    return _spell_times(labels)


def spell_column(
    variable: Variable, labels: pl.Series, spelling: ColumnSpelling | None, decimal: str = "."
) -> pl.Series:
    """Return numbers, booleans and dates as text in a spelling; other labels, and those without one, as they are."""
    import polars as pl

    if spelling is None:
        return labels
    if labels.dtype.is_temporal():
        return labels.dt.to_string(spelling.date) if spelling.date else labels
    if labels.dtype == pl.Boolean:
        words: Mapping[Any, str | None] = {True: spelling.true or "true", False: spelling.false or "false", None: None}
        return pl.Series(labels.name, [words[label] for label in labels], dtype=pl.String)
    if not labels.dtype.is_numeric():
        return labels
    shown = _decimals(variable, spelling)
    found = [None if label is None else _format(label, shown, spelling.thousands) for label in labels]
    if decimal == ",":
        marks = str.maketrans(",.", ".,")
        found = [None if text is None else text.translate(marks) for text in found]
    return pl.Series(labels.name, found, dtype=pl.String)


def spell_table(
    table: pl.DataFrame, variables: Mapping[str, Variable], spellings: Mapping[str, ColumnSpelling], decimal: str
) -> pl.DataFrame:
    """Return a table whose numbers, booleans and dates are text, spelled as in the table of the fit."""
    return table.with_columns(
        spell_column(variables[name], table[name], spellings[name], decimal)
        for name in table.columns
        if name in spellings and name in variables
    )


def _spellings(values: pl.Series, text: pl.Series) -> dict[Any, str]:
    """Return {value: its most frequent text}, the first of equally frequent ones; objects by their text."""
    import polars as pl

    if values.dtype == pl.Object:
        counts = Counter(zip(map(str, values), text, strict=True))
        pairs = [pair for pair, _ in counts.most_common()]
    else:
        counted = pl.DataFrame({"value": values, "text": text}).group_by("value", "text", maintain_order=True).len()
        pairs = counted.sort("len", descending=True, maintain_order=True).select("value", "text").rows()
    return dict(reversed(pairs))


def _decimals(variable: Variable, spelling: ColumnSpelling) -> int | None:
    """Return the number of decimals to write, at least those of the values of the fit; None for as many as needed."""
    if spelling.decimals is None:
        return None
    least = variable.decimals or 0
    if variable.numeric and variable.decimals is None:  # values of the fit were not rounded: three digits of their SD
        least = max(2 - math.floor(math.log10(variable.scale)), 0)
    return min(max(spelling.decimals, least), MOST_DECIMALS)


def _format(number: float, decimals: int | None, thousands: bool) -> str:
    mark = "," if thousands else ""
    if decimals is None or (decimals == 0 and isinstance(number, int)):
        return f"{number:{mark}}".removesuffix(".0")
    return f"{round(number, decimals) + 0.0:{mark}.{decimals}f}"


def _spell_times(labels: pl.Series) -> pl.Series:
    """Return dates with times as text; other dates, times of day and durations as they are."""
    import polars as pl

    if labels.dtype != pl.Datetime:
        return labels
    return labels.dt.to_string(TIME_FORMAT)
