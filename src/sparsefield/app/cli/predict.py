"""``sparsefield predict`` fills in the missing values of a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import StatusLine
from sparsefield.app.cli.input_data import is_linked, is_matrix, read_linked
from sparsefield.app.cli.linked_output import check_linked_output, group_beliefs, predict_linked
from sparsefield.app.cli.model_input import open_model, read_for_model, require_estimator
from sparsefield.app.cli.table_files import check_table_output, show_written
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.app.tables.write import refuse_overwriting_inputs, write_table
from sparsefield.errors import DataError
from sparsefield.text import count

if TYPE_CHECKING:
    from sparsefield.app.tables.fill import TableToFill

Proba = Annotated[
    bool,
    typer.Option(
        "--proba",
        help="Write probabilities instead: a line per missing value and state with the columns row (counted from 1), "
        "column, state and probability; for linked tables the first column is table. The states of a number are bins.",
    ),
]
Fill = Annotated[
    str,
    typer.Option(
        "--fill",
        metavar="auto|mean|median|mode",
        help="What stands for a missing ordinal or numeric value; auto is the mean of a number and the most probable "
        "state of all others.",
    ),
]


@opt.with_shared_options()
def predict(
    model: opt.Model,
    data: opt.Data,
    output: opt.TableOutput,
    *,
    proba: Proba = False,
    fill: Fill = "auto",
    reading: ReadOptions,
    jobs: opt.Jobs = None,
) -> None:
    """Fill in missing values with their most probable states or mean numbers, or write the probabilities of all states.

    For linked tables, DATA is their TOML file, and the output is a folder with a file for each table: Parquet if
    the input is Parquet, otherwise CSV. With --proba the output is one file.

    Observed values and columns that the model does not have, such as identifiers, are unchanged. A target column
    that the table lacks is added and imputed. A value that does not occur in training is unchanged.
    """
    if is_matrix(data):
        raise DataError(f"{data}: a sparse 0/1 matrix has no missing values to impute.")
    linked = is_linked(data)
    if linked:
        check_linked_output(output, proba)
    else:
        check_table_output(output)
        refuse_overwriting_inputs([output], [data, model])
    saved = open_model(model, data)
    able = "can impute linked tables" if linked else "can impute one table"
    require_estimator(saved, "RelationalField" if linked else "MarkovField", what=able)
    if linked:
        parsed = read_linked(data, reading)
        predict_linked(saved.load(jobs), model, parsed, output, proba, fill)
        return
    schema = saved.field_.schema
    source = read_for_model(data, reading, saved)
    from sparsefield.app.tables.fill import prepare_table, probability_table

    prepared = prepare_table(source.cells, schema, source.format)
    field = saved.load(jobs)
    missing, rows = count(prepared.n_missing, "missing value"), count(source.cells.height, "row")
    with StatusLine(f"Imputing {missing} in {rows}"):
        if proba:
            from sparsefield.app.pages.cell_beliefs import cell_beliefs

            beliefs = cell_beliefs(field, prepared.table).values[""]
            answer = probability_table(prepared, group_beliefs(prepared, beliefs))
        else:
            answer = prepared.fill(_impute(field, prepared, fill), saved.format.dates)
    write_table(answer, output, replace(source.format, header=True) if proba else source.format)
    show_written(f"{missing} in {count(len(prepared.missing), 'column')} and {rows}", output)


def _impute(field: Any, prepared: TableToFill, fill: str) -> Any:
    """Return the imputed table, with the most probable state of each latent variable."""
    import polars as pl

    answer, latent = field.transform(prepared.table, fill=fill), field.field_.schema.latent
    beliefs = field.predict_proba(prepared.table) if latent else {}
    return answer.with_columns(pl.Series(v.name, [v.states[k] for k in beliefs[v.name].argmax(axis=1)]) for v in latent)
