"""This module finds room for the names of nodes: within their circles, or beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparsefield.app.pages.node_positions import LABEL_GAP
from sparsefield.app.pages.short_names import shorten_all, wrap_name
from sparsefield.app.pages.svg import text_width

Array = np.ndarray
Box = tuple[float, float, float, float]

LINES = (18, 14, 11, 8)
"""Letters of a line of a name beside a circle, the first that leaves room for all names; a name has up to two lines."""

SMALLEST = 7.0
"""Smallest size of names within circles, in pixels: about 5 points."""

SHARE_INSIDE = 0.6
"""Share of names that must fit into circles; else all are beside them."""

ALL_NAMED = 60
"""Nodes up to which each gets its name, even where names touch; among more, names without room are left out."""

COVERED_CIRCLE = 3.0
"""Weight of an area of a circle that a name covers, beside that of other names."""


@dataclass(frozen=True)
class NodeLabel:
    """A name beside a circle."""

    name: str
    lines: tuple[tuple[str, float], ...]
    """The lines of the name, each with its base line."""
    x: float
    anchor: str
    is_whole: bool
    """Whether the whole name is shown."""
    box: Box
    """Left, top, right and bottom."""


def size_inside(name: str, radius: float, largest: float) -> float | None:
    """Return the size at which a name fits into a circle; None where it could not be read."""
    size = min(largest, 1.8 * radius / (0.58 * max(len(name), 1)))
    return size if size >= SMALLEST else None


def names_inside(names: Sequence[str], radius: float, style: str) -> Array:
    """Return (nodes,) bool: which names are within circles of a radius: "inside", "beside" or "auto"."""
    if style != "auto":
        return np.full(len(names), style == "inside")
    found = np.array([size_inside(name, radius, np.inf) is not None for name in names], dtype=bool)
    return found & (found.mean() >= SHARE_INSIDE) if len(names) else found


def wrap_names(names: Sequence[str], width: int) -> list[list[str]]:
    """Return the lines of each name, of up to ``width`` letters; different names stay different."""
    return [wrap_name(name, width) for name in shorten_all(names, 2 * width - 2)]


def label_boxes(lines: Sequence[Sequence[str]], inside: Array, radii: Array, size: float) -> tuple[Array, Array]:
    """Return the widths and heights (nodes,) that nodes need with their names, less the usual gaps."""
    widths = np.array([max(0.92 * text_width(line, size) for line in own) for own in lines])
    widths = np.maximum(widths, 2 * radii) - LABEL_GAP[0] / 2
    heights = np.array([len(own) * size for own in lines]) + np.maximum(2 * radii + 4.0, radii + 10.0) - LABEL_GAP[1]
    sides = np.where(inside[:, None], 2.9 * radii[:, None] - LABEL_GAP, np.column_stack([widths, heights]))
    return np.maximum(sides[:, 0], 1.0), np.maximum(sides[:, 1], 1.0)


def beside_labels(
    names: Sequence[str],
    lines: Sequence[Sequence[str]],
    places: Array,
    radii: Array,
    size: float,
    frame: Box,
    order: Sequence[int],
) -> tuple[list[NodeLabel], float]:
    """Return labels below, above, right or left of the circles in ``order``, and the area that they hide.

    Each is where it hides least of circles, of labels before it, and beyond the frame.
    """
    circles = np.column_stack([places - radii[:, None], places + radii[:, None]])
    taken: list[Box] = []
    found: list[NodeLabel] = []
    hidden = 0.0
    for k in order:
        own = lines[k]
        options = _candidates(own, places[k].tolist(), float(radii[k]), size, frame)
        outside = [1e3 * max(0.0, frame[1] - box[1], box[3] - frame[3]) for box, _, _ in options]
        near = circles[np.abs(places - places[k]).max(axis=1) < 40.0 * size].tolist()
        costs = [
            overlap(box, taken) + COVERED_CIRCLE * overlap(box, near) + out
            for (box, _, _), out in zip(options, outside, strict=True)
        ]
        best = int(np.argmin(np.round(costs, 6)))
        if costs[best] > 0.0 and len(names) > ALL_NAMED:
            continue
        hidden += costs[best]
        box, x, anchor = options[best]
        taken.append(box)
        rows = tuple((line, box[1] + 0.82 * size + j * 1.08 * size) for j, line in enumerate(own))
        whole = "".join(own).replace(" ", "") == str(names[k]).replace(" ", "")
        found.append(NodeLabel(str(names[k]), rows, x, anchor, whole, box))
    return found, hidden


def _candidates(
    lines: Sequence[str], place: Sequence[float], radius: float, size: float, frame: Box
) -> list[tuple[Box, float, str]]:
    """Return (box, x, anchor) of the places beside a circle, the best first, all within the frame."""
    (x, y), gap = place, 2.5
    width = max(0.92 * text_width(line, size) for line in lines)
    height = 1.08 * size * len(lines)
    middle = min(max(x, frame[0] + width / 2), max(frame[2] - width / 2, frame[0] + width / 2))
    across = (middle - width / 2, middle + width / 2)
    found: list[tuple[Box, float, str]] = [
        ((across[0], y + radius + gap, across[1], y + radius + gap + height), middle, "middle"),
        ((across[0], y - radius - gap - height, across[1], y - radius - gap), middle, "middle"),
    ]
    top = y - height / 2
    right, left = x + radius + gap + 1.0, x - radius - gap - 1.0
    if right + width <= frame[2]:
        found.append(((right, top, right + width, top + height), right, "start"))
    if left - width >= frame[0]:
        found.append(((left - width, top, left, top + height), left, "end"))
    return found


def overlap(box: Box, others: Sequence[Sequence[float]]) -> float:
    """Return the area that a box shares with others."""
    total = 0.0
    for left, top, right, bottom in others:
        wide, high = min(box[2], right) - max(box[0], left), min(box[3], bottom) - max(box[1], top)
        total += wide * high if wide > 0 and high > 0 else 0.0
    return total


def box_area(box: Box) -> float:
    """Return the area of a box."""
    return (box[2] - box[0]) * (box[3] - box[1])
