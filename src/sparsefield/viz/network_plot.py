"""This module shows a network in a notebook, writes it to an interactive page, or draws it as a static picture."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from sparsefield.errors import DataError
from sparsefield.io.atomic_write import write_atomically
from sparsefield.viz.feature_sentences import name_features
from sparsefield.viz.html_page import document
from sparsefield.viz.network import Subgraph
from sparsefield.viz.network_view import NetworkView
from sparsefield.viz.node_positions import layout_nodes
from sparsefield.viz.palette import BLUE, GREY, NEUTRAL, ORANGE, SIGN_COLORS, WHITE, group_color
from sparsefield.viz.svg import Drawing, shorten, text_width

LINE = '<svg width="34" height="10" aria-hidden="true"><line x1="1" y1="5" x2="33" y2="5" {}/></svg>'
BLUE_LINE = LINE.format(f'stroke="{BLUE}" stroke-width="4"')
NEUTRAL_LINE = LINE.format(f'stroke="{NEUTRAL}" stroke-width="4"')
ORANGE_LINE = LINE.format(f'stroke="{ORANGE}" stroke-width="4" stroke-dasharray="9 5"')
FRAME_HEIGHT = 800
"""Height of the frame in a notebook, in pixels."""

MAX_STATIC_EDGES = 120
"""Edges of a static picture, which cannot be enlarged."""

WIDTH, HEIGHT, SIDE, HEAD, FOOT = 900.0, 620.0, 46.0, 64.0, 52.0
NAME_SIZE = 11.5


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
        return document(self.title, f"<main>{render_network(self.view, self.title)}</main>", "network.js", kind="alone")

    def to_svg(self) -> str:
        """Return a static picture of the strongest edges."""
        return _draw_static(self.view, self.title)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an interactive page (.html) or a static picture (.svg), depending on the suffix."""
        suffix = Path(path).suffix.lower()
        if suffix not in (".html", ".htm", ".svg"):
            forms = ".html for an interactive page or in .svg for a static picture"
            raise DataError(f"{path}: the name must end in {forms}.")
        write_atomically(path, (self.to_svg() if suffix == ".svg" else self.to_html()).encode())

    def _repr_html_(self) -> str:
        """Return a sandboxed frame, so that page and notebook cannot affect each other."""
        return (
            f'<iframe srcdoc="{escape(self.to_html())}" sandbox="allow-scripts" title="{escape(self.title)}" '
            f'width="100%" height="{FRAME_HEIGHT}" frameborder="0"></iframe>'
        )

    _repr_svg_ = to_svg


def render_network(view: NetworkView, title: str) -> str:
    """Return the network with its controls; a static picture where no script runs."""
    group = "table" if view.whole.network.linked else "community"
    return f"""<div id="static">{_draw_static(view, title)}</div>
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
 aria-label="Network of columns. Arrow keys move the view, plus and minus zoom, 0 shows all. The search box
 above finds a column, and the list on the right shows its neighbors."></canvas>
<aside id="details" aria-live="polite"></aside></div>
<div class="legend">
<label><input id="positive" type="checkbox" checked="checked"/> {BLUE_LINE}go together: where one is present or
 high, so is the other</label>
<label><input id="negative" type="checkbox" checked="checked"/> {ORANGE_LINE}rarely go together: where one is
 present or high, the other is not</label>
<label><input id="neutral" type="checkbox" checked="checked"/> {NEUTRAL_LINE}depends on the states</label>
<span>Wider lines are stronger edges; larger circles have stronger edges in total; colors show the {group}.</span>
<div id="groups"></div></div>
</div>
<script type="application/json" id="network-data">{view.to_json()}</script>"""


def _draw_static(view: NetworkView, title: str) -> str:
    """Return an SVG document of the strongest edges."""
    shown = view.whole.strongest(MAX_STATIC_EDGES)
    drawing = Drawing(WIDTH, HEIGHT, title)
    drawing.text(28, 36, title, size=17, room=WIDTH - 56, font_weight=600)
    if not len(shown.edges):
        drawing.text(28, 62, "No two columns share a feature.", fill=GREY)
        return drawing.render()
    groups = view.group_of(shown)
    positions = _fit(layout_nodes(len(shown.nodes), shown.ends, shown.strengths, groups))
    _draw_edges(drawing, shown, positions)
    colors = [group_color(group) for group in groups.tolist()]
    _draw_nodes(drawing, shown, positions, colors)
    _draw_key(drawing, len(shown.edges), len(view.whole.edges))
    return drawing.render()


