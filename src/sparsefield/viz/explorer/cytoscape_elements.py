"""This module turns a part of a network into cytoscape's elements, with positions, and a stylesheet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from sparsefield.viz.network import Subgraph
from sparsefield.viz.node_positions import layout_nodes, separate_labels
from sparsefield.viz.palette import BLUE, FONT, INK, MIXED, ORANGE, WHITE, blend
from sparsefield.viz.svg import shorten

__all__ = ["COLORS", "SIGNS", "build_elements", "build_stylesheet"]

COLORS = {1: BLUE, -1: ORANGE, 0: MIXED}
"""Colors of edges whose weights are all positive, all negative, or mixed."""

SIGNS = {1: "positive", -1: "negative", 0: "mixed"}
BORDER = "#b9c0cc"
MAX_LABEL = 16
LETTER, PADDING, HEIGHT = 7.2, 22.0, 30.0
"""Width of a letter, horizontal padding and height of a label, in pixels."""

BOX = np.array([560.0, 420.0])
"""Pixels of the picture; somewhat less than the page has, since names are sharper when the picture is enlarged."""

BOX_NODES = 25
"""Nodes that fit into the box; for more nodes it grows."""

MIN_WIDTH, MAX_WIDTH = 1.2, 6.5
"""Pixels of the weakest and of the strongest edge."""


def build_elements(part: Subgraph, chosen: Iterable[int] = ()) -> list[dict[str, Any]]:
    """Return the nodes and edges of a picture; edges that do not touch a chosen node have the class "dimmed"."""
    chosen = set(chosen)
    labels = [shorten(name, MAX_LABEL) for name in part.names]
    widths = np.array([LETTER * len(label) + PADDING for label in labels])
    largest = float(part.strengths.max(initial=0.0)) or 1.0
    nodes, edges = [], []
    for k, (x, y) in enumerate(_layout_pixels(part, widths).tolist()):
        data = {"id": str(part.nodes[k]), "label": labels[k], "width": float(widths[k]), "name": part.names[k]}
        classes = "chosen" if part.nodes[k] in chosen else ""
        nodes.append({"data": data, "position": {"x": x, "y": y}, "classes": classes})
    for edge in map(part.network.edge, part.edges.tolist()[::-1]):  # the strongest are drawn last, on top
        dimmed = ["dimmed"] if chosen and not chosen & set(edge.ends) else []
        width = MIN_WIDTH + (MAX_WIDTH - MIN_WIDTH) * edge.strength / largest
        source, target = map(str, edge.ends)
        data = {"id": f"edge-{edge.number}", "source": source, "target": target, "thickness": width}
        edges.append({"data": data, "classes": " ".join([SIGNS[edge.sign], *dimmed])})
    return edges + nodes


def build_stylesheet(evidence: Iterable[int] = (), moved: Mapping[int, tuple[int, float]] | None = None) -> list[dict]:
    """Return the styles of nodes and edges.

    ``evidence`` are nodes that are set; ``moved`` is {node: (direction, amount)} of the nodes whose beliefs the
    evidence moved, where the direction is a key of `COLORS`.
    """
    styles: dict[str, dict[str, Any]] = {
        "node": {
            "label": "data(label)", "width": "data(width)", "height": HEIGHT, "shape": "round-rectangle",
            "background-color": WHITE, "border-width": 1.2, "border-color": BORDER, "color": INK, "font-size": 13,
            "font-family": FONT.replace("'", ""), "text-valign": "center", "text-halign": "center",
        },
        # Bezier curves separate edges of several templates between two nodes.
        "edge": {"width": "data(thickness)", "curve-style": "bezier", "opacity": 0.62, "line-color": MIXED},
        **{f".{name}": {"line-color": COLORS[sign]} for sign, name in SIGNS.items()},
        "edge.dimmed": {"opacity": 0.16},
        "node.chosen": {"border-width": 3, "border-color": INK, "font-weight": 700},
        "node:active": {"overlay-opacity": 0.08},
    }  # fmt: skip
    for node, (direction, amount) in (moved or {}).items():
        # Small amounts are raised, so that they are visible.
        color = blend([WHITE, COLORS[direction]], max(amount, 0.0) ** 0.7)
        styles[f'node[id = "{node}"]'] = {"background-color": color, "color": WHITE if amount > 0.6 else INK}
    for node in evidence:
        styles[f'node[id = "{node}"]'] = {"background-color": INK, "color": WHITE, "border-color": INK}
    return [{"selector": selector, "style": style} for selector, style in styles.items()]


def _layout_pixels(part: Subgraph, widths: np.ndarray) -> np.ndarray:
    """Return (nodes, 2) centers of the labels, which fill the box and do not overlap."""
    positions = layout_nodes(len(part.nodes), part.ends, part.strengths)
    extent = np.maximum(np.ptp(positions, axis=0), 1e-9)
    size = BOX * max(1.0, len(part.nodes) / BOX_NODES) ** 0.5
    centered = positions - (positions.max(axis=0) + positions.min(axis=0)) / 2
    return separate_labels(centered / extent * size, widths, HEIGHT)
