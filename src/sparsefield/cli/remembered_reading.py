"""This module records in a model how its table was read, and reads the tables of other commands alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.cli.input_data import note_format
from sparsefield.errors import DataError
from sparsefield.io.files import STANDARD_INPUT, SourceTable, list_columns, read_source
from sparsefield.io.read_options import ReadOptions

if TYPE_CHECKING:
    from sparsefield.cli.basket_data import BasketOptions
    from sparsefield.cli.input_data import InputData


def remember_reading(
    field: Any, data: Path, reading: ReadOptions, given: InputData, top_levels: int | None, baskets: BasketOptions
) -> None:
    """Record in a fitted field how its one table was read; schema files describe the reading of linked tables."""
    roles = given.named
    if roles is None:
        return
    from sparsefield.model import SourceRecord

    source = SourceRecord(
        str(data),
        **asdict(reading),
        identifiers=tuple(roles.identifiers),
        left_out=() if given.book is None else given.book.left_out,
        weight=roles.weight,
        group=roles.group,
        top_levels=top_levels,
        long=baskets.long,
        min_support=baskets.min_support,
        columns=None if baskets.column_names is None else str(baskets.column_names),
    )
    field.field_ = replace(field.field_, record=replace(field.field_.record, source=source))


def read_for_model(data: Path, reading: ReadOptions, field: Any) -> SourceTable:
    """Read a table as text with the options of the table of the fit, and refuse one that has no column of the model.

    If no column is found so, the file has another format, and only the words for missing values are those of the fit.
    """
    names, options = field.field_.schema.input_names, _options_of_fit(reading, field)
    source = _read_with_columns(data, options, names)
    if source is None and str(data) != STANDARD_INPUT:
        words = {"missing": options.missing, "missing_only": options.missing_only}
        source = read_source(data, replace(reading, **words), as_text=True)
    if source is None or not set(names) & set(source.table.columns):
        raise DataError(f"No column of the model is in the table; the model has {list_columns(names)}.")
    note_format(data, source.format)
    return source


def _read_with_columns(data: Path, reading: ReadOptions, names: Sequence[str]) -> SourceTable | None:
    """Return a table that has some of the columns; None if it has none, or cannot be read with these options."""
    try:
        source = read_source(data, reading, as_text=True)
    except DataError:
        if str(data) == STANDARD_INPUT:
            raise
        return None
    return source if set(names) & set(source.table.columns) else None


def _options_of_fit(reading: ReadOptions, field: Any) -> ReadOptions:
    """Return the options for reading a table, with those of the table of the fit where none are given.

    Words for missing values are added to those of the fit.
    """
    source = field.field_.record.source
    if source is None:
        return reading
    plain = ReadOptions()
    found = {option.name: getattr(reading, option.name) for option in fields(reading)}
    for name, value in found.items():
        if value == getattr(plain, name):
            found[name] = getattr(source, name)
    found["missing"] = tuple(dict.fromkeys((*source.missing, *reading.missing)))
    return ReadOptions(**found)
