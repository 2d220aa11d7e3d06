"""This module turns a part of a network into cytoscape's elements, with positions, and a stylesheet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from sparsefield.viz.network import Subgraph
from sparsefield.viz.node_positions import layout_nodes, separate_labels
from sparsefield.viz.palette import BLUE, FONT, INK, MIXED, ORANGE, WHITE, blend

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
    network = part.network
    labels = [_shorten(name) for name in part.names]
    widths = np.array([LETTER * len(label) + PADDING for label in labels])
    largest = float(part.strengths.max(initial=0.0)) or 1.0
    nodes = [
        {
            "data": {"id": str(node), "label": label, "width": float(width), "name": name},
            "position": {"x": float(x), "y": float(y)},
            "classes": "chosen" if node in chosen else "",
        }
        for node, name, label, width, (x, y) in zip(
            part.nodes, part.names, labels, widths, _layout_pixels(part, widths), strict=True
        )
    ]
    edges = []
    for edge in map(network.edge, part.edges.tolist()[::-1]):  # the strongest are drawn last, on top
        dimmed = ["dimmed"] if chosen and not chosen & set(edge.ends) else []
        width = MIN_WIDTH + (MAX_WIDTH - MIN_WIDTH) * edge.strength / largest
        source, target = map(str, edge.ends)
        data = {"id": f"edge-{edge.number}", "source": source, "target": target, "thickness": width}
        edges.append({"data": data, "classes": " ".join([SIGNS[edge.sign], *dimmed])})
    return edges + nodes


def build_stylesheet(evidence: Iterable[int] = (), moved: Mapping[int, tuple[int, float]] | None = None) -> list[dict]:
    """Return the styles of nodes and edges.

    Parameters
    ----------
    evidence : iterable of int
        Nodes that are set.
    moved : {node: (direction, amount)}, optional
        Nodes whose beliefs the evidence moved; the direction is a key of `COLORS`.
    """
    styles: list[dict[str, Any]] = [
        {
            "selector": "node",
            "style": {
                "label": "data(label)",
                "width": "data(width)",
                "height": HEIGHT,
                "shape": "round-rectangle",
                "background-color": WHITE,
                "border-width": 1.2,
                "border-color": BORDER,
                "color": INK,
                "font-size": 13,
                "font-family": FONT.replace("'", ""),
                "text-valign": "center",
                "text-halign": "center",
            },
        },
        {
            "selector": "edge",
            "style": {
                "width": "data(thickness)",
                "curve-style": "bezier",  # which separates edges of several templates between two nodes
                "opacity": 0.62,
                "line-color": MIXED,
            },
        },
        *({"selector": f".{name}", "style": {"line-color": COLORS[sign]}} for sign, name in SIGNS.items()),
        {"selector": "edge.dimmed", "style": {"opacity": 0.16}},
        {"selector": "node.chosen", "style": {"border-width": 3, "border-color": INK, "font-weight": 700}},
        {"selector": "node:active", "style": {"overlay-opacity": 0.08}},
    ]
    for node, (direction, amount) in (moved or {}).items():
        # Small amounts are raised, so that they are visible.
        color = blend([WHITE, COLORS[direction]], max(amount, 0.0) ** 0.7)
        styles.append(_node_style(node, {"background-color": color, "color": WHITE if amount > 0.6 else INK}))
    for node in evidence:
        styles.append(_node_style(node, {"background-color": INK, "color": WHITE, "border-color": INK}))
    return styles


def _node_style(node: int, style: dict[str, str]) -> dict[str, Any]:
    return {"selector": f'node[id = "{node}"]', "style": style}


def _layout_pixels(part: Subgraph, widths: np.ndarray) -> np.ndarray:
    """Return (nodes, 2) centers of the labels, which fill the box and do not overlap."""
    positions = layout_nodes(len(part.nodes), part.ends, part.strengths)
    extent = np.maximum(np.ptp(positions, axis=0), 1e-9)
    size = BOX * max(1.0, len(part.nodes) / BOX_NODES) ** 0.5
    centered = positions - (positions.max(axis=0) + positions.min(axis=0)) / 2
    return separate_labels(centered / extent * size, widths, HEIGHT)


def _shorten(label: str) -> str:
    return label if len(label) <= MAX_LABEL else label[: MAX_LABEL - 1] + "\u2026"
