"""This module writes the report on a field, one self-contained HTML document."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from sparsefield.analysis.feature_sentences import Feature, list_features
from sparsefield.analysis.scored_rows import ScoredRows
from sparsefield.app.pages.figure_options import FigureOptions
from sparsefield.app.pages.fit_summary import describe_convergence, describe_kinds, describe_size
from sparsefield.app.pages.html_page import TableCell, bullets, document, fold, paragraph, render_table, section
from sparsefield.app.pages.network_figure import NetworkFigure
from sparsefield.app.pages.network_plot import render_network
from sparsefield.app.pages.network_view import ExtraColumns, NetworkView, build_view
from sparsefield.app.pages.report import data_sections
from sparsefield.app.pages.report.associations import Surprise, find_associations, find_surprises
from sparsefield.app.pages.report.centrality_section import render_centrality
from sparsefield.app.pages.report.feature_sections import WeightIntervals, render_features, render_surprises
from sparsefield.app.pages.report.method_sections import render_certificate, render_repeat, render_training
from sparsefield.app.pages.report.overview_sections import render_findings, render_tiles
from sparsefield.app.pages.report.repeat_fit import FitDescription
from sparsefield.app.pages.report.stability_text import describe_stability
from sparsefield.text import count

if TYPE_CHECKING:
    from sparsefield.analysis.centrality import Centrality
    from sparsefield.analysis.predictability import Predictability

MAX_HUBS, MAX_COMMUNITIES, MAX_MEMBERS = 12, 12, 14
IN_SUMMARY = 3
MAX_COMPARED = 2_000
"""Number of the strongest features that are compared with the marginal association of their columns."""

SECTIONS = {
    "network-section": "Network", "findings": "Findings", "summary": "Summary", "features": "Features",
    "surprising": "Surprises", "quality": "Quality", "missing-values": "Missing values", "structure": "Hubs",
    "centrality": "Centrality",
    "training": "Training", "signals": "Signals", "certificate": "Convergence", "repeat": "Repeat",
}  # fmt: skip
"""{id of a section: its name in the navigation bar}"""


def make_report(
    fitted: FitDescription,
    *,
    title: str,
    scored: ScoredRows | None = None,
    extra: ExtraColumns | None = None,
    intervals: WeightIntervals | None = None,
    centrality: Centrality | None = None,
    predictability: Predictability | None = None,
) -> str:
    """Return an HTML document about a field and its fit.

    Without ``scored``, rows to compare with the field, the sections that need rows say so. ``extra`` are further
    columns of the tables of features, whose names are those of `Feature.name`, and ``intervals`` those of their
    weights. ``centrality`` and ``predictability`` are those of the columns.
    """
    features = list_features(fitted.field)
    view = build_view(fitted.field, extra, features=features)
    associations = surprises = None
    if scored is not None:
        compared = features[:MAX_COMPARED]
        associations = find_associations(scored.sample, compared)
        surprises = find_surprises(compared, associations)
    body = [
        render_tiles(fitted, view, scored, [] if scored is None else scored.scores),
        _render_network_section(view),
        render_findings(fitted, scored),
        _render_summary(fitted, view, features, surprises),
        render_features(view, features, associations, intervals),
        render_surprises(surprises),
        data_sections.render_quality(fitted, scored),
        data_sections.render_missing_values(scored),
        _render_structure(view),
        render_centrality(centrality, predictability),
        fold(
            "method",
            "Method: training, signals, convergence, and how to repeat the fit",
            render_training(fitted),
            data_sections.render_signals(scored),
            render_certificate(fitted),
            render_repeat(fitted),
        ),
    ]
    links = "".join(f'<a href="#{name}">{label}</a>' for name, label in SECTIONS.items())
    page = f"<nav><div>{links}</div></nav>\n<main><h1>{escape(title)}</h1>\n{''.join(body)}</main>"
    return document(title, page, "network.js", "tables.js")


def _render_summary(
    fitted: FitDescription, view: NetworkView, features: Sequence[Feature], surprises: Sequence[Surprise] | None
) -> str:
    """Return the main findings as a list of sentences."""
    field = fitted.field
    layout, learned = field.layout, field.record.is_learned
    observed = sum(len(schema.observed) for schema in layout.schemas)
    latent = sum(len(schema.latent) for schema in layout.schemas) if layout.has_latent else 0
    columns = count(layout.n_targets - latent + observed, "column")
    also = f", of which {observed:,} are covariates (observed columns, never predicted)" if observed else ""
    also += f", with {count(latent, 'latent variable')}" if latent else ""
    over = f" of {count(len(layout.tables), 'linked table')} ({', '.join(layout.tables)})" if fitted.linked else ""
    lines = [
        f"Learned from {count(field.record.n_rows, 'row')} and {columns}{over}{also}."
        if learned
        else f"A field over {columns}{over}{also} with given weights, not learned.",
        f"Kinds of columns: {describe_kinds(field)}.",
        f"It has {describe_size(field)}.",
    ]
    if features:
        lines.append(f"Strongest: {_list_sentences(features)}.")
    if surprises:
        why = "although the marginal association of the two columns is weaker or opposite"
        listed = _list_sentences([surprise.feature for surprise in surprises])
        lines.append(f"Most surprising: {listed} \u2013 {why} (see below).")
    elif surprises is not None and features:
        lines.append("None of the strongest pairs is surprising (the section below defines this).")
    markup = [escape(line) for line in lines]
    markup += _describe_network(view) if features else []
    markup += [escape(line) for line in describe_stability(field, features)]
    markup += [escape(describe_convergence(field, fitted.params))] if learned else []
    return section("summary", "What was learned", bullets(markup))


def _list_sentences(features: Sequence[Feature]) -> str:
    return "; ".join(f"{feature.sentence} ({feature.weight:+.2f})" for feature in features[:IN_SUMMARY])


def _describe_network(view: NetworkView) -> list[str]:
    """Return sentences on hubs and communities, as markup."""
    degrees, ranked = view.whole.degrees, _hubs(view)[:IN_SUMMARY]
    hubs = ", ".join(f"{_node(view, k)} ({count(int(degrees[k]), 'neighbor')})" for k in ranked)
    size = f"{count(len(view.whole.nodes), 'column')} and {count(len(view.whole.edges), 'edge')}"
    large = int((np.bincount(view.communities) > 2).sum())
    divides = f"It divides into {large:,} communities of three or more columns (modularity {view.modularity:.2f})."
    if large < 2 or view.modularity < 0.1:
        divides = "The network does not divide into communities."
    return [f"Hubs: {hubs}. The network has {size}.", divides]


def _render_network_section(view: NetworkView) -> str:
    """Return the interactive network."""
    whole, shown = len(view.whole.edges), len(view.shown.edges)
    text = "Circles are columns; an edge joins two columns that share features."
    if shown < whole:
        text += f" The network has {whole:,} edges; the {shown:,} strongest are on this page."
    figure = NetworkFigure(view, FigureOptions())
    return section("network-section", "Network", paragraph(text, "note"), render_network(view, figure))


def _render_structure(view: NetworkView) -> str:
    """Return the tables of hubs and communities."""
    name, title, whole = "structure", "Hubs and communities", view.whole
    if not len(whole.edges):
        return section(name, title, paragraph("There is no network, since no two columns share a feature.", "absent"))
    rows = [
        [
            TableCell(kind="text", markup=_node(view, k)),
            TableCell(f"{int(whole.degrees[k]):,}", value=float(whole.degrees[k])),
            TableCell.number(float(whole.total_strengths[k])),
            TableCell(f"{int(view.communities[k]) + 1}", value=float(view.communities[k])),
        ]
        for k in _hubs(view)[:MAX_HUBS]
    ]
    hubs = render_table(["column", "neighbors", "total strength", "community"], rows, sortable=True, name="hubs")
    sizes = np.bincount(view.communities)
    groups = []
    for label in np.flatnonzero(sizes > 1)[:MAX_COMMUNITIES].tolist():
        own = np.flatnonzero(view.communities == label)
        own = own[np.lexsort((own, -whole.total_strengths[own]))]
        names = ", ".join(_node(view, int(k)) for k in own[:MAX_MEMBERS])
        more = f" and {len(own) - MAX_MEMBERS:,} more" if len(own) > MAX_MEMBERS else ""
        number = TableCell(f"{label + 1}", "text")
        groups.append([number, TableCell(f"{len(own):,}"), TableCell(kind="text", markup=names + more)])
    n_more = int((sizes > 1).sum()) - len(groups)
    rest = f"Not listed: {count(n_more, 'smaller community', 'smaller communities')}." if n_more else ""
    text = (
        "A hub shares features with many columns. A community is a set of columns with more and stronger edges among "
        "themselves than expected from their total strengths. Communities maximize modularity greedily "
        f"(modularity {view.modularity:.2f}; values above about 0.3 indicate a clear division). {rest}"
    )
    parts = [paragraph(text, "note"), hubs]
    parts += (
        ["<h3>Communities</h3>", render_table(["", "columns", "names"], groups, text=(0, 2), name="communities")]
        if groups
        else []
    )
    return section(name, title, *parts)


def _hubs(view: NetworkView) -> list[int]:
    """Return nodes by their number of neighbors, then by total strength."""
    return np.lexsort((-view.whole.total_strengths, -view.whole.degrees)).tolist()


def _node(view: NetworkView, k: int) -> str:
    """Return the name of a node, as a button that selects it if the page shows it."""
    place, text = view.position_of.get(view.whole.names[k]), escape(view.whole.names[k])
    return text if place is None else f'<button type="button" class="node" data-node="{place}">{text}</button>'
