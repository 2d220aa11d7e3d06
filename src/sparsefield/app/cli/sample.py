"""``sparsefield sample`` draws rows from a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import ProgressBar, note, show
from sparsefield.app.cli.inputs import is_linked, is_matrix, read_linked
from sparsefield.app.cli.models import OpenModel, open_model, prepare_linked, read_for_model
from sparsefield.app.cli.outputs import check_folder, check_table_output, show_written
from sparsefield.app.cli.predict import linked_outputs, write_linked
from sparsefield.app.tables.file_format import PLAIN, FileFormat
from sparsefield.app.tables.read import list_columns
from sparsefield.app.tables.write import is_text_output, refuse_overwriting_inputs, write_table
from sparsefield.errors import DataError, count
from sparsefield.parameters import BURN_IN, THIN

if TYPE_CHECKING:
    import polars as pl

    from sparsefield.app.tables.schema_file import SchemaFile

ROWS = 1_000
"""Default number of rows; options default to None, so that those that linked tables do not use can be refused."""


def sample(
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
        int, typer.Option("--burn-in", min=1, help="Number of sweeps of a chain before its first row.")
    ] = BURN_IN,
    thin: Annotated[
        int | None,
        typer.Option("--thin", min=1, help=f"Number of sweeps between two rows of a chain, {THIN} by default."),
    ] = None,
    chains: Annotated[
        int | None,
        typer.Option(
            "--chains",
            min=1,
            help="Number of chains that share the rows; by default every row has its own, so that rows are "
            "independent.",
        ),
    ] = None,
    missing: opt.Missing = None,
    settings: opt.ReadSet = None,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
) -> None:
    """Draw rows from a model by Gibbs sampling.

    With --given, missing values are sampled conditionally on observed values. Observed values and columns that the
    model does not have, such as identifiers, are unchanged; a target column that the table lacks is added and
    sampled. A model with observed columns needs a table that has them.

    For linked tables, --given is their TOML file, and the output is a folder with a file for each table, as for
    'predict'. They are sampled once, with one chain over all rows.
    """
    reading = opt.reading_options(missing, settings)
    saved = open_model(model, given)
    saved.require("MarkovField", "RelationalField", what="can draw rows, which 'fit' writes")
    if saved.linked:
        for option, value in {"-n": rows, "--thin": thin, "--chains": chains}.items():
            if value is not None:
                raise DataError(
                    f"{option} cannot be used with linked tables, which are sampled once with one chain over all rows: "
                    "remove it. --burn-in sets the number of sweeps, and another --seed gives another sample."
                )
        if given is None or not is_linked(given):
            raise DataError(
                f"{model}: this is a model over linked tables: pass their TOML file or its folder with --given."
            )
        check_folder(output)
        _sample_linked(saved, read_linked(given, reading), output, burn_in, seed, jobs)
        return
    check_table_output(output)
    refuse_overwriting_inputs([output], [model, given])
    rows = rows or (ROWS if given is None else 1)
    chains = min(chains or rows, rows)
    plan = {"chains": chains, "burn_in": burn_in, "thin": thin or THIN, "random_state": seed}
    if given is None:
        file_format = (saved.format if saved.format.is_text else PLAIN).updated(reading)
        drawn = _draw_rows(saved, rows, plan, jobs)
        if is_text_output(output):
            from sparsefield.app.tables.fill import date_columns_as_text

            drawn = date_columns_as_text(drawn, file_format.date_formats)
    else:
        drawn, file_format = _draw_missing(saved, given, reading, rows, plan, jobs)
    write_table(drawn, output, file_format)
    each = "" if given is None else f", {rows:,} for each row of {given},"
    sweeps = burn_in + plan["thin"] * (-(-rows // chains) - 1)
    how = f"{count(chains, 'chain')} of {count(sweeps, 'sweep')}" + (" each" if chains > 1 else "")
    show_written(f"{count(drawn.height, 'row')} drawn{each} with {how}", output)


def _draw_rows(model: OpenModel, rows: int, plan: dict[str, Any], jobs: int | None) -> pl.DataFrame:
    """Draw rows without given values."""
    observed = [variable.name for variable in model.field_.schema.observed]
    if observed:
        raise DataError(f"The model needs a table with its observed {list_columns(observed)}: pass it with --given.")
    field = model.load(jobs)
    field.kind_ = "polars"  # whatever library had the frame of training
    with ProgressBar(f"Drawing {count(rows, 'row')}") as meter:
        return field.sample(rows, **plan, progress=meter.show_progress)


def _draw_missing(
    model: OpenModel, given: Path, reading: FileFormat, rows: int, plan: dict[str, Any], jobs: int | None
) -> tuple[pl.DataFrame, FileFormat]:
    """Return every row of a table ``rows`` times, with its missing values sampled, and the format of the table."""
    import numpy as np

    if is_linked(given):
        raise DataError(
            f"{given}: this is for linked tables, but the model is of one table: pass a CSV or Parquet file."
        )
    if is_matrix(given):
        raise DataError(f"{given}: a sparse 0/1 matrix has no missing values to sample.")
    schema = model.field_.schema
    source = read_for_model(given, reading, model)
    from sparsefield.app.tables.fill import prepare_table, refuse_unknown_states

    table = source.cells
    refuse_unknown_states(table, schema, source.format)
    prepared = prepare_table(table, schema, source.format)
    if not prepared.n_missing:
        note(f"{given}: there are no missing values to sample; the rows are repeated unchanged.")
    field = model.load(jobs)
    field.kind_ = "polars"
    times = f", {rows:,} times" if rows > 1 else ""
    cells = f"{count(prepared.n_missing, 'missing value')} in {count(table.height, 'row')}"
    with ProgressBar(f"Sampling {cells}{times}") as meter:
        drawn: Any = field.sample(rows, given=prepared.table, **plan, progress=meter.show_progress)
    repeated = np.repeat(np.arange(table.height), rows)
    return prepared.take(repeated).fill(drawn, model.format.date_formats), source.format


def _sample_linked(
    model: OpenModel, parsed: SchemaFile, output: Path, sweeps: int, seed: int, jobs: int | None
) -> None:
    """Sample the missing values of all tables with one chain over all rows."""
    paths = linked_outputs(output, parsed)
    refuse_overwriting_inputs(paths.values(), [model.path, *parsed.inputs])
    given = prepare_linked(model.field_, parsed, known_states=True)
    field = model.load(jobs)
    missing = count(given.n_missing, "missing value")
    with ProgressBar(f"Sampling {missing} in {count(len(given.raw), 'linked table')}") as meter:
        drawn = field.sample(given.data, sweeps=sweeps, random_state=seed, progress=meter.show_progress)
        write_linked(given.fill(drawn), paths, parsed)
    rows, written = sum(table.height for table in given.raw.values()), ", ".join(map(str, paths.values()))
    how = f"{count(rows, 'row')} of {count(len(given.raw), 'table')} sampled with 1 chain of {count(sweeps, 'sweep')}"
    show(f"{missing} in {how}; wrote {written}.")
