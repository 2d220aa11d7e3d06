"""Pictures of a field over a square of pixels: its network, and its predictions of missing pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.colors import LinearSegmentedColormap, ListedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from sparsefield.app.pages.groups import BLUE, GREY, INK, ORANGE, PALE, WHITE
from sparsefield.estimators import MarkovField

Array = np.ndarray[Any, np.dtype[Any]]

SIDE, PIXELS, DIGIT = 8, 64, 64
"""Columns 0 to 63 are the pixels, row by row; column 64 is the digit."""
NAMES = [f"r{k // SIDE + 1}c{k % SIDE + 1}" for k in range(PIXELS)] + ["digit"]
SHOWN_EDGES = 200
MISSING_COLOR = "#f6d9c4"
PAPER = LinearSegmentedColormap.from_list("paper", ["#fbfbf9", INK])
DIVERGING = LinearSegmentedColormap.from_list("weights", [ORANGE, "#f3b583", "#f7f7f5", "#8fc1e3", BLUE])


@dataclass(frozen=True)
class PixelNetwork:
    """Edges among the pixels of a square, and between each pixel and a digit."""

    ink: Array
    """(pixels,): mean darkness of each pixel, 0 to 1."""
    varies: Array
    """(pixels,) bool: pixels that never change have no edges and are drawn hollow."""
    pairs: Array
    """(edges, 2): pixels, numbered row by row; strongest edge first."""
    strength: Array
    digit_weights: Array
    """(digits, side, side): mean increase of the weight between digit and pixel per gray level."""


def learned_network(field: MarkovField, shades: Array) -> PixelNetwork:
    """Return the field's edges among pixels and its weights between digits and pixels, of (rows, 64) gray levels."""
    levels = int(shades.max()) + 1
    place = {name: k for k, name in enumerate(NAMES)}
    edges = field.edges_.filter((pl.col("variable_a") != "digit") & (pl.col("variable_b") != "digit"))
    pairs = [[place[a], place[b]] for a, b in edges.select("variable_a", "variable_b").iter_rows()]
    weights = np.zeros((PIXELS, levels, 10))
    scores = {v.name: dict(zip(v.states, v.scores, strict=True)) for v in field.field_.schema.variables if v.scores}
    for a, state_a, b, state_b, weight in field.features_.iter_rows():
        if "digit" not in (a, b):
            continue
        pixel, level, digit = (a, state_a, state_b) if b == "digit" else (b, state_b, state_a)
        for shade, value in ({level: 1.0} if level is not None else scores[pixel]).items():
            weights[place[pixel], int(shade), int(digit)] += weight * value
    weights -= weights.mean(axis=2, keepdims=True)  # relative to the mean over digits
    steps = np.arange(levels) - (levels - 1) / 2
    slopes = np.einsum("pld,l->dp", weights, steps / (steps @ steps))
    return PixelNetwork(
        ink=shades.mean(axis=0) / (levels - 1),
        varies=(shades != shades[0]).any(axis=0),
        pairs=np.array(pairs, dtype=int).reshape(-1, 2),
        strength=edges["strength"].to_numpy(),
        digit_weights=slopes.reshape(10, SIDE, SIDE),
    )


