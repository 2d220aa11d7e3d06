"""``sparsefield sample``: draw rows from a field."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.cli import options as opt
from sparsefield.cli.console import Meter, note, show
from sparsefield.cli.imputation import as_known, filled, refuse_unknown
from sparsefield.cli.input_data import is_linked, is_matrix, read_linked
from sparsefield.cli.linked_output import check_linked_output, keep_inputs, sample_linked
from sparsefield.cli.table_files import (
    PARQUET,
    TABLES,
    Reading,
    check_output,
    listed,
    read_table,
    with_found_types,
    write_table,
)
from sparsefield.errors import DataError, ModelFileError

if TYPE_CHECKING:
    import polars as pl

    from sparsefield import MarkovField, RelationalField
    from sparsefield.cli.imputation import Asked

ROWS, THIN, CHAINS = 1_000, 1_000, 1
"""Unless told. The options themselves know nothing of it, so that one that linked tables have no use for is noticed."""

Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="CSV or Parquet file for the rows, by its suffix; for linked tables a folder.",
    ),
]
Rows = Annotated[
    int | None,
    typer.Option(
        "--rows",
        "-n",
        min=1,
        help=f"How many rows, {ROWS:,} unless told; with --given, how many for each of its rows, 1 unless told.",
    ),
]
GivenTable = Annotated[
    Path | None,
    typer.Option(
        "--given",
        metavar="DATA",
        help="Table whose gaps are drawn; or a TOML file that describes linked tables, or its folder.",
    ),
]
BurnIn = Annotated[int, typer.Option("--burn-in", min=1, help="Sweeps of a chain before its first row.")]
Thin = Annotated[int | None, typer.Option("--thin", min=1, help=f"Sweeps between two rows of a chain. [{THIN}]")]
Chains = Annotated[int | None, typer.Option("--chains", min=1, help=f"How many chains share the rows. [{CHAINS}]")]
Seed = Annotated[
    int, typer.Option("--seed", min=0, help="The same seed draws the same rows.", rich_help_panel=opt.RUNNING)
]


def sample(
    model: opt.Model,
    output: Output,
    rows: Rows = None,
    given: GivenTable = None,
    burn_in: BurnIn = 10_000,
    thin: Thin = None,
    chains: Chains = None,
    missing: opt.Missing = None,
    no_header: opt.NoHeader = False,
    separator: opt.Separator = None,
    seed: Seed = 0,
    jobs: opt.Jobs = None,
) -> None:
    """Draw rows from a field by Gibbs sampling.

    With --given, gaps are drawn given the cells that have a value. These stay as they are, and so do ids and
    other columns that the model does not know; a predicted column that the table lacks is added and drawn. A
    model with observed columns needs a table that has them.

    For linked tables --given names the TOML file that describes them, and the output is a folder, which gets a
    file for each table, as for 'predict'. They are drawn once, by one chain over all rows.
    """
    from sparsefield import RelationalField

    field = _load(model)
    field.n_jobs = jobs
    reading = Reading(tuple(missing or ()), not no_header, separator)
    if isinstance(field, RelationalField):
        _refuse_for_linked({"-n": rows, "--thin": thin, "--chains": chains})
        if given is None or not is_linked(given):
            raise DataError(f"{model}: a field over linked tables: name their TOML file or its folder with --given.")
        check_linked_output(output, proba=False)
        sample_linked(field, read_linked(given, reading), output, sweeps=burn_in, seed=seed)
        return
    check_output(output, TABLES)
    rows = rows or (ROWS if given is None else 1)
    plan = {"chains": min(chains or CHAINS, rows), "sweeps": burn_in, "thin": thin or THIN, "random_state": seed}
    if given is None:
        drawn = _draw_rows(field, rows, plan)
    else:
        keep_inputs([output], [given])
        drawn = _draw_gaps(field, given, reading, rows, plan)
        if output.suffix.lower() in PARQUET and given.suffix.lower() not in PARQUET:
            drawn = with_found_types(drawn)
    write_table(drawn, output, separator)
    show(f"{_told(drawn.height, given, rows, plan)}; wrote {output}.")


def _load(model: Path) -> MarkovField | RelationalField:
    from sparsefield import MarkovField, RelationalField, load

    field = load(model)
    if isinstance(field, RelationalField):
        return field
    if not isinstance(field, MarkovField):
        raise ModelFileError(
            f"{model}: holds a {type(field).__name__}; rows are drawn from a MarkovField or a RelationalField. "
            "'fit' writes these."
        )
    field.kind_ = "polars"  # whatever library the field was learned with
    return field


def _refuse_for_linked(asked: dict[str, int | None]) -> None:
    for option, value in asked.items():
        if value is not None:
            raise DataError(
                f"{option} has no place with linked tables, which are drawn once, by one chain over all rows: leave it "
                "out. --burn-in says how many sweeps there are, and another --seed draws them anew."
            )


def _draw_rows(field: MarkovField, rows: int, plan: dict[str, Any]) -> pl.DataFrame:
    """Rows out of nothing."""
    observed = [variable.name for variable in field.field_.schema.observed]
    if observed:
        raise DataError(f"The model needs a table with its observed {listed(observed)}. Name one with --given.")
    with Meter(f"Drawing {rows:,} rows") as meter:
        drawn: Any = field.sample(rows, **plan, progress=meter.tell)
        return drawn


def _draw_gaps(field: MarkovField, given: Path, reading: Reading, rows: int, plan: dict[str, Any]) -> pl.DataFrame:
    """Every row of a table ``rows`` times, its gaps drawn."""
    import numpy as np

    table, asked = _read_given(field, given, reading)
    if not asked.n_missing:
        note(f"{given}: there are no gaps to draw; its rows are repeated as they are.")
    with Meter(f"Drawing {asked.n_missing:,} gaps in {table.height:,} rows, {rows:,} times") as meter:
        drawn: Any = field.sample(rows, given=asked.table, **plan, progress=meter.tell)
    repeated = table[np.repeat(np.arange(table.height), rows)]
    return filled(repeated, asked.repeated(rows), drawn, field.states_)


def _read_given(field: MarkovField, given: Path, reading: Reading) -> tuple[pl.DataFrame, Asked]:
    """The table as it came, and what the model sees of it."""
    if is_linked(given):
        raise DataError(f"{given}: describes linked tables, but the model is of one table: name a CSV or Parquet file.")
    if is_matrix(given):
        raise DataError(f"{given}: a sparse 0/1 matrix has no gaps to draw.")
    table = read_table(given, reading, as_text=True)
    schema, markers = field.field_.schema, reading.markers(given)
    if not set(schema.input_names) & set(table.columns):
        raise DataError(f"No column of the model is in the table; the model has {listed(schema.input_names)}.")
    refuse_unknown(table, schema, markers)
    return table, as_known(table, schema, markers)


def _told(height: int, given: Path | None, rows: int, plan: dict[str, Any]) -> str:
    """How many rows there are, of how many chains and sweeps."""
    chains, each = plan["chains"], "" if given is None else f", {rows:,} for each row of {given},"
    sweeps = plan["sweeps"] + plan["thin"] * (-(-rows // chains) - 1)
    how = f"1 chain of {sweeps:,} sweeps" if chains == 1 else f"{chains:,} chains of {sweeps:,} sweeps each"
    return f"{height:,} rows drawn{each} by {how}"
