"""This module writes the report on a field, one self-contained HTML document, and the card of a notebook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from sparsefield.option_objects import as_expression
from sparsefield.viz.charts import Curve, CurvePoint, LinePanel, draw_panels
from sparsefield.viz.feature_sentences import Feature, list_features
from sparsefield.viz.figure_options import FigureOptions
from sparsefield.viz.findings import findings
from sparsefield.viz.fit_summary import (
    count,
    describe_convergence,
    describe_kinds,
    describe_size,
    describe_weights,
    format_violation,
    l1_of,
)
from sparsefield.viz.html_page import TableCell, bullets, document, paragraph, render_figure, render_table, section
from sparsefield.viz.network_figure import NetworkFigure
from sparsefield.viz.network_plot import render_network
from sparsefield.viz.network_view import ExtraColumns, NetworkView, build_view
from sparsefield.viz.report import data_sections
from sparsefield.viz.report.associations import MIN_ERRORS, Association, Surprise, find_associations, find_surprises
from sparsefield.viz.report.data_sections import NO_DATA, ScoredRows
from sparsefield.viz.report.repeat_fit import FitDescription, as_command, as_python, changed_options, list_versions
from sparsefield.viz.report.stability_text import COLUMN_TITLE, describe_stability

MAX_FEATURES, MAX_SURPRISES, MAX_HUBS, MAX_COMMUNITIES, MAX_MEMBERS = 200, 20, 12, 12, 14
IN_SUMMARY, IN_CARD = 3, 8
MAX_POINTS = 60
CARD = "border:1px solid #d0d5dd;border-radius:8px;padding:10px 16px;max-width:46em;font-size:14px"
WEIGHT = "font-size:14px;text-align:right;font-variant-numeric:tabular-nums;padding:1px 10px 1px 0"
TEXT = "font-size:14px;text-align:left;padding:1px 0"
MAX_COMPARED = 2_000
"""Number of the strongest features that are compared with the marginal association of their columns."""

SECTIONS = {
    "findings": "Findings", "summary": "Summary", "network-section": "Network", "features": "Features",
    "surprising": "Surprises", "structure": "Hubs", "training": "Training", "quality": "Quality", "signals": "Signals",
    "missing-values": "Missing values", "certificate": "Convergence", "repeat": "Repeat",
}  # fmt: skip
"""{id of a section: its name in the navigation bar}"""


def make_report(
    fitted: FitDescription, *, title: str, scored: ScoredRows | None = None, extra: ExtraColumns | None = None
) -> str:
    """Return an HTML document about a field and its fit.

    Without ``scored``, rows to compare with the field, the sections that need rows say so. ``extra`` are further
    columns of the tables of features, whose names are those of `Feature.name`.
    """
    features = list_features(fitted.field)
    view = build_view(fitted.field, extra, features=features)
    associations = surprises = None
    if scored is not None:
        compared = features[:MAX_COMPARED]
        associations = find_associations(scored.sample, compared)
        surprises = find_surprises(compared, associations)
    body = [
        _render_findings(fitted, scored),
        _render_summary(fitted, view, features, surprises),
        _render_network_section(view),
        _render_features(view, features, associations),
        _render_surprises(surprises),
        _render_structure(view),
        _render_training(fitted),
        data_sections.render_quality(fitted, scored),
        data_sections.render_signals(scored),
        data_sections.render_missing_values(scored),
        _render_certificate(fitted),
        _render_repeat(fitted),
    ]
    links = "".join(f'<a href="#{name}">{label}</a>' for name, label in SECTIONS.items())
    page = f"<nav><div>{links}</div></nav>\n<main><h1>{escape(title)}</h1>\n{''.join(body)}</main>"
    return document(title, page, "network.js", "tables.js")


def make_card(fitted: FitDescription) -> str:
    """Return a piece of HTML with the main numbers and the strongest features, for a notebook.

    It has no scripts, and its styles do not affect the notebook.
    """
    field = fitted.field
    options = ", ".join(f"{name}={as_expression(value)}" for name, value in changed_options(fitted).items())
    columns = field.layout.n_targets + sum(len(schema.observed) for schema in field.layout.schemas)
    rows = f"{count(field.record.n_rows, 'row')}, " if field.record.is_learned else ""
    lines = [
        f"<b>{escape(fitted.kind)}({escape(options)})</b>",
        escape(f"{rows}{count(columns, 'column')}; {describe_size(field)}"),
        escape(describe_convergence(field, fitted.params)),
    ]
    features = "".join(
        f'<tr><td style="{WEIGHT}">{feature.weight:+.2f}</td><td style="{TEXT}">{escape(feature.sentence)}</td></tr>'
        for feature in list_features(field, IN_CARD)
    )
    head = "<br/>".join(lines)
    more = "<code>.plot()</code> draws the network, <code>.features_</code> lists all features."
    return f'<div style="{CARD}">{head}<table style="margin:8px 0">{features}</table>{more}</div>'


def _render_findings(fitted: FitDescription, scored: ScoredRows | None) -> str:
    """Return sentences about the data; first of all, whether anything could be learned from them."""
    warning = "" if scored is None else data_sections.describe_if_no_gain(fitted, scored)
    sentences = findings(fitted.field, None if scored is None or warning else scored.sample)
    shown = bullets([escape(line) for line in sentences])
    return section("findings", "Findings", *([paragraph(warning, "warn")] if warning else []), shown)


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


def _render_features(
    view: NetworkView, features: Sequence[Feature], associations: Sequence[Association | None] | None
) -> str:
    """Return the table of the strongest features, with the marginal association of their columns."""
    name, title, total = "features", "Strongest features", len(features)
    if not features:
        return section(name, title, paragraph("There are no features of two or more columns.", "absent"))
    heads = ["weight", "feature", *(["marginal", "\u00b1"] if associations is not None else []), *view.extra]
    rows = []
    for k, feature in enumerate(features[:MAX_FEATURES]):
        row = [_weight(feature.weight), TableCell(feature.sentence, "text")]
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
    return section(name, title, paragraph(text, "note"), render_table(heads, rows, text=(1,), sortable=True))


def _render_surprises(surprises: Sequence[Surprise] | None) -> str:
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
        rows.append([_weight(one.feature.weight), texts[0], *numbers, texts[1]])
    more = len(surprises) - len(rows)
    made = render_table(["weight", "feature", "marginal", "\u00b1", "marginal association"], rows, text=(1, 4))
    rest = paragraph(f"And {more:,} more.", "note") if more else ""
    return section(name, title, paragraph(text, "note"), made, rest)


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
            TableCell(f"{int(view.communities[k]) + 1}"),
        ]
        for k in _hubs(view)[:MAX_HUBS]
    ]
    hubs = render_table(["column", "neighbors", "total strength", "community"], rows)
    sizes = np.bincount(view.communities)
    groups = []
    for label in np.flatnonzero(sizes > 2)[:MAX_COMMUNITIES].tolist():
        own = np.flatnonzero(view.communities == label)
        own = own[np.lexsort((own, -whole.total_strengths[own]))]
        names = ", ".join(_node(view, int(k)) for k in own[:MAX_MEMBERS])
        more = f" and {len(own) - MAX_MEMBERS:,} more" if len(own) > MAX_MEMBERS else ""
        number = TableCell(f"{label + 1}", "text")
        groups.append([number, TableCell(f"{len(own):,}"), TableCell(kind="text", markup=names + more)])
    small, n_small = int(sizes[sizes <= 2].sum()), int((sizes <= 2).sum())
    rest = f"{count(small, 'column')} in {count(n_small, 'group')} of one or two are not listed." if n_small else ""
    text = (
        "A hub shares features with many columns. A community is a set of columns with more and stronger edges among "
        "themselves than expected from their total strengths. Communities maximize modularity greedily "
        f"(modularity {view.modularity:.2f}; values above about 0.3 indicate a clear division). {rest}"
    )
    parts = [paragraph(text, "note"), hubs]
    parts += ["<h3>Communities</h3>", render_table(["", "columns", "names"], groups, text=(0, 2))] if groups else []
    return section(name, title, *parts)


def _render_training(fitted: FitDescription) -> str:
    """Return charts of the objective and the number of features by iteration."""
    history = fitted.field.record.iterations
    if not history:
        why = "The fit had no iterations."
        if not fitted.field.record.is_learned:
            why = "A field with given weights has no training to show."
        return section("training", "Training", paragraph(why, "absent"))
    steps = [history[round(k)] for k in np.linspace(0, len(history) - 1, min(MAX_POINTS, len(history)))]

    def curve(name: str, what: str) -> Curve:
        return Curve(name, [CurvePoint(step.iteration, getattr(step, what)) for step in steps])

    panels = [
        LinePanel("Objective", "iteration", "loss and penalties, summed over rows", [curve("objective", "objective")]),
        LinePanel("Features", "iteration", "pairs", [curve("working set", "features"), curve("active set", "active")]),
    ]
    phases = Counter(step.phase for step in history)
    listed = ", ".join(f"{number:,} of phase \u201c{phase}\u201d" for phase, number in phases.items())
    thinned = f" {len(steps)} iterations are drawn." if len(steps) < len(history) else ""
    caption = (
        f"{count(len(history), 'iteration')}: {listed}.{thinned} The objective may increase when missing cells are "
        "drawn or inferred again, since this changes the function."
    )
    return section("training", "Training", render_figure(draw_panels("Training", panels), caption))


def _render_certificate(fitted: FitDescription) -> str:
    """Return the optimality statement and its meaning."""
    field, name, title = fitted.field, "certificate", "Convergence"
    if not field.record.is_learned:
        return section(name, title, paragraph("A field with given weights has no optimum to check.", "absent"))
    l1 = l1_of(field, fitted.params)
    text = (
        f"With penalties l1 = {l1:g} and l2 = {fitted.params['l2']:g}, the optimum is the field where the gradient of "
        "each active weight is balanced by the penalties and no left-out candidate has a gradient beyond l1. One exact "
        f"pass over all {field.layout.n_candidate_pairs:,} candidates measured the worst violation of these: "
        f"{format_violation(field.record.kkt_violation or 0.0, l1)}. "
    )
    further = "a larger Solver(max_iter=...)" if fitted.params["solver__certify"] else "Solver(certify=True)"
    text += (
        "No left-out candidate would lower the objective beyond this tolerance (with missing cells as they were last "
        "drawn or inferred)."
        if field.record.converged
        else "The field is not yet the optimum under these penalties: a feature may be missing, or a weight may still "
        f"change; {further} continues the fit."
    )
    return section(name, title, paragraph(describe_convergence(field, fitted.params)), paragraph(text, "note"))


def _render_repeat(fitted: FitDescription) -> str:
    """Return the lines that repeat the fit, its options and the versions."""
    if fitted.field.record.is_learned:
        command, changed = as_command(fitted), changed_options(fitted)
        listed = ", ".join(f"{name}={value!r}" for name, value in changed.items()) or "none"
        text = (
            "These lines learn the same field from the same rows. A model does not record the name of its file, its "
            "separator, or the markers of missing values: add them if needed."
        )
        no_command = "The command line lacks some of these options, so this fit is repeated in Python."
        parts = [
            paragraph(f"Options that differ from the defaults: {listed}."),
            paragraph(text, "note"),
            f'<pre id="command">{escape(command)}</pre>' if command else paragraph(no_command, "absent"),
            f'<pre id="python">{escape(as_python(fitted))}</pre>',
        ]
    else:
        parts = [paragraph("The weights of the field were given, not learned: there is no fit to repeat.", "absent")]
    versions = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in list_versions(fitted.field).items())
    return section("repeat", "How to repeat the fit", *parts, f"<h3>Versions</h3><dl>{versions}</dl>")


def _hubs(view: NetworkView) -> list[int]:
    """Return nodes by their number of neighbors, then by total strength."""
    return np.lexsort((-view.whole.total_strengths, -view.whole.degrees)).tolist()


def _node(view: NetworkView, k: int) -> str:
    """Return the name of a node, as a button that selects it if the page shows it."""
    place, text = view.position_of.get(view.whole.names[k]), escape(view.whole.names[k])
    return text if place is None else f'<button type="button" class="node" data-node="{place}">{text}</button>'


def _weight(value: float) -> TableCell:
    return TableCell.number(value, "+.2f", "number plus" if value > 0 else "number minus")


def _any(value: Any) -> TableCell:
    if value is None:
        return TableCell()
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        return TableCell(f"{value:.4g}", value=float(value))
    return TableCell(str(value))
