"""``sparsefield predict``: fill the gaps of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sparsefield.cli import options as opt
from sparsefield.cli.console import StatusLine, show
from sparsefield.cli.imputation import TableToFill, fill_table, prepare_table, probability_table
from sparsefield.cli.input_data import is_linked, is_matrix, read_linked
from sparsefield.cli.linked_output import check_linked_output, predict_linked
from sparsefield.cli.table_files import (
    PARQUET,
    TABLES,
    ReadOptions,
    check_output,
    list_columns,
    read_table,
    with_found_types,
    write_table,
)
from sparsefield.errors import DataError, ModelFileError

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
        "row (the first is 1), column, state, probability; for linked tables the first column is table.",
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

    For linked tables DATA is the TOML file that describes them, and the output a folder, which gets a file
    for each table, called as the table: Parquet where it was Parquet, else CSV. With --proba it is one file.

    Cells with a value, ids and other columns that the model does not know stay as they are. A predicted
    column that a table lacks is added and filled. A value that the model never saw is left as it is.
    """
    if is_matrix(data):
        raise DataError(f"{data}: a sparse 0/1 matrix has no gaps to fill.")
    field = _load(model, linked=is_linked(data))
    field.n_jobs = jobs
    reading = ReadOptions(tuple(missing or ()), not no_header, separator)
    if is_linked(data):
        check_linked_output(output, proba)
        predict_linked(field, read_linked(data, reading), output, proba)
        return
    check_output(output, TABLES)
    table = read_table(data, reading, as_text=True)
    schema = field.field_.schema
    if not set(schema.input_names) & set(table.columns):
        raise DataError(f"No column of the model is in the table; the model has {list_columns(schema.input_names)}.")
    asked = prepare_table(table, schema, reading.markers(data))
    with StatusLine(f"Filling {asked.n_missing:,} gaps in {table.height:,} rows"):
        if proba:
            answer = probability_table(asked, field.predict_proba(asked.table), field.states_)
        else:
            answer = fill_table(table, asked, _answer(field, asked), field.states_)
    if not proba and output.suffix.lower() in PARQUET and data.suffix.lower() not in PARQUET:
        answer = with_found_types(answer)
    write_table(answer, output, separator)
    show(f"{asked.n_missing:,} gaps in {len(asked.missing):,} columns and {table.height:,} rows; wrote {output}.")


def _answer(field: Any, asked: TableToFill) -> Any:
    """The table with its gaps filled, and with the most probable state of each latent variable."""
    import polars as pl

    answer, hidden = field.transform(asked.table), field.field_.schema.latent
    beliefs = field.predict_proba(asked.table) if hidden else {}
    return answer.with_columns(pl.Series(v.name, [v.states[k] for k in beliefs[v.name].argmax(axis=1)]) for v in hidden)


def _load(model: Path, *, linked: bool) -> Any:
    """The field in a file, if it is one for such data."""
    from sparsefield import MarkovField, RelationalField, load

    field = load(model)
    wanted = RelationalField if linked else MarkovField
    if not isinstance(field, wanted):
        what = "linked tables" if linked else "one table"
        raise ModelFileError(f"{model}: holds a {type(field).__name__}; only a {wanted.__name__} can fill {what}.")
    return field
