"""``sparsefield report``: one HTML page about a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sparsefield.cli import options as opt
from sparsefield.cli.console import StatusLine, show
from sparsefield.cli.imputation import prepare_table
from sparsefield.cli.input_data import is_linked, is_matrix, read_linked
from sparsefield.cli.linked_output import prepare_tables, refuse_overwriting_inputs
from sparsefield.cli.table_files import ReadOptions, check_output, list_columns, read_table
from sparsefield.errors import DataError, ModelFileError

PAGES, PICTURE = (".html", ".htm"), ".svg"

Output = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="FILE", help="HTML file for the report; or net.svg, for the network alone."),
]
Rows = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DATA",
        help="Rows to hold against the model, best such that it was not learned from: CSV, Parquet or an .npz matrix; "
        "for linked tables their TOML file or its folder. Without it, the parts that need rows say so.",
    ),
]
Title = Annotated[str | None, typer.Option("--title", metavar="WORDS", help="Title of the page.")]


def report(
    model: opt.Model,
    output: Output,
    data: Rows = None,
    title: Title = None,
    missing: opt.Missing = None,
    no_header: opt.NoHeader = False,
    separator: opt.Separator = None,
    jobs: opt.Jobs = None,
) -> None:
    """Write one HTML page about a model: what was learned in words, its network, and how it fares on data.

    The page opens in any browser, offline. It has the network to pan, zoom, filter and search; strongest and
    surprising features, hubs and communities; the course of training; scores of each column, calibration,
    signals and errors, and missing values of DATA; the certificate; and how to repeat the fit. An output
    that ends in .svg is a still picture of the network's strongest edges.
    """
    from sparsefield import load

    check_output(output, (*PAGES, PICTURE))
    reading = ReadOptions(tuple(missing or ()), not no_header, separator)
    if data is None and (reading.missing or no_header or separator):
        raise DataError("--missing, --no-header and --separator say how to read --data, which is not given.")
    if data is not None and output.suffix.lower() == PICTURE:
        raise DataError(f"{output}: a picture of the network needs no --data: leave it out, or write to an HTML file.")
    refuse_overwriting_inputs([output], [model, *([] if data is None else [data])])
    field: Any = load(model)
    field.n_jobs = jobs
    if output.suffix.lower() == PICTURE:
        field.plot(title=title or f"The network of {model.name}").save(output)
        show(f"Wrote {output}.")
        return
    rows = None if data is None else read_rows(model, field, data, reading)
    with StatusLine("Writing the report"):
        field.write_report(output, rows, title=title or f"What {model.name} has learned")
    show(f"Wrote {output}.")


def read_rows(model: Path, field: Any, data: Path, reading: ReadOptions) -> Any:
    """What the model sees of the data."""
    from sparsefield import RelationalField

    if is_linked(data) != isinstance(field, RelationalField):
        what = "linked tables" if is_linked(data) else "one table"
        raise ModelFileError(f"{model}: holds a {type(field).__name__}, but {data} is {what}.")
    if is_linked(data):
        return prepare_tables(field, read_linked(data, reading))
    if is_matrix(data):
        from sparsefield.io.row_blocks import read_matrix

        return read_matrix(data)
    table, schema = read_table(data, reading, as_text=True), field.field_.schema
    lacking = [name for name in schema.input_names if name not in table.columns]
    if lacking:
        raise DataError(
            f"{data}: {len(lacking):,} of {len(schema.input_names):,} columns of the model are not in the table; "
            f"it lacks {list_columns(lacking)}."
        )
    others = [name for name in table.columns if name not in schema.index_of_name]
    return prepare_table(table, schema, reading.markers(data)).table.with_columns(table.select(others))
