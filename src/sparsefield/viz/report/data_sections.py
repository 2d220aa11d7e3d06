"""How a field fares on data: quality by column, calibration, signals and errors, gaps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reproduction.panels import Curve, Histogram, HistogramPanel, Panel, Spot, draw_histograms, draw_panels
from sparsefield.evaluation.calibration import (
    Calibration,
    ColumnScore,
    calibrate,
    count_contrasts,
    overall,
    score_columns,
)
from sparsefield.viz.axes import write
from sparsefield.viz.fit_summary import count, is_learned
from sparsefield.viz.markup import Cell, absent, figure, paragraph, section, table
from sparsefield.viz.report.missing_pattern import MissingPattern, find_missing_pattern
from sparsefield.viz.report.repeat_fit import Fitted
from sparsefield.viz.report.scored_rows import ScoredRows
from sparsefield.viz.report.sections import NO_DATA
from sparsefield.viz.svg import BLUE, GREY, INK, ORANGE, PALE, Drawing

__all__ = ["tell_contrasts", "tell_gaps", "tell_quality"]

SHOWN_SCORES = 400
SHOWN_GAP_COLUMNS = 36
BAR = 120.0


def tell_quality(fitted: Fitted, evidence: ScoredRows | None) -> str:
    """Scores by column against frequencies, and calibration."""
    name, title = "quality", "How well it predicts"
    if evidence is None:
        return section(name, title, absent(f"Scores of each column, and calibration: this part {NO_DATA}"))
    learned = is_learned(fitted.field)
    scores = score_columns(evidence.sample, evidence.answers, known_shares=learned)
    if not scores:
        return section(name, title, absent("The data have no known cell of a column that the field predicts."))
    whole = overall(scores)
    how = (
        "Every known cell is predicted from all other cells of its row"
        + (" and of the rows that it is linked with" if fitted.linked else "")
        + ", as if it alone were hidden."
    )
    base = "in training" if learned else "in these rows (the field was given, so there was no training)"
    summary = table(
        ["", "mean log-likelihood of a cell", "share of cells predicted wrongly"],
        [
            [Cell("this field", "words"), _number(whole.cll), _percent(whole.error_rate)],
            [
                Cell(f"frequencies of each column {base}", "words"),
                _number(whole.marginal_cll),
                _percent(whole.marginal_error_rate),
            ],
        ],
    )
    return section(
        name, title, _whose_rows(fitted, evidence), paragraph(f"{how} {count(whole.cells, 'cell')} in all.", "note"),
        summary, _tell_columns(scores), _tell_calibration(calibrate(evidence.sample, evidence.answers)),
    )  # fmt: skip


def _whose_rows(fitted: Fitted, evidence: ScoredRows) -> str:
    """Whether these may be the rows of training, said plainly."""
    part = f" Of them {evidence.sample.n_rows:,}, spread evenly, were looked at." if evidence.in_part else ""
    rows, trained = count(evidence.n_rows, "row"), fitted.field.record.n_rows
    if not is_learned(fitted.field):
        return paragraph(f"The data have {rows}.{part} The field was given, so it has not seen them.")
    if evidence.n_rows == trained:
        return paragraph(
            f"The data have {rows}, just as many as the field was learned from: most likely they are the same. What "
            "follows then tells how well the field describes what it has seen, not how well it would predict new "
            f"rows. For that, give rows that were kept out of training, or run \u201csparsefield evaluate\u201d.{part}",
            "warn",
        )
    return paragraph(
        f"The data have {rows}; the field was learned from {trained:,}. A model does not remember its rows: only if "
        f"none of these were among them do the scores say how well it predicts new ones.{part}",
        "warn",
    )


def _tell_columns(scores: Sequence[ColumnScore]) -> str:
    ranked = sorted(scores, key=lambda score: (-score.gain, score.name))
    shown = ranked[:SHOWN_SCORES]
    worst = max(1e-9, *(-min(score.cll, score.marginal_cll) for score in shown))
    rows = [
        [
            Cell(score.name, "words"),
            Cell(f"{score.cells:,}", value=float(score.cells)),
            _number(score.cll),
            _number(score.marginal_cll),
            _number(score.gain),
            Cell(markup=_bar(score, worst)),
            _percent(score.error_rate),
            _percent(score.marginal_error_rate),
        ]
        for score in shown
    ]
    heads = ["column", "cells", "log-likelihood", "of frequencies", "gain", "", "wrong", "of frequencies"]
    more = len(ranked) - len(shown)
    words = (
        "By column: the mean natural logarithm of the belief in the true state (0 would be perfect), that of a guess "
        "by the column\u2019s frequencies, and what the other columns add. In the bars, which grow with what remains "
        "unknown, blue is the field and the mark is the guess by frequencies."
        + (f" {more:,} columns that gain less are left out." if more else "")
    )
    return f'<div id="columns">{paragraph(words, "note")}{table(heads, rows, sortable=True)}</div>'


def _bar(score: ColumnScore, worst: float) -> str:
    end, mark = (BAR * min(-value / worst, 1.0) for value in (score.cll, score.marginal_cll))
    return (
        f'<svg width="{BAR + 4:.0f}" height="14" aria-hidden="true">'
        f'<rect x="0" y="3" width="{max(end, 1):.1f}" height="8" rx="2" fill="{BLUE}"/>'
        f'<rect x="{mark:.1f}" y="0" width="3" height="14" fill="{ORANGE}"/></svg>'
    )


def _tell_calibration(found: Calibration) -> str:
    spots = [
        Spot(float(b), float(s), float(np.sqrt(s * (1 - s) / n)))
        for b, s, n in zip(found.belief, found.share, found.count, strict=True)
        if n
    ]
    ideal = Curve("as it should be", [Spot(0.0, 0.0), Spot(1.0, 1.0)], dashed=True, color=GREY)
    panel = Panel("Calibration", "belief", "share that is true", [ideal, Curve("this field", spots, color=BLUE)])
    sure = int(found.count[0] + found.count[-1])
    caption = (
        "All statements \u201cthis cell has this state\u201d about known cells, in ten ranges by how strongly the "
        "field believes them; where the two agree, a belief of 70% is right in 70% of the cases. On average they are "
        f"{100 * found.gap:.1f} percentage points apart. Of {int(found.count.sum()):,} statements {sure:,} lie in the "
        "two outermost ranges. Bars are standard errors, as if cells were independent."
    )
    drawn = draw_panels("Are beliefs right as often as they say?", [panel], columns=1)
    return f'<div id="calibration"><h3>Calibration</h3>{figure(drawn, caption)}</div>'


def tell_contrasts(evidence: ScoredRows | None) -> str:
    """Histograms of the paper's errors and signals."""
    name, title = "contrasts", "Signals and errors"
    if evidence is None:
        return section(name, title, absent(f"Histograms of signals and errors: this part {NO_DATA}"))
    edges, errors, signals = count_contrasts(evidence.sample, evidence.answers)
    if not errors.sum():
        return section(name, title, absent("The data have no known cell of a column that the field predicts."))
    panels = [
        HistogramPanel("Errors", "q1 \u2212 q0", [Histogram("errors", edges.tolist(), errors.tolist())]),
        HistogramPanel("Signals", "q0 \u2212 its mean", [Histogram("signals", edges.tolist(), signals.tolist())]),
    ]
    caption = (
        "An error is what the field believes of a state, given everything else, less what is seen (Definition 1 of the "
        "paper); a signal is what is seen, less its mean over the rows (Definition 2). A candidate\u2019s gradient is "
        "the sum of the products of the two, so contrastive induction looks at those that are large. Known cells, "
        "every state but the base; counts on a logarithmic axis."
    )
    return section(name, title, figure(draw_histograms("Signals and errors", panels, columns=2), caption))


