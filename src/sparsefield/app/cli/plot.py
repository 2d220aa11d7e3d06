"""``sparsefield plot`` draws the network of a model for print; ``export`` writes it for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.analyze import is_file, read_communities
from sparsefield.app.cli.console import note, show
from sparsefield.app.cli.models import open_model
from sparsefield.app.cli.outputs import check_output, check_table_output
from sparsefield.app.tables.write import refuse_overwriting_inputs, write_table
from sparsefield.errors import DataError, count

if TYPE_CHECKING:
    from sparsefield.model import Field

PICTURES = (".svg", ".pdf", ".png")
GRAPHS, UAI = (".graphml", ".json"), ".uai"


def plot(
    model: opt.Model,
    output: Annotated[Path, opt.output_option("Write the figure to this file (.svg, .pdf or .png).")],
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Draw a title above the network.")] = None,
    width_mm: Annotated[float | None, typer.Option(metavar="MM", help="Width in print, in millimeters.")] = None,
    dpi: Annotated[int, typer.Option(metavar="N", min=30, max=2400, help="Dots per inch of a PNG file.")] = 300,
    layout: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV", help="Take the positions from a table with column, x and y, as --positions writes it."
        ),
    ] = None,
    communities: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|auto|COLUMN=NAME",
            help="Communities that color the columns: 'auto' finds them, the default; a file has them in its columns "
            "'column' and 'community', as 'analyze centrality' writes it; or column=community, ... with commas "
            "between. May be repeated.",
        ),
    ] = None,
    rings: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            help="Fill rings around the columns, from 0 to 1, by a table with column and value, or predictability, as "
            "'analyze centrality' writes it.",
        ),
    ] = None,
    names: Annotated[
        Literal["auto", "inside", "beside"], typer.Option(help="Put names inside the circles or beside them.")
    ] = "auto",
    edge_labels: Annotated[bool, typer.Option("--edge-labels", help="Label edges with their weights.")] = False,
    max_edges: Annotated[int | None, typer.Option(metavar="N", min=1, help="Draw only the N strongest edges.")] = None,
    legend: Annotated[bool, typer.Option("--legend/--no-legend", help="Draw a legend.")] = True,
    seed: opt.Seed = 0,
    positions: Annotated[
        Path | None, typer.Option(metavar="CSV", help="Also write the positions of the columns.")
    ] = None,
    edges: Annotated[Path | None, typer.Option(metavar="CSV", help="Also write the edges, strongest first.")] = None,
) -> None:
    """Draw the network of a model as a figure for print.

    Circles are columns, colored by community. Wider lines are stronger edges: blue ones are positive, orange and dashed
    ones negative, gray ones have no sign. Texts in SVG and PDF files stay texts. The command
    'report' writes an interactive page.
    """
    tables = [positions, edges]
    check_output(output, PICTURES)
    for path in tables:
        check_table_output(path)
    files = [Path(word) for word in communities or () if is_file(Path(word))]
    refuse_overwriting_inputs([output, *tables], [model, layout, *files, rings])
    named = read_communities(communities)
    field = open_model(model).load()
    from sparsefield import plot_network
    from sparsefield.app.pages.short_names import list_some

    drawn = plot_network(
        field,
        title=title, layout=layout, communities=named, rings=rings, names=names,
        edge_labels=edge_labels, width_mm=width_mm, max_edges=max_edges, legend=legend, seed=seed,
    )  # fmt: skip
    drawn.save(output, dpi=dpi)
    absent = [name for name in drawn.network.labels if name not in named] if isinstance(named, dict) else []
    if absent:
        note(f"--communities has no community of {list_some(absent)}, drawn in gray.")
    if len(drawn.part.edges) > drawn.max_legible_edges:
        what = f"{len(drawn.part.edges):,} edges" + (" with their weights" if edge_labels else "")
        size = "this size" if width_mm is None else f"{width_mm:g} mm"
        few = f"--max-edges {drawn.max_legible_edges} draws the strongest"
        note(f"{what} are crowded at {size}: {few}, --width-mm makes more room.")
    if positions is not None:
        write_table(drawn.positions, positions)
    if edges is not None:
        write_table(drawn.edges(), edges)
    show(f"Wrote {', '.join(str(path) for path in (output, *tables) if path is not None)}.")


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
