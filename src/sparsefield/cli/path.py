"""``sparsefield path``: quality and size of fields against l1."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.cli import options as opt
from sparsefield.cli.console import Watch, new_table, show
from sparsefield.cli.fit import Induction
from sparsefield.cli.input_data import Given, read_data
from sparsefield.cli.linked_output import keep_inputs
from sparsefield.cli.table_files import Reading, check_output, write_table

if TYPE_CHECKING:
    from sparsefield.cli.options import AnyField

PAGES, PICTURE, TABLE = (".html", ".htm"), ".svg", ".csv"

Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FILE", help="A picture (.svg), a page (.html), or the figures (.csv), by the suffix."
    ),
]


def path(
    data: opt.Data,
    output: Output,
    observed: opt.Observed = None,
    identifiers: opt.Identifiers = None,
    numeric: opt.Numeric = None,
    missing: opt.Missing = None,
    no_header: opt.NoHeader = False,
    separator: opt.Separator = None,
    template: opt.Templates = None,
    induction: Induction = "cfi",
    objective: opt.Objective = "pl",
    selection: opt.Selection = None,
    l2: opt.L2 = 1.0,
    threshold: opt.Threshold = 0.2,
    batch_size: opt.BatchSize = "auto",
    inference: opt.Inference = "mean-field",
    max_order: opt.MaxOrder = 2,
    lift: opt.Lift = "active",
    order_penalty: opt.OrderPenalty = 2.0,
    penalize_unary: opt.PenalizeUnary = False,
    max_iter: opt.MaxIter = 1000,
    jobs: opt.Jobs = None,
    seed: opt.Seed = 0,
) -> None:
    """Learn fields along the whole path of falling l1, and draw how good and how large they are.

    Marks the l1 that 'fit' chooses with the same options, and says which one scores best. DATA is what 'fit' takes:
    a table, a TOML file that describes linked tables or its folder, or a sparse 0/1 matrix in an .npz file of scipy's.
    """
    check_output(output, (PICTURE, *PAGES, TABLE))
    reading = Reading(tuple(missing or ()), not no_header, separator)
    given = read_data(data, reading, observed, identifiers, numeric)
    keep_inputs([output], [data, *given.inputs])
    field = opt.make_markov_field(
        given, template, induction=induction, objective=objective, l1="auto", l2=l2, selection=selection or "heldout",
        threshold=threshold, batch_size=batch_size, inference=inference, max_order=max_order, lift=lift,
        order_penalty=order_penalty, penalize_unary=penalize_unary, max_iter=max_iter, jobs=jobs, seed=seed,
    )  # fmt: skip
    _show(_walk(field, given), field.selection, output, f"The path of {data.name}")


def _walk(field: AnyField, given: Given) -> Any:
    """The frame of the path."""
    with Watch(f"Learning from {given.rows:,} rows") as watch:
        field._progress = watch.step  # pyright: ignore[reportAttributeAccessIssue]
        field._hear_path = lambda point: watch.tell(  # pyright: ignore[reportAttributeAccessIssue]
            f"l1 {point.l1:.3g}, {len(point.learned.field.features):,} features"
        )
        if given.linked:
            return field.regularization_path(given.X)
        return field.regularization_path(given.X, observed=given.observed)


def _show(frame: Any, selection: str, output: Path, title: str) -> None:
    import polars as pl

    from sparsefield.io.model_file import write_atomically
    from sparsefield.viz.path_figure import HEADINGS, describe_path, draw_path, format_row, make_path_page

    found = frame if isinstance(frame, pl.DataFrame) else pl.DataFrame(frame)
    rows = list(found.iter_rows(named=True))
    suffix = output.suffix.lower()
    if suffix == TABLE:
        write_table(found.with_columns(pl.col("error").fill_nan(None)), output)
    else:
        draw = draw_path if suffix == PICTURE else make_path_page
        write_atomically(output, draw(rows, selection, title).encode())
    table = new_table("", *HEADINGS)
    for row in rows:
        table.add_row("chosen" if row["chosen"] else "", *format_row(row))
    show(table)
    show("\n" + "\n".join(describe_path(rows, selection)))
    show(f"\nWrote {output}.")
