"""``sparsefield predict`` fills in missing values of tables, once or several times; ``sample`` draws rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import StatusLine, check_folder, check_table_output, deliver, note
from sparsefield.app.cli.models import ModelTables, open_model, read_tables
from sparsefield.app.tables.file_format import PLAIN
from sparsefield.app.tables.read import list_columns
from sparsefield.app.tables.write import find_output_kind, refuse_lost_cells, refuse_overwriting_inputs, write_table
from sparsefield.errors import DataError, count
from sparsefield.parameters import BURN_IN

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
    proba: bool = False,
    fill: Annotated[str, typer.Option(metavar="auto|mean|median|mode")] = "auto",
    imputations: Annotated[int | None, typer.Option("--imputations", "-m", min=2, metavar="M")] = None,
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

    Options:
        proba: Write probabilities instead: a line per missing value and state with the columns row (counted from 1),
            column, state and probability; for linked tables the first column is table. The states of a number are bins.
        fill: What stands for a missing ordinal or numeric value; auto is the mean of a number and the most probable
            state of all others.
        imputations: Draw missing values M times, such as 20 (multiple imputation), and write all tables below each
            other, after the columns imputation and row.
    """
    saved = open_model(model, data)
    linked = saved.form_of(data) == "linked"
    if imputations is not None and (linked or proba or fill != "auto"):
        raise DataError("--imputations draws the values of one table: remove --proba and --fill, and pass one table.")
    if linked and not proba:
        check_folder(output)
    else:
        check_table_output(output)
        refuse_overwriting_inputs([output], [data, model])
    saved.require("MarkovField", "RelationalField", what="can impute")
    tables = read_tables(saved, data, reading.reading())
    if not (linked or proba):
        refuse_lost_cells(tables.prepared[""].cells, output, imputations or 1)
    if imputations is not None:
        _impute_several_times(tables, output, imputations, seed, jobs)
        return
    outputs = {"": output} if proba else tables.outputs(output)
    refuse_overwriting_inputs([output], tables.inputs)
    field = saved.load(jobs)
    import polars as pl

    with StatusLine(f"Imputing {count(tables.n_missing, 'missing value')}", inference=True):
        if proba:
            _write_probabilities(field, tables, output)
        else:
            answer, latent = field.transform(tables.data, fill=fill), () if linked else field.field_.schema.latent
            posterior: Any = field.infer(tables.data) if latent else None
            for variable in latent:
                states = [variable.states[k] for k in posterior.state_probabilities(variable.name).argmax(axis=1)]
                answer = answer.with_columns(pl.Series(variable.name, states))
            tables.write(answer, outputs)
    deliver([f"{tables.describe()}."], written=list(outputs.values()))


def _write_probabilities(field: Any, tables: ModelTables, output: Path) -> None:
    """Write a row for each state of each missing value, with its probability; for linked tables with their names."""
    import polars as pl

    from sparsefield.app.pages.cells import group_states
    from sparsefield.app.tables.fill import probability_table

    answer, parts = field.infer(tables.data), []
    for name, table in tables.prepared.items():
        targets = [variable for variable in table.schema.targets if variable.name in table.missing]
        find = (answer if tables.parsed is None else answer[name]).state_probabilities
        part = probability_table(table, {v.name: group_states(v, find(v.name)) for v in targets})
        parts.append(part if tables.parsed is None else part.select(pl.lit(name).alias("table"), pl.all()))
    file_format = replace(tables.prepared[""].format, header=True) if tables.parsed is None else None
    write_table(pl.concat(parts), output, file_format)


