"""``sparsefield sample`` draws rows from a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import ProgressBar, note
from sparsefield.app.cli.input_data import is_linked, is_matrix, read_linked
from sparsefield.app.cli.linked_output import check_linked_output, sample_linked
from sparsefield.app.cli.model_input import OpenModel, open_model, read_for_model, require_estimator
from sparsefield.app.cli.table_files import check_table_output, show_written
from sparsefield.app.tables.read import list_columns
from sparsefield.app.tables.read_options import FileFormat, ReadOptions
from sparsefield.app.tables.write import is_text_output, refuse_overwriting_inputs, write_table
from sparsefield.errors import DataError
from sparsefield.parameters import BURN_IN, THIN
from sparsefield.text import count

if TYPE_CHECKING:
    import polars as pl

    from sparsefield import MarkovField

ROWS = 1_000
"""Default number of rows; options default to None, so that those that linked tables do not use can be refused."""

Rows = Annotated[
    int | None,
    typer.Option(
        "--rows",
        "-n",
        min=1,
        help=f"Draw this many rows, {ROWS:,} by default; with --given, this many for each of its rows, 1 by default.",
    ),
]
GivenTable = Annotated[
    Path | None,
    typer.Option(
        "--given",
        metavar="DATA",
        help="Sample the missing values of this table, or of linked tables (their TOML file or its folder).",
    ),
]
BurnIn = Annotated[int, typer.Option("--burn-in", min=1, help="Number of sweeps of a chain before its first row.")]
Thin = Annotated[
    int | None,
    typer.Option("--thin", min=1, help=f"Number of sweeps between two rows of a chain, {THIN} by default."),
]
Chains = Annotated[
    int | None,
    typer.Option(
        "--chains",
        min=1,
        help="Number of chains that share the rows; by default every row has its own, so that rows are independent.",
    ),
]
Seed = Annotated[int, opt.running_option("--seed", min=0, help="Random seed; the same seed draws the same rows.")]


@opt.with_shared_options()
def sample(
    model: opt.Model,
    output: opt.TableOutput,
    *,
    rows: Rows = None,
    given: GivenTable = None,
    burn_in: BurnIn = BURN_IN,
    thin: Thin = None,
    chains: Chains = None,
    reading: ReadOptions,
    seed: Seed = 0,
    jobs: opt.Jobs = None,
) -> None:
    """Draw rows from a model by Gibbs sampling.

    With --given, missing values are sampled conditionally on observed values. Observed values and columns that the
    model does not have, such as identifiers, are unchanged; a target column that the table lacks is added and
    sampled. A model with observed columns needs a table that has them.

    For linked tables, --given is their TOML file, and the output is a folder with a file for each table, as for
    'predict'. They are sampled once, with one chain over all rows.
    """
    saved = open_model(model, given)
    require_estimator(saved, "MarkovField", "RelationalField", what="can draw rows, which 'fit' writes")
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
        check_linked_output(output, proba=False)
        parsed = read_linked(given, reading)
        sample_linked(saved.load(jobs), model, parsed, output, sweeps=burn_in, seed=seed)
        return
    check_table_output(output)
    refuse_overwriting_inputs([output], [model, given])
    rows = rows or (ROWS if given is None else 1)
    plan = {
        "chains": min(chains or rows, rows),
        "burn_in": burn_in,
        "thin": thin or THIN,
        "random_state": seed,
    }
    if given is None:
        found = saved.format if saved.format.is_text else FileFormat()
        found, drawn = found.with_options(reading), _draw_rows(saved, rows, plan, jobs)
        if is_text_output(output):
            from sparsefield.app.tables.fill import date_columns_as_text

            drawn = date_columns_as_text(drawn, found.dates)
    else:
        drawn, found = _draw_missing(saved, given, reading, rows, plan, jobs)
    write_table(drawn, output, found)
    show_written(_summary(drawn.height, given, rows, plan), output)


def _load(model: OpenModel, jobs: int | None) -> MarkovField:
    """Return the estimator of one table, whose frames are of polars whatever library training used."""
    field = model.load(jobs)
    field.kind_ = "polars"
    return field


def _draw_rows(model: OpenModel, rows: int, plan: dict[str, Any], jobs: int | None) -> pl.DataFrame:
    """Draw rows without given values."""
    observed = [variable.name for variable in model.field_.schema.observed]
    if observed:
        raise DataError(f"The model needs a table with its observed {list_columns(observed)}: pass it with --given.")
    field = _load(model, jobs)
    with ProgressBar(f"Drawing {count(rows, 'row')}") as meter:
        drawn: Any = field.sample(rows, **plan, progress=meter.show_progress)
        return drawn


def _draw_missing(
    model: OpenModel, given: Path, reading: ReadOptions, rows: int, plan: dict[str, Any], jobs: int | None
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

    table, found = source.cells, source.format
    refuse_unknown_states(table, schema, found)
    prepared = prepare_table(table, schema, found)
    if not prepared.n_missing:
        note(f"{given}: there are no missing values to sample; the rows are repeated unchanged.")
    field = _load(model, jobs)
    times = f", {rows:,} times" if rows > 1 else ""
    cells = f"{count(prepared.n_missing, 'missing value')} in {count(table.height, 'row')}"
    with ProgressBar(f"Sampling {cells}{times}") as meter:
        drawn: Any = field.sample(rows, given=prepared.table, **plan, progress=meter.show_progress)
    repeated = np.repeat(np.arange(table.height), rows)
    return prepared.take(repeated).fill(drawn, model.format.dates), found


def _summary(height: int, given: Path | None, rows: int, plan: dict[str, Any]) -> str:
    """Return a sentence with the numbers of rows, chains and sweeps."""
    chains, each = plan["chains"], "" if given is None else f", {rows:,} for each row of {given},"
    sweeps = plan["burn_in"] + plan["thin"] * (-(-rows // chains) - 1)
    how = f"{count(chains, 'chain')} of {count(sweeps, 'sweep')}" + (" each" if chains > 1 else "")
    return f"{count(height, 'row')} drawn{each} with {how}"
