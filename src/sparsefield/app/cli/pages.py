"""Pages, figures and files about a model: ``report``, ``explore``, ``plot`` and ``export``."""

from __future__ import annotations

from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.analyze import read_communities
from sparsefield.app.cli.console import PAGES, StatusLine, check_output, deliver, note, print_message, show
from sparsefield.app.cli.models import OpenModel, model_parts, open_model, read_rows, read_tables
from sparsefield.app.tables.file_format import FileFormat
from sparsefield.app.tables.write import refuse_overwriting_inputs
from sparsefield.atomic_write import write_atomically
from sparsefield.errors import DataError, count

if TYPE_CHECKING:
    from sparsefield.app.pages.cells import TableRows

PICTURES = (".svg", ".pdf", ".png")
GRAPHS = (".graphml", ".json")


@opt.expanded
def report(
    *,
    model: opt.Model,
    output: Annotated[Path, opt.output_option("Write the report to this HTML file.")],
    data: Annotated[Path | None, typer.Option(metavar="DATA")] = None,
    title: Annotated[str | None, typer.Option(metavar="TEXT")] = None,
    intervals: bool = False,
    reading: opt.ReadingOptions,
    jobs: opt.Jobs = None,
) -> None:
    """Write an HTML page about a model: a summary in words, its network, and its performance on data.

    The page works offline in any browser. It shows an interactive network beside its columns and pairs; findings as
    sentences; the strongest features; hubs, communities and centrality; for the rows of --data, how well each column is
    predicted, calibration, and missing values; and how to repeat the fit. The command 'explore' serves the same page
    with a model behind it, so that it answers questions.

    Options:
        data: Evaluate the model on these rows, preferably not used in training: CSV, Parquet or an .npz matrix; for
            linked tables, their TOML file or its folder. Without it, sections that need rows are empty.
        title: Use this title for the page.
        intervals: Draw 95% confidence intervals of the weights, for which --data must have the rows of training.
    """
    check_output(output, PAGES)
    options = reading.reading()
    if data is None and (intervals or options != FileFormat()):
        raise DataError("--intervals and options such as --missing are for the rows of --data: add --data.")
    refuse_overwriting_inputs([output], [model])
    saved = open_model(model, data)
    if intervals:
        saved.require("MarkovField", "CRFClassifier", what="has confidence intervals")
    tables = None if data is None else read_rows(saved, data, options, [output])
    rows = None if tables is None else tables.data
    weights = tables.weights() if intervals and tables is not None else None
    field = saved.load(jobs)
    from sparsefield import confidence_intervals, write_report

    with StatusLine("Writing the report", inference=True):
        estimates = None
        if intervals:
            X, y = model_parts(field, rows)
            frames = [part for part in (X, y) if hasattr(part, "iter_columns")]
            if any(column.null_count() for frame in frames for column in frame.iter_columns()):
                note("Intervals are estimated from the rows without missing values.")
            estimates = confidence_intervals(field, X, y, sample_weight=weights, drop_incomplete=True)
        write_report(field, rows, output, title=title or (None if data is None else data.stem), intervals=estimates)
    deliver([], written=[output])


@opt.expanded
def explore(
    *,
    model: opt.Model,
    data: Annotated[Path | None, typer.Argument(metavar="[DATA]")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535)] = 0,
    reading: opt.ReadingOptions,
) -> None:
    """Explore a model in a browser: its network, probabilities given evidence, and, with DATA, its rows.

    The page is served on this machine only and needs its address, which contains a secret token. Ctrl-C stops it.

    Options:
        data: Show the rows of this table (CSV or Parquet), or of linked tables (their TOML file or its folder).
        port: Serve the page on this port; 0 chooses a free one.
    """
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise DataError('The page needs starlette and uvicorn, which are missing: pip install "sparsefield[explore]".')
    saved = open_model(model, data)
    with StatusLine("Reading"):
        rows = None if data is None else read_table_rows(saved, data, reading.reading())
        from sparsefield.app.pages.server import serve
        from sparsefield.app.pages.session import Session

        session = Session((data or model).stem, saved.load() if rows is None else rows.model, rows)

    def ready(address: str) -> None:
        show(address)
        print_message("Open this address in a browser on this machine. Press Ctrl-C to stop.")

    serve(session, port=port, ready=ready)
    print_message("Stopped.")


def read_table_rows(model: OpenModel, data: Path, reading: FileFormat) -> TableRows:
    """Read the tables whose rows a page shows, with the columns and types of the model."""
    tables = read_tables(model, data, reading)
    from sparsefield.app.pages.cells import TableRows

    linked = None if tables.parsed is None else tables.data
    return TableRows(model.load(), tables.prepared, linked)


@opt.expanded
def plot(
    *,
    model: opt.Model,
    output: Annotated[Path, opt.output_option("Write the figure to this file (.svg, .pdf or .png).")],
    width_mm: Annotated[float | None, typer.Option(metavar="MM")] = None,
    dpi: Annotated[int, typer.Option(metavar="N", min=30, max=2400)] = 300,
    communities: opt.Communities = None,
    edge_labels: bool = False,
    min_weight: Annotated[float | None, typer.Option(metavar="W", min=0)] = None,
) -> None:
    """Draw the network of a model as a figure for print.

    Circles are columns, colored by community. Wider lines are stronger edges: blue ones are positive, orange and dashed
    ones negative, gray ones have no sign. Texts in SVG and PDF files stay texts. The command 'report' writes an
    interactive page.

    Options:
        width_mm: Width in print, in millimeters.
        dpi: Dots per inch of a PNG file.
        edge_labels: Label edges with their weights.
        min_weight: Draw all edges with at least this strength, instead of the strongest that hold.
    """
    check_output(output, PICTURES)
    refuse_overwriting_inputs([output], [model, Path(communities) if communities else None])
    named = read_communities(communities)
    field = open_model(model).load()
    import matplotlib as mpl

    from sparsefield import plot_network

    mpl.use("agg")
    options = {"edge_labels": edge_labels, "min_weight": min_weight, "width_mm": width_mm}
    ax: Any = plot_network(field, communities=named if isinstance(named, dict) else None, **options)
    form, content = output.suffix.lower()[1:] or "svg", BytesIO()
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None, "ModDate": None}}.get(form)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "sparsefield", "pdf.fonttype": 42}):
        ax.figure.savefig(content, format=form, dpi=dpi, metadata=metadata)
    write_atomically(output, content.getvalue())
    deliver([], written=[output])


@opt.expanded
def export(*, model: opt.Model, output: Annotated[Path, opt.output_option("")]) -> None:
    """Export the graph of a model.

    Options:
        output: File to write: .graphml for Gephi, Cytoscape, yEd and igraph; .json (nodes and links) for other
            programs.
    """
    check_output(output, GRAPHS)
    refuse_overwriting_inputs([output], [model])
    field = open_model(model).load()
    from sparsefield.app.tables.export import write_graph

    nodes, edges = write_graph(field, output)
    deliver([f"{count(nodes, 'variable')}, {count(edges, 'edge')}."], written=[output])
