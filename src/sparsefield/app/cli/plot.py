"""``sparsefield plot`` draws the network of a model for print; ``export`` writes it for other programs."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.analyze import is_file, read_communities
from sparsefield.app.cli.console import show
from sparsefield.app.cli.models import open_model
from sparsefield.app.cli.outputs import check_output
from sparsefield.app.tables.write import refuse_overwriting_inputs
from sparsefield.atomic_write import write_atomically
from sparsefield.errors import DataError, count

if TYPE_CHECKING:
    from sparsefield.model import Field

PICTURES = (".svg", ".pdf", ".png")
GRAPHS, UAI = (".graphml", ".json"), ".uai"


def plot(
    model: opt.Model,
    output: Annotated[Path, opt.output_option("Write the figure to this file (.svg, .pdf or .png).")],
    width_mm: Annotated[float | None, typer.Option(metavar="MM", help="Width in print, in millimeters.")] = None,
    dpi: Annotated[int, typer.Option(metavar="N", min=30, max=2400, help="Dots per inch of a PNG file.")] = 300,
    communities: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|auto|COLUMN=NAME",
            help="Communities that color the columns: 'auto' finds them, the default; a file has them in its columns "
            "'column' and 'community', as 'analyze centrality' writes it; or column=community, ... with commas "
            "between. May be repeated.",
        ),
    ] = None,
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
    files = [Path(word) for word in communities or () if is_file(Path(word))]
    refuse_overwriting_inputs([output], [model, *files])
    named = read_communities(communities)
    field = open_model(model).load()
    import matplotlib as mpl

    from sparsefield import plot_network

    mpl.use("agg")
    named = None if named == "auto" else named
    ax = plot_network(field, communities=named, edge_labels=edge_labels, min_weight=min_weight, width_mm=width_mm)
    form, content = output.suffix.lower()[1:] or "svg", BytesIO()
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None, "ModDate": None}}.get(form)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "sparsefield", "pdf.fonttype": 42}):
        ax.figure.savefig(content, format=form, dpi=dpi, metadata=metadata)
    write_atomically(output, content.getvalue())
    show(f"Wrote {output}.")


def export(
    model: opt.Model,
    output: Annotated[
        Path,
        opt.output_option(
            "File to write: .graphml for Gephi, Cytoscape, yEd and igraph; .json (nodes and links) for other programs; "
            ".uai for inference solvers."
        ),
    ],
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--given",
            metavar="COLUMN=VALUE",
            help="Condition a UAI file on the value of an observed or other column. May be repeated.",
        ),
    ] = None,
    names: Annotated[
        Path | None,
        typer.Option(
            "--names", metavar="JSON", help="Write the names of columns and states, which UAI files lack, to this file."
        ),
    ] = None,
) -> None:
    """Export the graph of a model, or its distribution as a UAI file.

    A UAI file has the exact distribution of a model of one table, as full tables of factors. Observed columns need
    values: pass them with --given.
    """
    check_output(output, (*GRAPHS, UAI))
    if output.suffix.lower() != UAI and (given or names):
        raise DataError("--given and --names are for UAI files: remove them, or write to a file that ends in .uai.")
    if names is not None:
        check_output(names)
    refuse_overwriting_inputs([output, names], [model])
    field = open_model(model).load()
    from sparsefield import write_uai
    from sparsefield.app.tables.export import write_graph

    if output.suffix.lower() != UAI:
        nodes, edges = write_graph(field, output)
        show(f"Wrote {output}: {count(nodes, 'variable')}, {count(edges, 'edge')}.")
        return
    written = write_uai(field, output, given=_values(field.field_, given or []), names=names)
    also = f"; the names are in {names}" if names else ""
    show(f"Wrote {output}: {count(len(written), 'variable')}{also}.")


def _values(field: Field, words: list[str]) -> dict[str, Any]:
    """Parse COLUMN=VALUE options into values by column; text that equals a state means that state."""
    known = {variable.name: variable for schema in field.layout.schemas for variable in schema.variables}
    values: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        while name not in known and "=" in value:  # names may contain an equals sign
            more, _, value = value.partition("=")
            name = f"{name}={more}"
        if not equals:
            raise DataError(f"--given {word!r}: write COLUMN=VALUE.")
        states = {str(state): state for state in known[name].states} if name in known else {}
        values[name] = states.get(value, value)
    return values
