"""The demo on scikit-learn's digits: learn a field, predict missing pixels, compare, draw."""

from __future__ import annotations

import math
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparsefield.app.demo.baselines import ChainedRegressions, column_frequencies
from sparsefield.app.demo.digit_figures import PixelNetwork, draw_completions, draw_histograms, draw_network
from sparsefield.app.demo.digits import (
    PIXELS,
    STRONGEST,
    Digits,
    completions,
    field_predictions,
    learned_network,
    load_pictures,
    make_table,
    neighbor_shares,
    row_losses,
    score_predictions,
    signals_and_errors,
)
from sparsefield.app.pages.fit_summary import describe_convergence, describe_size
from sparsefield.app.pages.page import make_article
from sparsefield.atomic_write import write_atomically
from sparsefield.estimators import MarkovField

Array = np.ndarray[Any, np.dtype[Any]]
Scores = dict[str, dict[str, float]]

OURS = "sparsefield"
LINE = 100
COLUMNS = {
    "pixel_accuracy": "pixels right",
    "pixel_log_loss": "log-loss",
    "digit_accuracy": "digit right",
    "digit_log_loss": "log-loss",
}


@dataclass(frozen=True)
class Setting:
    """Sizes and penalties of the demo.

    The full demo's l1 and c had the best log-loss of missing pixels on the last 297 training rows, held out; ties were
    broken by the digit. The gray levels were not chosen on training rows alone: four levels were tried on test rows
    too, where chained regressions that know the order of the levels had the lower log-loss.
    """

    train_rows: int
    test_rows: int
    cuts: tuple[int, ...]
    l1: float
    c: float | None = None
    """Inverse penalty of the logistic regressions; None leaves them out."""


FULL = Setting(train_rows=1297, test_rows=500, cuts=(4, 12), l1=2.0, c=0.2)
QUICK = Setting(train_rows=600, test_rows=200, cuts=(8,), l1=2.0)


@dataclass(frozen=True)
class DemoResult:
    """What the demo found."""

    field: MarkovField
    neighbors: dict[str, float]
    """Share of neighbors among the strongest edges, among all edges, and by chance."""
    scores: Scores
    """Scores of each method: pixel_accuracy, pixel_log_loss, digit_accuracy, digit_log_loss."""
    files: list[Path]


def run_demo(out: Path, quick: bool, echo: Callable[[str], None]) -> DemoResult:
    """Learn a field over the digits, predict missing pixels of held-out ones, print scores and write pictures.

    Parameters
    ----------
    out : Path
        Folder for index.html and the three SVG pictures; it is created if necessary.
    quick : bool
        Use fewer rows, two gray levels, and the baseline of frequencies alone.
    echo : callable
        Called with each line of text.
    """
    start = time.perf_counter()
    setting = QUICK if quick else FULL
    digits = load_pictures(setting.train_rows, setting.test_rows, setting.cuts)
    lead = [_describe_data(digits)]
    _print(echo, lead[0], "Learning (the first run on a machine compiles for some seconds) ...")
    table = make_table(digits.train)
    field = MarkovField(l1=setting.l1, kinds={"digit": "nominal"})
    field.fit(table[:30]).predict_proba(table[:30].with_columns(digit=None))  # compiles kernels
    fit_start = time.perf_counter()
    field.fit(table)
    seconds = time.perf_counter() - fit_start
    network = learned_network(field, digits)
    neighbors = neighbor_shares(network)
    lead += [
        f"Learned {describe_size(field.field_)}, in {seconds:.1f} s and {field.n_iter_} iterations.",
        describe_convergence(field.field_, field.get_params()),
        f"The field does not know which pixels are neighbors, but of the {STRONGEST} strongest edges among pixels "
        f"{neighbors['strongest']:.0%} connect neighbors ({neighbors['chance']:.0%} by chance). Of all "
        f"{len(network.pairs):,} edges, most of them weak, {neighbors['all']:.0%} do.",
    ]
    _print(echo, *lead[1:])
    beliefs = {OURS: field_predictions(field, digits), **_baselines(digits, setting.c)}
    scores = {name: score_predictions(belief, digits) for name, belief in beliefs.items()}
    note = _note({name: row_losses(belief, digits) for name, belief in beliefs.items()}, digits)
    _print(echo, "", *_table(scores), "", *note, "")
    files = _write(out, _draw(field, digits, network, beliefs[OURS]), lead, scores, note)
    _print(echo, f"The pictures are in {out / 'index.html'}. Total time: {time.perf_counter() - start:.0f} s.")
    return DemoResult(field, neighbors, scores, files)


def _baselines(digits: Digits, c: float | None) -> dict[str, list[Array]]:
    sizes = [digits.levels] * PIXELS + [10]
    found = {"column frequencies": column_frequencies(digits.train, len(digits.test), sizes)}
    if c is not None:
        chained = ChainedRegressions.fit(digits.train, sizes, c=c)
        found["logistic regressions"] = chained.predict(digits.test, digits.missing, rounds=1)
        found["chained logistic regressions"] = chained.predict(digits.test, digits.missing, rounds=6)
    return found