def _fit(positions: np.ndarray) -> np.ndarray:
    low, high = positions.min(axis=0), positions.max(axis=0)
    room = np.array([WIDTH - 2 * SIDE - 60, HEIGHT - HEAD - FOOT - 40])
    scale = float(np.min(room / np.maximum(high - low, 1e-9), where=high > low, initial=220.0))
    middle = np.array([WIDTH / 2, HEAD + (HEIGHT - HEAD - FOOT) / 2])
    return (positions - (low + high) / 2) * scale + middle


def _draw_edges(drawing: Drawing, part: Subgraph, positions: np.ndarray) -> None:
    network, largest = part.network, float(part.strengths.max())
    for k, (a, b) in reversed(list(zip(part.edges.tolist(), part.ends.tolist(), strict=True))):
        width = 0.8 + 5.0 * float(network.strengths[k]) / largest
        (x1, y1), (x2, y2) = positions[a].tolist(), positions[b].tolist()
        sign = int(network.signs[k])
        features = name_features(network.field, network.feature_numbers(k)[:6])
        hint = "; ".join(f"{feature.name}: {feature.weight:+.2f}" for feature in features)
        style: dict[str, object] = {"stroke": SIGN_COLORS[sign], "stroke_width": width, "stroke_opacity": 0.6}
        style |= {"stroke_dasharray": f"{2 * width + 2:.1f} {width + 1.5:.1f}"} if sign < 0 else {}
        if a == b:
            drawing.shape("circle", cx=x1, cy=y1 - 11, r=9, fill="none", hint=hint, **style)  # type: ignore[arg-type]
        else:
            drawing.line(x1, y1, x2, y2, hint=hint, stroke_linecap="butt" if sign < 0 else "round", **style)


def _draw_nodes(drawing: Drawing, part: Subgraph, positions: np.ndarray, colors: list[str]) -> None:
    """Draw circles, and names where there is room for them, those with the strongest edges first."""
    total = part.total_strengths
    radius = (3.5 + 5.0 * np.sqrt(total / total.max())).tolist()
    for k, name in enumerate(part.names):
        x, y = positions[k].tolist()
        drawing.shape("circle", cx=x, cy=y, r=radius[k], fill=colors[k], stroke=WHITE, stroke_width=1.5, hint=name)
    taken: list[tuple[float, float, float, float]] = []
    for k in np.lexsort((np.arange(len(total)), -total)).tolist():
        text = shorten(part.names[k], 26)
        half = text_width(text, NAME_SIZE) / 2
        x = min(max(float(positions[k, 0]), half + 8), WIDTH - half - 8)
        top = float(positions[k, 1]) - radius[k] - 4 - NAME_SIZE
        box = (x - half, top, x + half, top + NAME_SIZE + 2)
        if any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken):
            continue
        taken.append(box)
        style = {"text_anchor": "middle", "stroke": WHITE, "stroke_width": 3, "paint_order": "stroke"}
        drawing.text(x, top + NAME_SIZE, text, size=NAME_SIZE, **style)


def _draw_key(drawing: Drawing, shown: int, total: int) -> None:
    y = HEIGHT - 22
    drawing.line(28, y - 4, 58, y - 4, stroke=BLUE, stroke_width=3.5)
    drawing.text(66, y, "go together", size=12.5, fill=GREY)
    drawing.line(160, y - 4, 190, y - 4, stroke=ORANGE, stroke_width=3.5, stroke_dasharray="8 5")
    drawing.text(198, y, "rarely go together", size=12.5, fill=GREY)
    drawing.line(324, y - 4, 354, y - 4, stroke=NEUTRAL, stroke_width=3.5)
    drawing.text(362, y, "depends on the states", size=12.5, fill=GREY)
    which = f"all {total:,} edges" if shown == total else f"the {shown:,} strongest of {total:,} edges"
    drawing.text(WIDTH - 28, y, f"{which}; wider edges are stronger", size=12.5, fill=GREY, text_anchor="end")
