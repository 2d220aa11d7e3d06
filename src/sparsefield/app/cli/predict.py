"""``sparsefield predict`` fills in missing values of tables, once or several times; ``sample`` draws rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import StatusLine, check_folder, check_table_output, deliver, note
from sparsefield.app.cli.inputs import form_of, read_linked
from sparsefield.app.cli.models import (
    LinkedTables,
    OpenModel,
    open_model,
    prepare_linked,
    read_to_fill,
    read_weights_for_model,
)
from sparsefield.app.tables.file_format import PLAIN, FileFormat
from sparsefield.app.tables.read import PARQUET, list_columns
from sparsefield.app.tables.write import is_text_output, refuse_overwriting_inputs, write_table
from sparsefield.errors import DataError, count
from sparsefield.parameters import BURN_IN

if TYPE_CHECKING:
    import polars as pl

    from sparsefield.app.tables.fill import TableToFill
    from sparsefield.app.tables.schema_file import SchemaFile

KEYS = ("imputation", "row")
"""The first two columns of tables that are imputed several times."""

ROWS = 1_000
"""Default number of rows that are drawn."""


@opt.expanded
def predict(
    *,
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
    reading: opt.ReadingOptions,
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
        if path is not None and form_of(path) == "matrix" and not path.is_dir():
            raise DataError(f"{path}: a sparse 0/1 matrix has no missing values to impute.")
    linked = form_of(data) == "linked"
    if imputations is None and learn_from is not None:
        raise DataError("--learn-from is for --imputations: add that, or remove it.")
    if imputations is not None and (linked or proba or fill != "auto"):
        raise DataError("--imputations draws the values of one table: remove --proba and --fill, and pass one table.")
    if linked and not proba:
        check_folder(output)
    else:
        check_table_output(output)
        refuse_overwriting_inputs([output], [data, model, learn_from])
    options = reading.reading()
    saved = open_model(model, data, learn_from)
    able = "can impute linked tables" if linked else "can impute one table"
    saved.require("RelationalField" if linked else "MarkovField", what=able)
    if linked:
        _predict_linked(saved, read_linked(data, options), output, proba, fill, jobs)
    elif imputations is not None:
        _impute_several_times(saved, data, options, output, imputations, learn_from, seed, jobs)
    else:
        _predict_table(saved, read_to_fill(data, options, saved, None if proba else output), output, proba, fill, jobs)


def _predict_table(
    model: OpenModel, prepared: TableToFill, output: Path, proba: bool, fill: str, jobs: int | None
) -> None:
    """Fill in a table with the most probable values and states of latent variables, or write probabilities."""
    import polars as pl

    field = model.load(jobs)
    missing, rows = count(prepared.n_missing, "missing value"), count(prepared.cells.height, "row")
    with StatusLine(f"Imputing {missing} in {rows}"):
        if proba:
            answer = _probabilities(field, prepared.table, {"": prepared})[""]
            write_table(answer, output, replace(prepared.format, header=True))
        else:
            filled, latent = field.transform(prepared.table, fill=fill), field.field_.schema.latent
            beliefs = field.predict_proba(prepared.table) if latent else {}
            states = {v.name: [v.states[k] for k in beliefs[v.name].argmax(axis=1)] for v in latent}
            filled = filled.with_columns(pl.Series(name, values) for name, values in states.items())
            write_table(prepared.fill(filled, model.format.date_formats), output, prepared.format)
    deliver([f"{missing} in {count(len(prepared.missing), 'column')} and {rows}."], written=[output])


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

    prepared = read_to_fill(data, reading, model, output, imputations)
    table = prepared.cells
    clash = [name for name in KEYS if name in table.columns]
    if clash:
        raise DataError(f"{data}: the output has a column {clash[0]!r} of its own: rename that of the table.")
    if not prepared.n_missing:
        raise DataError(f"{data}: there are no missing values to impute.")
    others = None if learn_from is None else read_to_fill(learn_from, reading, model).table
    weights = read_weights_for_model(learn_from or data, reading, model)
    field = model.load(jobs)
    from sparsefield import impute

    missing = f"{count(prepared.n_missing, 'missing value')} in {count(table.height, 'row')}"
    with StatusLine(f"Imputing {missing}, {imputations:,} times") as watch:
        options = {"seed": seed, "learn_from": others, "sample_weight": weights, "progress": watch.show_progress}
        drawn: Any = impute(field, prepared.table, imputations, **options).to_frame()
    rows = np.arange(table.height)
    filled = prepared.take(np.tile(rows, imputations)).fill(drawn, model.format.date_formats)
    numbers = np.repeat(np.arange(1, imputations + 1), table.height), np.tile(rows + 1, imputations)
    # The cells of a text file are text until it is written.
    dtype = pl.String if prepared.format.is_text else pl.Int64
    keys = [pl.Series(name, values).cast(dtype) for name, values in zip(KEYS, numbers, strict=True)]
    write_table(pl.DataFrame([*keys, *filled.get_columns()]), output, prepared.format)
    deliver([f"{missing}, imputed {imputations:,} times."], written=[output])


def _predict_linked(
    model: OpenModel, parsed: SchemaFile, output: Path, proba: bool, fill: Any, jobs: int | None
) -> None:
    """Impute the missing values of all tables, or write the probabilities of their states."""
    import polars as pl

    paths = {} if proba else _linked_outputs(output, parsed)
    refuse_overwriting_inputs([output, *paths.values()], [model.path, *parsed.inputs])
    tables = prepare_linked(model.field_, parsed)
    field = model.load(jobs)
    with StatusLine(f"Imputing {_describe_linked(tables)}"):
        if proba:
            answers = _probabilities(field, tables.data, tables.prepared).items()
            write_table(pl.concat(t.select(pl.lit(name).alias("table"), pl.all()) for name, t in answers), output)
        else:
            _write_linked(tables.fill(field.transform(tables.data, fill=fill)), paths, parsed)
    deliver([f"{_describe_linked(tables)}."], written=[output] if proba else list(paths.values()))


def _describe_linked(tables: LinkedTables) -> str:
    columns = sum(len(table.missing) for table in tables.prepared.values())
    missing = count(tables.n_missing, "missing value")
    return f"{missing} in {count(columns, 'column')} of {count(len(tables.raw), 'linked table')}"


def _linked_outputs(output: Path, parsed: SchemaFile) -> dict[str, Path]:
    """Return the output file of each table in a folder, in the format of its input file."""
    paths = {}
    for name in parsed.data.tables:
        if name in (".", "..") or any(mark in name for mark in "/\\:\0"):
            raise DataError(f"Table {name!r} has a name that cannot be a file name: rename it in the schema file.")
        suffix = parsed.files[name].suffix.lower() if name in parsed.files else ""
        paths[name] = output / f"{name}{'.parquet' if suffix in PARQUET else '.tsv' if suffix == '.tsv' else '.csv'}"
    return paths


def _write_linked(tables: Mapping[str, pl.DataFrame], paths: Mapping[str, Path], parsed: SchemaFile) -> None:
    for name, path in paths.items():
        path.parent.mkdir(exist_ok=True)
        write_table(tables[name], path, parsed.sources[name].format if name in parsed.sources else None)


@opt.expanded
def sample(
    *,
    model: opt.Model,
    output: opt.TableOutput,
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows",
            "-n",
            min=1,
            help=f"Draw this many rows, {ROWS:,} by default; with --given, this many for each of its rows, 1 by "
            "default.",
        ),
    ] = None,
    given: Annotated[
        Path | None,
        typer.Option(
            "--given",
            metavar="DATA",
            help="Sample the missing values of this table, or of linked tables (their TOML file or its folder).",
        ),
    ] = None,
    burn_in: Annotated[
        int, typer.Option("--burn-in", min=1, help="Number of sweeps of the chain of each row.")
    ] = BURN_IN,
    reading: opt.ReadingOptions,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
) -> None:
    """Draw independent rows from a model by Gibbs sampling.

    With --given, missing values are sampled conditionally on observed values. Observed values and columns that the
    model does not have, such as identifiers, are unchanged; a target column that the table lacks is added and
    sampled. A model with observed columns needs a table that has them.

    For linked tables, --given is their TOML file, and the output is a folder with a file for each table, as for
    'predict'. They are sampled once, with one chain over all rows.
    """
    options = reading.reading()
    saved = open_model(model, given)
    saved.require("MarkovField", "RelationalField", what="can draw rows, which 'fit' writes")
    if saved.linked:
        if rows is not None:
            raise DataError("-n is not for linked tables, which are sampled once: remove it, or change --seed.")
        if given is None or form_of(given) != "linked":
            raise DataError(
                f"{model}: this is a model over linked tables: pass their TOML file or its folder with --given."
            )
        check_folder(output)
        _sample_linked(saved, read_linked(given, options), output, burn_in, seed, jobs)
        return
    check_table_output(output)
    refuse_overwriting_inputs([output], [model, given])
    rows = rows or (ROWS if given is None else 1)
    plan = {"chains": rows, "burn_in": burn_in, "random_state": seed}
    if given is None:
        file_format = (saved.format if saved.format.is_text else PLAIN).updated(options)
        drawn = _draw_rows(saved, rows, plan, jobs)
        if is_text_output(output):
            from sparsefield.app.tables.fill import date_columns_as_text

            drawn = date_columns_as_text(drawn, file_format.date_formats)
    else:
        drawn, file_format = _draw_missing(saved, given, options, output, rows, plan, jobs)
    write_table(drawn, output, file_format)
    each = "" if given is None else f", {rows:,} for each row of {given},"
    chains = f"{count(rows, 'chain')} of {count(burn_in, 'sweep')}" + (" each" if rows > 1 else "")
    deliver([f"{count(drawn.height, 'row')} drawn{each} with {chains}."], written=[output])


def _draw_rows(model: OpenModel, rows: int, plan: dict[str, Any], jobs: int | None) -> pl.DataFrame:
    """Draw rows without given values."""
    observed = [variable.name for variable in model.field_.schema.observed]
    if observed:
        raise DataError(f"The model needs a table with its observed {list_columns(observed)}: pass it with --given.")
    field = model.load(jobs)
    field.kind_ = "polars"  # whatever library had the frame of training
    with StatusLine(f"Drawing {count(rows, 'row')}") as watch:
        return field.sample(rows, **plan, progress=watch.show_progress)


def _draw_missing(
    model: OpenModel, data: Path, reading: FileFormat, output: Path, rows: int, plan: dict[str, Any], jobs: int | None
) -> tuple[pl.DataFrame, FileFormat]:
    """Return every row of a table ``rows`` times, with its missing values sampled, and the format of the table."""
    import numpy as np

    if form_of(data) == "linked" or data.suffix.lower() == ".npz":
        raise DataError(f"{data}: the model is of one table with missing values: pass a CSV or Parquet file.")
    prepared = read_to_fill(data, reading, model, output, rows, known_states=True)
    if not prepared.n_missing:
        note(f"{data}: there are no missing values to sample; the rows are repeated unchanged.")
    field = model.load(jobs)
    field.kind_ = "polars"
    times = f", {rows:,} times" if rows > 1 else ""
    cells = f"{count(prepared.n_missing, 'missing value')} in {count(prepared.cells.height, 'row')}"
    with StatusLine(f"Sampling {cells}{times}") as watch:
        drawn: Any = field.sample(rows, given=prepared.table, **plan, progress=watch.show_progress)
    repeated = np.repeat(np.arange(prepared.cells.height), rows)
    return prepared.take(repeated).fill(drawn, model.format.date_formats), prepared.format


def _sample_linked(
    model: OpenModel, parsed: SchemaFile, output: Path, sweeps: int, seed: int, jobs: int | None
) -> None:
    """Sample the missing values of all tables with one chain over all rows."""
    paths = _linked_outputs(output, parsed)
    refuse_overwriting_inputs(paths.values(), [model.path, *parsed.inputs])
    tables = prepare_linked(model.field_, parsed, known_states=True)
    field = model.load(jobs)
    with StatusLine(f"Sampling {_describe_linked(tables)}") as watch:
        drawn = field.sample(tables.data, sweeps=sweeps, random_state=seed, progress=watch.show_progress)
        _write_linked(tables.fill(drawn), paths, parsed)
    deliver(
        [f"{_describe_linked(tables)}, sampled with 1 chain of {count(sweeps, 'sweep')}."], written=list(paths.values())
    )
