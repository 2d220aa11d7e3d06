"""This module records in a model how its table was read, and reads the tables of other commands alike."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sparsefield.app.cli.console import note
from sparsefield.app.cli.input_data import note_format
from sparsefield.app.cli.table_checks import read_weights
from sparsefield.app.cli.table_files import find_columns
from sparsefield.app.tables.file_format import FileFormat
from sparsefield.app.tables.files import STANDARD_INPUT, SourceTable, list_columns, read_source
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.errors import DataError
from sparsefield.model import SourceRecord
from sparsefield.model.text_style import ColumnSpelling, TextStyle

if TYPE_CHECKING:
    from sparsefield.app.cli.input_data import InputData


def remember_reading(
    field: Any,
    data: Path,
    reading: ReadOptions,
    given: InputData,
    top_levels: int | None,
    column_names: Path | None = None,
) -> None:
    """Record in a fitted field how its one table was read; schema files describe the reading of linked tables."""
    roles = given.named
    if roles is None:
        return
    source = SourceRecord(
        str(data),
        **asdict(replace(reading, dates=reading.dates or given.date_order)),
        identifiers=tuple(roles.identifiers),
        left_out=() if given.book is None else given.book.left_out,
        weight=roles.weight,
        group=roles.group,
        top_levels=top_levels,
        columns=None if column_names is None else str(column_names),
        style=given.style,
    )
    record = msgspec.structs.replace(field.field_.record, source=source.to_text())
    field.field_ = replace(field.field_, record=record)


def read_for_model(
    data: Path, reading: ReadOptions, field: Any, *, as_text: bool = True, noted: bool = True
) -> SourceTable:
    """Read a table, by default as text, and refuse one that has no column of the model.

    Words for missing values are those of the fit, and more. The file of the fit is read with all its options again.
    Another file says itself how it is written; if no column of the model is found so, the options of the fit are tried.
    Unless ``noted``, nothing is said about the format, since it was said before.
    """
    names, all_options = field.field_.schema.input_names, options_of_fit(reading, field)
    words = replace(reading, missing=all_options.missing, missing_only=all_options.missing_only)
    words = replace(words, dates=all_options.dates)
    tried = [all_options, words] if _is_file_of_fit(data, field) else [words, all_options]
    given = [replace(options, dates=reading.dates) for options in tried]  # the order of dates of the fit is no demand
    source = _read_with_columns(data, tried[0], given[0], names, as_text)
    if source is None and str(data) != STANDARD_INPUT:
        source = _read_with_columns(data, tried[1], given[1], names, as_text)
        source = source or read_source(data, words, as_text=as_text, given=replace(words, dates=reading.dates))
    if source is None or not set(names) & set(source.table.columns):
        raise DataError(f"No column of the model is in the table; the model has {list_columns(names)}.")
    if noted:
        note_format(data, source.format)
    return source


def read_weights_for_model(data: Path, reading: ReadOptions, model: Any, weight: str | None = None) -> Any:
    """Return the weights of the rows: of the given column, or of that of the fit where the data have it; or None."""
    source = SourceRecord.from_text(model.field_.record.source)
    remembered = None if source is None else source.weight
    if weight is None and remembered is None:
        return None
    with warnings.catch_warnings():  # the table was read before, with the same notes
        warnings.simplefilter("ignore")
        table = read_for_model(data, reading, model, as_text=False, noted=False).table
    if weight is not None:
        return read_weights(table, find_columns([weight], table.columns, "--weight")[0])
    if remembered not in table.columns:
        note(f"Rows are not weighted: {data} lacks the column {remembered!r}, which had the weights of the fit.")
        return None
    return read_weights(table, remembered)


def spellings_of_fit(field: Any) -> tuple[ColumnSpelling, ...]:
    """Return how columns were spelled in the table of the fit, if that was text."""
    source = SourceRecord.from_text(field.field_.record.source)
    return () if source is None or source.style is None else source.style.spellings


def format_of_fit(field: Any, reading: ReadOptions) -> FileFormat:
    """Return the format of the file of the fit, for text that no other file decides about, with the given options."""
    source = SourceRecord.from_text(field.field_.record.source)
    style = TextStyle() if source is None or source.style is None else source.style
    given = {name: getattr(reading, name) for name in ("separator", "encoding", "decimal", "header")}
    found = FileFormat(**{one.name: getattr(style, one.name) for one in fields(style)})
    found = replace(found, **{name: value for name, value in given.items() if value is not None})
    if found.separator != found.decimal:
        return found
    return replace(found, **({"separator": ";"} if reading.separator is None else {"decimal": "."}))


def _is_file_of_fit(data: Path, field: Any) -> bool:
    source = SourceRecord.from_text(field.field_.record.source)
    return source is not None and data.exists() and Path(source.file).exists() and data.samefile(source.file)


def _read_with_columns(
    data: Path, reading: ReadOptions, given: ReadOptions, names: Sequence[str], as_text: bool
) -> SourceTable | None:
    """Return a table that has some of the columns; None if it has none, or cannot be read with these options."""
    try:
        source = read_source(data, reading, as_text=as_text, given=given)
    except DataError:
        if str(data) == STANDARD_INPUT:
            raise
        return None
    return source if set(names) & set(source.table.columns) else None


def options_of_fit(reading: ReadOptions, field: Any) -> ReadOptions:
    """Return the options for reading a table, with those of the table of the fit where none are given.

    Words for missing values are added to those of the fit.
    """
    source = SourceRecord.from_text(field.field_.record.source)
    if source is None:
        return reading
    plain = ReadOptions()
    found = {option.name: getattr(reading, option.name) for option in fields(reading)}
    for name, value in found.items():
        if value == getattr(plain, name):
            found[name] = getattr(source, name)
    found["missing"] = tuple(dict.fromkeys((*source.missing, *reading.missing)))
    return ReadOptions(**found)
