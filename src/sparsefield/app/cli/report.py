"""``sparsefield report`` writes an HTML page about a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import StatusLine, note, show
from sparsefield.app.cli.input_data import linked_inputs
from sparsefield.app.cli.model_input import open_model, read_weights_for_model, require_estimator
from sparsefield.app.cli.model_rows import model_parts, read_rows
from sparsefield.app.cli.table_files import check_output
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.app.tables.write import refuse_overwriting_inputs
from sparsefield.errors import DataError

PAGES = (".html", ".htm")

Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write the report to this HTML file.",
    ),
]
Rows = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DATA",
        help="Evaluate the model on these rows, preferably not used in training: CSV, Parquet or an .npz matrix; for "
        "linked tables, their TOML file or its folder. Without it, sections that need rows are empty.",
    ),
]
Intervals = Annotated[
    bool,
    typer.Option(
        "--intervals",
        help="Draw 95% confidence intervals of the weights, for which --data must have the rows of training.",
    ),
]
Title = Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Use this title for the page.")]


@opt.with_shared_options()
def report(
    model: opt.Model,
    output: Output,
    *,
    data: Rows = None,
    title: Title = None,
    intervals: Intervals = False,
    reading: ReadOptions,
    jobs: opt.Jobs = None,
) -> None:
    """Write an HTML page about a model: a summary in words, its network, and its performance on data.

    The page works offline in any browser. It shows an interactive network beside its columns and pairs; findings as
    sentences; the strongest features; hubs, communities and centrality; for the rows of --data, how well each column is
    predicted, calibration, and missing values; and how to repeat the fit. The command 'explore' serves the same page
    with a model behind it, so that it answers questions.
    """
    check_output(output, PAGES)
    if data is None and reading != ReadOptions():
        raise DataError("Options such as --missing and --separator are for reading --data: add --data or remove them.")
    if intervals and data is None:
        raise DataError("--intervals needs the rows of training: add --data.")
    refuse_overwriting_inputs([output], [model, data, *linked_inputs(data)])
    saved = open_model(model, data)
    if intervals:
        require_estimator(saved, "MarkovField", "CRFClassifier", what="has confidence intervals")
    rows = None if data is None else read_rows(saved, data, reading)
    weights = read_weights_for_model(data, reading, saved) if intervals and data is not None else None
    field = saved.load(jobs)
    from sparsefield import write_report

    with StatusLine("Writing the report"):
        found = _find_intervals(field, rows, weights) if intervals else None
        write_report(field, rows, output, title=title or (None if data is None else data.stem), intervals=found)
    show(f"Wrote {output}.")


def _find_intervals(field: Any, rows: Any, weights: Any) -> Any:
    """Return the confidence intervals of the weights, estimated from the rows."""
    X, y = model_parts(field, rows)
    if any(column.null_count() for part in (X, y) if hasattr(part, "iter_columns") for column in part.iter_columns()):
        note("Intervals are estimated from the rows without missing values.")
    from sparsefield import confidence_intervals

    return confidence_intervals(field, X, y, sample_weight=weights, drop_incomplete=True)
