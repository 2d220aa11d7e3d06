"""This module converts a table to the types of a model, and fills its missing values with the model's results."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparsefield.app.cli.console import note
from sparsefield.app.cli.spelling import spell_column, spell_labels
from sparsefield.app.cli.table_checks import OTHER_LEVEL
from sparsefield.app.pages.fit_summary import count
from sparsefield.app.tables.date_text import date_formats, parse_dates
from sparsefield.app.tables.file_format import FileFormat
from sparsefield.app.tables.files import list_columns
from sparsefield.app.tables.missing_words import missing_cells
from sparsefield.app.tables.typed_text import numbers_of
from sparsefield.errors import DataError, UnknownStateWarning

if TYPE_CHECKING:
    import polars as pl

    from sparsefield.data.schema import Schema, Variable
    from sparsefield.model.text_style import ColumnSpelling


SHOWN_STATES = 6


@dataclass(frozen=True)
class TableToFill:
    """The columns of a model, in its order and with its types, and the missing values of those that it predicts."""

    table: pl.DataFrame
    missing: dict[str, pl.Series]
    """{column: (rows,) bool} for columns with missing values."""

    @property
    def n_missing(self) -> int:
        return sum(int(missing_cell.sum()) for missing_cell in self.missing.values())

    def take(self, rows: Any) -> TableToFill:
        """Return some rows of the table, by their numbers; a row may occur several times."""
        return TableToFill(self.table[rows], {name: cells.gather(rows) for name, cells in self.missing.items()})


def prepare_table(table: pl.DataFrame, schema: Schema, found: FileFormat, name: str = "") -> TableToFill:
    """Convert a table, whose cells may be text, for a model; messages mention the ``name`` of one of several tables."""
    import polars as pl

    the_table = f"Table {name!r}" if name else "The table"
    columns, missing, added = {}, {}, []
    # Computed for all columns at once, because polars is slow for thousands of single columns.
    present = dict(zip(table.columns, table.get_columns(), strict=True))
    missing_of = dict(zip(table.columns, missing_cells(table, found.missing).get_columns(), strict=True))
    for variable in schema.variables:
        if variable.role == "latent":
            missing[variable.name] = pl.Series([True] * table.height, dtype=pl.Boolean)
            continue
        if variable.name in present:
            column, missing_cell = present[variable.name], missing_of[variable.name]
        elif variable.role == "observed":
            raise DataError(f"{the_table} lacks the observed column {variable.name!r}, which the model needs: add it.")
        else:
            added.append(variable.name)
            # Text is read as dates where the model has dates, also if there is none.
            column = pl.Series(variable.name, [None] * table.height, dtype=pl.String if variable.dtype else pl.Null)
            missing_cell = pl.Series([True] * table.height, dtype=pl.Boolean)
        columns[variable.name] = _with_type_of(variable, column, missing_cell, name, found)
        if variable.role == "target" and missing_cell.any():
            missing[variable.name] = missing_cell
    if len(added) == 1:
        note(f"{the_table} has no column {added[0]!r}; it is added and filled.")
    elif added:
        note(
            f"{the_table} lacks {len(added):,} columns of the model, which are added and filled; {list_columns(added)}."
        )
    return TableToFill(pl.DataFrame({column: columns[column] for column in schema.input_names}), missing)


def refuse_unknown_states(table: pl.DataFrame, schema: Schema, found: FileFormat, name: str = "") -> None:
    """Refuse values that are not states of the model, because a row with them cannot be a sample from it."""
    for variable in schema.variables:
        if variable.numeric or variable.role == "latent" or variable.name not in table.columns:
            continue
        column = table[variable.name]
        missing_cell = missing_cells(column.to_frame(), found.missing).to_series()
        known, labels = set(variable.states), _typed(variable, column.set(missing_cell, None), found)
        values = zip(column.filter(~missing_cell), labels.filter(~missing_cell), strict=True)
        odd = [cell for cell, label in values if label not in known]
        if odd:
            states = ", ".join(map(str, variable.states[:SHOWN_STATES]))
            more = f" and {len(known) - SHOWN_STATES} more" if len(known) > SHOWN_STATES else ""
            where = f"Column {variable.name!r} of table {name!r}" if name else f"Column {variable.name!r}"
            raise DataError(
                f"{where} has {count(len(odd), 'cell')} with values that are not states of the model, such as "
                f"{odd[0]!r}; its states are {states}{more}: correct these cells, or leave them empty."
            )


def fill_table(
    table: pl.DataFrame,
    prepared: TableToFill,
    answer: pl.DataFrame,
    schema: Schema,
    found: FileFormat,
    remembered: Sequence[ColumnSpelling] = (),
) -> pl.DataFrame:
    """Return the original table with its missing values replaced by those of ``answer``, spelled as in the table.

    Values of columns without any are spelled as in the table of the fit: ``remembered``.
    """
    columns, variables = [], {variable.name: variable for variable in schema.targets}
    spellings = {spelling.name: spelling for spelling in remembered}
    for name, missing_cell in prepared.missing.items():
        labels, variable = as_written(variables[name], answer[name]), variables[name]
        if name in table.columns:
            values, own = prepared.table[name], spellings.get(name)
            labels = spell_labels(variable, table[name], values, labels, found.decimal, own)
            labels = _fill(table[name], missing_cell, labels)
        elif found.is_text:
            labels = spell_column(variable, labels, spellings.get(name), found.decimal)
        columns.append(labels.alias(name))
    return table.with_columns(columns)


def probability_table(
    prepared: TableToFill, beliefs: Mapping[str, Any], schema: Schema, decimal: str = "."
) -> pl.DataFrame:
    """Return one row per missing value and state, sorted by row; ``beliefs`` are (rows, states) for each column.

    The states of a number are its bins, whose bounds have the decimal mark of the file.
    """
    import numpy as np
    import polars as pl

    from sparsefield.app.pages.cell_beliefs import group_states

    types = {"row": pl.Int64, "column": pl.String, "state": pl.String, "probability": pl.Float64}
    parts, variables = [pl.DataFrame(schema=types)], {variable.name: variable for variable in schema.targets}
    for name, missing_cell in prepared.missing.items():
        states, grouped = group_states(variables[name], beliefs[name])
        rows = np.flatnonzero(missing_cell.to_numpy())
        labels = [_spell_state(variables[name], state, decimal) for state in states]
        lines = {
            "row": np.repeat(rows + 1, len(labels)),
            "column": [name] * (len(rows) * len(labels)),
            "state": labels * len(rows),
            "probability": grouped[rows].ravel(),
        }
        parts.append(pl.DataFrame(lines, schema=types))
    return pl.concat(parts).sort("row", maintain_order=True)


def _spell_state(variable: Variable, state: Any, decimal: str) -> str:
    """Return a state, or a bin of a number, with a decimal mark; dates and text have none."""
    is_number = isinstance(state, float) or (variable.numeric and not variable.dtype)
    return str(state).replace(".", decimal) if is_number else str(state)


def _with_type_of(
    variable: Variable, column: pl.Series, missing_cell: pl.Series, table: str, found: FileFormat
) -> pl.Series:
    """Convert a column to the type of the model's states; missing values and unknown text become null."""
    made = _typed(variable, column.set(missing_cell, None), found)
    odd = column.filter(made.is_null() & ~missing_cell)
    where = f"Column {variable.name!r} of table {table!r}" if table else f"Column {variable.name!r}"
    if len(odd) and variable.numeric:
        raise DataError(
            f"{where} is numeric in the model, but holds {odd[0]!r} in the table: correct the cell, or leave it empty."
        )
    if len(odd):
        warnings.warn(
            f"{where} has {count(len(odd), 'cell')} with values that do not occur in training "
            f"(such as {odd[0]!r}); they are treated as missing and left unchanged.",
            UnknownStateWarning,
            stacklevel=2,
        )
    return made


