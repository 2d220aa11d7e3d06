"""This module draws a field over a square of pixels: its network, its predictions, its signals and errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsefield.app.pages.charts import HistogramPanel, draw_panels
from sparsefield.app.pages.palette import BLUE, GREY, INK, ORANGE, PALE, blend, diverging
from sparsefield.app.pages.svg import Drawing

Array = np.ndarray[Any, np.dtype[Any]]
Place = tuple[float, float]

WIDTH = 900
STEP = 61.0
MISSING_COLOR = "#f6d9c4"
PAPER = ["#fbfbf9", INK]


@dataclass(frozen=True)
class PixelNetwork:
    """Edges among the pixels of a square, and between each pixel and a digit."""

    ink: Array
    """(side, side): mean darkness of each pixel, 0 to 1."""
    varies: Array
    """(side, side) bool: pixels that never change have no edges and are drawn hollow."""
    pairs: Array
    """(edges, 2): pixels, numbered row by row; strongest edge first."""
    strength: Array
    digit_weights: Array
    """(digits, side, side): mean increase of the weight between digit and pixel per gray level."""

    @property
    def side(self) -> int:
        return self.ink.shape[0]

    def neighbors(self) -> Array:
        """Return (edges,): whether an edge connects neighbors, side by side or corner to corner."""
        return are_neighbors(self.pairs, self.side)


def are_neighbors(pairs: Array, side: int) -> Array:
    """Return (pairs,): whether the pixels of a pair are neighbors, side by side or corner to corner."""
    a, b = pairs[:, 0], pairs[:, 1]
    return np.maximum(abs(a // side - b // side), abs(a % side - b % side)) == 1


@dataclass(frozen=True)
class CompletedPicture:
    """One picture: the truth, its missing pixels, and the completed picture."""

    truth: Array
    """(side, side): gray levels, 0 for paper."""
    filled: Array
    missing: Array
    label: str
    guess: str
    probability: float
    """Predicted probability of the guess."""


def draw_network(network: PixelNetwork, *, strongest: int = 200) -> str:
    """Draw the strongest edges over the square, and beside it one small map per label."""
    drawing = Drawing(WIDTH, 600, "The learned network over the pixels, and the weights between digits and pixels")
    shown = min(strongest, len(network.pairs))
    drawing.text(36, 42, "Which pixels depend on each other", size=18, font_weight=600)
    drawing.text(36, 64, f"the {shown} strongest of {len(network.pairs):,} learned edges", fill=GREY)
    places = [(58.0 + STEP * (k % network.side), 106.0 + STEP * (k // network.side)) for k in range(network.ink.size)]
    _draw_edges(drawing, network, shown, places)
    for (x, y), ink, varies in zip(places, network.ink.flat, network.varies.flat, strict=True):
        shade, edge = (blend(["#d0d5dd", INK], float(ink)), "#ffffff") if varies else ("#ffffff", "#d0d5dd")
        drawing.rect(x - 8.5, y - 8.5, 17, 17, rx=4, fill=shade, stroke=edge, stroke_width=1 + varies)
    neighbors = int(network.neighbors()[:shown].sum())
    keys = (50.0, BLUE, f"neighboring pixels ({neighbors})"), (262.0, ORANGE, f"farther apart ({shown - neighbors})")
    for x, color, words in keys:
        drawing.line(x, 572, x + 20, 572, stroke=color, stroke_width=5, stroke_linecap="round")
        drawing.text(x + 30, 576, words, fill=GREY)
    drawing.text(428, 576, "width: strength", fill=GREY)
    drawing.text(606, 42, "Weights of each digit", size=18, font_weight=600)
    drawing.text(606, 64, "edges between digit and pixels", fill=GREY)
    _draw_digit_weights(drawing, network, 636.0, 86.0)
    return drawing.render()


def _draw_edges(drawing: Drawing, network: PixelNetwork, shown: int, places: Sequence[Place]) -> None:
    near = network.neighbors()
    largest = float(network.strength[0]) if shown else 1.0
    # Long edges are drawn first, and weak ones before strong ones.
    for k in sorted(range(shown), key=lambda k: (near[k], network.strength[k])):
        (a, b), strength, side = network.pairs[k].tolist(), float(network.strength[k]), network.side
        drawing.path(
            _curve(places[a], places[b], 0 if near[k] else 1 - k % 2 * 2),
            fill="none",
            stroke=BLUE if near[k] else ORANGE,
            stroke_width=0.6 + 7.4 * strength / largest,
            stroke_opacity=0.9 if near[k] else 0.4,
            stroke_linecap="round",
            hint=" to ".join(f"row {k // side + 1}, column {k % side + 1}" for k in (a, b)) + f": {strength:.2f}",
        )


def _curve(start: Place, end: Place, side: int) -> str:
    """Return a straight line (0), or a curve around the pixels between its ends, to one side (1) or the other (-1)."""
    (x1, y1), (x2, y2) = start, end
    along = math.hypot(x2 - x1, y2 - y1)
    aside = side * min(0.34 * along, 0.85 * STEP) / along
    x, y = (x1 + x2) / 2 + aside * (y2 - y1), (y1 + y2) / 2 - aside * (x2 - x1)
    return f"M{x1:.1f} {y1:.1f}Q{x:.1f} {y:.1f} {x2:.1f} {y2:.1f}"


def _draw_digit_weights(drawing: Drawing, network: PixelNetwork, left: float, top: float) -> None:
    cell, down, across = 10.0, 96.0, 128.0
    limit = float(np.quantile(np.abs(network.digit_weights), 0.985)) or 1.0
    for k, weights in enumerate(network.digit_weights):
        x, y = left + (k % 2) * across, top + (k // 2) * down
        drawing.text(x - 10, y + 46, str(k), size=18, font_weight=600, text_anchor="end")
        for pixel, weight in enumerate(weights.flat):
            place = (x + cell * (pixel % network.side), y + cell * (pixel // network.side))
            drawing.rect(*place, cell - 0.6, cell - 0.6, fill=diverging(float(weight) / limit))
    for k in range(60):
        drawing.rect(left + 44 + k * 2, 567, 2.2, 10, fill=diverging(k / 29.5 - 1))
    drawing.text(left + 36, 576, "lighter", fill=GREY, text_anchor="end")
    drawing.text(left + 174, 576, "darker", fill=GREY)


def draw_completions(completions: Sequence[CompletedPicture], *, levels: int) -> str:
    """Draw the truth, the visible pixels and the completed picture, a column per picture."""
    left, top, room, drop = 128.0, 96.0, 76.0, 92.0
    drawing = Drawing(WIDTH, 440, "Held-out digits: complete, with missing pixels, and completed by the field")
    drawing.text(36, 42, "Missing pixels, predicted", size=18, font_weight=600)
    words = "a third of the pixels and the digit itself are missing; no picture was used for learning"
    drawing.text(36, 64, words, fill=GREY)
    for row, words in enumerate((("complete", "picture"), ("visible", "pixels"), ("predicted", "picture"))):
        for k, word in enumerate(words):
            drawing.text(left - 22, top + row * drop + 28 + 16 * k, word, text_anchor="end", fill=GREY)
    for k, one in enumerate(completions):
        x, right = left + k * room, one.guess == one.label
        nothing, cell = np.zeros_like(one.missing), 64.0 / one.truth.shape[0]
        pictures = (one.truth, nothing), (one.truth, one.missing), (one.filled, nothing)
        for row, (picture, missing) in enumerate(pictures):
            _draw_pixels(drawing, x, top + row * drop, picture, levels, missing)
        for r, c in np.argwhere(one.filled != one.truth) + 0.5:
            drawing.shape("circle", cx=x + cell * c, cy=top + 2 * drop + cell * r, r=1.9, fill=ORANGE)
        middle, foot = x + 32, top + 3 * drop + 10
        color = INK if right else ORANGE
        drawing.text(middle, foot, one.guess, size=20, font_weight=600, fill=color, text_anchor="middle")
        drawing.text(middle, foot + 18, f"{one.probability:.0%}", size=12, fill=GREY, text_anchor="middle")
        if not right:
            drawing.text(middle, foot + 34, f"is {one.label}", size=12, fill=ORANGE, text_anchor="middle")
    drawing.text(left - 22, top + 3 * drop + 8, "digit", text_anchor="end", fill=GREY)
    drawing.text(left - 22, top + 3 * drop + 28, "probability", text_anchor="end", fill=GREY, size=12)
    drawing.rect(762, 31, 12, 12, fill=MISSING_COLOR)
    drawing.text(782, 42, "missing", fill=GREY)
    drawing.shape("circle", cx=768, cy=60, r=3, fill=ORANGE)
    drawing.text(782, 64, "wrong gray", fill=GREY)
    return drawing.render()


def _draw_pixels(drawing: Drawing, x: float, y: float, picture: Array, levels: int, missing: Array) -> None:
    cell = 64.0 / picture.shape[0]
    drawing.rect(x - 1, y - 1, 66, 66, fill=PAPER[0], stroke=PALE)
    layers = [(picture == level) & ~missing for level in range(1, levels)]
    shades = [blend(PAPER, level / (levels - 1)) for level in range(1, levels)]
    for layer, shade in zip([*layers, missing], [*shades, MISSING_COLOR], strict=True):
        cells = (f"M{x + cell * c:g} {y + cell * r:g}h{cell:g}v{cell:g}h-{cell:g}z" for r, c in np.argwhere(layer))
        drawing.path("".join(cells), fill=shade, shape_rendering="crispEdges")


def draw_histograms(signals: Array, before: Array, after: Array, *, threshold: float) -> str:
    """Draw histograms of signals, and of errors without edges and at the end, with the shares below the threshold."""
    edges, panels = np.linspace(-1, 1, 41), []
    for title, values in (("Signals", signals), ("Errors without edges", before), ("Errors of the field", after)):
        label = f"{np.mean(np.abs(values) < threshold):.0%} are within ±{threshold:g}"
        panels.append(HistogramPanel(title, label, edges.tolist(), np.histogram(values, edges)[0].tolist()))
    return draw_panels("Signals and errors", panels, columns=3)
