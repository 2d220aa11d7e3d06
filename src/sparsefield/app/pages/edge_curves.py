"""This module bends the edges of a figure around circles, and finds room for their weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparsefield.app.pages.figure_options import Position
from sparsefield.app.pages.node_labels import Box, overlap
from sparsefield.app.pages.svg import Drawing, text_width

Array = np.ndarray

CLEARANCE = 2.0
"""Pixels between a circle and an edge that does not belong to it."""

STEPS = 8
"""Bends that are tried on either side of an edge."""

STEEPEST = 0.7
"""Largest bend: distance of the control point from the line, as a share of its length."""

POINTS = np.linspace(0.0, 1.0, 25)
"""Shares of a curve at which it is compared with circles and weights."""

SPOTS = (0.5, 0.45, 0.55, 0.4, 0.6, 0.35, 0.65, 0.3, 0.7, 0.25, 0.75)
"""Shares of a curve at which its weight may be."""

TOUCHED = 1.5
"""Pixels by which a weight may reach into a circle."""

COVERED = 0.4
"""Share of the radius of a circle that a weight may cover where no other place is left."""

LEAST_VISIBLE = 8.0
"""Pixels of an edge that its weight should leave visible."""

CROSSED, ASIDE, HIDDEN = 1.0, 0.75, 0.9
"""Costs of a weight on another edge, of one that is beside its own, and of one that hides its own."""


@dataclass(frozen=True)
class EdgeCurve:
    """A quadratic curve between two nodes: start, control point and end; straight where the latter is in the middle."""

    start: Position
    control: Position
    end: Position
    is_straight: bool = True

    def points(self, shares: Array = POINTS) -> Array:
        """Return (shares, 2) points of the curve: 0 is its start, 1 its end."""
        parts = np.column_stack([(1 - shares) ** 2, 2 * shares * (1 - shares), shares**2])
        return parts @ np.array([self.start, self.control, self.end])

    def normal(self, share: float) -> Array:
        """Return the direction across the curve at a share of it, of length 1; upward for a loop."""
        start, control, end = np.array([self.start, self.control, self.end])
        x, y = (1 - share) * (control - start) + share * (end - control)
        length = float(np.hypot(x, y))
        return np.array([-y, x]) / length if length > 0.0 else np.array([0.0, -1.0])


def bend_line(start: Array, end: Array, bend: float) -> EdgeCurve:
    """Return the curve between two points whose control point is beside their middle, by a share of their distance."""
    (x1, y1), (x2, y2) = start.tolist(), end.tolist()
    control = (x1 + x2) / 2 + bend * (y2 - y1), (y1 + y2) / 2 - bend * (x2 - x1)
    return EdgeCurve((x1, y1), control, (x2, y2), is_straight=bend == 0.0)


def bend_around(start: Array, end: Array, centers: Array, radii: Array, frame: Box) -> EdgeCurve:
    """Return the curve between two points that is hidden least by circles of other nodes, straight if none hides it.

    Parameters
    ----------
    start, end : (2,)
    centers, radii : (circles, 2) and (circles,), without the circles of both ends
    frame : left, top, right and bottom, which the curve should not leave
    """
    straight, along = bend_line(start, end, 0.0), end - start
    length, step = float(np.linalg.norm(along)), 0.5 * (float(radii.max(initial=0.0)) + CLEARANCE)
    shares = np.clip((centers - start) @ along / max(length**2, 1e-9), 0.0, 1.0)
    apart = np.linalg.norm(centers - start - shares[:, None] * along, axis=1)
    if length == 0.0 or not len(apart) or (apart >= radii + CLEARANCE).all():
        return straight
    near = apart < radii + CLEARANCE + STEPS * step
    centers, radii = centers[near], radii[near]
    best, least = straight, 0.5 * _hidden(straight, centers, radii, frame)
    bends = [side * 2.0 * k * step / length for k in range(1, STEPS + 1) for side in (1, -1)]
    for bend in (bend for bend in bends if abs(bend) <= STEEPEST):  # the least bent of equally good ones is first
        curve = bend_line(start, end, bend)
        hidden = _hidden(curve, centers, radii, frame)
        if hidden < least - 1e-6:
            best, least = curve, hidden
        if least <= 0.0:
            break
    return best


def _hidden(curve: EdgeCurve, centers: Array, radii: Array, frame: Box) -> float:
    """Return by how many pixels a curve enters circles, and leaves the frame."""
    points = curve.points()
    apart = np.sqrt(np.square(points[:, None] - centers).sum(axis=2).min(axis=0, initial=np.inf))
    outside = np.maximum(np.array(frame[:2]) - points, points - np.array(frame[2:])).max(initial=0.0)
    return float(np.maximum(radii + CLEARANCE - apart, 0.0).sum() + max(outside, 0.0))


def draw_loop(drawing: Drawing, center: Array, radius: float, style: dict[str, object]) -> EdgeCurve:
    """Draw an edge of a node with itself above its circle, and return where its weight may be."""
    (x, y), size = center.tolist(), max(0.9 * radius, 6.0)
    drawing.circle(x, y - radius - 0.5 * size, size, **style)
    top = x, y - radius - 1.5 * size
    return EdgeCurve(top, top, top)


def draw_curve(drawing: Drawing, curve: EdgeCurve, style: dict[str, object]) -> None:
    """Draw an edge."""
    (x1, y1), (x, y), (x2, y2) = curve.start, curve.control, curve.end
    if curve.is_straight:
        drawing.line(x1, y1, x2, y2, **style)
    else:
        drawing.path(f"M{x1:.2f} {y1:.2f}Q{x:.2f} {y:.2f} {x2:.2f} {y2:.2f}", **style)


def place_weights(
    texts: Sequence[str],
    curves: Sequence[EdgeCurve],
    size: float,
    centers: Array,
    radii: Array,
    taken: Sequence[Box],
    frame: Box,
) -> list[Position | None]:
    """Return the centers of the weights of edges, those of the first ones first; None where there is no room.

    A weight is on its edge, or beside it and nearer to it than to others, where it covers no circle, name or other
    weight, and few other edges.

    Parameters
    ----------
    texts, curves : weights and their edges, the strongest first
    size : size of the text
    centers, radii : circles
    taken : boxes of names
    frame : left, top, right and bottom
    """
    boxes, found = list(taken), []
    lines = np.array([curve.points() for curve in curves]).reshape(len(curves), len(POINTS), 2)
    reach = 0.7 * float(radii.max(initial=0.0))
    for k, (text, curve) in enumerate(zip(texts, curves, strict=True)):
        half = np.array([0.46 * text_width(text, size), 0.55 * size])
        others = _near(np.delete(lines, k, axis=0), lines[k], 2.0 * (reach + float(half.sum())))
        room = _Room(centers, radii, boxes, frame)
        spot = _find_spot(curve, lines[k], others, half, reach, room)
        boxes += [] if spot is None else [_box(spot, half)]
        found.append(None if spot is None else (float(spot[0]), float(spot[1])))
    return found


@dataclass(frozen=True)
class _Room:
    """What a weight must not cover."""

    centers: Array
    radii: Array
    taken: Sequence[Box]
    frame: Box

    def has(self, box: Box, share: float = 1.0) -> bool:
        """Return whether a box is within the frame, and covers no other box and no circle but for its margin.

        Of circles only the inner ``share`` of the radius counts.
        """
        frame = self.frame
        if box[0] < frame[0] or box[1] < frame[1] or box[2] > frame[2] or box[3] > frame[3]:
            return False
        nearest = np.clip(self.centers, box[:2], box[2:])
        if (np.linalg.norm(nearest - self.centers, axis=1) < share * self.radii - TOUCHED).any():
            return False
        return overlap(box, self.taken) <= 0.0

    def visible(self, line: Array) -> Array:
        """Return the points of a line (points, 2) that no circle hides."""
        apart = np.linalg.norm(line[:, None] - self.centers, axis=2)
        return line[(apart > self.radii).all(axis=1)]


def _find_spot(curve: EdgeCurve, line: Array, others: Array, half: Array, reach: float, room: _Room) -> Array | None:
    """Return the center of the weight of an edge; None if there is no room.

    ``line`` are points of the edge, ``others`` those of edges near it, and ``half`` is half the size of the weight.
    """
    best, least = None, np.inf
    visible, step = room.visible(line), float(np.linalg.norm(line[1] - line[0]))
    for cost, spot in _spots(curve, half, reach):
        if cost >= least or not room.has(_box(spot, half)):
            continue
        if cost >= ASIDE and not _is_nearest(line, others, spot):
            continue
        crossed = int(np.any(np.all(np.abs(others - spot) <= half, axis=2), axis=1).sum())
        left = int((~np.all(np.abs(visible - spot) <= half, axis=1)).sum()) * step
        total = cost + CROSSED * crossed + (HIDDEN if left < LEAST_VISIBLE else 0.0)
        if total < least:
            best, least = spot, total
    if best is None:  # between two circles that are near each other, on their margins
        (middle,) = curve.points(np.array([0.5]))
        best = middle if room.has(_box(middle, half), 1.0 - COVERED) else None
    return best


def _box(spot: Array, half: Array) -> Box:
    (left, top), (right, bottom) = (spot - half).tolist(), (spot + half).tolist()
    return left, top, right, bottom


def _spots(curve: EdgeCurve, half: Array, farther: float) -> list[tuple[float, Array]]:
    """Return where a weight may be, each with its cost: along its edge, beside it, and some pixels farther away."""
    along = curve.points(np.array(SPOTS))
    found = [(abs(share - 0.5), spot) for share, spot in zip(SPOTS, along, strict=True)]
    for share, spot in zip(SPOTS, along, strict=True):
        normal = curve.normal(share)
        for k, more in enumerate((0.0, farther), start=1):
            away, cost = normal * (float(np.abs(normal) @ half) + 1.5 + more), k * ASIDE + abs(share - 0.5)
            found += [(cost, spot + away), (cost, spot - away)]
    return found


def _near(lines: Array, own: Array, distance: float) -> Array:
    """Return the curves (curves, points, 2) whose bounding boxes are near that of a curve (points, 2)."""
    low, high = own.min(axis=0) - distance, own.max(axis=0) + distance
    return lines[((lines.max(axis=1) >= low) & (lines.min(axis=1) <= high)).all(axis=1)]


def _is_nearest(own: Array, others: Array, spot: Array) -> bool:
    """Return whether a curve (points, 2) is nearer to a spot than others (curves, points, 2): readers will think so."""
    apart = np.square(others - spot).sum(axis=2).min(initial=np.inf)
    return bool(np.square(own - spot).sum(axis=1).min() <= apart)
