"""This module writes the report on a field: one self-contained HTML document."""

from __future__ import annotations

from html import escape

from sparsefield.viz.feature_sentences import list_features
from sparsefield.viz.html_page import asset, document
from sparsefield.viz.network_view import ExtraColumns, build_view
from sparsefield.viz.report import data_sections, sections
from sparsefield.viz.report.associations import find_associations, find_surprises
from sparsefield.viz.report.data_sections import ScoredRows
from sparsefield.viz.report.repeat_fit import Fitted

__all__ = ["make_report"]

MAX_COMPARED = 2_000
"""Number of the strongest features that are compared with the association of their columns alone."""

SECTIONS = {
    "summary": "Summary", "network-section": "Network", "features": "Features", "surprising": "Surprises",
    "structure": "Hubs", "training": "Training", "quality": "Quality", "signals": "Signals",
    "missing-values": "Missing values", "certificate": "Convergence", "repeat": "Repeat",
}  # fmt: skip
"""{id of a section: its name in the navigation bar}"""


def make_report(
    fitted: Fitted, *, title: str, scored: ScoredRows | None = None, extra: ExtraColumns | None = None
) -> str:
    """Return an HTML document about a field and its fit.

    Parameters
    ----------
    fitted : Fitted
    title : str
    scored : ScoredRows, optional
        Rows to compare with the field; without them, the sections that need rows say so.
    extra : {title: {name of a feature: value}}, optional
        Further columns of the tables of features. The names are those of `Feature.name`.
    """
    features = list_features(fitted.field)
    view = build_view(fitted.field, extra, features=features)
    alone = surprises = None
    if scored is not None:
        compared = features[:MAX_COMPARED]
        alone = find_associations(scored.sample, compared)
        surprises = find_surprises(compared, alone)
    body = [
        sections.render_summary(fitted, view, features, surprises),
        sections.render_network_section(view),
        sections.render_features(view, features, alone),
        sections.render_surprises(surprises),
        sections.render_structure(view),
        sections.render_training(fitted),
        data_sections.render_quality(fitted, scored),
        data_sections.render_signals(scored),
        data_sections.render_missing_values(scored),
        sections.render_certificate(fitted),
        sections.render_repeat(fitted),
    ]
    links = "".join(f'<a href="#{name}">{label}</a>' for name, label in SECTIONS.items())
    page = f"<nav><div>{links}</div></nav>\n<main><h1>{escape(title)}</h1>\n{''.join(body)}</main>"
    return document(title, page, style=asset("page.css"), scripts=[asset("network.js"), asset("tables.js")])
