"""``sparsefield predict`` fills in the missing values of a table, or labels sequences."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.chain_labeling import label_file
from sparsefield.app.cli.chain_options import LABELING_PARAMETERS, refuse_other_options
from sparsefield.app.cli.console import StatusLine
from sparsefield.app.cli.input_data import is_linked, is_matrix, read_linked
from sparsefield.app.cli.linked_output import check_linked_output, predict_linked
from sparsefield.app.cli.model_input import open_model, require_estimator
from sparsefield.app.cli.remembered_reading import read_for_model, spellings_of_fit
from sparsefield.app.cli.table_files import check_table_output, show_written, write_table
from sparsefield.app.cli.table_filling import TableToFill, fill_table, prepare_table, probability_table
from sparsefield.app.pages.fit_summary import count
from sparsefield.app.tables.output_paths import refuse_overwriting_inputs
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.errors import DataError
from sparsefield.model.model_document import is_chain_file

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
    ctx: typer.Context,
) -> None:
    """Fill in missing values with their most probable states or mean numbers, or write the probabilities of all states.

    For linked tables, DATA is their TOML file, and the output is a folder with a file for each table: Parquet if
    the input is Parquet, otherwise CSV. With --proba the output is one file.

    Observed values and columns that the model does not have, such as identifiers, are unchanged. A target column
    that the table lacks is added and imputed. A value that does not occur in training is unchanged.

    If the model is a linear chain, DATA is a CoNLL file or a table as that of the fit, and the output is DATA with the
    most probable labels in the column of labels; with --proba, a line per token and label.
    """
    if is_chain_file(model):
        refuse_other_options(ctx, LABELING_PARAMETERS)
        label_file(model, data, output, reading, proba=proba, jobs=jobs)
        return
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
    table, found = source.table, source.format
    prepared = prepare_table(table, schema, found)
    field = saved.load(jobs)
    from sparsefield.app.pages.cell_beliefs import cell_beliefs

    missing, rows = count(prepared.n_missing, "missing value"), count(table.height, "row")
    with StatusLine(f"Imputing {missing} in {rows}"):
        if proba:
            answer = probability_table(prepared, cell_beliefs(field, prepared.table).values[""], schema, found.decimal)
        else:
            imputed = _impute(field, prepared, fill)
            answer = fill_table(table, prepared, imputed, schema, found, spellings_of_fit(field))
    write_table(answer, output, replace(found, header=True) if proba else found, data)
    show_written(f"{missing} in {count(len(prepared.missing), 'column')} and {rows}", output)


def _impute(field: Any, prepared: TableToFill, fill: str) -> Any:
    """Return the imputed table, with the most probable state of each latent variable."""
    import polars as pl

    answer, latent = field.transform(prepared.table, fill=fill), field.field_.schema.latent
    beliefs = field.predict_proba(prepared.table) if latent else {}
    return answer.with_columns(pl.Series(v.name, [v.states[k] for k in beliefs[v.name].argmax(axis=1)]) for v in latent)
