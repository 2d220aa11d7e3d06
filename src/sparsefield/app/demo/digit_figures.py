"""Pictures of a field over a square of pixels: its network, its predictions, its signals and errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, ListedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from sparsefield.app.pages.palette import BLUE, GREY, INK, ORANGE, PALE, WHITE

Array = np.ndarray[Any, np.dtype[Any]]

MISSING_COLOR = "#f6d9c4"
PAPER = LinearSegmentedColormap.from_list("paper", ["#fbfbf9", INK])
DIVERGING = LinearSegmentedColormap.from_list("weights", [ORANGE, "#f3b583", "#f7f7f5", "#8fc1e3", BLUE])


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
    """Return an SVG of the strongest edges over the square, and beside it one small map per label."""
    figure = Figure(figsize=(9.4, 6.25))
    shown, near = min(strongest, len(network.pairs)), network.neighbors()
    ax = figure.add_axes((0.02, 0.07, 0.56, 0.8))
    _caption(
        figure,
        0.04,
        "Which pixels depend on each other",
        f"the {shown} strongest of {len(network.pairs):,} learned edges",
    )
    largest = float(network.strength[0]) if shown else 1.0
    # Long edges are drawn first, and weak ones before strong ones.
    for k in sorted(range(shown), key=lambda k: (near[k], network.strength[k])):
        ends = [(int(pixel) % network.side, int(pixel) // network.side) for pixel in network.pairs[k]]
        ax.add_patch(
            FancyArrowPatch(
                *ends, arrowstyle="-", color=BLUE if near[k] else ORANGE, alpha=0.9 if near[k] else 0.4,
                linewidth=0.45 + 5.5 * float(network.strength[k]) / largest,
                connectionstyle="arc3,rad=0" if near[k] else f"arc3,rad={0.25 * (1 - k % 2 * 2)}",
            )
        )  # fmt: skip
    for pixel, (ink, varies) in enumerate(zip(network.ink.flat, network.varies.flat, strict=True)):
        corner = pixel % network.side - 0.14, pixel // network.side - 0.14
        shade, edge = (PAPER(0.2 + 0.8 * float(ink)), WHITE) if varies else (WHITE, "#d0d5dd")
        ax.add_patch(Rectangle(corner, 0.28, 0.28, facecolor=shade, edgecolor=edge, linewidth=1 + varies, zorder=3))
    ax.set(xlim=(-0.7, network.side - 0.3), ylim=(network.side - 0.4, -0.6), aspect="equal")
    ax.set_axis_off()
    neighbors = int(near[:shown].sum())
    words = {f"neighboring pixels ({neighbors})": BLUE, f"farther apart ({shown - neighbors})": ORANGE}
    handles = [ax.plot([], [], color=color, linewidth=3.5, label=word)[0] for word, color in words.items()]
    figure.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0.04, 0.0), ncols=2, frameon=False, labelcolor=GREY
    )
    _caption(figure, 0.66, "Weights of each digit", "edges between digit and pixels")
    limit = float(np.quantile(np.abs(network.digit_weights), 0.985)) or 1.0
    for k, weights in enumerate(network.digit_weights):
        small = figure.add_axes((0.69 + 0.15 * (k % 2), 0.72 - 0.155 * (k // 2), 0.1, 0.135))
        small.imshow(weights, cmap=DIVERGING, vmin=-limit, vmax=limit)
        small.set_ylabel(str(k), rotation=0, fontsize=13, fontweight="bold", color=INK, ha="right", va="center")
        small.set(xticks=[], yticks=[])
        small.spines[:].set_visible(False)
    scale = figure.add_axes((0.72, 0.04, 0.16, 0.018))
    scale.imshow(np.linspace(-1, 1, 80)[None], cmap=DIVERGING, aspect="auto")
    scale.set_axis_off()
    figure.text(0.71, 0.049, "lighter", ha="right", va="center", fontsize=9, color=GREY)
    figure.text(0.89, 0.049, "darker", va="center", fontsize=9, color=GREY)
    return _as_svg(figure)


def draw_completions(completions: Sequence[CompletedPicture], *, levels: int) -> str:
    """Return an SVG with the truth, the visible pixels and the completed picture, a column per picture."""
    figure = Figure(figsize=(9.4, 4.5))
    words = "a third of the pixels and the digit itself are missing (pale orange); dots mark wrong grays"
    _caption(figure, 0.04, "Missing pixels, predicted", words, top=0.95)
    grid = figure.subplots(3, len(completions), squeeze=False)
    figure.subplots_adjust(left=0.13, right=0.98, top=0.8, bottom=0.16, wspace=0.15, hspace=0.12)
    for k, picture in enumerate(completions):
        visible = np.where(picture.missing, levels, picture.truth)
        for ax, values in zip(grid[:, k], (picture.truth, visible, picture.filled), strict=True):
            colors = [*PAPER(np.linspace(0, 1, levels)), to_rgba(MISSING_COLOR)]
            ax.imshow(values, cmap=ListedColormap(colors), vmin=0, vmax=levels)
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set_color(PALE)
        rows, columns = np.nonzero(picture.filled != picture.truth)
        grid[2, k].plot(columns, rows, "o", color=ORANGE, markersize=2.6)
        right = picture.guess == picture.label
        below = {"ha": "center", "transform": grid[2, k].transAxes}
        grid[2, k].text(
            0.5, -0.22, picture.guess, fontsize=14, fontweight="bold", color=INK if right else ORANGE, **below
        )
        told = f"{picture.probability:.0%}" + ("" if right else f", is {picture.label}")
        grid[2, k].text(0.5, -0.45, told, fontsize=8.5, color=GREY if right else ORANGE, **below)
    for ax, name in zip(grid[:, 0], ("complete\npicture", "visible\npixels", "predicted\npicture"), strict=True):
        ax.set_ylabel(name, rotation=0, ha="right", va="center", color=GREY, fontsize=9)
    return _as_svg(figure)


def draw_histograms(signals: Array, before: Array, after: Array, *, threshold: float) -> str:
    """Return an SVG with histograms of signals and errors, and the shares that are below the threshold."""
    figure = Figure(figsize=(9.4, 2.9))
    parts = {"Signals": signals, "Errors without edges": before, "Errors of the field": after}
    axes: Sequence[Axes] = figure.subplots(1, 3, sharey=True)
    for ax, (title, values) in zip(axes, parts.items(), strict=True):
        ax.hist(np.ravel(values), np.linspace(-1, 1, 41).tolist(), color=BLUE, log=True)
        ax.set_title(title, fontsize=11, fontweight="bold", color=INK, loc="left")
        ax.set_xlabel(f"{np.mean(np.abs(values) < threshold):.0%} are within ±{threshold:g}", color=GREY, fontsize=9)
        ax.tick_params(labelsize=8.5, colors=GREY)
        ax.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
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
