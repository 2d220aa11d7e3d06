"""The demonstration on handwritten digits: learn a field, predict missing pixels, compare, draw."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sparsefield.app.demo.digits import (
    PIXELS,
    chained_regressions,
    column_frequencies,
    field_predictions,
    load_pictures,
    make_table,
    score_predictions,
)
from sparsefield.app.demo.figures import are_neighbors, draw_completions, draw_network, learned_network
from sparsefield.app.pages.fit_summary import describe_convergence, describe_size
from sparsefield.app.pages.page import make_article
from sparsefield.atomic_write import write_atomically
from sparsefield.estimators import MarkovField

LINE, STRONGEST = 100, 100
COLUMNS = {
    "pixel_accuracy": "pixels right",
    "pixel_log_loss": "log-loss",
    "digit_accuracy": "digit right",
    "digit_log_loss": "log-loss",
}
NOTE = (
    "Scored on missing pixels that vary in training. Log-loss: natural log, lower is better. The regressions "
    "(scikit-learn's, one per column given all others) are repeated with their own predictions of missing values; "
    "they are separate models, not one distribution."
)
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
    quick : use fewer rows, two gray levels, and the baseline of frequencies alone
    echo : called with each line of text
    """

    def say(*lines: str) -> None:
        for line in lines:
            for part in textwrap.wrap(line, LINE, break_on_hyphens=False) or [""]:
                echo(part)

    start = time.perf_counter()
    # l1 and the penalty of the regressions had the best log-loss of missing pixels on held-out training rows.
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
    network = learned_network(field, digits)
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
    if not quick:
        beliefs["chained logistic regressions"] = chained_regressions(digits, c=0.2)
    scores = {name: score_predictions(belief, digits) for name, belief in beliefs.items()}
    best = {key: (max if "accuracy" in key else min)(score[key] for score in scores.values()) for key in COLUMNS}
    rows = []
    for name, score in scores.items():
        texts = {key: f"{score[key]:.1%}" if "accuracy" in key else f"{score[key]:.3f}" for key in COLUMNS}
        rows.append([(name, False), *((text, score[key] == best[key]) for key, text in texts.items())])
    head = ["missing cells", *COLUMNS.values()]
    for first, *others in [head, *([text for text, _ in row] for row in rows)]:
        echo(f"{first:<34}" + "".join(f"{text:>14}" for text in others))
    say("", NOTE, "")
    pictures = {
        "network": (draw_network(network), NETWORK),
        "digits": (draw_completions(digits, beliefs["sparsefield"]), COMPLETIONS),
    }
    title = "A sparse field learned from handwritten digits"
    contents = {f"{name}.svg": svg for name, (svg, _) in pictures.items()}
    contents["index.html"] = make_article(title, lead, head, rows, NOTE, list(pictures.values()))
    out.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        write_atomically(out / name, content.encode("utf-8"))
    say(f"The pictures are in {out / 'index.html'}. Total time: {time.perf_counter() - start:.0f} s.")
    return DemoResult(field, (strongest, chance), scores, [out / name for name in contents])
