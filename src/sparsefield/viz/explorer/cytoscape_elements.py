"""A part of a network as cytoscape wants it: elements with positions, and a style."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from sparsefield.viz.explorer.subgraph import Network, Part
from sparsefield.viz.explorer.subgraph_positions import place

__all__ = ["COLORS", "elements", "stylesheet"]

COLORS = {1: "#2f6db5", -1: "#cf6a1f", 0: "#8a7fa8"}
"""Of weights that are all positive, all negative, or mixed; told apart by those who confuse red and green, too."""

INK, PALE, LINE = "#1f2430", "#ffffff", "#b9c0cc"
LONGEST = 16
LETTER, PADDING, HEIGHT = 7.2, 22.0, 30.0
"""Pixels of a letter, beside a word, and of a label's height."""

BOX = (560.0, 420.0)
"""Somewhat less than the page has room for: names are sharper where the picture is enlarged to fit."""

ROOMY = 25
"""Nodes that the box has room for; for more of them it grows."""

SLIM, WIDE = 1.2, 6.5
"""Pixels of the weakest and of the strongest line."""


def elements(network: Network, part: Part, chosen: Iterable[int] = ()) -> list[dict[str, Any]]:
    """Nodes and edges of a picture; edges that do not touch a chosen variable are of the class "aside"."""
    chosen = set(chosen)
    labels = [_short(network.labels[node]) for node in part.nodes]
    widths = np.array([LETTER * len(label) + PADDING for label in labels])
    place_of = {node: k for k, node in enumerate(part.nodes)}
    most = max((edge.strength for edge in part.edges), default=1.0)
    # A loop, of a variable with its like in a linked row, has no length.
    between = [
        (place_of[edge.a], place_of[edge.b], 2.0 - edge.strength / most) for edge in part.edges if edge.a != edge.b
    ]
    grown = max(1.0, len(part.nodes) / ROOMY) ** 0.5
    spots = place(len(part.nodes), between, widths, HEIGHT, (BOX[0] * grown, BOX[1] * grown))
    nodes = [
        {
            "data": {"id": str(node), "label": label, "width": float(width), "name": network.labels[node]},
            "position": {"x": float(x), "y": float(y)},
            "classes": "chosen" if node in chosen else "",
        }
        for node, label, width, (x, y) in zip(part.nodes, labels, widths, spots, strict=True)
    ]
    edges = [
        {
            "data": {
                "id": f"{edge.a}-{edge.b}",
                "source": str(edge.a),
                "target": str(edge.b),
                "thick": SLIM + (WIDE - SLIM) * edge.strength / most,
            },
            "classes": " ".join(
                filter(None, [_SIGNS[edge.sign], "aside" if chosen and not chosen & {edge.a, edge.b} else ""])
            ),
        }
        for edge in reversed(part.edges)  # the strongest are drawn last, on top
    ]
    return edges + nodes


def stylesheet(evidence: Iterable[int] = (), moved: Mapping[int, tuple[int, float]] | None = None) -> list[dict]:
    """How nodes and edges look.

    Parameters
    ----------
    evidence : nodes that are given
    moved : {node: (direction, by how much)} of beliefs that evidence moved; direction is as in `COLORS`
    """
    looks: list[dict[str, Any]] = [
        {
            "selector": "node",
            "style": {
                "label": "data(label)",
                "width": "data(width)",
                "height": HEIGHT,
                "shape": "round-rectangle",
                "background-color": PALE,
                "border-width": 1.2,
                "border-color": LINE,
                "color": INK,
                "font-size": 13,
                "font-family": "Inter, Segoe UI, Helvetica Neue, Helvetica, Arial, sans-serif",
                "text-valign": "center",
                "text-halign": "center",
            },
        },
        {
            "selector": "edge",
            "style": {
                "width": "data(thick)",
                "curve-style": "straight",
                "opacity": 0.62,
                "line-color": COLORS[0],
            },
        },
        *({"selector": f".{word}", "style": {"line-color": COLORS[sign]}} for sign, word in _SIGNS.items()),
        {"selector": "edge.aside", "style": {"opacity": 0.16}},
        {"selector": "node.chosen", "style": {"border-width": 3, "border-color": INK, "font-weight": 700}},
        {"selector": "node:active", "style": {"overlay-opacity": 0.08}},
    ]
    for node, (direction, amount) in (moved or {}).items():
        tint = {"background-color": _tint(COLORS[direction], amount), "color": PALE if amount > 0.6 else INK}
        looks.append({"selector": f'node[id = "{node}"]', "style": tint})
    for node in evidence:
        style = {"background-color": INK, "color": PALE, "border-color": INK}
        looks.append({"selector": f'node[id = "{node}"]', "style": style})
    return looks


_SIGNS = {1: "more", -1: "less", 0: "mixed"}


def _short(label: str) -> str:
    return label if len(label) <= LONGEST else label[: LONGEST - 1] + "\u2026"


def _tint(color: str, amount: float) -> str:
    """White at 0, the color at 1; small amounts are raised, so that they can be seen."""
    share = float(np.clip(amount, 0.0, 1.0)) ** 0.7
    parts = [int(color[k : k + 2], 16) for k in (1, 3, 5)]
    return "#" + "".join(f"{round(255 + (part - 255) * share):02x}" for part in parts)
