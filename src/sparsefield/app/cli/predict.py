"""``sparsefield predict`` fills in the missing values of tables, once or several times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import ProgressBar, StatusLine, show
from sparsefield.app.cli.inputs import is_linked, is_matrix, read_linked
from sparsefield.app.cli.models import OpenModel, open_model, prepare_linked, read_to_fill, read_weights_for_model
from sparsefield.app.cli.outputs import check_folder, check_table_output, show_written
from sparsefield.app.tables.read import PARQUET
from sparsefield.app.tables.write import refuse_overwriting_inputs, write_table
from sparsefield.errors import DataError, count

if TYPE_CHECKING:
    import polars as pl

    from sparsefield.app.tables.file_format import FileFormat
    from sparsefield.app.tables.fill import TableToFill
    from sparsefield.app.tables.schema_file import SchemaFile

KEYS = ("imputation", "row")
"""The first two columns of tables that are imputed several times."""


def predict(
    model: opt.Model,
    data: opt.Data,
    output: opt.TableOutput,
    proba: Annotated[
        bool,
        typer.Option(
            "--proba",
            help="Write probabilities instead: a line per missing value and state with the columns row (counted from "
            "1), column, state and probability; for linked tables the first column is table. The states of a number "
            "are bins.",
        ),
    ] = False,
    fill: Annotated[
        str,
        typer.Option(
            "--fill",
            metavar="auto|mean|median|mode",
            help="What stands for a missing ordinal or numeric value; auto is the mean of a number and the most "
            "probable state of all others.",
        ),
    ] = "auto",
    imputations: Annotated[
        int | None,
        typer.Option(
            "--imputations",
            "-m",
            min=2,
            metavar="M",
            help="Draw missing values M times, such as 20 (multiple imputation), and write all tables below each "
            "other, after the columns imputation and row.",
        ),
    ] = None,
    learn_from: Annotated[
        Path | None,
        typer.Option(
            "--learn-from",
            metavar="DATA",
            help="Table of the fit, if DATA has other rows; --imputations needs it to know how uncertain weights are.",
        ),
    ] = None,
    missing: opt.Missing = None,
    settings: opt.ReadSet = None,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
) -> None:
    """Fill in missing values with their most probable states or mean numbers, or write the probabilities of all states.

    For linked tables, DATA is their TOML file, and the output is a folder with a file for each table: Parquet if
    the input is Parquet, otherwise CSV. With --proba the output is one file.

    Filled tables are for predictions: their intervals and tests are wrong. For estimates with standard errors, use
    --imputations: analyze each imputed table, and pool the results by Rubin's rules. Values are drawn jointly given
    the observed values of a row, with weights that are drawn from their uncertainty each time.

    Observed values and columns that the model does not have, such as identifiers, are unchanged. A target column
    that the table lacks is added and imputed. A value that does not occur in training is unchanged.
    """
    for path in (data, learn_from):
        if path is not None and is_matrix(path):
            raise DataError(f"{path}: a sparse 0/1 matrix has no missing values to impute.")
    linked = is_linked(data)
    if imputations is None and learn_from is not None:
        raise DataError("--learn-from is for --imputations: add that, or remove it.")
    if imputations is not None and (linked or proba or fill != "auto"):
        raise DataError("--imputations draws the values of one table: remove --proba and --fill, and pass one table.")
    if linked and not proba:
        check_folder(output)
    else:
        check_table_output(output)
        refuse_overwriting_inputs([output], [data, model, learn_from])
    reading = opt.reading_options(missing, settings)
    saved = open_model(model, data, learn_from)
    able = "can impute linked tables" if linked else "can impute one table"
    saved.require("RelationalField" if linked else "MarkovField", what=able)
    if linked:
        _predict_linked(saved, read_linked(data, reading), output, proba, fill, jobs)
    elif imputations is not None:
        _impute_several_times(saved, data, reading, output, imputations, learn_from, seed, jobs)
    else:
        _predict_table(saved, read_to_fill(data, reading, saved), output, proba, fill, jobs)


def _predict_table(
    model: OpenModel, prepared: TableToFill, output: Path, proba: bool, fill: str, jobs: int | None
) -> None:
    """Fill in a table with the most probable values and states of latent variables, or write probabilities."""
    import polars as pl

    field = model.load(jobs)
    missing, rows = count(prepared.n_missing, "missing value"), count(prepared.cells.height, "row")
    with StatusLine(f"Imputing {missing} in {rows}"):
        if proba:
            answer, found = _probabilities(field, prepared.table, {"": prepared})[""], prepared.format
            write_table(answer, output, replace(found, header=True))
        else:
            filled, latent = field.transform(prepared.table, fill=fill), field.field_.schema.latent
            beliefs = field.predict_proba(prepared.table) if latent else {}
            states = {v.name: [v.states[k] for k in beliefs[v.name].argmax(axis=1)] for v in latent}
            filled = filled.with_columns(pl.Series(name, values) for name, values in states.items())
            write_table(prepared.fill(filled, model.format.date_formats), output, prepared.format)
    show_written(f"{missing} in {count(len(prepared.missing), 'column')} and {rows}", output)


def _probabilities(field: Any, data: Any, prepared: Mapping[str, TableToFill]) -> dict[str, pl.DataFrame]:
    """Return {table: a row for each state of each missing value, with its probability}."""
    from sparsefield.app.pages.cell_beliefs import cell_beliefs, group_states
    from sparsefield.app.tables.fill import probability_table

    beliefs, tables = cell_beliefs(field, data).values, {}
    for name, table in prepared.items():
        targets = [variable for variable in table.schema.targets if variable.name in table.missing]
        tables[name] = probability_table(table, {v.name: group_states(v, beliefs[name][v.name]) for v in targets})
    return tables


def _impute_several_times(
    model: OpenModel,
    data: Path,
    reading: FileFormat,
    output: Path,
    imputations: int,
    learn_from: Path | None,
    seed: int,
    jobs: int | None,
) -> None:
    """Write imputed tables below each other, with the numbers of imputations and rows, both counted from 1."""
    import numpy as np
    import polars as pl

    prepared = read_to_fill(data, reading, model)
    table, found = prepared.cells, prepared.format
    clash = [name for name in KEYS if name in table.columns]
    if clash:
        raise DataError(f"{data}: the output has a column {clash[0]!r} of its own: rename that of the table.")
    if not prepared.n_missing:
        raise DataError(f"{data}: there are no missing values to impute.")
    others = None if learn_from is None else read_to_fill(learn_from, reading, model).table
    weights = read_weights_for_model(learn_from or data, reading, model)
    field = model.load(jobs)
    from sparsefield.analysis.imputation import impute

    missing = f"{count(prepared.n_missing, 'missing value')} in {count(table.height, 'row')}"
    with ProgressBar(f"Imputing {missing}, {imputations:,} times") as meter:
        drawn: Any = impute(
            field,
            prepared.table,
            imputations,
            seed=seed,
            learn_from=others,
            sample_weight=weights,
            progress=meter.show_progress,
        ).to_frame()
    rows = np.arange(table.height)
    filled = prepared.take(np.tile(rows, imputations)).fill(drawn, model.format.date_formats)
    numbers = np.repeat(np.arange(1, imputations + 1), table.height), np.tile(rows + 1, imputations)
    # The cells of a text file are text until it is written.
    keys = [pl.Series(name, values, dtype=pl.Int64) for name, values in zip(KEYS, numbers, strict=True)]
    keys = [key.cast(pl.String) for key in keys] if found.is_text else keys
    write_table(pl.DataFrame([*keys, *filled.get_columns()]), output, found)
    show_written(f"{missing}, imputed {imputations:,} times", output)


def _predict_linked(
    model: OpenModel, parsed: SchemaFile, output: Path, proba: bool, fill: Any, jobs: int | None
) -> None:
    """Impute the missing values of all tables, or write the probabilities of their states."""
    import polars as pl

    paths = {} if proba else linked_outputs(output, parsed)
    refuse_overwriting_inputs([output, *paths.values()], [model.path, *parsed.inputs])
    given = prepare_linked(model.field_, parsed)
    field = model.load(jobs)
    missing = count(given.n_missing, "missing value")
    with StatusLine(f"Imputing {missing} in {count(len(given.raw), 'linked table')}"):
        if proba:
            tables = _probabilities(field, given.data, given.prepared).items()
            write_table(pl.concat(t.select(pl.lit(name).alias("table"), pl.all()) for name, t in tables), output)
        else:
            write_linked(given.fill(field.transform(given.data, fill=fill)), paths, parsed)
    columns = sum(len(table.missing) for table in given.prepared.values())
    line = f"{missing} in {count(columns, 'column')} of {count(len(given.raw), 'table')}"
    if proba:
        show_written(line, output)
    else:
        show(f"{line}; wrote {', '.join(map(str, paths.values()))}.")


def linked_outputs(output: Path, parsed: SchemaFile) -> dict[str, Path]:
    """Return the output file of each table in a folder, in the format of its input file."""
    paths = {}
    for name in parsed.data.tables:
        if name in (".", "..") or any(mark in name for mark in "/\\:\0"):
            raise DataError(f"Table {name!r} has a name that cannot be a file name: rename it in the schema file.")
        suffix = parsed.files[name].path.suffix.lower() if name in parsed.files else ""
        paths[name] = output / f"{name}{'.parquet' if suffix in PARQUET else '.tsv' if suffix == '.tsv' else '.csv'}"
    return paths


def write_linked(tables: Mapping[str, pl.DataFrame], paths: Mapping[str, Path], parsed: SchemaFile) -> None:
    """Write each table in the format of its input file, if it has one."""
    for name, path in paths.items():
        path.parent.mkdir(exist_ok=True)
        write_table(tables[name], path, parsed.formats.get(name))
