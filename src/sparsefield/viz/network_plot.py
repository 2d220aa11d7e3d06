"""This module shows a network in a notebook, writes it to an interactive page, or draws it as a static picture."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from pathlib import Path

from sparsefield.errors import DataError
from sparsefield.io.atomic_write import write_atomically
from sparsefield.viz.markup import asset, document
from sparsefield.viz.network_svg import draw_static
from sparsefield.viz.network_view import NetworkView
from sparsefield.viz.palette import BLUE, ORANGE

__all__ = ["NetworkPlot", "render_network"]

LINE = '<svg width="34" height="10" aria-hidden="true"><line x1="1" y1="5" x2="33" y2="5" {}/></svg>'
BLUE_LINE = LINE.format(f'stroke="{BLUE}" stroke-width="4"')
ORANGE_LINE = LINE.format(f'stroke="{ORANGE}" stroke-width="4" stroke-dasharray="9 5"')
HEIGHT = 800
"""Height of the frame in a notebook, in pixels."""


@dataclass(frozen=True)
class NetworkPlot:
    """A picture of a network, which notebooks display; `save` writes it to a file."""

    view: NetworkView
    title: str = "Network"

    def __repr__(self) -> str:
        nodes, edges = len(self.view.whole.nodes), len(self.view.whole.edges)
        return f"<NetworkPlot of {nodes:,} columns and {edges:,} edges: save('net.html') or save('net.svg')>"

    def to_html(self) -> str:
        """Return an interactive page that needs no other files."""
        body = f"<main>{render_network(self.view, self.title)}</main>"
        return document(self.title, body, style=asset("page.css"), scripts=[asset("network.js")], kind="alone")

    def to_svg(self) -> str:
        """Return a static picture of the strongest edges."""
        return draw_static(self.view, self.title)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an interactive page (.html) or a static picture (.svg), depending on the suffix."""
        suffix = Path(path).suffix.lower()
        if suffix not in (".html", ".htm", ".svg"):
            raise DataError(
                f"{path}: the name must end in .html for an interactive page or in .svg for a static picture."
            )
        write_atomically(path, (self.to_svg() if suffix == ".svg" else self.to_html()).encode())

    def _repr_html_(self) -> str:
        """Return a sandboxed frame, so that page and notebook cannot affect each other."""
        return (
            f'<iframe srcdoc="{escape(self.to_html())}" sandbox="allow-scripts" title="{escape(self.title)}" '
            f'width="100%" height="{HEIGHT}" frameborder="0"></iframe>'
        )

    def _repr_svg_(self) -> str:
        return self.to_svg()


def render_network(view: NetworkView, title: str) -> str:
    """Return the network with its controls; a static picture where no script runs."""
    group = "table" if view.whole.network.linked else "community"
    return f"""<div id="static">{draw_static(view, title)}</div>
<div id="interactive" class="net" hidden="hidden">
<div class="tools">
<label>Find <input id="search" type="search" placeholder="column name" autocomplete="off"/></label>
<label>Strongest edges <input id="strength" type="range" min="0" max="1000" value="1000"/></label>
<output id="shown" for="strength"></output>
<span class="buttons"><button id="zoom-in" type="button" aria-label="Zoom in">+</button>
<button id="zoom-out" type="button" aria-label="Zoom out">\u2212</button>
<button id="reset" type="button">Show all</button></span>
</div>
<div id="matches" aria-live="polite"></div>
<div class="stage"><canvas id="network" tabindex="0" role="application"
 aria-label="Network of columns. Arrow keys move the view, plus and minus zoom, 0 shows all. The field above
 finds a column, and the list on the right shows its neighbors."></canvas>
<aside id="details" aria-live="polite"></aside></div>
<div class="legend">
<label><input id="positive" type="checkbox" checked="checked"/> {BLUE_LINE}go together: one makes the other
 more likely</label>
<label><input id="negative" type="checkbox" checked="checked"/> {ORANGE_LINE}rarely go together: one makes the other
 less likely</label>
<span>Wider lines are stronger edges; larger circles have stronger edges in total; colors show the {group}.</span>
<div id="groups"></div></div>
</div>
<script type="application/json" id="network-data">{view.to_json()}</script>"""
