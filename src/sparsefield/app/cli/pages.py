"""Pages, figures and files about a model: ``report``, ``explore``, ``plot`` and ``export``; ``demo`` makes its own."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.analyze import community_files, read_communities
from sparsefield.app.cli.console import PAGES, StatusLine, check_output, deliver, note, print_message, show
from sparsefield.app.cli.inputs import form_of, read_linked
from sparsefield.app.cli.models import (
    OpenModel,
    model_parts,
    open_model,
    prepare_linked,
    read_rows,
    read_to_fill,
    read_weights_for_model,
)
from sparsefield.app.tables.file_format import FileFormat
from sparsefield.app.tables.write import refuse_overwriting_inputs
from sparsefield.atomic_write import write_atomically
from sparsefield.errors import DataError, count

if TYPE_CHECKING:
    from sparsefield.app.pages.table_rows import TableRows

PICTURES = (".svg", ".pdf", ".png")
GRAPHS, UAI = (".graphml", ".json"), ".uai"


def demo(
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder for the pictures.")] = Path("demo"),
    quick: Annotated[bool, typer.Option("--quick", help="Use fewer rows and baselines.")] = False,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page of pictures at the end.")] = True,
) -> None:
    """Learn a field over handwritten digits, predict missing pixels, and draw the result."""
    from sparsefield.app.demo.digits_demo import run_demo

    run_demo(out, quick, show)
    page = out / "index.html"
    if open_page and sys.stdout.isatty() and page.is_file():
        typer.launch(str(page))


@opt.expanded
def report(
    *,
    model: opt.Model,
    output: Annotated[Path, opt.output_option("Write the report to this HTML file.")],
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DATA",
            help="Evaluate the model on these rows, preferably not used in training: CSV, Parquet or an .npz matrix; "
            "for linked tables, their TOML file or its folder. Without it, sections that need rows are empty.",
        ),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Use this title for the page.")] = None,
    intervals: Annotated[
        bool,
        typer.Option(
            "--intervals",
            help="Draw 95% confidence intervals of the weights, for which --data must have the rows of training.",
        ),
    ] = False,
    reading: opt.ReadingOptions,
    jobs: opt.Jobs = None,
) -> None:
    """Write an HTML page about a model: a summary in words, its network, and its performance on data.

    The page works offline in any browser. It shows an interactive network beside its columns and pairs; findings as
    sentences; the strongest features; hubs, communities and centrality; for the rows of --data, how well each column is
    predicted, calibration, and missing values; and how to repeat the fit. The command 'explore' serves the same page
    with a model behind it, so that it answers questions.
    """
    check_output(output, PAGES)
    options = reading.reading()
    if data is None and (intervals or options != FileFormat()):
        raise DataError("--intervals and options such as --missing are for the rows of --data: add --data.")
    refuse_overwriting_inputs([output], [model])
    saved = open_model(model, data)
    if intervals:
        saved.require("MarkovField", "CRFClassifier", what="has confidence intervals")
    rows = None if data is None else read_rows(saved, data, options, [output])
    weights = read_weights_for_model(data, options, saved) if intervals and data is not None else None
    field = saved.load(jobs)
    from sparsefield import write_report

    with StatusLine("Writing the report"):
        estimates = _estimate_intervals(field, rows, weights) if intervals else None
        write_report(field, rows, output, title=title or (None if data is None else data.stem), intervals=estimates)
    deliver([], written=[output])


def _estimate_intervals(field: Any, rows: Any, weights: Any) -> Any:
    from sparsefield import confidence_intervals

    X, y = model_parts(field, rows)
    if any(column.null_count() for part in (X, y) if hasattr(part, "iter_columns") for column in part.iter_columns()):
        note("Intervals are estimated from the rows without missing values.")
    return confidence_intervals(field, X, y, sample_weight=weights, drop_incomplete=True)


@opt.expanded
def explore(
    *,
    model: opt.Model,
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DATA]",
            help="Show the rows of this table (CSV or Parquet), or of linked tables (their TOML file or its folder).",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Serve the page on this port; 0 chooses a free one.")
    ] = 0,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    reading: opt.ReadingOptions,
) -> None:
    """Explore a model in a browser: its network, probabilities given evidence, and, with DATA, rows to complete.

    The page is served on this machine only and needs its address, which contains a secret token. Ctrl-C stops it.
    Nothing is written: values that are accepted on the page are lost unless the table is downloaded.
    """
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise DataError(
            'The page needs starlette and uvicorn, which are not installed: pip install "sparsefield[explore]".'
        )
    options = reading.reading()
    saved = open_model(model, data)
    with StatusLine("Reading"):
        rows = None if data is None else rows_to_complete(saved, data, options)
        from sparsefield.app.pages.server import serve
        from sparsefield.app.pages.session import Session

        session = Session((data or model).stem, saved.load() if rows is None else rows.model, rows)

    with TemporaryDirectory(prefix="sparsefield-") as folder:

        def ready(address: str) -> None:
            show(address)
            print_message("Open this address in a browser on this machine. Press Ctrl-C to stop.")
            if open_page:
                # A page that redirects to the address, because other users can see the arguments of a process.
                path = Path(folder) / "explore.html"
                page = f'<!DOCTYPE html><meta http-equiv="refresh" content="0; url={address}">'
                write_atomically(path, page.encode())
                typer.launch(str(path))

        serve(session, port=port, ready=ready)
    print_message("Stopped.")


def rows_to_complete(model: OpenModel, data: Path, reading: FileFormat) -> TableRows:
    """Read the tables whose rows a page shows, with the columns and types of the model."""
    form = form_of(data)
    if form == "matrix":
        raise DataError(f"{data}: rows of a sparse matrix cannot be shown: omit DATA to explore the model alone.")
    if model.linked != (form == "linked"):
        what = "linked tables: pass their TOML file" if model.linked else "one table: pass a CSV or Parquet file"
        raise DataError(f"{data}: {model.path} is a {model.estimator} of {what}.")
    linked = None
    if model.linked:
        parsed = read_linked(data, reading)
        linked = prepare_linked(model.field_, parsed)
    prepared = {"": read_to_fill(data, reading, model)} if linked is None else linked.prepared
    keys = {} if linked is None else parsed.data.keys
    from sparsefield.app.pages.table_rows import InputTable, TableRows

    tables = {
        name: InputTable(
            table.cells,
            table.table,
            table.missing,
            f"{name or data.stem}-completed.csv",
            table.format.separator or ",",
            table.format.header is not False,
            keys.get(name),
        )
        for name, table in prepared.items()
    }
    return TableRows(model.load(), tables, None if linked is None else linked.data)


def plot(
    model: opt.Model,
    output: Annotated[Path, opt.output_option("Write the figure to this file (.svg, .pdf or .png).")],
    width_mm: Annotated[float | None, typer.Option(metavar="MM", help="Width in print, in millimeters.")] = None,
    dpi: Annotated[int, typer.Option(metavar="N", min=30, max=2400, help="Dots per inch of a PNG file.")] = 300,
    communities: opt.Communities = None,
    edge_labels: Annotated[bool, typer.Option("--edge-labels", help="Label edges with their weights.")] = False,
    min_weight: Annotated[
        float | None,
        typer.Option(metavar="W", min=0, help="Draw the edges with at least this strength, instead of the strongest."),
    ] = None,
) -> None:
    """Draw the network of a model as a figure for print.

    Circles are columns, colored by community. Wider lines are stronger edges: blue ones are positive, orange and dashed
    ones negative, gray ones have no sign. Texts in SVG and PDF files stay texts. The command
    'report' writes an interactive page.
    """
    check_output(output, PICTURES)
    refuse_overwriting_inputs([output], [model, *community_files(communities)])
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


def export(
    model: opt.Model,
    output: Annotated[
        Path,
        opt.output_option(
            "File to write: .graphml for Gephi, Cytoscape, yEd and igraph; .json (nodes and links) for other programs; "
            ".uai for inference solvers."
        ),
    ],
) -> None:
    """Export the graph of a model, or its distribution as a UAI file.

    A UAI file has the exact distribution of a model of one table without observed columns, as full tables of factors;
    the names of columns and states, which it lacks, are written beside it, with the suffix .json. In Python,
    write_uai also conditions on values.
    """
    check_output(output, (*GRAPHS, UAI))
    names = output.with_suffix(".json") if output.suffix.lower() == UAI else None
    refuse_overwriting_inputs([output, names], [model])
    field = open_model(model).load()
    from sparsefield import write_uai
    from sparsefield.app.tables.export import write_graph

    if names is not None:
        variables = write_uai(field, output, names=names)
        deliver([f"{count(len(variables), 'variable')}."], written=[output, names])
        return
    nodes, edges = write_graph(field, output)
    deliver([f"{count(nodes, 'variable')}, {count(edges, 'edge')}."], written=[output])
