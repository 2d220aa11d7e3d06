"""This module records in a model how its table was read, and reads the tables of other commands alike."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.cli.console import note
from sparsefield.io.read_options import ReadOptions, as_options

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


def read_as_model(reading: ReadOptions, field: Any) -> ReadOptions:
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
    remembered = ReadOptions(**found)
    if remembered != reading:
        note(f"Read as the table of the fit was: {as_options(remembered)}.")
    return remembered