def _impute_several_times(tables: ModelTables, output: Path, imputations: int, seed: int, jobs: int | None) -> None:
    """Write imputed tables below each other, with the numbers of imputations and rows, both counted from 1."""
    import numpy as np
    import polars as pl

    prepared, model = tables.prepared[""], tables.model
    table = prepared.cells
    clash = [name for name in KEYS if name in table.columns]
    if clash:
        raise DataError(f"{tables.path}: the output has a column {clash[0]!r} of its own: rename that of the table.")
    if not prepared.n_missing:
        raise DataError(f"{tables.path}: there are no missing values to impute.")
    weights = tables.weights()
    field = model.load(jobs)
    from sparsefield import impute

    with StatusLine(f"Imputing {imputations:,} times") as watch:
        options = {"seed": seed, "sample_weight": weights, "progress": watch.show_progress}
        drawn: Any = impute(field, tables.data, imputations, **options).to_frame()
    rows = np.arange(table.height)
    filled = prepared.take(np.tile(rows, imputations)).fill(drawn, model.format.date_formats)
    numbers = np.repeat(np.arange(1, imputations + 1), table.height), np.tile(rows + 1, imputations)
    # The cells of a text file are text until it is written.
    dtype = pl.String if prepared.format.is_text else pl.Int64
    keys = [pl.Series(name, values).cast(dtype) for name, values in zip(KEYS, numbers, strict=True)]
    write_table(pl.DataFrame([*keys, *filled.get_columns()]), output, prepared.format)
    deliver([f"{tables.describe()}, imputed {imputations:,} times."], written=[output])


@opt.expanded
def sample(
    *,
    model: opt.Model,
    output: opt.TableOutput,
    rows: Annotated[int | None, typer.Option("--rows", "-n", min=1)] = None,
    given: Annotated[Path | None, typer.Option(metavar="DATA")] = None,
    burn_in: Annotated[int, typer.Option(min=1)] = BURN_IN,
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

    Options:
        rows: Draw this many rows, 1,000 by default; with --given, this many for each of its rows, 1 by default.
        given: Sample the missing values of this table, or of linked tables (their TOML file or its folder).
        burn_in: Number of sweeps of the chain of each row.
    """
    options = reading.reading()
    saved = open_model(model, given)
    saved.require("MarkovField", "RelationalField", what="can draw rows, which 'fit' writes")
    if saved.linked and rows is not None:
        raise DataError("-n is not for linked tables, which are sampled once: remove it, or change --seed.")
    if saved.linked and given is None:
        raise DataError(f"{model}: the model is over linked tables: pass their TOML file or its folder with --given.")
    if saved.linked:
        check_folder(output)
    else:
        check_table_output(output)
        refuse_overwriting_inputs([output], [model, given])
    rows = rows or (ROWS if given is None else 1)
    chains = f"{count(rows, 'chain')} of {count(burn_in, 'sweep')}" + (" each" if rows > 1 else "")
    how: dict[str, Any] = {"chains": rows, "burn_in": burn_in, "random_state": seed}
    if given is None:
        observed = [variable.name for variable in saved.field_.schema.observed]
        if observed:
            lacks = list_columns(observed)
            raise DataError(f"The model needs a table with its observed {lacks}: pass it with --given.")
        field = saved.load(jobs)
        field.kind_ = "polars"  # whatever library had the frame of training
        with StatusLine(f"Drawing {count(rows, 'row')}") as watch:
            drawn = field.sample(rows, **how, progress=watch.show_progress)
        file_format = (saved.format if saved.format.is_text else PLAIN).updated(options)
        if find_output_kind(output) in ("csv", None):
            from sparsefield.app.tables.fill import date_columns_as_text

            drawn = date_columns_as_text(drawn, file_format.date_formats)
        write_table(drawn, output, file_format)
        deliver([f"{count(rows, 'row')} drawn with {chains}."], written=[output])
        return
    tables = read_tables(saved, given, options, known_states=True)
    outputs, what = tables.outputs(output), tables.describe()
    field = saved.load(jobs)
    if not saved.linked:
        refuse_lost_cells(tables.prepared[""].cells, output, rows)
        field.kind_ = "polars"
        if not tables.n_missing:
            note(f"{given}: there are no missing values to sample; the rows are repeated unchanged.")
    with StatusLine(f"Sampling {what}{f', {rows:,} times' if rows > 1 else ''}") as watch:
        if saved.linked:
            answer = field.sample(tables.data, sweeps=burn_in, random_state=seed, progress=watch.show_progress)
            summary = f"{what}, sampled with {chains}."
        else:
            answer = field.sample(rows, given=tables.data, **how, progress=watch.show_progress)
            repeated = [row for row in range(tables.data.height) for _ in range(rows)]
            tables = replace(tables, prepared={"": tables.prepared[""].take(repeated)})
            summary = f"{count(len(repeated), 'row')} drawn, {rows:,} for each row of {given}, with {chains}."
        tables.write(answer, outputs)
    deliver([summary], written=list(outputs.values()))
