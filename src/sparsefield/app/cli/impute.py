"""``sparsefield impute`` imputes the missing values of a table several times, for analyses with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import ProgressBar
from sparsefield.app.cli.input_data import is_linked, is_matrix
from sparsefield.app.cli.model_input import (
    OpenModel,
    open_model,
    read_for_model,
    read_weights_for_model,
    require_estimator,
)
from sparsefield.app.cli.table_files import check_table_output, show_written
from sparsefield.app.tables.read_options import FileFormat, ReadOptions
from sparsefield.app.tables.write import refuse_overwriting_inputs, write_table
from sparsefield.errors import DataError
from sparsefield.text import count

if TYPE_CHECKING:
    import polars as pl

    from sparsefield.app.tables.fill import TableToFill

KEYS = ("imputation", "row")
"""The first two columns of the output."""

Table = Annotated[Path, typer.Argument(metavar="DATA", help=opt.TABLE_HELP)]
Number = Annotated[int, typer.Option("--imputations", "-m", min=2, help="Number of imputed tables.")]
Iterations = Annotated[
    int,
    typer.Option(
        "--iterations",
        min=1,
        help="How often weights and cells are drawn in turn for each table; more where most of a column is missing.",
    ),
]
EdgesOption = Annotated[
    str,
    typer.Option(
        "--edges",
        metavar="auto|selected|all",
        help="Pairs of columns that depend on each other in the imputations: those of the model, or all; auto is all "
        "where the table has at least 20 rows for each column and the graph was not given.",
    ),
]
LearnFrom = Annotated[
    Path | None,
    typer.Option(
        "--learn-from",
        metavar="DATA",
        help="Table of the fit, if DATA has other rows; it tells how uncertain the weights of the model are.",
    ),
]
FixedWeights = Annotated[
    bool,
    typer.Option("--fixed-weights", help="Take the weights of the model as known; intervals are then too narrow."),
]
Original = Annotated[bool, typer.Option("--original", help="Write the incomplete table first, as imputation 0.")]
Seed = Annotated[int, opt.running_option("--seed", min=0, help="Random seed; the same seed draws the same values.")]


@opt.with_shared_options()
def impute(
    model: opt.Model,
    data: Table,
    output: opt.TableOutput,
    *,
    imputations: Number = 20,
    iterations: Iterations = 10,
    edges: EdgesOption = "auto",
    learn_from: LearnFrom = None,
    fixed_weights: FixedWeights = False,
    original: Original = False,
    reading: ReadOptions,
    seed: Seed = 0,
    jobs: opt.Jobs = None,
) -> None:
    """Impute missing values several times (multiple imputation), and write all imputed tables below each other.

    The first two columns of the output are the number of the imputation and of the row, both counted from 1. Analyze
    each imputed table, and pool the results by Rubin's rules. 'predict' imputes once, with the most probable values,
    which is for predictions: intervals and tests of tables that are filled so are wrong.

    Values are drawn jointly given the observed values of a row, with weights of the model that are drawn from their
    uncertainty each time. Observed values and columns that the model does not have, such as identifiers, are unchanged.
    """
    for path in (data, learn_from):
        if path is not None and (is_matrix(path) or is_linked(path)):
            raise DataError(f"{path}: only one table with missing values can be imputed: pass a CSV or Parquet file.")
    check_table_output(output)
    refuse_overwriting_inputs([output], [data, model, learn_from])
    saved = open_model(model, data, learn_from)
    require_estimator(saved, "MarkovField", what="can impute one table")
    prepared = _read_prepared(data, reading, saved)
    table, found = prepared.cells, prepared.format
    _check_names(table.columns, data)
    if not prepared.n_missing:
        raise DataError(f"{data}: there are no missing values to impute.")
    others = None if learn_from is None else _read_prepared(learn_from, reading, saved).table
    weights = None if fixed_weights else read_weights_for_model(learn_from or data, reading, saved)
    field = saved.load(jobs)
    from sparsefield.analysis.multiple_imputation import impute as draw_imputations

    missing = f"{count(prepared.n_missing, 'missing value')} in {count(table.height, 'row')}"
    with ProgressBar(f"Imputing {missing}, {imputations:,} times") as meter:
        drawn = draw_imputations(
            field,
            prepared.table,
            imputations,
            seed=seed,
            iterations=iterations,
            edges=edges,  # pyright: ignore[reportArgumentType]  # which the function checks
            proper=not fixed_weights,
            learn_from=others,
            sample_weight=weights,
            progress=meter.show_progress,
        )
    filled = _long_form(prepared, drawn.to_frame(), saved)
    if original:
        filled = _with_keys(table, 1, 0, found).vstack(filled)
    write_table(filled, output, found)
    show_written(f"{missing}, imputed {imputations:,} times", output)


def _read_prepared(data: Path, reading: ReadOptions, model: OpenModel) -> TableToFill:
    source = read_for_model(data, reading, model)
    from sparsefield.app.tables.fill import prepare_table

    return prepare_table(source.cells, model.field_.schema, source.format)


def _long_form(prepared: TableToFill, drawn: Any, model: OpenModel) -> pl.DataFrame:
    """Return the imputed tables below each other."""
    import numpy as np

    n_rows = prepared.cells.height
    times = drawn.height // n_rows
    filled = prepared.take(np.tile(np.arange(n_rows), times)).fill(drawn, model.format.dates)
    return _with_keys(filled, times, 1, prepared.format)


def _with_keys(table: pl.DataFrame, times: int, first: int, found: FileFormat) -> pl.DataFrame:
    """Return a table, which is ``times`` tables below each other, with the numbers of imputations and rows."""
    import numpy as np
    import polars as pl

    n = table.height // times
    keys = [
        pl.Series(KEYS[0], np.repeat(np.arange(first, first + times), n), dtype=pl.Int64),
        pl.Series(KEYS[1], np.tile(np.arange(1, n + 1), times), dtype=pl.Int64),
    ]
    # The cells of a text file are text until it is written.
    keys = [key.cast(pl.String) for key in keys] if found.is_text else keys
    return pl.DataFrame([*keys, *table.get_columns()])


def _check_names(columns: list[str], data: Path) -> None:
    clash = [name for name in KEYS if name in columns]
    if clash:
        raise DataError(f"{data}: the output has a column {clash[0]!r} of its own: rename that of the table.")