def _print(echo: Callable[[str], None], *lines: str) -> None:
    for line in lines:
        # Rows of the table are shorter, and keep their spaces.
        for part in [line] if len(line) <= LINE else textwrap.wrap(line, LINE, break_on_hyphens=False):
            echo(part)


def _describe_data(digits: Digits) -> str:
    missing = int(digits.missing[:, :PIXELS].sum())
    return (
        f"Handwritten digits: {PIXELS} pixels in {digits.levels} gray levels and the digit are {PIXELS + 1} "
        f"variables. The field is learned from {len(digits.train):,} pictures. In {len(digits.test)} held-out "
        f"pictures {missing:,} pixels (a third) and all digits are missing and have to be predicted."
    )


def _cells(score: dict[str, float]) -> list[str]:
    return [f"{score[key]:.1%}" if "accuracy" in key else f"{score[key]:.3f}" for key in COLUMNS]


def _table(scores: Scores) -> list[str]:
    lines = [f"{'missing cells':<34}" + "".join(f"{name:>14}" for name in COLUMNS.values())]
    return lines + [f"{name:<34}" + "".join(f"{cell:>14}" for cell in _cells(scores[name])) for name in scores]


def _best(scores: Scores, key: str) -> str:
    return (max if "accuracy" in key else min)(scores, key=lambda name: scores[name][key])


def _lead(losses: dict[str, dict[str, Array]], cells: str) -> str:
    """Name the method with the lowest log-loss, its lead, and the standard error of the lead over test pictures."""
    first, second = sorted(losses, key=lambda name: float(losses[name][cells].mean()))[:2]
    ahead = losses[second][cells] - losses[first][cells]
    error = float(ahead.std(ddof=1)) / math.sqrt(len(ahead))
    return f"{first}, {ahead.mean():.3f} (± {error:.3f}) below {second}"


def _note(losses: dict[str, dict[str, Array]], digits: Digits) -> list[str]:
    pixels = int(digits.scored()[:, :PIXELS].sum())
    notes = [
        f"Scored on the {pixels:,} missing pixels that vary in training. Log-loss: natural log, lower is "
        f"better. Lowest on pixels: {_lead(losses, 'pixels')}; on the digit: {_lead(losses, 'digit')} "
        "(± one standard error)."
    ]
    if len(losses) > 2:
        notes.append(
            "The regressions (scikit-learn's, one per column given all others) replace a missing value by the "
            "frequencies of its column; the chained ones then repeat five times with their own predictions. They "
            "are separate models, not one distribution."
        )
    return notes


def _draw(
    field: MarkovField, digits: Digits, network: PixelNetwork, beliefs: Sequence[Array]
) -> dict[str, tuple[str, str]]:
    threshold = float(field.get_params()["induction__threshold"])
    signals, before, after = signals_and_errors(field.field_, digits.train)
    large_signals, large_errors = (np.mean(np.abs(values) > threshold, axis=0) for values in (signals, after))
    share = float(np.mean(large_signals * large_errors))
    base = next(
        variable.states[variable.reference] for variable in field.field_.schema.targets if variable.name == "digit"
    )
    return {
        "network": (
            draw_network(network),
            "Each square is a pixel, as dark as it is on average; hollow pixels never change. A line is an "
            "edge of the field; its width is the strength of its weights. On the right, a digit makes blue pixels "
            "darker and orange ones lighter than the average digit does, given all other pixels. "
            f"{base}, the most frequent digit, is pale: it is the reference state, which has no weights.",
        ),
        "digits": (
            draw_completions(completions(digits, beliefs), levels=digits.levels),
            "The first held-out picture of each digit; none was selected. Missing pixels get their most probable "
            "gray level; the digit is predicted at the same time, with its probability below.",
        ),
        "signals": (
            draw_histograms(signals, before, after, threshold=threshold),
            "A signal is the deviation of a cell from its mean, an error its deviation from its prediction. The "
            "gradient of a candidate feature is a sum of products of signals of one variable and errors of another. "
            f"CFI multiplies only those beyond ±{threshold:g}, which takes {share:.0%} of the products here.",
        ),
    }


def _write(
    out: Path, figures: dict[str, tuple[str, str]], lead: Sequence[str], scores: Scores, note: Sequence[str]
) -> list[Path]:
    best = {key: _best(scores, key) for key in COLUMNS}
    rows = [
        [(name, False), *((cell, best[key] == name) for key, cell in zip(COLUMNS, _cells(score), strict=True))]
        for name, score in scores.items()
    ]
    title = "A sparse field learned from handwritten digits"
    page = make_article(title, lead, ["missing cells", *COLUMNS.values()], rows, " ".join(note), list(figures.values()))
    out.mkdir(parents=True, exist_ok=True)
    contents = {**{f"{name}.svg": svg for name, (svg, _) in figures.items()}, "index.html": page}
    for name, content in contents.items():
        write_atomically(out / name, content.encode("utf-8"))
    return [out / name for name in contents]
