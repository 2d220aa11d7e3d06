"""The report: one HTML document about a field, which opens anywhere and loads nothing."""

from __future__ import annotations

from html import escape

from sparsefield.viz.feature_sentences import list_features
from sparsefield.viz.markup import asset, document, paragraph, section
from sparsefield.viz.network_plot import draw_live
from sparsefield.viz.network_view import ExtraColumns, View, look_at
from sparsefield.viz.report.associations import find_associations, find_surprises
from sparsefield.viz.report.data_sections import tell_contrasts, tell_gaps, tell_quality
from sparsefield.viz.report.repeat_fit import Fitted
from sparsefield.viz.report.scored_rows import ScoredRows
from sparsefield.viz.report.sections import (
    tell_certificate,
    tell_features,
    tell_repeat,
    tell_structure,
    tell_surprises,
    tell_training,
    tell_words,
)

__all__ = ["make_report"]

MOST_COMPARED = 2_000
"""Features that are held against their columns' own association: the strongest."""

PLACES = {
    "words": "In words", "network-section": "Network", "features": "Features", "surprising": "Surprises",
    "structure": "Hubs", "training": "Training", "quality": "Quality", "contrasts": "Signals", "gaps": "Gaps",
    "certificate": "Certificate", "repeat": "Repeat",
}  # fmt: skip


def make_report(
    fitted: Fitted, *, title: str, evidence: ScoredRows | None = None, extra: ExtraColumns | None = None
) -> str:
    """An HTML document about a field.

    Parameters
    ----------
    fitted : Fitted
        The field, and how it was learned.
    title : str
    evidence : ScoredRows, optional
        Rows to hold against it; parts that need them say so where there are none.
    extra : {title: {name of a feature: value}}, optional
        Further columns of the tables of features, such as how often each was selected. `Feature.name` has the names.
    """
    features = list_features(fitted.field)
    view = look_at(fitted.field, extra, features=features)
    alone = surprises = None
    if evidence is not None:
        compared = features[:MOST_COMPARED]
        alone = find_associations(evidence.sample, compared)
        surprises = find_surprises(compared, alone)
    body = "".join(
        [
            section("words", "What was learned", tell_words(fitted, view, features, surprises)),
            _tell_network(view),
            tell_features(view, features, alone, len(features)),
            tell_surprises(surprises),
            tell_structure(view),
            tell_training(fitted),
            tell_quality(fitted, evidence),
            tell_contrasts(evidence),
            tell_gaps(evidence),
            tell_certificate(fitted),
            tell_repeat(fitted),
        ]
    )
    links = "".join(f'<a href="#{place}">{words}</a>' for place, words in PLACES.items())
    page = f"<nav><div>{links}</div></nav>\n<main><h1>{escape(title)}</h1>\n{body}</main>"
    return document(title, page, style=asset("page.css"), scripts=[asset("network.js"), asset("tables.js")])


def _tell_network(view: View) -> str:
    whole, shown = len(view.whole.edges), len(view.shown.edges)
    words = "A circle is a column, a line two columns that share features."
    if shown < whole:
        words += f" The network has {whole:,} edges; the {shown:,} strongest are on this page."
    return section("network-section", "Network", paragraph(words, "note"), draw_live(view, "Network"))
