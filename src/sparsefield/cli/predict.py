"""``sparsefield predict``: fill the gaps of a table."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.cli import options as opt
from sparsefield.cli.console import Watch, note, show
from sparsefield.cli.data import is_linked, read_linked
from sparsefield.cli.linked import check_linked_output, predict_linked
from sparsefield.cli.tables import (
    PARQUET,
    TABLES,
    Reading,
    check_output,
    listed,
    read_table,
    with_found_types,
    write_table,
)
from sparsefield.errors import DataError, ModelFileError, UnseenStateWarning

if TYPE_CHECKING:
    import polars as pl

    from sparsefield import MarkovField
    from sparsefield.data.schema import Variable

Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="CSV or Parquet file for the answer, by its suffix; for linked tables a folder.",
    ),
]
Proba = Annotated[
    bool,
    typer.Option(
        "--proba",
        help="Write the probabilities of the gaps' states instead: a line per gap and state with the columns "
        "row (the first is 1), column, state, probability.",
    ),
]


def predict(
    model: opt.Model,
    data: opt.Data,
    output: Output,
    proba: Proba = False,
    missing: opt.Missing = None,
    no_header: opt.NoHeader = False,
    separator: opt.Separator = None,
    jobs: opt.Jobs = None,
) -> None:
    """Fill the gaps of a table with their most probable states, or write the probabilities.

    For linked tables DATA is the TOML file that describes them, and the output a folder, which gets a CSV
    for each table; with --proba it is one file.

    Cells with a value, ids and other columns that the model does not know stay as they are. A predicted
    column that the table lacks is added and filled. A value that the model never saw is left as it is.
    """
    field = _load(model, linked=is_linked(data))
    field.n_jobs = jobs
    reading = Reading(tuple(missing or ()), not no_header, separator)
    if is_linked(data):
        check_linked_output(output, proba)
        predict_linked(field, read_linked(data, reading), output, proba)
        return
    check_output(output, TABLES)
    table = read_table(data, reading, as_text=True)
    asked = _as_known(table, field, reading.markers(data))
    with Watch(f"Filling {asked.n_gaps:,} gaps in {table.height:,} rows"):
        answer = _probabilities(field, asked) if proba else _filled(field, asked, table)
    if not proba and output.suffix.lower() in PARQUET and data.suffix.lower() not in PARQUET:
        answer = with_found_types(answer)
    write_table(answer, output, separator)
    show(f"{asked.n_gaps:,} gaps in {len(asked.gaps):,} columns and {table.height:,} rows; wrote {output}.")


@dataclass(frozen=True)
class _Asked:
    """A table as the model sees it, and the gaps of its predicted columns."""

    table: pl.DataFrame
    gaps: dict[str, pl.Series]
    """Columns that have gaps -> (rows,) bool."""

    @property
    def n_gaps(self) -> int:
        return sum(int(gap.sum()) for gap in self.gaps.values())


def _load(model: Path, *, linked: bool) -> Any:
    """The field in a file, if it is one for such data."""
    from sparsefield import MarkovField, RelationalField, load

    field = load(model)
    wanted = RelationalField if linked else MarkovField
    if not isinstance(field, wanted):
        what = "linked tables" if linked else "one table"
        raise ModelFileError(f"{model}: holds a {type(field).__name__}; only a {wanted.__name__} can fill {what}.")
    return field


def _as_known(table: pl.DataFrame, field: MarkovField, markers: list[str]) -> _Asked:
    """The columns that the model knows, in its order and with its types."""
    import polars as pl

    schema = field.field_.schema
    if not set(schema.order) & set(table.columns):
        raise DataError(f"No column of the model is in the table; the model has {listed(schema.order)}.")
    columns, gaps = {}, {}
    for variable in schema.variables:
        if variable.name in table.columns:
            gap = _gaps(table[variable.name], markers)
            columns[variable.name] = _with_type_of(variable, table[variable.name], gap)
        elif variable.role == "observed":
            raise DataError(f"The table lacks the observed column {variable.name!r}, which the model needs.")
        else:
            note(f"The table has no column {variable.name!r}; it is added and filled.")
            gap = pl.Series([True] * table.height)
            columns[variable.name] = pl.Series([None] * table.height)
        if variable.role == "target" and gap.any():
            gaps[variable.name] = gap
    return _Asked(pl.DataFrame({name: columns[name] for name in schema.order}), gaps)


def _gaps(column: pl.Series, markers: list[str]) -> pl.Series:
    import polars as pl

    if column.dtype == pl.String:
        return column.is_in(markers).fill_null(True)
    return column.is_nan().fill_null(True) if column.dtype.is_float() else column.is_null()


def _with_type_of(variable: Variable, column: pl.Series, gap: pl.Series) -> pl.Series:
    """The column with labels of the type of the model's states; null for a gap, and for what does not fit."""
    import polars as pl

    values = column.set(gap, None)
    kinds = {type(state) for state in variable.states} or {float}
    if str in kinds:
        made = values.cast(pl.String)
    elif kinds == {bool} and values.dtype == pl.String:
        made = values.str.to_lowercase().replace_strict({"true": True, "false": False}, default=None)
    elif kinds == {bool}:
        made = values.cast(pl.Boolean)
    else:
        made = values.cast(pl.Float64, strict=False)  # whole numbers are read as such, as in training
    odd = column.filter(made.is_null() & ~gap)
    if len(odd) and variable.numeric:
        raise DataError(f"Column {variable.name!r} is a number in the model, but holds {odd[0]!r} in the table.")
    if len(odd):
        warnings.warn(
            f"Column {variable.name!r} has {len(odd)} cell(s) with values that training never saw "
            f"(such as {odd[0]!r}); they are treated as gaps and left as they are.",
            UnseenStateWarning,
            stacklevel=2,
        )
    return made


