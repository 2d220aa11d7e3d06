"""The network by itself: live in a notebook or a file of its own, or as a still picture."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from pathlib import Path

from sparsefield.errors import DataError
from sparsefield.io.atomic_write import write_atomically
from sparsefield.viz.markup import asset, document
from sparsefield.viz.network_svg import draw_still
from sparsefield.viz.network_view import View

__all__ = ["NetworkPlot", "draw_live"]

LINE = '<svg width="34" height="10" aria-hidden="true"><line x1="1" y1="5" x2="33" y2="5" {}/></svg>'
BLUE_LINE = LINE.format('stroke="#0072b2" stroke-width="4"')
ORANGE_LINE = LINE.format('stroke="#d55e00" stroke-width="4" stroke-dasharray="9 5"')
HEIGHT = 800
"""Of the frame in a notebook."""


@dataclass(frozen=True)
class NetworkPlot:
    """A network to look at. Notebooks show it by themselves; `save` writes it to a file."""

    view: View
    title: str = "Network"

    def __repr__(self) -> str:
        nodes, edges = len(self.view.whole.nodes), len(self.view.whole.edges)
        return f"<NetworkPlot of {nodes:,} columns and {edges:,} edges: save('net.html') or save('net.svg')>"

    def to_html(self) -> str:
        """A page of its own, which loads nothing."""
        body = f"<main>{draw_live(self.view, self.title)}</main>"
        return document(self.title, body, style=asset("page.css"), scripts=[asset("network.js")], kind="alone")

    def to_svg(self) -> str:
        """A still picture of the strongest edges."""
        return draw_still(self.view, self.title)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a live page (.html) or a still picture (.svg), by the suffix."""
        suffix = Path(path).suffix.lower()
        if suffix not in (".html", ".htm", ".svg"):
            raise DataError(f"{path}: the name should end in .html for a live page, or in .svg for a still picture.")
        write_atomically(path, (self.to_svg() if suffix == ".svg" else self.to_html()).encode())

    def _repr_html_(self) -> str:
        """A frame of its own, so that neither page nor notebook disturbs the other; its scripts reach nothing else."""
        return (
            f'<iframe srcdoc="{escape(self.to_html())}" sandbox="allow-scripts" title="{escape(self.title)}" '
            f'width="100%" height="{HEIGHT}" frameborder="0"></iframe>'
        )

    def _repr_svg_(self) -> str:
        return self.to_svg()


def draw_live(view: View, title: str) -> str:
    """The network with its controls; a still picture where no script runs."""
    colors = "the color of a circle is its table" if view.whole.linked else "the color of a circle is its community"
    return f"""<div id="still">{draw_still(view, title)}</div>
<div id="live" class="net" hidden="hidden">
<div class="tools">
<label>Find <input id="search" type="search" placeholder="name of a column" autocomplete="off"/></label>
<label>Strongest edges <input id="strength" type="range" min="0" max="1000" value="1000"/></label>
<output id="shown" for="strength"></output>
<span class="buttons"><button id="zoom-in" type="button" aria-label="Zoom in">+</button>
<button id="zoom-out" type="button" aria-label="Zoom out">\u2212</button>
<button id="reset" type="button">Show all</button></span>
</div>
<div id="matches" aria-live="polite"></div>
<div class="stage"><canvas id="network" tabindex="0" role="application"
 aria-label="Network of columns. Arrow keys move, plus and minus zoom, 0 shows all. The field above finds a column, and
 the list beside tells its neighbors."></canvas>
<aside id="details" aria-live="polite"></aside></div>
<div class="legend">
<label><input id="together" type="checkbox" checked="checked"/> {BLUE_LINE}go together: one makes the other
 likelier</label>
<label><input id="apart" type="checkbox" checked="checked"/> {ORANGE_LINE}seldom go together: one makes the other less
 likely</label>
<span>The wider a line, the stronger; the larger a circle, the stronger all its edges; {colors}.</span>
<div id="groups"></div></div>
</div>
<script type="application/json" id="network-data">{view.as_json()}</script>"""
