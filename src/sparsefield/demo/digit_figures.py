"""This module draws a field over a square of pixels: its network, its predictions, its signals and errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsefield.viz.palette import BLUE, GREY, INK, ORANGE, PALE, blend, diverging
from sparsefield.viz.svg import Drawing

__all__ = ["CompletedPicture", "PixelNetwork", "draw_completions", "draw_histograms", "draw_network"]

Array = np.ndarray[Any, np.dtype[Any]]
Place = tuple[float, float]

WIDTH = 900
STEP = 61.0
MISSING_COLOR = "#f6d9c4"
PAPER = ["#fbfbf9", INK]


@dataclass(frozen=True)
class PixelNetwork:
    """Edges among the pixels of a square, and between each pixel and a label.

    Attributes
    ----------
    ink : array (side, side)
        Mean darkness of each pixel, 0 to 1.
    varies : array (side, side) of bool
        Pixels that never change have no edges and are drawn hollow.
    pairs : array (edges, 2) of int
        Pixels, counted row by row; strongest edge first.
    strength : array (edges,)
    pulls : array (labels, side, side)
        Increase of the score of a darker pixel by a label.
    labels : sequence of str
    """

    ink: Array
    varies: Array
    pairs: Array
    strength: Array
    pulls: Array
    labels: Sequence[str]

    @property
    def side(self) -> int:
        return self.ink.shape[0]

    def touching(self) -> Array:
        """Return (edges,): whether an edge connects neighbors, side by side or corner to corner."""
        a, b = self.pairs[:, 0], self.pairs[:, 1]
        down, across = abs(a // self.side - b // self.side), abs(a % self.side - b % self.side)
        return np.maximum(down, across) == 1


@dataclass(frozen=True)
class CompletedPicture:
    """One picture: the truth, its missing pixels, and the completed picture.

    Attributes
    ----------
    truth, filled : array (side, side) of int
        Gray levels, 0 for paper.
    missing : array (side, side) of bool
    label, guess : str
    probability : float
        Predicted probability of the guess.
    """

    truth: Array
    filled: Array
    missing: Array
    label: str
    guess: str
    probability: float


def draw_network(network: PixelNetwork, *, strongest: int = 200) -> str:
    """Draw the strongest edges over the square, and beside it one small map per label."""
    drawing = Drawing(WIDTH, 600, "The learned network over the pixels, and the weights between digits and pixels")
    shown = min(strongest, len(network.pairs))
    drawing.text(36, 42, "Which pixels depend on each other", size=18, font_weight=600)
    drawing.text(36, 64, f"the {shown} strongest of {len(network.pairs):,} learned edges", fill=GREY)
    places = [(58.0 + STEP * (k % network.side), 106.0 + STEP * (k // network.side)) for k in range(network.ink.size)]
    _draw_edges(drawing, network, shown, places)
    _draw_nodes(drawing, network, places)
    touching = int(network.touching()[:shown].sum())
    _key(drawing, 50.0, 576.0, BLUE, f"neighboring pixels ({touching})")
    _key(drawing, 262.0, 576.0, ORANGE, f"farther apart ({shown - touching})")
    drawing.text(428, 576, "width: strength", fill=GREY)
    drawing.text(606, 42, "Weights of each digit", size=18, font_weight=600)
    drawing.text(606, 64, "edges between digit and pixels", fill=GREY)
    _draw_pulls(drawing, network, 636.0, 86.0)
    return drawing.render()


def _draw_edges(drawing: Drawing, network: PixelNetwork, shown: int, places: Sequence[Place]) -> None:
    touching = network.touching()
    largest = float(network.strength[0]) if shown else 1.0
    # Long edges are drawn first, and weak ones before strong ones.
    for k in sorted(range(shown), key=lambda k: (touching[k], network.strength[k])):
        a, b = (int(pixel) for pixel in network.pairs[k])
        drawing.path(
            _straight(places[a], places[b]) if touching[k] else _bowed(places[a], places[b], 1 - k % 2 * 2),
            fill="none",
            stroke=BLUE if touching[k] else ORANGE,
            stroke_width=0.6 + 7.4 * float(network.strength[k]) / largest,
            stroke_opacity=0.9 if touching[k] else 0.4,
            stroke_linecap="round",
            hint=f"{_name(a, network.side)} to {_name(b, network.side)}: {network.strength[k]:.2f}",
        )


def _draw_nodes(drawing: Drawing, network: PixelNetwork, places: Sequence[Place]) -> None:
    for (x, y), ink, varies in zip(places, network.ink.flat, network.varies.flat, strict=True):
        if varies:
            shade = blend(["#d0d5dd", INK], float(ink))
            drawing.rect(x - 9, y - 9, 18, 18, rx=4, fill=shade, stroke="#ffffff", stroke_width=2)
        else:
            drawing.rect(x - 8, y - 8, 16, 16, rx=3, fill="#ffffff", stroke="#d0d5dd")


def _straight(start: Place, end: Place) -> str:
    return f"M{start[0]:.1f} {start[1]:.1f}L{end[0]:.1f} {end[1]:.1f}"


def _bowed(start: Place, end: Place, side: int) -> str:
    """Return a curve that avoids the pixels between its ends, bent to one side (1) or the other (-1)."""
    (x1, y1), (x2, y2) = start, end
    along = math.hypot(x2 - x1, y2 - y1)
    aside = side * min(0.34 * along, 0.85 * STEP) / along
    x, y = (x1 + x2) / 2 + aside * (y2 - y1), (y1 + y2) / 2 - aside * (x2 - x1)
    return f"M{x1:.1f} {y1:.1f}Q{x:.1f} {y:.1f} {x2:.1f} {y2:.1f}"


def _name(pixel: int, side: int) -> str:
    return f"row {pixel // side + 1}, column {pixel % side + 1}"


def _key(drawing: Drawing, x: float, y: float, color: str, words: str) -> None:
    drawing.line(x, y - 4, x + 20, y - 4, stroke=color, stroke_width=5, stroke_linecap="round")
    drawing.text(x + 30, y, words, fill=GREY)


def _draw_pulls(drawing: Drawing, network: PixelNetwork, left: float, top: float) -> None:
    cell, down, across = 10.0, 96.0, 128.0
    limit = float(np.quantile(np.abs(network.pulls), 0.985)) or 1.0
    for k, label in enumerate(network.labels):
        x, y = left + (k % 2) * across, top + (k // 2) * down
        drawing.text(x - 10, y + 46, label, size=18, font_weight=600, text_anchor="end")
        for pixel, pull in enumerate(network.pulls[k].flat):
            place = (x + cell * (pixel % network.side), y + cell * (pixel // network.side))
            drawing.rect(*place, cell - 0.6, cell - 0.6, fill=diverging(float(pull) / limit))
    for k in range(60):
        drawing.rect(left + 44 + k * 2, 567, 2.2, 10, fill=diverging(k / 29.5 - 1))
    drawing.text(left + 36, 576, "lighter", fill=GREY, text_anchor="end")
    drawing.text(left + 174, 576, "darker", fill=GREY)


def draw_completions(completions: Sequence[CompletedPicture], *, levels: int) -> str:
    """Draw the truth, the visible pixels and the completed picture, a column per picture."""
    left, top, room, drop = 128.0, 96.0, 76.0, 92.0
    drawing = Drawing(WIDTH, 440, "Held-out digits: complete, with missing pixels, and completed by the field")
    drawing.text(36, 42, "Missing pixels, predicted", size=18, font_weight=600)
    drawing.text(
        36,
        64,
        "a third of the pixels and the digit itself are missing; no picture was used for learning",
        fill=GREY,
    )
    for row, words in enumerate((("complete", "picture"), ("visible", "pixels"), ("predicted", "picture"))):
        for k, word in enumerate(words):
            drawing.text(left - 22, top + row * drop + 28 + 16 * k, word, text_anchor="end", fill=GREY)
    for k, one in enumerate(completions):
        x, right = left + k * room, one.guess == one.label
        _draw_pixels(drawing, one.truth, x, top, levels)
        _draw_pixels(drawing, one.truth, x, top + drop, levels, missing=one.missing)
        _draw_pixels(drawing, one.filled, x, top + 2 * drop, levels, wrong=one.filled != one.truth)
        middle, foot = x + 32, top + 3 * drop + 10
        color = INK if right else ORANGE
        drawing.text(middle, foot, one.guess, size=20, font_weight=600, fill=color, text_anchor="middle")
        drawing.text(middle, foot + 18, f"{one.probability:.0%}", size=12, fill=GREY, text_anchor="middle")
        if not right:
            drawing.text(middle, foot + 34, f"is {one.label}", size=12, fill=ORANGE, text_anchor="middle")
    drawing.text(left - 22, top + 3 * drop + 8, "digit", text_anchor="end", fill=GREY)
    drawing.text(left - 22, top + 3 * drop + 28, "probability", text_anchor="end", fill=GREY, size=12)
    _legend(drawing, 768.0, 42.0)
    return drawing.render()


def _draw_pixels(
    drawing: Drawing,
    picture: Array,
    x: float,
    y: float,
    levels: int,
    *,
    missing: Array | None = None,
    wrong: Array | None = None,
) -> None:
    cell = 64.0 / picture.shape[0]
    drawing.rect(x - 1, y - 1, 66, 66, fill=PAPER[0], stroke=PALE)
    covered = np.zeros(picture.shape, dtype=bool) if missing is None else missing
    layers = [(picture == level) & ~covered for level in range(1, levels)]
    shades = [blend(PAPER, level / (levels - 1)) for level in range(1, levels)]
    for layer, shade in zip([*layers, covered], [*shades, MISSING_COLOR], strict=True):
        cells = (f"M{x + cell * c:g} {y + cell * r:g}h{cell:g}v{cell:g}h-{cell:g}z" for r, c in np.argwhere(layer))
        drawing.path("".join(cells), fill=shade, shape_rendering="crispEdges")
    for r, c in np.argwhere(wrong) if wrong is not None else ():
        middle = (x + cell * (float(c) + 0.5), y + cell * (float(r) + 0.5))
        drawing.shape("circle", cx=middle[0], cy=middle[1], r=1.9, fill=ORANGE)


def _legend(drawing: Drawing, x: float, y: float) -> None:
    drawing.rect(x - 6, y - 11, 12, 12, fill=MISSING_COLOR)
    drawing.text(x + 14, y, "missing", fill=GREY)
    drawing.shape("circle", cx=x, cy=y + 18, r=3, fill=ORANGE)
    drawing.text(x + 14, y + 22, "wrong gray", fill=GREY)


def draw_histograms(signals: Array, before: Array, after: Array, *, threshold: float) -> str:
    """Draw histograms of signals, and of errors without edges and at the end; values below the threshold are shaded."""
    drawing = Drawing(WIDTH, 430, "Histograms of signals and errors, with logarithmic counts")
    drawing.text(36, 42, "Signals and errors", size=18, font_weight=600)
    words = f"counts on a logarithmic scale; induction skips values within ±{threshold:g} (shaded)"
    drawing.text(36, 64, words, fill=GREY)
    bins = np.linspace(-1, 1, 41)
    counts = [np.histogram(values, bins)[0] for values in (signals, before, after)]
    highest = max(1.0, math.log10(max(int(count.max()) for count in counts) or 1))
    for left, main, ghost, values, name in (
        (76.0, counts[0], None, signals, "signal: deviation of a cell from its mean"),
        (506.0, counts[2], counts[1], after, "error: deviation of a cell from its prediction"),
    ):
        _axes(drawing, left, highest, threshold)
        _bars(drawing, left, main, highest)
        if ghost is not None:
            _outline(drawing, left, ghost, highest)
        small = float(np.mean(np.abs(values) < threshold))
        drawing.text(left + 179, 384, name, text_anchor="middle")
        drawing.text(left + 179, 404, f"{small:.0%} within ±{threshold:g}", text_anchor="middle", fill=GREY)
    drawing.rect(746, 31, 12, 12, fill=BLUE)
    drawing.text(768, 42, "learned field", fill=GREY)
    drawing.line(742, 60, 762, 60, stroke=ORANGE, stroke_width=2)
    drawing.text(768, 64, "without edges", fill=GREY)
    return drawing.render()


TOP, FLOOR, SPAN = 92.0, 334.0, 358.0


def _height(count: float, highest: float) -> float:
    """Return the height of a bar; the floor is a little below 1, so that a single entry is visible."""
    return (FLOOR - TOP) * (math.log10(count) + 0.3) / (highest + 0.3) if count > 0 else 0.0


def _axes(drawing: Drawing, left: float, highest: float, threshold: float) -> None:
    center = left + SPAN / 2
    half = threshold * SPAN / 2
    drawing.rect(center - half, TOP - 4, 2 * half, FLOOR - TOP + 4, fill="#f2f4f7")
    for power in range(int(highest) + 1):
        y = FLOOR - _height(10.0**power, highest)
        drawing.line(left, y, left + SPAN, y, stroke=PALE)
        words = f"{10**power:,}"
        drawing.text(left - 8, y + 4, words, size=11, fill=GREY, text_anchor="end")
    drawing.line(left, FLOOR, left + SPAN, FLOOR, stroke=GREY)
    for tick in (-1.0, -0.5, 0.0, 0.5, 1.0):
        x = center + tick * SPAN / 2
        drawing.line(x, FLOOR, x, FLOOR + 5, stroke=GREY)
        drawing.text(x, FLOOR + 20, f"{tick:g}".replace("-", "−"), size=12, fill=GREY, text_anchor="middle")  # noqa: RUF001


def _bars(drawing: Drawing, left: float, counts: Array, highest: float) -> None:
    width = SPAN / len(counts)
    for k, count in enumerate(counts):
        height = _height(int(count), highest)
        if height:
            x = left + k * width
            drawing.rect(x + 0.6, FLOOR - height, width - 1.2, height, fill=BLUE, hint=f"{int(count):,}")


def _outline(drawing: Drawing, left: float, counts: Array, highest: float) -> None:
    width = SPAN / len(counts)
    steps, above = "", False
    for k, count in enumerate(counts):
        x, y = left + k * width, FLOOR - _height(int(count), highest)
        if count > 0:
            steps += f"L{x:.1f} {y:.1f}" if above else f"M{x:.1f} {FLOOR:.1f}L{x:.1f} {y:.1f}"
            steps += f"L{x + width:.1f} {y:.1f}"
        elif above:
            steps += f"L{x:.1f} {FLOOR:.1f}"
        above = count > 0
    steps += f"L{left + SPAN:.1f} {FLOOR:.1f}" if above else ""
    drawing.path(steps, fill="none", stroke=ORANGE, stroke_width=2)