def _typed(variable: Variable, values: pl.Series, found: FileFormat) -> pl.Series:
    """Convert values to the type of the variable's states; values that cannot be converted become null."""
    import polars as pl

    from sparsefield.data.column_types import DATED

    if values.dtype.is_temporal():  # which the model refuses if it does not know dates here
        return values
    if values.dtype == pl.String:
        values = values.str.strip_chars()
    dates = DATED.fullmatch(variable.dtype) if values.dtype == pl.String else None
    if dates and dates[1] in ("date", "datetime"):
        times = _times_of(variable, values, found.date_order)
        return times.dt.date() if dates[1] == "date" else times.dt.replace_time_zone(dates[3])
    kinds = {type(state) for state in variable.states} or {float}
    if kinds == {str}:
        return _with_other_level(variable, values.cast(pl.String))
    if str in kinds:  # numbers and text
        known = {str(state): state for state in variable.states}
        return pl.Series(values.name, [known.get(word) for word in values.cast(pl.String)], dtype=pl.Object)
    if kinds == {bool} and values.dtype == pl.String:
        return values.str.to_lowercase().replace_strict({"true": True, "false": False}, default=None)
    if kinds == {bool}:
        return values.cast(pl.Boolean)
    if values.dtype == pl.String:
        return numbers_of(values, found.decimal, known=True)
    return values.cast(pl.Float64, strict=False)  # integers compare equal, as in training


def _times_of(variable: Variable, values: pl.Series, order: str | None) -> pl.Series:
    """Return dates kept as text as times; null where a cell is none."""
    import polars as pl

    formats = date_formats(values, order)
    if len(formats) > 1:
        raise DataError(
            f"Column {variable.name!r} has dates such as {values.drop_nulls()[0]!r}, whose order is not clear: give "
            "--dates day-first or --dates month-first."
        )
    times = parse_dates(values, formats[0]) if formats else values.str.to_datetime(strict=False)
    return times.cast(pl.Datetime("us"))


def _with_other_level(variable: Variable, values: pl.Series) -> pl.Series:
    """Return values with "(other)" for those that training grouped, or does not know, if it grouped some."""
    if OTHER_LEVEL not in variable.states:
        return values
    return values.set(~values.is_in(list(map(str, variable.states))), OTHER_LEVEL)


def as_written(variable: Variable, column: pl.Series) -> pl.Series:
    """Convert labels to integers if the states are whole numbers, and to text if they are numbers and text."""
    import polars as pl

    if column.dtype.is_temporal() or column.dtype in (pl.Categorical, pl.Enum):
        return column
    if column.dtype == pl.Object:
        return pl.Series(column.name, [None if label is None else str(label) for label in column], dtype=pl.String)
    whole = variable.whole if variable.numeric else {type(state) for state in variable.states} == {int}
    return column.cast(pl.Int64, strict=False) if whole else column


def _fill(column: pl.Series, missing_cell: pl.Series, states: pl.Series) -> pl.Series:
    """Return the original column with its missing values replaced; as text if its type cannot hold the states."""
    import polars as pl

    try:
        kept = column if column.dtype != pl.Null else column.cast(states.dtype)
        return states.cast(kept.dtype).zip_with(missing_cell, kept).alias(column.name)
    except pl.exceptions.PolarsError:
        return states.cast(pl.String).zip_with(missing_cell, column.cast(pl.String)).alias(column.name)