def _filled(field: MarkovField, asked: _Asked, table: pl.DataFrame) -> pl.DataFrame:
    filled = field.transform(asked.table)
    columns = []
    for name, gap in asked.gaps.items():
        states = _labels(field, name, filled[name])
        columns.append(_fill(table[name], gap, states) if name in table.columns else states.alias(name))
    return table.with_columns(columns)


def _labels(field: MarkovField, name: str, column: pl.Series) -> pl.Series:
    """Whole numbers again, where the states are whole numbers."""
    import polars as pl

    whole = {type(state) for state in field.states_[name]} == {int}
    return column.cast(pl.Int64, strict=False) if whole else column


def _fill(column: pl.Series, gap: pl.Series, states: pl.Series) -> pl.Series:
    """The column as it came, with its gaps replaced; as text, where its type has no room for the states."""
    import polars as pl

    try:
        kept = column if column.dtype != pl.Null else column.cast(states.dtype)
        return states.cast(kept.dtype).zip_with(gap, kept).alias(column.name)
    except pl.exceptions.PolarsError:
        return states.cast(pl.String).zip_with(gap, column.cast(pl.String)).alias(column.name)


def _probabilities(field: MarkovField, asked: _Asked) -> pl.DataFrame:
    """A line per gap and state, row by row."""
    import numpy as np
    import polars as pl

    found: dict[str, Any] = field.predict_proba(asked.table)
    schema = {"row": pl.Int64, "column": pl.String, "state": pl.String, "probability": pl.Float64}
    parts = [pl.DataFrame(schema=schema)]
    for name, gap in asked.gaps.items():
        rows, states = np.flatnonzero(gap.to_numpy()), [str(state) for state in field.states_[name]]
        lines = {
            "row": np.repeat(rows + 1, len(states)),
            "column": [name] * (len(rows) * len(states)),
            "state": states * len(rows),
            "probability": found[name][rows].ravel(),
        }
        parts.append(pl.DataFrame(lines, schema=schema))
    return pl.concat(parts).sort("row", maintain_order=True)
