"""``sparsefield report`` writes an HTML page about a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sparsefield.cli import options as opt
from sparsefield.cli.basket_data import BasketOptions, orders_of_model
from sparsefield.cli.console import StatusLine, show
from sparsefield.cli.input_data import is_linked, is_matrix, linked_inputs, read_linked
from sparsefield.cli.linked_output import prepare_linked
from sparsefield.cli.model_input import OpenModel, open_model
from sparsefield.cli.remembered_reading import read_for_model
from sparsefield.cli.table_files import check_output
from sparsefield.cli.table_filling import prepare_table
from sparsefield.errors import DataError, ModelFileError
from sparsefield.io.files import list_columns
from sparsefield.io.output_paths import refuse_overwriting_inputs
from sparsefield.io.read_options import ReadOptions

PAGES = (".html", ".htm")

Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write the report to this HTML file.",
    ),
]
Rows = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DATA",
        help="Evaluate the model on these rows, preferably not used in training: CSV, Parquet or an .npz matrix; for "
        "linked tables, their TOML file or its folder. Without it, sections that need rows are empty.",
    ),
]
Title = Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Use this title for the page.")]


@opt.with_shared_options()
def report(
    model: opt.Model,
    output: Output,
    *,
    data: Rows = None,
    title: Title = None,
    reading: ReadOptions,
    orders: BasketOptions,
    jobs: opt.Jobs = None,
) -> None:
    """Write an HTML page about a model: a summary in words, its network, and its performance on data.

    The page works offline in any browser. It shows an interactive network; the strongest and most surprising features,
    hubs and communities; the training log, and whether the optimizer converged; for the rows of --data, scores of each
    column, calibration, signals and errors, and missing values; and how to repeat the fit. The command 'plot' draws the
    network alone.
    """
    check_output(output, PAGES)
    if data is None and (reading != ReadOptions() or orders.given):
        raise DataError(
            "Options such as --missing, --separator and --long are for reading --data: add --data or remove them."
        )
    refuse_overwriting_inputs([output], [model, data, *linked_inputs(data)])
    saved = open_model(model, data)
    rows = None if data is None else read_rows(saved, data, reading, orders)
    field = saved.load(jobs)
    with StatusLine("Writing the report"):
        field.write_report(output, rows, title=title or f"What {model.name} has learned")
    show(f"Wrote {output}.")


def read_rows(model: OpenModel, data: Path, reading: ReadOptions, orders: BasketOptions | None = None) -> Any:
    """Read the data with the columns and types of the model."""
    source = model.field_.record.source
    if orders is None or not orders.given:
        orders = BasketOptions(None if source is None or is_matrix(data) else source.long)
    if orders.given:
        return orders_of_model(data, reading, orders, model.load())
    if is_linked(data) != model.linked:
        what = "linked tables" if is_linked(data) else "one table"
        raise ModelFileError(f"{model.path}: holds a {model.estimator}, but {data} is {what}.")
    if is_linked(data):
        return prepare_linked(model, read_linked(data, reading)).data
    if is_matrix(data):
        from sparsefield.io.matrix_files import read_matrix

        return read_matrix(data)
    source, schema = read_for_model(data, reading, model), model.field_.schema
    table = source.table
    absent = [name for name in schema.input_names if name not in table.columns]
    if absent:
        raise DataError(
            f"{data}: {len(absent):,} of {len(schema.input_names):,} columns of the model are not in the table, "
            f"which lacks {list_columns(absent)}."
        )
    others = [name for name in table.columns if name not in schema.index_of_name]
    return prepare_table(table, schema, source.format).table.with_columns(table.select(others))
