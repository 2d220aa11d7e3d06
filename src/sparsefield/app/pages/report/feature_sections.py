"""This module renders the tables of features: the strongest, and those that differ from the marginal association."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sparsefield.analysis.feature_sentences import Feature
from sparsefield.app.pages.fit_summary import describe_weights
from sparsefield.app.pages.html_page import TableCell, paragraph, render_table, section
from sparsefield.app.pages.network_view import NetworkView
from sparsefield.app.pages.report.associations import MIN_ERRORS, Association, Surprise
from sparsefield.app.pages.report.data_sections import NO_DATA
from sparsefield.app.pages.report.stability_text import COLUMN_TITLE
from sparsefield.app.pages.small_bars import draw_weight

MAX_FEATURES, MAX_SURPRISES = 200, 20

WeightIntervals = Mapping[str, tuple[float, float]]
"""{name of a feature: (lower end, upper end)} of intervals of weights."""


def render_features(
    view: NetworkView,
    features: Sequence[Feature],
    associations: Sequence[Association | None] | None,
    intervals: WeightIntervals | None = None,
) -> str:
    """Return the table of the strongest features, with intervals, and the marginal association of their columns."""
    name, title, total = "features", "Strongest features", len(features)
    if not features:
        return section(name, title, paragraph("There are no features of two or more columns.", "absent"))
    known = intervals or {}
    heads = ["feature", "weight", "", *(["interval"] if known else [])]
    heads += [*(["marginal", "\u00b1"] if associations is not None else []), *view.extra]
    shown_features = features[:MAX_FEATURES]
    largest = _largest(shown_features, known)
    rows = []
    for k, feature in enumerate(shown_features):
        drawn = draw_weight(feature.weight, known.get(feature.name), largest)
        row = [TableCell(feature.sentence, "text"), _weight(feature.weight)]
        row.append(TableCell(markup=drawn, value=feature.weight))
        row += [_interval(known.get(feature.name))] if known else []
        if associations is not None:
            shown = associations[k]
            row += (
                [TableCell(), TableCell()]
                if shown is None
                else [TableCell.number(shown.value, "+.2f"), TableCell.number(shown.error)]
            )
        row += [_any(column.get(feature.name)) for column in view.extra.values()]
        rows.append(row)
    which = f"The {len(rows):,} strongest of {total:,}" if total > len(rows) else f"All {total:,}"
    how = describe_weights(view.whole.network.field)
    text = f"{which} features of two or more columns{f'; {how}' if how else ''}."
    if associations is not None:
        text += (
            " \u201cMarginal\u201d is the marginal association of the two columns on the scale of the weight: the log "
            "odds ratio of two states against all others or their reference states, or the slope of a score, with its "
            "standard error, in the given rows. Penalties shrink weights toward 0."
        )
    if COLUMN_TITLE in view.extra:
        text += " \u201cStability\u201d is the share of halves of the rows that selected the feature."
    if known:
        text += (
            " Whiskers show the intervals of the weights; those of estimates without L1 may exclude a weight that L1 "
            "has shrunk."
        )
    table = render_table(heads, rows, sortable=True, name="features")
    return section(name, title, paragraph(text, "note"), table)


def render_surprises(surprises: Sequence[Surprise] | None) -> str:
    """Return the features whose weights differ from the marginal association of their columns."""
    name, title = "surprising", "Surprising features"
    if surprises is None:
        return section(name, title, paragraph(f"The list of surprising features {NO_DATA}", "absent"))
    text = (
        "A feature is surprising if the marginal association of its two columns is less than half of its weight, or "
        f"opposite, and both the weight and its distance to the association exceed {MIN_ERRORS:.0f} standard errors. "
        "Such a dependence is visible only when other columns are taken into account. Conjunctions and features of "
        "latent variables are not compared. The largest distances come first."
    )
    if not surprises:
        return section(name, title, paragraph(text, "note"), paragraph("No feature is surprising."))
    rows = []
    for one in surprises[:MAX_SURPRISES]:
        texts = [TableCell(one.feature.sentence, "text"), TableCell("opposite" if one.opposite else "weaker", "text")]
        numbers = TableCell.number(one.association.value, "+.2f"), TableCell.number(one.association.error)
        rows.append([texts[0], _weight(one.feature.weight), *numbers, texts[1]])
    more = len(surprises) - len(rows)
    heads = ["feature", "weight", "marginal", "\u00b1", "marginal association"]
    made = render_table(heads, rows, text=(0, 4), sortable=True, name="surprising-features")
    rest = paragraph(f"And {more:,} more.", "note") if more else ""
    return section(name, title, paragraph(text, "note"), made, rest)


def _largest(features: Sequence[Feature], intervals: WeightIntervals) -> float:
    """Return the largest magnitude of weights and of ends of intervals."""
    ends = [abs(end) for feature in features for end in intervals.get(feature.name, ())]
    return max([abs(feature.weight) for feature in features] + ends)


def _interval(ends: tuple[float, float] | None) -> TableCell:
    if ends is None:
        return TableCell()
    text = f"{ends[0]:+.2f} to {ends[1]:+.2f}".replace("-", "\u2212")
    return TableCell(text, value=ends[0])


def _weight(value: float) -> TableCell:
    return TableCell.number(value, "+.2f", "number plus" if value > 0 else "number minus")


def _any(value: Any) -> TableCell:
    if value is None:
        return TableCell()
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        return TableCell(f"{value:.4g}", value=float(value))
    return TableCell(str(value))
