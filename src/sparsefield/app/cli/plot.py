"""``sparsefield plot`` draws the network of a model as a figure for print."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.centrality import is_file, read_communities
from sparsefield.app.cli.console import note, show
from sparsefield.app.cli.model_input import open_model
from sparsefield.app.cli.table_files import check_output
from sparsefield.app.tables.write import refuse_overwriting_inputs
from sparsefield.errors import DataError

if TYPE_CHECKING:
    import polars as pl

    from sparsefield.app.pages.figure import NetworkPlot

SUFFIXES = (".svg", ".pdf", ".png")
STYLE, TABLES = "Figure", "Tables"


class Names(Enum):
    """Where the names of columns are."""

    auto = "auto"
    inside = "inside"
    beside = "beside"


Output = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="FILE", help="Write the figure to this file (.svg, .pdf or .png)."),
]
Title = Annotated[
    str | None, typer.Option("--title", metavar="TEXT", help="Draw a title above the network.", rich_help_panel=STYLE)
]
Width = Annotated[
    float | None,
    typer.Option("--width-mm", metavar="MM", help="Width in print, in millimeters.", rich_help_panel=STYLE),
]
Height = Annotated[
    float | None,
    typer.Option("--height-mm", metavar="MM", help="Height in print, in millimeters.", rich_help_panel=STYLE),
]
Resolution = Annotated[
    int,
    typer.Option("--dpi", metavar="N", min=30, max=2400, help="Dots per inch of a PNG file.", rich_help_panel=STYLE),
]
Layout = Annotated[
    Path | None,
    typer.Option(
        "--layout",
        metavar="CSV",
        help="Take the positions from a table with column, x and y, as --positions writes it.",
        rich_help_panel=STYLE,
    ),
]
CommunityWords = Annotated[
    list[str] | None,
    typer.Option(
        "--communities",
        metavar="FILE|auto|COLUMN=NAME",
        help="Communities that color the columns: 'auto' finds them, the default; a file has them in its columns "
        "'column' and 'community', as 'centrality' writes it; or column=community, ... with commas between. May be "
        "repeated.",
        rich_help_panel=STYLE,
    ),
]
Rings = Annotated[
    Path | None,
    typer.Option(
        "--rings",
        metavar="CSV",
        help="Fill rings around the columns, from 0 to 1, by a table with column and value, or predictability, as "
        "'centrality' writes it.",
        rich_help_panel=STYLE,
    ),
]
RingTitle = Annotated[
    str, typer.Option("--ring-title", metavar="TEXT", help="What the rings show.", rich_help_panel=STYLE)
]
NamesOption = Annotated[
    Names, typer.Option("--names", help="Put names inside the circles or beside them.", rich_help_panel=STYLE)
]
EdgeLabels = Annotated[
    bool, typer.Option("--edge-labels", help="Label edges with their weights.", rich_help_panel=STYLE)
]
MaxEdges = Annotated[
    int | None,
    typer.Option("--max-edges", metavar="N", min=1, help="Draw only the N strongest edges.", rich_help_panel=STYLE),
]
LegendOption = Annotated[bool, typer.Option("--legend/--no-legend", help="Draw a legend.", rich_help_panel=STYLE)]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of the layout.", rich_help_panel=STYLE)]
Positions = Annotated[
    Path | None,
    typer.Option("--positions", metavar="CSV", help="Also write the positions of the columns.", rich_help_panel=TABLES),
]
Adjacency = Annotated[
    Path | None,
    typer.Option(
        "--adjacency",
        metavar="CSV",
        help="Also write the adjacency matrix: strengths, 0 where there is no edge.",
        rich_help_panel=TABLES,
    ),
]
Signed = Annotated[
    bool,
    typer.Option(
        "--signed",
        help="Write sign times strength into the adjacency matrix; edges without a sign are empty.",
        rich_help_panel=TABLES,
    ),
]
Edges = Annotated[
    Path | None,
    typer.Option("--edges", metavar="CSV", help="Also write the edge list, strongest first.", rich_help_panel=TABLES),
]


def plot(
    model: opt.Model,
    output: Output,
    *,
    title: Title = None,
    width_mm: Width = None,
    height_mm: Height = None,
    dpi: Resolution = 300,
    layout: Layout = None,
    communities: CommunityWords = None,
    rings: Rings = None,
    ring_title: RingTitle = "predictability",
    names: NamesOption = Names.auto,
    edge_labels: EdgeLabels = False,
    max_edges: MaxEdges = None,
    legend: LegendOption = True,
    seed: Seed = 0,
    positions: Positions = None,
    adjacency: Adjacency = None,
    signed: Signed = False,
    edges: Edges = None,
) -> None:
    """Draw the network of a model as a figure for print.

    Circles are columns, colored by community. Wider lines are stronger edges: blue ones are positive, orange and dashed
    ones negative, gray ones have no sign. Texts in SVG and PDF files stay texts. The command
    'report' writes an interactive page.
    """
    tables = [positions, adjacency, edges]
    check_output(output, SUFFIXES)
    for path in filter(None, tables):
        check_output(path, (".csv",))
    if signed and adjacency is None:
        raise DataError("--signed is for the adjacency matrix: add --adjacency FILE, or remove it.")
    files = [Path(word) for word in communities or () if is_file(Path(word))]
    refuse_overwriting_inputs([output, *tables], [model, layout, *files, rings])
    given = read_communities(communities)
    field = open_model(model).load()
    from sparsefield import plot_network

    drawn = plot_network(
        field,
        title=title, layout=layout, communities=given, rings=rings, ring_title=ring_title, names=names.value,
        edge_labels=edge_labels, width_mm=width_mm, height_mm=height_mm, max_edges=max_edges, legend=legend, seed=seed,
    )  # fmt: skip
    drawn.save(output, dpi=dpi)
    _note_communities(drawn, given)
    _note_crowding(drawn, edge_labels, width_mm)
    written: list[tuple[Path | None, Any]] = [
        (positions, lambda: drawn.positions), (edges, drawn.edges), (adjacency, lambda: drawn.adjacency(signed=signed)),
    ]  # fmt: skip
    for path, make in written:
        if path is not None:
            _write_csv(path, make())
    show(f"Wrote {', '.join(str(path) for path in (output, positions, edges, adjacency) if path is not None)}.")


def _note_communities(drawn: NetworkPlot, given: Mapping[str, Any] | str | None) -> None:
    """Print the columns that given communities leave out."""
    from sparsefield.app.pages.short_names import list_some

    absent = [name for name in drawn.network.labels if name not in given] if isinstance(given, dict) else []
    if absent:
        note(f"--communities has no community of {list_some(absent)}, drawn in gray.")


def _note_crowding(drawn: NetworkPlot, edge_labels: bool, width_mm: float | None) -> None:
    """Print how many edges the figure has room for, if it has more."""
    edges, room = len(drawn.part.edges), drawn.max_legible_edges
    if edges > room:
        what = f"{edges:,} edges" + (" with their weights" if edge_labels else "")
        size = "this size" if width_mm is None else f"{width_mm:g} mm"
        note(f"{what} are crowded at {size}: --max-edges {room} draws the strongest, --width-mm makes more room.")


def _write_csv(path: Path, table: pl.DataFrame) -> None:
    from sparsefield.model.atomic_write import write_atomically

    write_atomically(path, table.write_csv().encode())
