"""This module renders the sections that need data: quality, calibration, signals and errors, missing values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparsefield.evaluation.calibration import (
    Calibration,
    ColumnScore,
    calibrate,
    count_signals_and_errors,
    overall,
    score_columns,
)
from sparsefield.viz.axes import draw_text
from sparsefield.viz.charts import (
    Curve,
    CurvePoint,
    HistogramPanel,
    LinePanel,
    draw_histogram_panels,
    draw_line_panels,
)
from sparsefield.viz.fit_summary import count, is_learned
from sparsefield.viz.markup import TableCell, paragraph, render_absent, render_figure, render_table, section
from sparsefield.viz.palette import BLUE, GREY, INK, ORANGE, PALE, blend
from sparsefield.viz.report.missing_pattern import MissingPattern, find_missing_pattern
from sparsefield.viz.report.repeat_fit import Fitted
from sparsefield.viz.report.scored_rows import ScoredRows
from sparsefield.viz.report.sections import NO_DATA
from sparsefield.viz.svg import Drawing

__all__ = ["render_contrasts", "render_missing_values", "render_quality"]

MAX_SCORES = 400
MAX_MISSING_COLUMNS = 36
BAR = 120.0


def render_quality(fitted: Fitted, evidence: ScoredRows | None) -> str:
    """Return scores by column, compared with frequencies, and calibration."""
    name, title = "quality", "Prediction quality"
    if evidence is None:
        return section(name, title, render_absent(f"This section on scores and calibration {NO_DATA}"))
    learned = is_learned(fitted.field)
    scores = score_columns(evidence.sample, evidence.answers, known_shares=learned)
    if not scores:
        return section(name, title, render_absent("The data have no value in a column that the field predicts."))
    whole = overall(scores)
    how = (
        "Each value is predicted from all other values of its row"
        + (" and of the rows that it is linked with" if fitted.linked else "")
        + ", as if it were missing."
    )
    base = "in training" if learned else "in these rows (there was no training)"
    summary = render_table(
        ["", "mean log-likelihood of a value", "error rate"],
        [
            [TableCell("this field", "text"), _number(whole.cll), _percent(whole.error_rate)],
            [
                TableCell(f"frequencies of each column {base}", "text"),
                _number(whole.marginal_cll),
                _percent(whole.marginal_error_rate),
            ],
        ],
    )
    parts = [
        _describe_rows(fitted, evidence),
        paragraph(f"{how} {count(whole.cells, 'value')} in total.", "note"),
        summary,
        _render_columns(scores),
        _render_calibration(calibrate(evidence.sample, evidence.answers)),
    ]
    return section(name, title, *parts)


def _describe_rows(fitted: Fitted, evidence: ScoredRows) -> str:
    """Return a statement on whether these may be the rows of training."""
    part = f" Only {evidence.sample.n_rows:,} evenly spaced rows were used." if evidence.in_part else ""
    rows, trained = count(evidence.n_rows, "row"), fitted.field.record.n_rows
    if not is_learned(fitted.field):
        return paragraph(
            f"The data have {rows}.{part} The weights of the field were given, so these rows were not used in training."
        )
    if evidence.n_rows == trained:
        return paragraph(
            f"The data have {rows}, as many as the field was learned from, so they are probably the training rows. The "
            "scores then show how well the field fits these rows, not how well it predicts new ones. For that, give "
            f"held-out rows, or run \u201csparsefield evaluate\u201d.{part}",
            "warn",
        )
    return paragraph(
        f"The data have {rows}; the field was learned from {trained:,}. The scores show how well it predicts new rows "
        f"only if none of these rows was used in training, which a model does not record.{part}",
        "warn",
    )


def _render_columns(scores: Sequence[ColumnScore]) -> str:
    ranked = sorted(scores, key=lambda score: (-score.gain, score.name))
    shown = ranked[:MAX_SCORES]
    worst = max(1e-9, *(-min(score.cll, score.marginal_cll) for score in shown))
    rows = [
        [
            TableCell(score.name, "text"),
            TableCell(f"{score.cells:,}", value=float(score.cells)),
            _number(score.cll),
            _number(score.marginal_cll),
            _number(score.gain),
            TableCell(markup=_bar(score, worst)),
            _percent(score.error_rate),
            _percent(score.marginal_error_rate),
        ]
        for score in shown
    ]
    heads = ["column", "values", "log-likelihood", "of frequencies", "gain", "", "error rate", "of frequencies"]
    more = len(ranked) - len(shown)
    text = (
        "By column: the mean log-likelihood of the true state given all other columns (0 is perfect), that of the "
        "column\u2019s frequencies, and the difference. Shorter bars are better: the blue bar is the field, the orange "
        "mark the frequencies." + (f" {more:,} columns with a smaller gain are not listed." if more else "")
    )
    return f'<div id="columns">{paragraph(text, "note")}{render_table(heads, rows, sortable=True)}</div>'


def _bar(score: ColumnScore, worst: float) -> str:
    end, mark = (BAR * min(-value / worst, 1.0) for value in (score.cll, score.marginal_cll))
    return (
        f'<svg width="{BAR + 4:.0f}" height="14" aria-hidden="true">'
        f'<rect x="0" y="3" width="{max(end, 1):.1f}" height="8" rx="2" fill="{BLUE}"/>'
        f'<rect x="{mark:.1f}" y="0" width="3" height="14" fill="{ORANGE}"/></svg>'
    )


def _render_calibration(found: Calibration) -> str:
    points = [
        CurvePoint(float(b), float(s), float(np.sqrt(s * (1 - s) / n)))
        for b, s, n in zip(found.belief, found.share, found.count, strict=True)
        if n
    ]
    ideal = Curve("perfect calibration", [CurvePoint(0.0, 0.0), CurvePoint(1.0, 1.0)], dashed=True, color=GREY)
    panel = LinePanel("Calibration", "belief", "share that is true", [ideal, Curve("this field", points, color=BLUE)])
    sure = int(found.count[0] + found.count[-1])
    caption = (
        "All statements \u201cthis cell has this state\u201d about observed values, in ten bins by the belief of the "
        "field; with perfect calibration, a belief of 70% is right in 70% of the cases. The mean calibration error is "
        f"{100 * found.error:.1f} percentage points. Of {int(found.count.sum()):,} statements, {sure:,} are in the two "
        "outermost bins. Bars are standard errors, as if values were independent."
    )
    drawn = draw_line_panels("Calibration of beliefs", [panel], columns=1)
    return f'<div id="calibration"><h3>Calibration</h3>{render_figure(drawn, caption)}</div>'


def render_contrasts(evidence: ScoredRows | None) -> str:
    """Return histograms of errors and signals."""
    name, title = "contrasts", "Signals and errors"
    if evidence is None:
        return section(name, title, render_absent(f"This section on signals and errors {NO_DATA}"))
    edges, errors, signals = count_signals_and_errors(evidence.sample, evidence.answers)
    if not errors.sum():
        return section(name, title, render_absent("The data have no value in a column that the field predicts."))
    panels = [
        HistogramPanel("Errors", "q1 \u2212 q0", edges.tolist(), errors.tolist()),
        HistogramPanel("Signals", "q0 \u2212 its mean", edges.tolist(), signals.tolist()),
    ]
    caption = (
        "An error is the belief in a state given everything else, minus its indicator (Definition 1 of the paper); a "
        "signal is the indicator minus its mean over the rows (Definition 2). A candidate\u2019s gradient is the sum "
        "of the products of the two, so contrastive induction considers only large ones. Observed values, all states "
        "except the reference state; counts are on a logarithmic axis."
    )
    return section(name, title, render_figure(draw_histogram_panels("Signals and errors", panels), caption))


def render_missing_values(evidence: ScoredRows | None) -> str:
    """Return a map of the values that are missing, and of those missing together."""
    name, title = "missing-values", "Missing values"
    if evidence is None:
        return section(name, title, render_absent(f"The map of missing values {NO_DATA}"))
    parts = []
    for owner, seen in evidence.seen.items():
        if not seen:
            continue
        found = find_missing_pattern(seen)
        what = f"Table {owner}: " if owner else ""
        if not found.columns:
            parts.append(paragraph(f"Table {owner}: no value is missing." if owner else "No value is missing."))
            continue
        cells = sum(len(known) for known in seen.values())
        missing = round(float(found.shares.sum()) * found.n_rows)
        text = (
            f"{what}{missing:,} of {cells:,} values are missing ({missing / cells:.1%}), in {len(found.columns):,} of "
            f"{len(seen):,} columns. There {'is' if found.n_patterns == 1 else 'are'} "
            f"{count(found.n_patterns, 'pattern')} of missing columns."
        )
        picture = render_figure(_draw_missing_pattern(found), _caption(found))
        parts += [paragraph(text), picture, _missing_table(found)]
    parts = parts or [render_absent("The data are a sparse matrix, which has no missing values.")]
    return section(name, title, *parts)


def _caption(found: MissingPattern) -> str:
    return (
        "Each line of the picture is a set of columns that are missing together (dark squares), with its number of "
        f"rows. Shown are the {len(found.counts):,} most frequent sets"
        + (
            f" and the {MAX_MISSING_COLUMNS} columns with the most missing values."
            if len(found.columns) > MAX_MISSING_COLUMNS
            else "."
        )
    )


def _missing_table(found: MissingPattern) -> str:
    rows = [
        [TableCell(name, "text"), _percent(float(share))]
        for name, share in zip(found.columns, found.shares, strict=True)
    ]
    return render_table(["column", "share missing"], rows[:MAX_SCORES], sortable=True)


def _draw_missing_pattern(found: MissingPattern) -> str:
    """Return a picture of patterns by columns."""
    columns = found.columns[:MAX_MISSING_COLUMNS]
    step, left, top = 20.0, 150.0, 132.0
    drawing = Drawing(
        max(900.0, left + step * len(columns) + 130), top + step * len(found.counts) + 24, "Missing values"
    )
    drawing.text(20, 30, "Columns that are missing together", size=14, font_weight=600)
    for k, name in enumerate(columns):
        x = left + step * (k + 0.5)
        turned = {"transform": f"translate({x + 4:.1f} {top - 10:.1f}) rotate(-50)", "hint": name}
        label = name if len(name) <= 16 else name[:15] + "…"
        drawing.text(0, 0, label, size=11, fill=GREY, **turned)
    most = float(found.counts.max())
    for row, (pattern, number) in enumerate(zip(found.patterns, found.counts.tolist(), strict=True)):
        y = top + step * row
        bar = 70.0 * number / most
        drawing.rect(left - 12 - bar, y + 5, bar, step - 10, fill=blend(["#ffffff", BLUE], 0.45))
        draw_text(drawing, 14, y + 14, f"{number:,}", 70, size=11.5)
        for k in range(len(columns)):
            missing = bool(pattern[k])
            drawing.rect(left + step * k + 2, y + 2, step - 4, step - 4, rx=3, fill=INK if missing else PALE)
        if not pattern.any():
            drawing.text(left + step * len(columns) + 10, y + 14, "nothing missing", size=11.5, fill=GREY)
    return drawing.render()


def _number(value: float) -> TableCell:
    return TableCell(f"{value:.3f}".replace("-", "\u2212"), value=value)


def _percent(value: float) -> TableCell:
    return TableCell(f"{value:.1%}", value=value)
