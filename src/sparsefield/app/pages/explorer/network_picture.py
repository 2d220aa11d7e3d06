"""This module renders a part of a network, or its communities, as elements and styles of cytoscape."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from sparsefield.analysis.network import Subgraph
from sparsefield.app.pages.explorer.community_bubbles import CommunityBubbles
from sparsefield.app.pages.node_positions import layout_nodes, separate_labels
from sparsefield.app.pages.palette import DARK, FONT, LIGHT, blend

SIGNS = {1: "positive", -1: "negative", 0: "mixed"}
"""Names of the signs of edges in classes of elements."""

LINE_LETTERS = 18
"""Letters of a line of a label; longer names have several lines."""

LETTER, PADDING, LINE, MARGIN = 7.2, 22.0, 16.0, 14.0
"""Width of a letter, horizontal padding, height of a line and vertical padding of a label, in pixels."""

BOX = np.array([560.0, 420.0])
"""Pixels of the picture; somewhat less than the page has, since names are sharper when the picture is enlarged."""

BOX_NODES = 25
"""Nodes that fit into the box; for more nodes it grows."""

MIN_WIDTH, MAX_WIDTH = 1.2, 6.5
"""Pixels of the weakest and of the strongest edge."""

MIN_DIAMETER, MAX_DIAMETER = 58.0, 120.0
"""Pixels of the smallest and of the largest community."""


THEMES = {"light": LIGHT, "dark": DARK}

MAX_FILL = {"light": 0.7, "dark": 0.55}
"""Share of a full color that a node has at most: its name must be legible on it."""


def wrap_name(name: str, width: int = LINE_LETTERS) -> str:
    """Return a name in lines, broken where words end, or within a word that is too long; nothing is left out.

    Examples
    --------
    >>> wrap_name("hours_per_week_at_work", 12).split(chr(10))
    ['hours_per_', 'week_at_work']
    """
    pieces = [piece for piece in re.split(r"(?<=[\s_./:\-])|(?<=[a-z])(?=[A-Z])", name) if piece]
    pieces = [piece[k : k + width] for piece in pieces for k in range(0, len(piece), width)]
    lines = [""]
    for piece in pieces:
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.strip() for line in lines)


def build_elements(part: Subgraph, chosen: Iterable[int] = ()) -> list[dict[str, Any]]:
    """Return the nodes and edges of a picture; edges that do not touch a chosen node have the class "dimmed"."""
    chosen = set(chosen)
    labels = [wrap_name(name) for name in part.names]
    widths, heights = _label_sizes(labels)
    largest = float(part.strengths.max(initial=0.0)) or 1.0
    nodes, edges = [], []
    for k, (x, y) in enumerate(_layout_pixels(part, widths, heights).tolist()):
        size = {"width": float(widths[k]), "height": float(heights[k])}
        data = {"id": str(part.nodes[k]), "label": labels[k], "name": part.names[k], **size}
        classes = "chosen" if part.nodes[k] in chosen else ""
        nodes.append({"data": data, "position": {"x": x, "y": y}, "classes": classes})
    for edge in map(part.network.edge, part.edges.tolist()[::-1]):  # the strongest are drawn last, on top
        dimmed = ["dimmed"] if chosen and not chosen & set(edge.ends) else []
        width = MIN_WIDTH + (MAX_WIDTH - MIN_WIDTH) * edge.strength / largest
        source, target = map(str, edge.ends)
        data = {"id": f"edge-{edge.number}", "source": source, "target": target, "thickness": width}
        edges.append({"data": data, "classes": " ".join([SIGNS[edge.sign], *dimmed])})
    return edges + nodes


def build_bubbles(bubbles: CommunityBubbles) -> list[dict[str, Any]]:
    """Return a picture with a circle for each community, and lines between those that share edges."""
    labels = [
        "\n".join([*(wrap_name(name, 15) for name in bubbles.names_of(k)), f"{len(members):,} columns"])
        for k, members in enumerate(bubbles.members)
    ]
    sizes = np.array([len(members) for members in bubbles.members], dtype=float)
    room = np.array([max(len(line) for line in label.split("\n")) * LETTER + 28 for label in labels])
    lines = np.array([label.count("\n") + 1 for label in labels])
    diameters = MIN_DIAMETER + (MAX_DIAMETER - MIN_DIAMETER) * np.sqrt(sizes / sizes.max(initial=1.0))
    diameters = np.maximum(diameters, np.hypot(room - 20, lines * LINE))
    places = layout_nodes(len(sizes), bubbles.ends, bubbles.strengths)
    places = _spread(places, len(sizes), BOX) if len(sizes) else places
    places = separate_labels(places, diameters, diameters)
    nodes = []
    for k, (x, y) in enumerate(places.tolist()):
        data = {"id": f"community-{k}", "label": labels[k], "name": f"community {k + 1}"}
        data |= {"width": float(diameters[k]), "height": float(diameters[k])}
        nodes.append({"data": data, "position": {"x": x, "y": y}, "classes": "bubble"})
    largest = float(bubbles.strengths.max(initial=0.0)) or 1.0
    edges = [
        {
            "data": {"id": f"between-{a}-{b}", "source": f"community-{a}", "target": f"community-{b}",
                     "thickness": MIN_WIDTH + 2 * MAX_WIDTH * float(strength) / largest},
            "classes": "between",
        }
        for (a, b), strength in zip(bubbles.ends.tolist(), bubbles.strengths.tolist(), strict=True)
    ]  # fmt: skip
    return edges + nodes


def build_stylesheet(
    evidence: Iterable[int] = (), moved: Mapping[int, tuple[int, float]] | None = None, theme: str = "light"
) -> list[dict[str, Any]]:
    """Return the styles of nodes and edges.

    ``evidence`` are nodes that are set; ``moved`` is {node: (direction, amount)} of the nodes whose beliefs the
    evidence moved, where the direction is a key of `SIGNS`.
    """
    theme = theme if theme in THEMES else "light"
    colors = THEMES[theme]
    by_sign = {1: colors.positive, -1: colors.negative, 0: colors.neutral}
    styles: dict[str, dict[str, Any]] = {
        "node": {
            "label": "data(label)", "width": "data(width)", "height": "data(height)", "shape": "round-rectangle",
            "background-color": colors.card, "border-width": 1.2, "border-color": colors.edge, "color": colors.ink,
            "font-size": 13, "font-family": FONT.replace("'", ""), "text-valign": "center", "text-halign": "center",
            "text-wrap": "wrap", "line-height": 1.15,
        },
        "node.bubble": {
            "shape": "ellipse", "font-size": 13.5, "border-color": blend([colors.card, colors.positive], 0.45),
            "background-color": blend([colors.card, colors.positive], 0.1),
        },
        # Bezier curves separate edges of several templates between two nodes.
        "edge": {"width": "data(thickness)", "curve-style": "bezier", "opacity": 0.62, "line-color": colors.neutral},
        **{f".{name}": {"line-color": by_sign[sign]} for sign, name in SIGNS.items()},
        "edge.negative": {"line-style": "dashed", "line-dash-pattern": [7, 4]},  # differs in gray as well
        "edge.between": {"opacity": 0.35},
        "edge.dimmed": {"opacity": 0.16},
        "edge:selected": {"opacity": 1, "line-color": colors.ink},
        "node.chosen": {"border-width": 3, "border-color": colors.ink, "font-weight": 700},
        "node:active": {"overlay-opacity": 0.08},
    }  # fmt: skip
    for node, (direction, amount) in (moved or {}).items():
        # Small amounts are raised, so that they are visible.
        color = blend([colors.card, by_sign[direction]], MAX_FILL[theme] * max(amount, 0.0) ** 0.7)
        styles[f'node[id = "{node}"]'] = {"background-color": color}
    for node in evidence:
        styles[f'node[id = "{node}"]'] = {
            "background-color": colors.ink, "color": colors.card, "border-color": colors.ink,
        }  # fmt: skip
    return [{"selector": selector, "style": style} for selector, style in styles.items()]


def _label_sizes(labels: list[str]) -> tuple[np.ndarray, np.ndarray]:
    lines = [label.split("\n") for label in labels]
    widths = np.array([LETTER * max(map(len, parts)) + PADDING for parts in lines])
    return widths, np.array([LINE * len(parts) + MARGIN for parts in lines])


def _layout_pixels(part: Subgraph, widths: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Return (nodes, 2) centers of the labels, which fill the box and do not overlap."""
    positions = layout_nodes(len(part.nodes), part.ends, part.strengths)
    return separate_labels(_spread(positions, len(part.nodes), BOX), widths, heights)


def _spread(positions: np.ndarray, n_nodes: int, box: np.ndarray) -> np.ndarray:
    """Return positions that fill a box, which grows with the number of nodes."""
    extent = np.maximum(np.ptp(positions, axis=0), 1e-9)
    centered = positions - (positions.max(axis=0) + positions.min(axis=0)) / 2
    return centered / extent * box * max(1.0, n_nodes / BOX_NODES) ** 0.5
