"""This module shows a fitted estimator in a notebook: its main numbers and strongest features."""

from __future__ import annotations

from html import escape

from sparsefield.option_objects import as_expression
from sparsefield.viz.feature_sentences import list_features
from sparsefield.viz.fit_summary import certificate, count, size
from sparsefield.viz.report.repeat_fit import Fitted, changed_options

__all__ = ["summarize"]

MAX_FEATURES = 8
CARD = "border:1px solid #d0d5dd;border-radius:8px;padding:10px 16px;max-width:46em;font-size:14px"
WEIGHT = "font-size:14px;text-align:right;font-variant-numeric:tabular-nums;padding:1px 10px 1px 0"
TEXT = "font-size:14px;text-align:left;padding:1px 0"


def summarize(fitted: Fitted) -> str:
    """Return a piece of HTML without scripts, whose styles do not affect the notebook."""
    field = fitted.field
    options = ", ".join(f"{name}={as_expression(value)}" for name, value in changed_options(fitted).items())
    columns = field.layout.n_targets + sum(len(schema.observed) for schema in field.layout.schemas)
    rows = f"{count(field.record.n_rows, 'row')}, " if field.record.is_learned else ""
    lines = [
        f"<b>{escape(fitted.kind)}({escape(options)})</b>",
        escape(f"{rows}{count(columns, 'column')}; {size(field)}"),
        escape(certificate(field, fitted.params)),
    ]
    features = "".join(
        f'<tr><td style="{WEIGHT}">{feature.weight:+.2f}</td><td style="{TEXT}">{escape(feature.sentence)}</td></tr>'
        for feature in list_features(field, MAX_FEATURES)
    )
    head = "<br/>".join(lines)
    more = "<code>.plot()</code> draws the network, <code>.features_</code> lists all features."
    return f'<div style="{CARD}">{head}<table style="margin:8px 0">{features}</table>{more}</div>'
