"""This module draws the strongest edges of a network as a static SVG picture."""

from __future__ import annotations

import numpy as np

from sparsefield.viz.axes import draw_text, text_width
from sparsefield.viz.feature_sentences import name_features
from sparsefield.viz.network import Subgraph
from sparsefield.viz.network_view import NetworkView
from sparsefield.viz.node_positions import layout_nodes
from sparsefield.viz.palette import BLUE, GREY, GROUPS, ORANGE, WHITE
from sparsefield.viz.svg import Drawing

__all__ = ["MAX_STATIC_EDGES", "draw_static"]

MAX_STATIC_EDGES = 120
"""Edges of a static picture, which cannot be enlarged."""

WIDTH, HEIGHT, SIDE, HEAD, FOOT = 900.0, 620.0, 46.0, 64.0, 52.0
NAME_SIZE = 11.5


def draw_static(view: NetworkView, title: str = "Network", max_edges: int = MAX_STATIC_EDGES) -> str:
    """Return an SVG document of the strongest edges."""
    shown = view.whole.strongest(max_edges)
    drawing = Drawing(WIDTH, HEIGHT, title)
    draw_text(drawing, 28, 36, title, WIDTH - 56, size=17, font_weight=600)
    if not len(shown.edges):
        drawing.text(28, 62, "No two columns share a feature.", fill=GREY)
        return drawing.render()
    groups = view.group_of(shown)
    positions = _fit(layout_nodes(len(shown.nodes), shown.ends, shown.strengths, groups))
    _draw_edges(drawing, shown, positions)
    colors = [GROUPS[group] if group < len(GROUPS) else GREY for group in groups.tolist()]
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
        positive = network.strongest_weights[k] > 0
        features = name_features(network.field, network.feature_numbers(k)[:6])
        hint = "; ".join(f"{feature.name}: {feature.weight:+.2f}" for feature in features)
        color = BLUE if positive else ORANGE
        style: dict[str, object] = {"stroke": color, "stroke_width": width, "stroke_opacity": 0.6}
        style |= {} if positive else {"stroke_dasharray": f"{2 * width + 2:.1f} {width + 1.5:.1f}"}
        if a == b:
            drawing.shape("circle", cx=x1, cy=y1 - 11, r=9, fill="none", hint=hint, **style)  # type: ignore[arg-type]
        else:
            drawing.line(x1, y1, x2, y2, hint=hint, stroke_linecap="round" if positive else "butt", **style)


def _draw_nodes(drawing: Drawing, part: Subgraph, positions: np.ndarray, colors: list[str]) -> None:
    """Draw circles, and names where there is room for them, those with the strongest edges first."""
    total = part.total_strengths
    radius = 3.5 + 5.0 * np.sqrt(total / total.max())
    for k, name in enumerate(part.names):
        x, y = positions[k].tolist()
        drawing.shape(
            "circle",
            cx=x,
            cy=y,
            r=float(radius[k]),
            fill=colors[k],
            stroke=WHITE,
            stroke_width=1.5,
            hint=name,
        )
    taken: list[tuple[float, float, float, float]] = []
    for k in np.lexsort((np.arange(len(total)), -total)).tolist():
        name = part.names[k]
        text = name if len(name) <= 26 else name[:25] + "…"
        x, y = positions[k].tolist()
        half = text_width(text, NAME_SIZE) / 2
        x = min(max(x, half + 8), WIDTH - half - 8)
        top = y - float(radius[k]) - 4 - NAME_SIZE
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
    which = f"all {total:,} edges" if shown == total else f"the {shown:,} strongest of {total:,} edges"
    drawing.text(WIDTH - 28, y, f"{which}; wider edges are stronger", size=12.5, fill=GREY, text_anchor="end")