def tell_gaps(evidence: ScoredRows | None) -> str:
    """Which cells are missing, and which together."""
    name, title = "gaps", "Missing values"
    if evidence is None:
        return section(name, title, absent(f"A map of missing values {NO_DATA}"))
    parts = []
    for owner, seen in evidence.seen.items():
        if not seen:
            continue
        found = find_missing_pattern(seen)
        what = f"Table {owner}: " if owner else ""
        if not found.columns:
            parts.append(paragraph(f"Table {owner}: no cell is missing." if owner else "No cell is missing."))
            continue
        cells = sum(len(known) for known in seen.values())
        missing = round(float(found.shares.sum()) * found.n_rows)
        words = (
            f"{what}{missing:,} of {cells:,} cells are missing ({missing / cells:.1%}), in {len(found.columns):,} of "
            f"{len(seen):,} columns. Rows differ in what they lack in {count(found.n_patterns, 'way')}."
        )
        parts += [paragraph(words), figure(_draw_gaps(found), _caption(found)), _gap_table(found)]
    parts = parts or [absent("The data are a sparse matrix, which has no gaps.")]
    return section(name, title, *parts)


def _caption(found: MissingPattern) -> str:
    return (
        "A row of the picture is a set of columns that are missing together (filled squares); beside it stands in how "
        f"many rows of the data. The {len(found.counts):,} most frequent sets"
        + (f", and the {SHOWN_GAP_COLUMNS} emptiest columns." if len(found.columns) > SHOWN_GAP_COLUMNS else ".")
    )


def _gap_table(found: MissingPattern) -> str:
    rows = [
        [Cell(name, "words"), _percent(float(share))] for name, share in zip(found.columns, found.shares, strict=True)
    ]
    return table(["column", "share that is missing"], rows[:SHOWN_SCORES], sortable=True)


def _draw_gaps(found: MissingPattern) -> str:
    """Patterns by columns."""
    columns = found.columns[:SHOWN_GAP_COLUMNS]
    step, left, top = 20.0, 150.0, 132.0
    drawing = Drawing(
        max(900.0, left + step * len(columns) + 130), top + step * len(found.counts) + 24, "Missing values"
    )
    drawing.text(20, 30, "Rows that lack these columns", size=14, font_weight=600)
    for k, name in enumerate(columns):
        x = left + step * (k + 0.5)
        turned = {"transform": f"translate({x + 4:.1f} {top - 10:.1f}) rotate(-50)", "hint": name}
        words = name if len(name) <= 16 else name[:15] + "…"
        drawing.text(0, 0, words, size=11, fill=GREY, **turned)
    most = float(found.counts.max())
    for row, (pattern, number) in enumerate(zip(found.patterns, found.counts.tolist(), strict=True)):
        y = top + step * row
        bar = 70.0 * number / most
        drawing.rect(left - 12 - bar, y + 5, bar, step - 10, fill="#8fc1e3")
        write(drawing, 14, y + 14, f"{number:,}", 70, size=11.5)
        for k in range(len(columns)):
            gone = bool(pattern[k])
            drawing.rect(left + step * k + 2, y + 2, step - 4, step - 4, rx=3, fill=INK if gone else PALE)
        if not pattern.any():
            drawing.text(left + step * len(columns) + 10, y + 14, "nothing missing", size=11.5, fill=GREY)
    return drawing.render()


def _number(value: float) -> Cell:
    return Cell(f"{value:.3f}".replace("-", "\u2212"), value=value)


def _percent(value: float) -> Cell:
    return Cell(f"{value:.1%}", value=value)
