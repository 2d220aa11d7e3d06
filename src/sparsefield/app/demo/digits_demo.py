"""The demonstration on scikit-learn's handwritten digits: learn a field, predict missing pixels, draw both."""

from __future__ import annotations

import base64
import textwrap
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sparsefield.app.demo.figures import (
    DIGIT,
    NAMES,
    PIXELS,
    Array,
    are_neighbors,
    draw_completions,
    draw_network,
    learned_network,
)
from sparsefield.app.pages.fit_summary import describe_convergence, describe_size
from sparsefield.app.pages.page import render_page
from sparsefield.atomic_write import write_atomically
from sparsefield.errors import UnknownStateWarning
from sparsefield.estimators import MarkovField

MISSING_SHARE = 1 / 3
TINY = 1e-6
"""Smallest probability in a log-loss."""

LINE, STRONGEST = 100, 100
COLUMNS = {
    "pixel_accuracy": "pixels right",
    "pixel_log_loss": "log-loss",
    "digit_accuracy": "digit right",
    "digit_log_loss": "log-loss",
}
NOTE = "Scored on missing pixels that vary in training. Log-loss: natural log, lower is better."
NETWORK = (
    "Each square is a pixel, as dark as it is on average; hollow pixels never change. A line is an edge of the field; "
    "its width is the strength of its weights. On the right, a digit makes blue pixels darker and orange ones lighter "
    "than the average digit does, given all other pixels."
)
COMPLETIONS = (
    "The first held-out picture of each digit; none was selected. Missing pixels get their most probable gray level; "
    "the digit is predicted at the same time, with its probability below."
)


@dataclass(frozen=True)
class Digits:
    """Gray levels and digit of each picture, (rows, 65), as codes from 0."""

    train: Array
    test: Array
    missing: Array
    """(test rows, 65) bool."""
    levels: int

    def scored(self) -> Array:
        """Return the missing cells that are scored: their column varies in training, and their value occurs there."""
        seen = [np.unique(column) for column in self.train.T]
        fair = [np.isin(self.test[:, k], states) & (len(states) > 1) for k, states in enumerate(seen)]
        return self.missing & np.stack(fair, axis=1)


def load_pictures(train_rows: int, test_rows: int, cuts: Sequence[int], *, seed: int = 0) -> Digits:
    """Load the 1,797 digits in gray levels, shuffle and split them, and choose missing cells of the test rows.

    ``cuts`` are the first values of all gray levels but the lightest, on the data's scale of 0 (paper) to 16 (ink).
    """
    from sklearn.datasets import load_digits

    data: Any = load_digits()
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(data.target))
    values = np.column_stack([np.digitize(data.data, cuts), data.target])[order]
    test = values[-test_rows:]
    missing = rng.random(test.shape) < MISSING_SHARE
    missing[:, DIGIT] = True
    return Digits(values[:train_rows], test, missing, len(cuts) + 1)


def make_table(values: Array, missing: Array | None = None) -> pl.DataFrame:
    """Return a frame of named columns, with nulls for missing cells."""
    frame = pl.DataFrame(values, schema=NAMES)
    if missing is None:
        return frame
    known = pl.DataFrame(~missing, schema=NAMES)
    return frame.select(pl.when(known[name]).then(pl.col(name)) for name in NAMES)


