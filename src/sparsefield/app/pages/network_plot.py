"""This module shows a network in a notebook, and writes it as an interactive page, a figure for print, or a table."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from sparsefield.app.pages.figure_options import FigureOptions
from sparsefield.app.pages.html_page import document
from sparsefield.app.pages.matplotlib_figure import write_figure
from sparsefield.app.pages.network_figure import NetworkFigure, list_some
from sparsefield.app.pages.network_tables import adjacency_matrix, list_edges
from sparsefield.app.pages.network_view import NetworkView
from sparsefield.errors import DataError
from sparsefield.model.atomic_write import write_atomically

if TYPE_CHECKING:
    import polars as pl

FRAME_HEIGHT = 800
"""Height of the frame in a notebook, in pixels."""

MAX_LISTED = 20
"""Columns without edges that a page names."""

PAGES, PICTURES = (".html", ".htm"), (".svg", ".png", ".pdf")


@dataclass(frozen=True)
class NetworkPlot:
    """A plot of a network, which notebooks display; `save` writes it to a file."""

    view: NetworkView
    title: str = ""
    """Title of the figure; without one, nothing is drawn above the network."""
    options: FigureOptions = field(default_factory=FigureOptions)
    page_title: str = "Network"

    def __repr__(self) -> str:
        nodes, edges = len(self.view.whole.nodes), len(self.view.whole.edges)
        return f"<NetworkPlot of {nodes:,} columns and {edges:,} edges: save('net.html') or save('net.pdf')>"

    @cached_property
    def figure(self) -> NetworkFigure:
        """The static figure."""
        return NetworkFigure(self.view, self.options, self.title, self.title or self.page_title)

    @property
    def positions(self) -> pl.DataFrame:
        """Frame of the positions in the static figure: column, x, y, where y increases downward.

        Another plot takes it as ``layout``, also from a CSV file in which positions were changed by hand.
        """
        import polars as pl

        places = self.figure.places
        columns = {"column": pl.Series(self.figure.part.names, dtype=pl.String), "x": places[:, 0], "y": places[:, 1]}
        return pl.DataFrame(columns)

    def edges(self) -> pl.DataFrame:
        """Return the edge list, strongest first: column_a, column_b, strength, sign, weight; over links also template.

        The sign is 1, -1, or 0 where an edge has no sign. The weight is sign times strength, and null without a sign.
        """
        return list_edges(self.view.whole.network)

    def adjacency(self, *, signed: bool = False) -> pl.DataFrame:
        """Return the adjacency matrix of all columns: their names, then the strengths of the edges to each column.

        With ``signed``, sign times strength; null for an edge without a sign.
        """
        return adjacency_matrix(self.view.whole.network, signed=signed)

    def to_html(self) -> str:
        """Return an interactive page that needs no other files."""
        title = self.title or self.page_title
        return document(title, f"<main>{render_network(self.view, self.figure)}</main>", "network.js", kind="alone")

    def to_svg(self) -> str:
        """Return the static figure as SVG, in which texts are texts."""
        return self.figure.draw().render()

    def to_pdf(self) -> bytes:
        """Return the static figure as PDF, with embedded fonts; this needs matplotlib."""
        return write_figure(self.figure.draw(), "pdf")

    def to_png(self, *, dpi: int = 300) -> bytes:
        """Return the static figure as PNG; this needs matplotlib."""
        return write_figure(self.figure.draw(), "png", dpi=dpi)

    def save(self, path: str | os.PathLike[str], *, dpi: int = 300) -> None:
        """Write an interactive page (.html) or a static figure (.svg, .pdf, .png), depending on the suffix.

        ``dpi`` is the resolution of a PNG file, in dots per inch. PDF and PNG need matplotlib:
        ``pip install 'sparsefield[plot]'``.
        """
        suffix = Path(path).suffix.lower()
        if suffix in PAGES:
            content = self.to_html().encode()
        elif suffix == ".svg":
            content = self.to_svg().encode()
        elif suffix in PICTURES:
            content = self.to_pdf() if suffix == ".pdf" else self.to_png(dpi=dpi)
        else:
            forms = ".svg, .pdf or .png for a figure, or in .html for an interactive page"
            raise DataError(f"{path}: the name must end in {forms}.")
        write_atomically(path, content)

    def _repr_html_(self) -> str:
        """Return a sandboxed frame, so that page and notebook cannot affect each other."""
        return (
            f'<iframe srcdoc="{escape(self.to_html())}" sandbox="allow-scripts allow-downloads" '
            f'title="{escape(self.title or self.page_title)}" width="100%" height="{FRAME_HEIGHT}" '
            'frameborder="0"></iframe>'
        )

    def _repr_svg_(self) -> str:
        return self.to_svg()


def render_network(view: NetworkView, figure: NetworkFigure) -> str:
    """Return the network with its controls; a static figure where no script runs."""
    by_table = view.whole.network.linked and view.given_communities is None
    group = "table" if by_table else "community"
    hidden = "" if len(view.initial.edges) < len(view.shown.edges) else ' hidden="hidden"'
    return f"""<div id="static">{figure.draw().render()}</div>
<div id="interactive" class="net" hidden="hidden">
<div class="tools">
<label>Find <input id="search" type="search" placeholder="column name" autocomplete="off"/></label>
<label>Strongest edges <input id="strength" type="range" min="0" max="1000" value="1000"/></label>
<label{hidden}><input id="connected" type="checkbox" checked="checked"/> keep columns connected</label>
<output id="shown" for="strength"></output>
<span class="buttons"><button id="zoom-in" class="plain" type="button" aria-label="Zoom in">+</button>
<button id="zoom-out" class="plain" type="button" aria-label="Zoom out">\u2212</button>
<button id="reset" class="plain" type="button">Show all</button>
<button id="save-png" class="plain" type="button" title="Download the network as it is shown">\u2193 PNG</button>
<button id="save-svg" class="plain" type="button" title="Download the static figure">\u2193 SVG</button></span>
</div>
<div id="matches" aria-live="polite"></div>
<div class="stage"><canvas id="network" tabindex="0" role="application"
 aria-label="Network of columns. Arrow keys move the view, plus and minus zoom, 0 shows all. The search box
 above finds a column, and the list beside or below shows its neighbors."></canvas>
<aside id="details" aria-live="polite"></aside></div>
<div class="legend">
<label><input id="positive" type="checkbox" checked="checked"/> <i class="key plus"></i> positive: where one is present
 or high, so is the other</label>
<label><input id="negative" type="checkbox" checked="checked"/> <i class="key minus"></i> negative: where one is present
 or high, the other is not</label>
<label><input id="neutral" type="checkbox" checked="checked"/> <i class="key"></i> no sign: it depends on the
 states</label>
<span>Wider lines are stronger edges; larger circles have stronger edges in total; colors show the {group}.</span>
<div id="groups"></div>{_render_without_edges(view)}</div>
</div>
<script type="application/json" id="network-data">{view.to_json()}</script>"""


def _render_without_edges(view: NetworkView) -> str:
    """Return which columns have no edges, and so are not in the picture."""
    names = view.without_edges
    return f"<p>No edges: {escape(list_some(names, MAX_LISTED))}.</p>" if names else ""
