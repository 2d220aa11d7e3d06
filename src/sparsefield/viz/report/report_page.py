"""This module writes the report on a field: one self-contained HTML document."""

from __future__ import annotations

from html import escape

from sparsefield.viz.feature_sentences import list_features
from sparsefield.viz.markup import asset, document, paragraph, section
from sparsefield.viz.network_plot import render_network
from sparsefield.viz.network_view import ExtraColumns, NetworkView, build_view
from sparsefield.viz.report.associations import find_associations, find_surprises
from sparsefield.viz.report.data_sections import render_contrasts, render_missing_values, render_quality
from sparsefield.viz.report.repeat_fit import Fitted
from sparsefield.viz.report.scored_rows import ScoredRows
from sparsefield.viz.report.sections import (
    render_certificate,
    render_features,
    render_repeat,
    render_structure,
    render_summary,
    render_surprises,
    render_training,
)

__all__ = ["make_report"]

MAX_COMPARED = 2_000
"""Number of the strongest features that are compared with the association of their columns alone."""

SECTIONS = {
    "summary": "Summary", "network-section": "Network", "features": "Features", "surprising": "Surprises",
    "structure": "Hubs", "training": "Training", "quality": "Quality", "contrasts": "Signals",
    "missing-values": "Missing values", "certificate": "Convergence", "repeat": "Repeat",
}  # fmt: skip
"""{id of a section: its name in the navigation bar}"""


def make_report(
    fitted: Fitted, *, title: str, evidence: ScoredRows | None = None, extra: ExtraColumns | None = None
) -> str:
    """Return an HTML document about a field.

    Parameters
    ----------
    fitted : Fitted
        The field and the parameters of its fit.
    title : str
    evidence : ScoredRows, optional
        Rows to compare with the field; without them, the sections that need rows say so.
    extra : {title: {name of a feature: value}}, optional
        Further columns of the tables of features. The names are those of `Feature.name`.
    """
    features = list_features(fitted.field)
    view = build_view(fitted.field, extra, features=features)
    alone = surprises = None
    if evidence is not None:
        compared = features[:MAX_COMPARED]
        alone = find_associations(evidence.sample, compared)
        surprises = find_surprises(compared, alone)
    body = "".join(
        [
            section("summary", "What was learned", render_summary(fitted, view, features, surprises)),
            _render_network_section(view),
            render_features(view, features, alone, len(features)),
            render_surprises(surprises),
            render_structure(view),
            render_training(fitted),
            render_quality(fitted, evidence),
            render_contrasts(evidence),
            render_missing_values(evidence),
            render_certificate(fitted),
            render_repeat(fitted),
        ]
    )
    links = "".join(f'<a href="#{name}">{label}</a>' for name, label in SECTIONS.items())
    page = f"<nav><div>{links}</div></nav>\n<main><h1>{escape(title)}</h1>\n{body}</main>"
    return document(title, page, style=asset("page.css"), scripts=[asset("network.js"), asset("tables.js")])


def _render_network_section(view: NetworkView) -> str:
    whole, shown = len(view.whole.edges), len(view.shown.edges)
    text = "Circles are columns; an edge joins two columns that share features."
    if shown < whole:
        text += f" The network has {whole:,} edges; the {shown:,} strongest are on this page."
    return section("network-section", "Network", paragraph(text, "note"), render_network(view, "Network"))
