"""This module spells the values that are filled into a column of text as the column spells its own."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from sparsefield.data.schema import Variable

NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)\s*$"

MOST_DECIMALS = 15
"""Numbers with more decimals are written with all their digits."""


def spell_labels(
    variable: Variable, column: pl.Series, values: pl.Series, labels: pl.Series, decimal: str = "."
) -> pl.Series:
    """Return labels as the text that a column has for them.

    A state has its most frequent spelling, such as TRUE, 030 or 3.0; a number has as many decimals as the column.

    Parameters
    ----------
    variable : variable of the model
    column : (rows,) cells, which are text; labels for other columns are returned as they are
    values : (rows,) the same cells with the types of the model; null if missing or unknown
    labels : labels to spell
    decimal : decimal mark of the cells
    """
    import polars as pl

    if column.dtype == pl.String and labels.dtype in (pl.Date, pl.Datetime):
        return _spell_dates(column.filter(values.is_not_null()).str.strip_chars(), values.drop_nulls(), labels)
    if column.dtype != pl.String or labels.dtype == pl.Null or labels.dtype.is_temporal():
        return labels
    if {type(state) for state in variable.states} == {str}:
        return labels
    known = values.is_not_null()
    text = column.filter(known)
    if not len(text):
        return labels
    spelled = {} if variable.numeric else _spellings(values.filter(known), text)
    if labels.dtype == pl.Boolean:
        spelled = _booleans(text[0]) | spelled
    points = text.str.replace(",", ".", literal=True) if decimal == "," else text
    decimals = None if labels.dtype in (pl.Boolean, pl.String) else _decimals(variable, points)
    plain = labels.cast(pl.String)
    if decimals is not None:
        plain = pl.Series([_format(label, decimals) for label in labels], dtype=pl.String)
    if decimal == "," and labels.dtype.is_numeric():
        plain = plain.str.replace(".", ",", literal=True)
    found = [spelled.get(label) or word for label, word in zip(labels, plain, strict=True)]
    return pl.Series(labels.name, found, dtype=pl.String)


def _spell_dates(text: pl.Series, values: pl.Series, labels: pl.Series) -> pl.Series:
    """Return dates in the format of the cells of a column; as they are if it has none."""
    import polars as pl

    from sparsefield.io.date_text import date_formats, parse_dates, write_dates

    known = values.dt.replace_time_zone(None) if isinstance(values.dtype, pl.Datetime) else values
    for format in date_formats(text):
        if bool((parse_dates(text, format).cast(pl.Datetime("us")) == known.cast(pl.Datetime("us"))).all()):
            return write_dates(labels, format, text).alias(labels.name)
    return labels


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


def _booleans(word: str) -> dict[bool, str]:
    """Return the spelling of both booleans, given that of one."""
    change = str.upper if word.isupper() else str.title if word.istitle() else str.lower
    return {True: change("true"), False: change("false")}


def _decimals(variable: Variable, text: pl.Series) -> int | None:
    """Return the largest number of decimals of the cells, and of the limits of training; None if some have none."""
    if not text.str.contains(NUMBER).all():
        return None
    most: Any = text.str.strip_chars().str.extract(r"\.(\d*)$").str.len_chars().max()
    of_limits = [len(repr(limit).partition(".")[2]) for limit in variable.limits if not float(limit).is_integer()]
    decimals = max([int(most or 0), *of_limits])
    return decimals if decimals <= MOST_DECIMALS else None


def _format(number: float | None, decimals: int) -> str | None:
    if number is None:
        return None
    if isinstance(number, int):
        return str(number) + ("." + "0" * decimals if decimals else "")
    return f"{round(number, decimals) + 0.0:.{decimals}f}"
