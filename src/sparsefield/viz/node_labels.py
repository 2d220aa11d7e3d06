"""This module finds room for the names of nodes: within their circles, or beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparsefield.viz.node_positions import LABEL_GAP
from sparsefield.viz.short_names import shorten_all, wrap_name
from sparsefield.viz.svg import text_width

Array = np.ndarray
Box = tuple[float, float, float, float]

LONGEST = 34
"""Letters of a name beside a circle, in two lines."""

LINE = 18
"""Letters of a line."""

SMALLEST = 7.0
"""Smallest size of names within circles, in pixels: about 5 points."""

ALL_NAMED = 60
"""Nodes up to which each gets its name, even where names touch; among more, names without room are left out."""


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


def fit_inside(names: Sequence[str], radius: float, largest: float) -> float | None:
    """Return the size at which the longest name fits into a circle; None where it could not be read."""
    longest = max((len(name) for name in names), default=1)
    size = min(largest, 1.8 * radius / (0.58 * max(longest, 1)))
    return size if size >= SMALLEST else None


def label_boxes(names: Sequence[str], radii: Array, inside: float | None, size: float) -> tuple[Array, float]:
    """Return the widths (nodes,) and the height that nodes need with their names, less the usual gaps."""
    if inside is not None:
        side = np.maximum(2.9 * radii - LABEL_GAP[0], 1.0)
        return side, float(max(2.9 * radii.max() - LABEL_GAP[1], 1.0))
    wrapped = [wrap_name(name, LINE) for name in shorten_all(names, LONGEST)]
    widths = np.array([max(0.88 * text_width(line, size) for line in lines) for lines in wrapped])
    rows = max(len(lines) for lines in wrapped)
    return np.maximum(widths - LABEL_GAP[0] / 2, 1.0), rows * size + float(radii.max()) + 2.0 - LABEL_GAP[1] / 2


def beside_labels(
    names: Sequence[str], places: Array, radii: Array, size: float, frame: Box, ranks: Array
) -> list[NodeLabel]:
    """Return labels below, above, right or left of the circles, where they overlap least; high ``ranks`` come first."""
    shown = shorten_all(names, LONGEST)
    circles = np.column_stack([places - radii[:, None], places + radii[:, None]])
    taken: list[Box] = []
    found = []
    for k in np.lexsort((np.arange(len(names)), -ranks)).tolist():
        lines = wrap_name(shown[k], LINE)
        options = _candidates(lines, places[k].tolist(), float(radii[k]), size, frame)
        outside = [1e3 * max(0.0, frame[1] - box[1], box[3] - frame[3]) for box, _, _ in options]
        costs = [
            overlap(box, taken) + 0.7 * overlap(box, circles.tolist()) + out
            for (box, _, _), out in zip(options, outside, strict=True)
        ]
        best = int(np.argmin(np.round(costs, 6)))
        if costs[best] > 0.0 and len(names) > ALL_NAMED:
            continue
        box, x, anchor = options[best]
        taken.append(box)
        rows = tuple((line, box[1] + 0.82 * size + j * 1.08 * size) for j, line in enumerate(lines))
        found.append(NodeLabel(str(names[k]), rows, x, anchor, shown[k] == names[k]))
    return found


def _candidates(
    lines: Sequence[str], place: Sequence[float], radius: float, size: float, frame: Box
) -> list[tuple[Box, float, str]]:
    """Return (box, x, anchor) of the places beside a circle, the best first, all within the frame."""
    (x, y), gap = place, 2.5
    width = max(0.88 * text_width(line, size) for line in lines)
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
