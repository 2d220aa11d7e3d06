"""The network as a still picture: its strongest edges, in plain SVG."""

from __future__ import annotations

import numpy as np

from sparsefield.viz.axes import text_width, write
from sparsefield.viz.network import Network
from sparsefield.viz.network_view import COLORS, OTHER, View
from sparsefield.viz.node_positions import place_nodes
from sparsefield.viz.svg import BLUE, GREY, ORANGE, Drawing

__all__ = ["MOST", "draw_still"]

MOST = 120
"""Edges of a still picture, in which nobody can look closer."""

WIDTH, HEIGHT, SIDE, HEAD, FOOT = 900.0, 620.0, 46.0, 64.0, 52.0
NAME_SIZE = 11.5


def draw_still(view: View, title: str = "Network", most: int = MOST) -> str:
    """An SVG document of the ``most`` strongest edges."""
    shown = view.whole.strongest(most)
    drawing = Drawing(WIDTH, HEIGHT, title)
    write(drawing, 28, 36, title, WIDTH - 56, size=17, font_weight=600)
    if not shown.edges:
        drawing.text(28, 62, "No two columns share a feature.", fill=GREY)
        return drawing.render()
    groups = view.group_of(shown)
    places = _fit(place_nodes(len(shown.nodes), shown.ends, shown.strengths, groups))
    _draw_edges(drawing, shown, places)
    colors = [COLORS[group] if group < len(COLORS) else OTHER for group in groups.tolist()]
    _draw_nodes(drawing, shown, places, colors)
    _draw_key(drawing, len(shown.edges), len(view.whole.edges))
    return drawing.render()


def _fit(places: np.ndarray) -> np.ndarray:
    low, high = places.min(axis=0), places.max(axis=0)
    room = np.array([WIDTH - 2 * SIDE - 60, HEIGHT - HEAD - FOOT - 40])
    scale = float(np.min(room / np.maximum(high - low, 1e-9), where=high > low, initial=220.0))
    middle = np.array([WIDTH / 2, HEAD + (HEIGHT - HEAD - FOOT) / 2])
    return (places - (low + high) / 2) * scale + middle


def _draw_edges(drawing: Drawing, network: Network, places: np.ndarray) -> None:
    largest = float(network.strengths.max())
    for edge in reversed(network.edges):
        width = 0.8 + 5.0 * edge.strength / largest
        (x1, y1), (x2, y2) = places[edge.ends[0]].tolist(), places[edge.ends[1]].tolist()
        positive = edge.strongest > 0
        hint = "; ".join(f"{feature.name}: {feature.weight:+.2f}" for feature in edge.features[:6])
        look: dict[str, object] = {"stroke": BLUE if positive else ORANGE, "stroke_width": width, "stroke_opacity": 0.6}
        look |= {} if positive else {"stroke_dasharray": f"{2 * width + 2:.1f} {width + 1.5:.1f}"}
        if edge.ends[0] == edge.ends[1]:
            drawing.shape("circle", cx=x1, cy=y1 - 11, r=9, fill="none", hint=hint, **look)  # type: ignore[arg-type]
        else:
            drawing.line(x1, y1, x2, y2, hint=hint, stroke_linecap="round" if positive else "butt", **look)


def _draw_nodes(drawing: Drawing, network: Network, places: np.ndarray, colors: list[str]) -> None:
    """Circles, and names where they find room, those with the strongest edges first."""
    total = network.total_strengths
    radius = 3.5 + 5.0 * np.sqrt(total / total.max())
    for k, node in enumerate(network.nodes):
        x, y = places[k].tolist()
        drawing.shape(
            "circle",
            cx=x,
            cy=y,
            r=float(radius[k]),
            fill=colors[k],
            stroke="#ffffff",
            stroke_width=1.5,
            hint=node.name,
        )
    taken: list[tuple[float, float, float, float]] = []
    for k in np.lexsort((np.arange(len(total)), -total)).tolist():
        name = network.nodes[k].name
        words = name if len(name) <= 26 else name[:25] + "…"
        x, y = places[k].tolist()
        half = text_width(words, NAME_SIZE) / 2
        x = min(max(x, half + 8), WIDTH - half - 8)
        top = y - float(radius[k]) - 4 - NAME_SIZE
        box = (x - half, top, x + half, top + NAME_SIZE + 2)
        if any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken):
            continue
        taken.append(box)
        look = {"text_anchor": "middle", "stroke": "#ffffff", "stroke_width": 3, "paint_order": "stroke"}
        drawing.text(x, top + NAME_SIZE, words, size=NAME_SIZE, **look)


def _draw_key(drawing: Drawing, shown: int, total: int) -> None:
    y = HEIGHT - 22
    drawing.line(28, y - 4, 58, y - 4, stroke=BLUE, stroke_width=3.5)
    drawing.text(66, y, "go together", size=12.5, fill=GREY)
    drawing.line(160, y - 4, 190, y - 4, stroke=ORANGE, stroke_width=3.5, stroke_dasharray="8 5")
    drawing.text(198, y, "seldom go together", size=12.5, fill=GREY)
    which = f"all {total:,} edges" if shown == total else f"the {shown:,} strongest of {total:,} edges"
    drawing.text(WIDTH - 28, y, f"{which}; the wider, the stronger", size=12.5, fill=GREY, text_anchor="end")
