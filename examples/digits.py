"""Handwritten digits: learn a field over their pixels, predict missing ones, and draw both into a folder.

python examples/digits.py demo --quick
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.colors import LinearSegmentedColormap, ListedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from sparsefield.app.pages.fit_summary import describe_convergence, describe_size
from sparsefield.app.pages.layout import BLUE, GREY, INK, ORANGE, PALE, WHITE
from sparsefield.atomic_write import write_atomically
from sparsefield.errors import UnknownStateWarning
from sparsefield.estimators import MarkovField

Array = np.ndarray[Any, np.dtype[Any]]

SIDE, PIXELS, DIGIT = 8, 64, 64
"""Columns 0 to 63 are the pixels, row by row; column 64 is the digit."""
NAMES = [f"r{k // SIDE + 1}c{k % SIDE + 1}" for k in range(PIXELS)] + ["digit"]
MISSING_SHARE = 1 / 3
STRONGEST, SHOWN_EDGES = 100, 200
MISSING_COLOR = "#f6d9c4"
PAPER = LinearSegmentedColormap.from_list("paper", ["#fbfbf9", INK])
DIVERGING = LinearSegmentedColormap.from_list("weights", [ORANGE, "#f3b583", "#f7f7f5", "#8fc1e3", BLUE])


@dataclass(frozen=True)
class Digits:
    """Gray levels and digit of each picture, (rows, 65), as codes from 0."""

    train: Array
    test: Array
    missing: Array
    """(test rows, 65) bool."""


@dataclass(frozen=True)
class DemoResult:
    """The learned field, shares of right predictions, and the pictures."""

    field: MarkovField
    neighbors: tuple[float, float]
    """Share of neighbors among the strongest edges, and by chance."""
    right: dict[str, tuple[float, float]]
    """{"pixels" or "digits": share of missing ones that the field predicts rightly, and the most frequent value}"""
    files: list[Path]


def load_pictures(train_rows: int, test_rows: int, cuts: Sequence[int]) -> Digits:
    """Load the 1,797 digits in gray levels, shuffle and split them, and choose missing cells of the test rows.

    ``cuts`` are the first values of all gray levels but the lightest, on the data's scale of 0 (paper) to 16 (ink).
    """
    from sklearn.datasets import load_digits

    data: Any = load_digits()
    rng = np.random.default_rng(0)
    order = rng.permutation(len(data.target))
    values = np.column_stack([np.digitize(data.data, cuts), data.target])[order]
    test = values[-test_rows:]
    missing = rng.random(test.shape) < MISSING_SHARE
    missing[:, DIGIT] = True
    return Digits(values[:train_rows], test, missing)


def run_demo(out: Path, quick: bool, echo: Callable[[str], None]) -> DemoResult:
    """Learn a field over the digits, predict missing pixels of held-out ones, and draw both into a folder.

    ``quick`` uses fewer rows and two gray levels; ``echo`` is called with each line of text.
    """
    start = time.perf_counter()
    digits = load_pictures(600, 200, (8,)) if quick else load_pictures(1297, 500, (4, 12))
    train, test, missing = digits.train, digits.test, digits.missing
    echo(f"A field over {PIXELS} pixels and the digit is learned from {len(train):,} handwritten digits.")
    echo("Learning (the first run on a machine compiles for some seconds) ...")
    field = MarkovField(l1=2.0, kinds={"digit": "nominal"}).fit(pl.DataFrame(train, schema=NAMES))
    echo(f"Learned {describe_size(field.field_)}, after {time.perf_counter() - start:.1f} s.")
    echo(describe_convergence(field.field_, field.get_params()))

    edges = field.edges_.filter((pl.col("variable_a") != "digit") & (pl.col("variable_b") != "digit"))
    ends = edges.select("variable_a", "variable_b").rows()
    pairs = np.array([[NAMES.index(end) for end in pair] for pair in ends], dtype=int).reshape(-1, 2)
    varying = np.flatnonzero((train[:, :PIXELS] != train[0, :PIXELS]).any(axis=0))
    all_pairs = varying[np.column_stack(np.triu_indices(len(varying), 1))]
    strongest, chance = (float(are_neighbors(some).mean()) for some in (pairs[:STRONGEST], all_pairs))
    echo(
        f"It does not know which pixels are neighbors, but of the {STRONGEST} strongest edges among pixels "
        f"{strongest:.0%} connect neighbors ({chance:.0%} by chance)."
    )

    cells, hidden = pl.DataFrame(test, schema=NAMES), pl.DataFrame(missing, schema=NAMES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownStateWarning)  # an unseen gray level is missing
        posterior = field.infer(cells.select(pl.when(~hidden[name]).then(pl.col(name)) for name in NAMES))
    beliefs = {name: posterior.state_probabilities(name) for name in NAMES}
    best = np.column_stack([np.array(field.states_[name])[beliefs[name].argmax(axis=1)] for name in NAMES])
    usual = np.array([np.bincount(column).argmax() for column in train.T])
    right = {}
    for what, columns in (("pixels", varying), ("digits", [DIGIT])):
        hits = [(guess == test)[:, columns][missing[:, columns]].mean() for guess in (best, usual)]
        right[what] = float(hits[0]), float(hits[1])
        where = f"missing {what} of {len(test)} held-out pictures"
        echo(f"Of the {where} {hits[0]:.1%} are predicted rightly ({hits[1]:.1%} by the most frequent value).")

    weights = digit_weights(field, int(train[:, :PIXELS].max()) + 1)
    network = draw_network(train[:, :PIXELS], pairs, edges["strength"].to_numpy(), weights)
    completions = draw_completions(test, missing, best, beliefs["digit"].max(axis=1))
    out.mkdir(parents=True, exist_ok=True)
    files = {out / "network.svg": network, out / "digits.svg": completions}
    for path, figure in files.items():
        content = BytesIO()
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "sparsefield"}):
            figure.savefig(content, format="svg", metadata={"Date": None})
        write_atomically(path, content.getvalue())
    echo(f"Wrote {', '.join(map(str, files))}. Total time: {time.perf_counter() - start:.0f} s.")
    return DemoResult(field, (strongest, chance), right, list(files))


def are_neighbors(pairs: Array) -> Array:
    """Return (pairs,): whether the pixels of a pair are neighbors, side by side or corner to corner."""
    a, b = pairs[:, 0], pairs[:, 1]
    return np.maximum(abs(a // SIDE - b // SIDE), abs(a % SIDE - b % SIDE)) == 1


def digit_weights(field: MarkovField, levels: int) -> Array:
    """Return (digits, side, side): mean increase of the weight between digit and pixel per gray level."""
    weights = np.zeros((PIXELS, levels, 10))
    scores = {v.name: dict(zip(v.states, v.scores, strict=True)) for v in field.field_.schema.variables if v.scores}
    for a, state_a, b, state_b, weight in field.features_.iter_rows():
        if "digit" not in (a, b):
            continue
        pixel, level, digit = (a, state_a, state_b) if b == "digit" else (b, state_b, state_a)
        for shade, value in ({level: 1.0} if level is not None else scores[pixel]).items():
            weights[NAMES.index(pixel), int(shade), int(digit)] += weight * value
    weights -= weights.mean(axis=2, keepdims=True)  # relative to the mean over digits
    steps = np.arange(levels) - (levels - 1) / 2
    return np.einsum("pld,l->dp", weights, steps / (steps @ steps)).reshape(10, SIDE, SIDE)


def draw_network(shades: Array, pairs: Array, strength: Array, weights: Array) -> Figure:
    """Draw the strongest edges over the square of pixels, and beside it one small map per digit.

    ``shades`` are (rows, pixels) gray levels; pixels that never change are drawn hollow. ``pairs`` are (edges, 2)
    pixels, the strongest edge first, ``strength`` is (edges,), and ``weights`` are (digits, side, side).
    """
    figure = Figure(figsize=(9.4, 6.25))
    shown, near = min(SHOWN_EDGES, len(pairs)), are_neighbors(pairs)
    ax = figure.add_axes((0.02, 0.07, 0.56, 0.8))
    words = f"the {shown} strongest of {len(pairs):,} learned edges"
    _caption(figure, 0.04, "Which pixels depend on each other", words)
    # Long edges are drawn first, and weak ones before strong ones.
    for k in sorted(range(shown), key=lambda k: (near[k], strength[k])):
        ends = [(int(pixel) % SIDE, int(pixel) // SIDE) for pixel in pairs[k]]
        color, alpha, bend = (BLUE, 0.9, 0.0) if near[k] else (ORANGE, 0.4, 0.25 * (1 - k % 2 * 2))
        width = 0.45 + 5.5 * float(strength[k] / strength[0])
        style = {"color": color, "alpha": alpha, "linewidth": width, "connectionstyle": f"arc3,rad={bend}"}
        ax.add_patch(FancyArrowPatch(*ends, arrowstyle="-", **style))
    ink = shades.mean(axis=0) / max(int(shades.max()), 1)
    for pixel in range(PIXELS):
        corner, varies = (pixel % SIDE - 0.14, pixel // SIDE - 0.14), len(np.unique(shades[:, pixel])) > 1
        shade, edge = (PAPER(0.2 + 0.8 * float(ink[pixel])), WHITE) if varies else (WHITE, "#d0d5dd")
        ax.add_patch(Rectangle(corner, 0.28, 0.28, facecolor=shade, edgecolor=edge, linewidth=1 + varies, zorder=3))
    ax.set(xlim=(-0.7, SIDE - 0.3), ylim=(SIDE - 0.4, -0.6), aspect="equal")
    ax.set_axis_off()
    neighbors = int(near[:shown].sum())
    words = {f"neighboring pixels ({neighbors})": BLUE, f"farther apart ({shown - neighbors})": ORANGE}
    handles = [ax.plot([], [], color=color, linewidth=3.5, label=word)[0] for word, color in words.items()]
    place = {"loc": "lower left", "bbox_to_anchor": (0.04, 0.0)}
    figure.legend(handles=handles, ncols=2, frameon=False, labelcolor=GREY, **place)
    _caption(figure, 0.66, "Weights of each digit", "blue: darker pixels; orange: lighter")
    limit = float(np.quantile(np.abs(weights), 0.985)) or 1.0
    for k, picture in enumerate(weights):
        small = figure.add_axes((0.69 + 0.15 * (k % 2), 0.72 - 0.155 * (k // 2), 0.1, 0.135))
        small.imshow(picture, cmap=DIVERGING, vmin=-limit, vmax=limit)
        small.set_ylabel(str(k), rotation=0, fontsize=13, fontweight="bold", color=INK, ha="right", va="center")
        small.set(xticks=[], yticks=[])
        small.spines[:].set_visible(False)
    return figure


def draw_completions(test: Array, missing: Array, best: Array, chance: Array) -> Figure:
    """Draw the first held-out picture of each digit: the truth, its visible pixels, the predicted one.

    Cells are (rows, 65), ``best`` are the predicted ones; ``chance`` is the (rows,) probability of the predicted digit.
    """
    figure = Figure(figsize=(9.4, 4.5))
    words = "a third of the pixels and the digit itself are missing (pale orange); dots mark wrong grays"
    _caption(figure, 0.04, "Missing pixels, predicted", words, top=0.95)
    grid = figure.subplots(3, 10)
    figure.subplots_adjust(left=0.13, right=0.98, top=0.8, bottom=0.16, wspace=0.15, hspace=0.12)
    levels = int(test[:, :PIXELS].max()) + 1
    colors = ListedColormap([*PAPER(np.linspace(0, 1, levels)), to_rgba(MISSING_COLOR)])
    for digit, axes in enumerate(grid.T):
        row = int(np.flatnonzero(test[:, DIGIT] == digit)[0])
        truth, hidden = test[row, :PIXELS], missing[row, :PIXELS]
        pictures = truth, np.where(hidden, levels, truth), np.where(hidden, best[row, :PIXELS], truth)
        for ax, picture in zip(axes, pictures, strict=True):
            ax.imshow(picture.reshape(SIDE, SIDE), cmap=colors, vmin=0, vmax=levels)
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set_color(PALE)
        wrong, guess, below = np.flatnonzero(pictures[2] != truth), int(best[row, DIGIT]), axes[2]
        below.plot(wrong % SIDE, wrong // SIDE, "o", color=ORANGE, markersize=2.6)
        color, small, note = (INK, GREY, "") if guess == digit else (ORANGE, ORANGE, f", is {digit}")
        style = {"ha": "center", "transform": below.transAxes}
        below.text(0.5, -0.22, str(guess), fontsize=14, fontweight="bold", color=color, **style)
        below.text(0.5, -0.45, f"{chance[row]:.0%}{note}", fontsize=8.5, color=small, **style)
    for ax, name in zip(grid[:, 0], ("complete\npicture", "visible\npixels", "predicted\npicture"), strict=True):
        ax.set_ylabel(name, rotation=0, ha="right", va="center", color=GREY, fontsize=9)
    return figure


def _caption(figure: Figure, left: float, title: str, words: str, top: float = 0.96) -> None:
    figure.text(left, top, title, fontsize=13.5, fontweight="bold", color=INK, va="center")
    figure.text(left, top - 0.05, words, fontsize=9.5, color=GREY, va="center")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", default="demo", type=Path)
    parser.add_argument("--quick", action="store_true", help="use fewer rows")
    words = parser.parse_args()
    run_demo(words.folder, words.quick, print)