def field_predictions(field: MarkovField, digits: Digits) -> list[Array]:
    """Return, per column, (test rows, states): the field's probabilities of the missing cells."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownStateWarning)  # an unseen gray level is missing
        answers = field.predict_proba(make_table(digits.test, digits.missing))
    beliefs = []
    for k, name in enumerate(NAMES):
        belief = np.zeros((len(digits.test), 10 if k == DIGIT else digits.levels))
        belief[:, field.states_[name]] = answers[name]
        beliefs.append(belief)
    return beliefs


def column_frequencies(digits: Digits) -> list[Array]:
    """Return, per column, (test rows, states): the frequencies of the states in training."""
    sizes = [digits.levels] * PIXELS + [10]
    shares = [np.bincount(digits.train[:, k], minlength=size) / len(digits.train) for k, size in enumerate(sizes)]
    return [np.tile(share, (len(digits.test), 1)) for share in shares]


def score_predictions(beliefs: Sequence[Array], digits: Digits) -> dict[str, float]:
    """Return accuracy and log-loss (natural log, mean over missing cells) of pixels and of the digit."""
    rows, scored = np.arange(len(digits.test)), digits.scored()
    right = np.stack([belief.argmax(axis=1) == digits.test[:, k] for k, belief in enumerate(beliefs)], axis=1)
    truth = np.stack([belief[rows, digits.test[:, k]] for k, belief in enumerate(beliefs)], axis=1)
    loss, scores = -np.log(np.maximum(truth, TINY)), {}
    for what, columns in (("pixel", slice(0, PIXELS)), ("digit", slice(DIGIT, DIGIT + 1))):
        cells = scored[:, columns]
        scores[f"{what}_accuracy"] = float(right[:, columns][cells].mean())
        scores[f"{what}_log_loss"] = float(loss[:, columns][cells].mean())
    return scores


@dataclass(frozen=True)
class DemoResult:
    """The learned field, the scores of each method by the keys of `COLUMNS`, and the files."""

    field: MarkovField
    neighbors: tuple[float, float]
    """Share of neighbors among the strongest edges, and by chance."""
    scores: dict[str, dict[str, float]]
    files: list[Path]


def run_demo(out: Path, quick: bool, echo: Callable[[str], None]) -> DemoResult:
    """Learn a field over the digits, predict missing pixels of held-out ones, print scores and write pictures.

    Parameters
    ----------
    out : folder for index.html and two SVG pictures; it is created if necessary
    quick : use fewer rows and two gray levels
    echo : called with each line of text
    """

    def say(*lines: str) -> None:
        for line in lines:
            for part in textwrap.wrap(line, LINE, break_on_hyphens=False) or [""]:
                echo(part)

    start = time.perf_counter()
    digits = load_pictures(600, 200, (8,)) if quick else load_pictures(1297, 500, (4, 12))
    lead = [
        f"Handwritten digits: {PIXELS} pixels in {digits.levels} gray levels and the digit are {PIXELS + 1} variables. "
        f"The field is learned from {len(digits.train):,} pictures. In {len(digits.test)} held-out pictures "
        f"{int(digits.missing[:, :PIXELS].sum()):,} pixels (a third) and all digits are missing and have to be "
        "predicted."
    ]
    say(lead[0], "Learning (the first run on a machine compiles for some seconds) ...")
    table, field = make_table(digits.train), MarkovField(l1=2.0, kinds={"digit": "nominal"})
    field.fit(table[:30]).predict_proba(table[:30].with_columns(digit=None))  # compiles kernels
    fit_start = time.perf_counter()
    field.fit(table)
    seconds = time.perf_counter() - fit_start
    network = learned_network(field, digits.train[:, :PIXELS])
    near, varying = are_neighbors(network.pairs), np.flatnonzero(network.varies)
    all_pairs = varying[np.column_stack(np.triu_indices(len(varying), 1))]
    strongest, chance = float(near[:STRONGEST].mean()), float(are_neighbors(all_pairs).mean())
    lead += [
        f"Learned {describe_size(field.field_)}, in {seconds:.1f} s and {field.n_iter_} iterations.",
        describe_convergence(field.field_, field.get_params()),
        f"The field does not know which pixels are neighbors, but of the {STRONGEST} strongest edges among pixels "
        f"{strongest:.0%} connect neighbors ({chance:.0%} by chance). Of all {len(near):,} edges, most of them weak, "
        f"{near.mean():.0%} do.",
    ]
    say(*lead[1:], "")
    beliefs = {"sparsefield": field_predictions(field, digits), "column frequencies": column_frequencies(digits)}
    scores = {name: score_predictions(belief, digits) for name, belief in beliefs.items()}
    rows = [[name, *(f"{score[key]:.3f}" for key in COLUMNS)] for name, score in scores.items()]
    head = ["missing cells", *COLUMNS.values()]
    for first, *others in [head, *rows]:
        echo(f"{first:<24}" + "".join(f"{text:>16}" for text in others))
    say("", NOTE, "")
    completions = draw_completions(digits.test, digits.missing, beliefs["sparsefield"])
    pictures = {"network": draw_network(network), "digits": completions}
    title = "A sparse field learned from handwritten digits"
    figures = [
        (base64.b64encode(svg.encode()).decode(), caption)
        for svg, caption in zip(pictures.values(), (NETWORK, COMPLETIONS), strict=True)
    ]  # as images of their own, since the policy of the page allows no styles within their markup
    values = {"title": title, "lead": lead, "head": head, "rows": rows, "note": NOTE, "figures": figures}
    page = render_page("article.html", (), **values)
    contents = {f"{name}.svg": svg for name, svg in pictures.items()} | {"index.html": page}
    out.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        write_atomically(out / name, content.encode("utf-8"))
    say(f"The pictures are in {out / 'index.html'}. Total time: {time.perf_counter() - start:.0f} s.")
    return DemoResult(field, (strongest, chance), scores, [out / name for name in contents])
