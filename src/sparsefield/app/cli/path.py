"""This module defines ``sparsefield path``: scores and sizes of fields along the regularization path."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.basket_data import BasketOptions, read_any_data
from sparsefield.app.cli.console import StatusLine, new_table, show, show_json
from sparsefield.app.cli.input_data import ColumnOptions, linked_inputs
from sparsefield.app.cli.table_files import check_output
from sparsefield.app.pages.fit_summary import count
from sparsefield.app.tables.output_paths import refuse_overwriting_inputs
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.app.tables.write import write_table

PAGES, PICTURE, TABLE = (".html", ".htm"), ".svg", ".csv"

Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FILE", help="File to write: a picture (.svg), a page (.html) or a table (.csv)."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@opt.with_shared_options(without=("l1", "refit", "solver__certify"))
def path(
    data: opt.Data,
    output: Output,
    *,
    as_json: Json = False,
    columns: ColumnOptions,
    weight: opt.Weight = None,
    group: opt.Group = None,
    reading: ReadOptions,
    baskets: BasketOptions,
    template: opt.Templates = None,
    learning: opt.LearningOptions,
    jobs: opt.Jobs = None,
    seed: opt.Seed = 0,
) -> None:
    """Learn fields along the whole regularization path, and draw their scores and sizes against l1.

    Marks the l1 that 'fit' selects with the same options, and names the one with the best score. DATA may also be a
    sparse 0/1 matrix that scipy saved as an .npz file, or, with --long, a list of orders.
    """
    check_output(output, (PICTURE, *PAGES, TABLE))
    refuse_overwriting_inputs([output], [data, baskets.column_names, *linked_inputs(data)])
    given = read_any_data(data, reading, replace(columns, weight=weight, group=group), baskets)
    learning["selection"] = learning["selection"] or "heldout"
    field = opt.make_estimator(given, template, learning, jobs=jobs, seed=seed)
    with StatusLine(f"Learning from {count(given.rows, 'row')}") as watch:
        field.callbacks = opt.report_to(watch)
        found = field.regularization_path(given.X, **given.roles)
    rows = _write(found, output, f"Regularization path of {data.name}")
    if as_json:
        show_json({"data": str(data), "output": str(output), "criterion": rows[0]["criterion"], "path": rows})
    else:
        _show(rows, output)


def _write(frame: Any, output: Path, title: str) -> list[dict[str, Any]]:
    """Write the path to a file, by its suffix, and return its rows."""
    import polars as pl

    from sparsefield.app.pages.path_figure import draw_path, make_path_page
    from sparsefield.model.atomic_write import write_atomically

    found = frame if isinstance(frame, pl.DataFrame) else pl.DataFrame(frame)
    rows = list(found.iter_rows(named=True))
    suffix = output.suffix.lower()
    if suffix == TABLE:
        write_table(found.with_columns(pl.col("error").fill_nan(None)), output)
    else:
        draw = draw_path if suffix == PICTURE else make_path_page
        write_atomically(output, draw(rows, rows[0]["criterion"], title).encode())
    return rows


def _show(rows: list[dict[str, Any]], output: Path) -> None:
    from sparsefield.app.pages.path_figure import HEADINGS, describe_path, format_row

    table = new_table("", *HEADINGS)
    for row in rows:
        table.add_row("selected" if row["selected"] else "", *format_row(row))
    show(table)
    show("\n" + "\n".join(describe_path(rows, rows[0]["criterion"])))
    show(f"\nWrote {output}.")