def are_neighbors(pairs: Array) -> Array:
    """Return (pairs,): whether the pixels of a pair are neighbors, side by side or corner to corner."""
    a, b = pairs[:, 0], pairs[:, 1]
    return np.maximum(abs(a // SIDE - b // SIDE), abs(a % SIDE - b % SIDE)) == 1


def draw_network(network: PixelNetwork) -> str:
    """Return an SVG of the strongest edges over the square, and beside it one small map per digit."""
    figure = Figure(figsize=(9.4, 6.25))
    shown, near = min(SHOWN_EDGES, len(network.pairs)), are_neighbors(network.pairs)
    ax = figure.add_axes((0.02, 0.07, 0.56, 0.8))
    words = f"the {shown} strongest of {len(network.pairs):,} learned edges"
    _caption(figure, 0.04, "Which pixels depend on each other", words)
    # Long edges are drawn first, and weak ones before strong ones.
    for k in sorted(range(shown), key=lambda k: (near[k], network.strength[k])):
        ends = [(int(pixel) % SIDE, int(pixel) // SIDE) for pixel in network.pairs[k]]
        color, alpha, bend = (BLUE, 0.9, 0.0) if near[k] else (ORANGE, 0.4, 0.25 * (1 - k % 2 * 2))
        width = 0.45 + 5.5 * float(network.strength[k] / network.strength[0])
        style = {"color": color, "alpha": alpha, "linewidth": width, "connectionstyle": f"arc3,rad={bend}"}
        ax.add_patch(FancyArrowPatch(*ends, arrowstyle="-", **style))
    for pixel in range(PIXELS):
        corner, varies = (pixel % SIDE - 0.14, pixel // SIDE - 0.14), bool(network.varies[pixel])
        shade, edge = (PAPER(0.2 + 0.8 * float(network.ink[pixel])), WHITE) if varies else (WHITE, "#d0d5dd")
        ax.add_patch(Rectangle(corner, 0.28, 0.28, facecolor=shade, edgecolor=edge, linewidth=1 + varies, zorder=3))
    ax.set(xlim=(-0.7, SIDE - 0.3), ylim=(SIDE - 0.4, -0.6), aspect="equal")
    ax.set_axis_off()
    neighbors = int(near[:shown].sum())
    words = {f"neighboring pixels ({neighbors})": BLUE, f"farther apart ({shown - neighbors})": ORANGE}
    handles = [ax.plot([], [], color=color, linewidth=3.5, label=word)[0] for word, color in words.items()]
    place = {"loc": "lower left", "bbox_to_anchor": (0.04, 0.0)}
    figure.legend(handles=handles, ncols=2, frameon=False, labelcolor=GREY, **place)
    _caption(figure, 0.66, "Weights of each digit", "blue: darker pixels; orange: lighter")
    limit = float(np.quantile(np.abs(network.digit_weights), 0.985)) or 1.0
    for k, weights in enumerate(network.digit_weights):
        small = figure.add_axes((0.69 + 0.15 * (k % 2), 0.72 - 0.155 * (k // 2), 0.1, 0.135))
        small.imshow(weights, cmap=DIVERGING, vmin=-limit, vmax=limit)
        small.set_ylabel(str(k), rotation=0, fontsize=13, fontweight="bold", color=INK, ha="right", va="center")
        small.set(xticks=[], yticks=[])
        small.spines[:].set_visible(False)
    return _as_svg(figure)


def draw_completions(test: Array, missing: Array, beliefs: Sequence[Array]) -> str:
    """Return an SVG of the first held-out picture of each digit: the truth, its visible pixels, the predicted one."""
    figure = Figure(figsize=(9.4, 4.5))
    words = "a third of the pixels and the digit itself are missing (pale orange); dots mark wrong grays"
    _caption(figure, 0.04, "Missing pixels, predicted", words, top=0.95)
    grid = figure.subplots(3, 10)
    figure.subplots_adjust(left=0.13, right=0.98, top=0.8, bottom=0.16, wspace=0.15, hspace=0.12)
    levels = beliefs[0].shape[1]
    colors = ListedColormap([*PAPER(np.linspace(0, 1, levels)), to_rgba(MISSING_COLOR)])
    for digit in range(10):
        row = int(np.flatnonzero(test[:, DIGIT] == digit)[0])
        truth, hidden = test[row, :PIXELS], missing[row, :PIXELS]
        best = np.array([belief[row].argmax() for belief in beliefs[:PIXELS]])
        pictures = truth, np.where(hidden, levels, truth), np.where(hidden, best, truth)
        for ax, picture in zip(grid[:, digit], pictures, strict=True):
            ax.imshow(picture.reshape(SIDE, SIDE), cmap=colors, vmin=0, vmax=levels)
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set_color(PALE)
        wrong = np.flatnonzero(pictures[2] != truth)
        grid[2, digit].plot(wrong % SIDE, wrong // SIDE, "o", color=ORANGE, markersize=2.6)
        belief = beliefs[DIGIT][row]
        guess, chance = int(belief.argmax()), f"{belief.max():.0%}"
        below = {"ha": "center", "transform": grid[2, digit].transAxes}
        color = INK if guess == digit else ORANGE
        grid[2, digit].text(0.5, -0.22, str(guess), fontsize=14, fontweight="bold", color=color, **below)
        chance += "" if guess == digit else f", is {digit}"
        grid[2, digit].text(0.5, -0.45, chance, fontsize=8.5, color=GREY if guess == digit else ORANGE, **below)
    for ax, name in zip(grid[:, 0], ("complete\npicture", "visible\npixels", "predicted\npicture"), strict=True):
        ax.set_ylabel(name, rotation=0, ha="right", va="center", color=GREY, fontsize=9)
    return _as_svg(figure)


def _caption(figure: Figure, left: float, title: str, words: str, top: float = 0.96) -> None:
    figure.text(left, top, title, fontsize=13.5, fontweight="bold", color=INK, va="center")
    figure.text(left, top - 0.05, words, fontsize=9.5, color=GREY, va="center")


def _as_svg(figure: Figure) -> str:
    """Return a figure as an SVG element, in which texts are texts, without the head of an XML file."""
    buffer = BytesIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "sparsefield"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue().decode()
    return text[text.index("<svg") :]
