"""This module renders computed results as elements of the page: of HTML, and of the picture that cytoscape draws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from dash import html

from sparsefield.data.schema import Label, Variable
from sparsefield.viz.explorer.conditional_beliefs import BeliefChange
from sparsefield.viz.explorer.table_rows import AcceptedValue, MissingValue, ObservedValue, RowView, TableRows
from sparsefield.viz.feature_sentences import Feature
from sparsefield.viz.fit_summary import count, describe_number
from sparsefield.viz.network import Neighbor, Network, Subgraph
from sparsefield.viz.node_positions import layout_nodes, separate_labels
from sparsefield.viz.palette import BLUE, FONT, INK, NEUTRAL, ORANGE, WHITE, blend
from sparsefield.viz.short_names import shorten

MAX_STATES, MAX_VALUES, MAX_MISSING, MAX_NEIGHBORS = 5, 25, 40, 30
MAX_ORDERED = 16
"""States of an ordinal variable that are listed, in their order."""

COLORS = {1: BLUE, -1: ORANGE, 0: NEUTRAL}
"""Colors of edges whose weights are all positive, all negative, or mixed."""

SIGNS = {1: "positive", -1: "negative", 0: "mixed"}
BORDER = "#b9c0cc"
MAX_LABEL = 16
LETTER, PADDING, HEIGHT = 7.2, 22.0, 30.0
"""Width of a letter, horizontal padding and height of a label, in pixels."""

BOX = np.array([560.0, 420.0])
"""Pixels of the picture; somewhat less than the page has, since names are sharper when the picture is enlarged."""

BOX_NODES = 25
"""Nodes that fit into the box; for more nodes it grows."""

MIN_WIDTH, MAX_WIDTH = 1.2, 6.5
"""Pixels of the weakest and of the strongest edge."""


def quiet(text: str) -> html.P:
    """Return a remark in gray."""
    return html.P(text, className="quiet")


def warnings_list(lines: Sequence[str]) -> list[Any]:
    """Return the library's warnings."""
    return [html.P(line, className="note") for line in lines]


# -- a variable ------------------------------------------------------------------------------------------------------


def variable_panel(network: Network, node: int, *, can_set: bool) -> list[Any]:
    """Return the description of a variable, and its neighbors with their weights, strongest first."""
    variable = network.variable(node)
    if variable is None:
        text = "The number of rows that a row is linked with. It has weights, but it is not a column."
        return [html.H2(network.labels[node]), quiet(text), *_neighbors(network, node)]
    head = [html.H2(network.labels[node], id="variable-name"), quiet(_describe(variable))]
    parts: list[Any] = [html.Div(head)]
    known = variable.frequencies and max(variable.frequencies) > 0 and network.field.record.is_learned
    if known and not variable.numeric:
        shares = list(zip(variable.frequencies, variable.states, strict=True))
        most = MAX_ORDERED if variable.ordered else MAX_STATES
        if not variable.ordered:
            shares.sort(key=lambda pair: -pair[0])
        parts.append(html.Div([_share(state, share) for share, state in shares[:most]], className="beliefs"))
        parts += _more(len(shares) - most, "states")
    if can_set:
        parts.append(html.Button("Use as evidence", id={"type": "add", "node": node}, className="plain"))
    return [*parts, *_neighbors(network, node)]


def _describe(variable: Variable) -> str:
    roles = {"target": "Predicted column", "observed": "Covariate (observed column)", "latent": "Latent variable"}
    role = roles[variable.role]
    if variable.numeric:
        return f"{role}; numeric, {describe_number(variable)}."
    text = f"{role}; {variable.kind}, {count(len(variable.states), 'state')}."
    if variable.has_reference:
        text += f" Weights are relative to the reference state {variable.states[variable.reference]}."
    return text


def _share(state: Label, share: float) -> html.Div:
    fill = html.Div(className="fill unchanged", style={"width": f"{100 * share:.2f}%"})
    bar = html.Div(fill, className="bar")
    return html.Div([_text(str(state), "state"), bar, html.Span(_percent(share), className="number")])


def _neighbors(network: Network, node: int) -> list[Any]:
    degree = network.degree(node)
    if not degree:
        return [quiet("It shares no feature with another variable.")]
    found = network.neighbors(node, MAX_NEIGHBORS)
    largest = found[0].edge.strength
    stability = [] if network.stability is None else [html.Span("stability", className="quiet")]
    head = html.Div([html.H3(f"Neighbors ({degree:,})"), *stability], className="row-head")
    rows = [_neighbor(network, one, network.labels[node], largest) for one in found]
    return [head, html.Div(rows, id="neighbors", className="neighbors"), *_more(degree - len(found), "weaker edges")]


def _neighbor(network: Network, one: Neighbor, own: str, largest: float) -> html.Div:
    edge = one.edge
    name = _link(one.label, one.number, f"neighbors-{edge.number}")
    fill = html.Div(className=f"fill {SIGNS[edge.sign]}", style={"width": f"{100 * edge.strength / largest:.1f}%"})
    alone = len(one.features) == 1 and not one.left_out
    number = _weight(one.features[0]) if alone else html.Span(f"{edge.strength:.2f}", className="number")
    head = html.Div([name, html.Div(fill, className="bar"), number], className="neighbor-head")
    features = [_feature(network, feature, own, with_weight=not alone) for feature in one.features]
    attributes: Any = {"data-label": one.label, "data-strength": f"{edge.strength:.8f}"}
    return html.Div([head, *features, *_more(one.left_out, "weaker features")], className="neighbor", **attributes)


def _feature(network: Network, feature: Feature, own: str, *, with_weight: bool) -> html.Div:
    """Return a feature, the term of the chosen variable first, with its stability where that is known."""
    terms = sorted(feature.terms, key=lambda term: term.column != own)
    text = ", ".join(term.column if term.state is None else f"{term.column} = {term.state}" for term in terms)
    parts = [_text(text + (f" ({feature.template})" if feature.over_link else ""), "feature-name")]
    if with_weight:
        parts.append(_weight(feature))
    if network.stability is not None:
        title = "share of resamples that selected this feature"
        share = f"{network.stability[feature.number]:.0%}"
        parts.append(html.Span(share, className="number stability", title=title))
    return html.Div(parts, className="feature")


def _weight(feature: Feature) -> html.Span:
    sign = "positive" if feature.weight > 0 else "negative"
    return html.Span(f"{feature.weight:+.2f}", className=f"number {sign}")


# -- beliefs ---------------------------------------------------------------------------------------------------------


def beliefs_list(network: Network, changes: Sequence[BeliefChange], limit: int) -> list[Any]:
    """Return beliefs before and after evidence, in the given order."""
    parts = [_change(network, change) for change in changes[:limit]]
    return [*parts, *_more(len(changes) - limit, "variables; use the filter above to find one")]


def _change(network: Network, change: BeliefChange) -> html.Div:
    node = network.number(change.name)
    variable = network.variable(node)
    assert variable is not None
    # The belief in one of two states determines the other.
    positions = [1 - variable.reference] if len(change.states) == 2 else range(len(change.states))
    ranked = sorted(positions, key=lambda k: (-abs(change.after[k] - change.before[k]), -change.after[k]))
    shown = sorted(ranked[:MAX_STATES]) if change.ordered else ranked[:MAX_STATES]
    lines = [_state_change(change, k) for k in shown]
    if change.means is not None:
        lines.insert(0, _mean_change(*change.means))
    attributes: Any = {"data-name": change.name}
    parts = [_link(change.name, node, "beliefs"), *lines, *_more(len(ranked) - MAX_STATES, "states")]
    return html.Div(parts, className="change", **attributes)


def _mean_change(before: float, after: float) -> html.Div:
    text = f"{after:.4g}" if before == after else f"{before:.4g} \u2192 {after:.4g}"
    return html.Div([_text("mean", "state"), html.Span(text, className="number")], className="state-change mean")


def _state_change(change: BeliefChange, k: int) -> html.Div:
    before, after = float(change.before[k]), float(change.after[k])
    low, high = min(before, after), max(before, after)
    moved = {"left": f"{100 * low:.2f}%", "width": f"{100 * (high - low):.2f}%"}
    fills = [
        html.Div(className="fill unchanged", style={"width": f"{100 * low:.2f}%"}),
        html.Div(className=f"fill {'positive' if after >= before else 'decrease'}", style=moved),
    ]
    text = f"{after:.1%}" if before == after else f"{before:.1%} \u2192 {after:.1%}"
    state = str(change.states[k])
    attributes: Any = {"data-state": state, "data-before": f"{before:.10f}", "data-after": f"{after:.10f}"}
    parts = [_text(state, "state"), html.Div(fills, className="bar"), html.Span(text, className="number")]
    return html.Div(parts, className="state-change", **attributes)


# -- a row -----------------------------------------------------------------------------------------------------------


def row_panel(table: str, row: int, view: RowView) -> list[Any]:
    """Return beliefs about missing values, then the values of the row, most surprising first."""
    parts: list[Any] = warnings_list(view.warnings)
    if view.latent:
        parts.append(html.Div([html.H3("Latent variables")], className="row-head"))
        parts.append(html.Div([_belief(one) for one in view.latent], id="latent-variables", className="list"))
    if view.missing:
        head: list[Any] = [html.H3(f"Missing values ({len(view.missing):,})")]
        if len(view.missing) > 1:
            head.append(_small_button(f"Accept all {len(view.missing):,}", "accept-all", table, row))
        parts.append(html.Div(head, className="row-head"))
        shown = [
            _belief(one, _small_button("Accept", "accept", table, row, name=one.name))
            for one in view.missing[:MAX_MISSING]
        ]
        parts.append(html.Div(shown, id="missing-values", className="list"))
        parts += _more(len(view.missing) - MAX_MISSING, "missing values")
    title = "logarithm of the probability of the state, or of a number at least as far out"
    head = [html.H3("Most surprising values"), html.Span("ln p", className="quiet", title=title)]
    parts.append(html.Div(head, className="row-head"))
    if not view.values:
        parts.append(quiet("This row has no values in predicted columns."))
    parts.append(html.Div([_value(one) for one in view.values[:MAX_VALUES]], id="values", className="list"))
    parts += _more(len(view.values) - MAX_VALUES, "less surprising values")
    parts += _plain_list("Values that did not occur in training (kept as they are)", view.unknown)
    parts += _plain_list("Covariates (observed columns)", view.observed)
    return parts


def _belief(one: MissingValue, *buttons: Any) -> html.Div:
    if one.spread is not None:
        return _number_belief(one, *buttons)
    best, *others = sorted(range(len(one.states)), key=lambda k: (-one.belief[k], k))[:3]
    state, probability = str(one.states[best]), one.belief[best]
    text = ", ".join(f"{one.states[k]} {_percent(one.belief[k])}" for k in others)
    attributes: Any = {"data-name": one.name, "data-state": state, "data-p": f"{probability:.10f}"}
    value = html.Span([html.B(state), f" {_percent(probability)}"], className="value")
    parts = [_text(one.name, "name"), value, _text(text, "quiet rest"), *buttons]
    return html.Div(parts, className="missing-value", **attributes)


def _number_belief(one: MissingValue, *buttons: Any) -> html.Div:
    """Return the mean of a missing number with its standard deviation, and its most probable bins."""
    ranked = sorted(range(len(one.states)), key=lambda k: (-one.belief[k], k))[:2]
    text = ", ".join(f"{one.states[k]} {_percent(one.belief[k])}" for k in ranked)
    attributes: Any = {"data-name": one.name, "data-state": str(one.best)}
    value = html.Span([html.B(_format_value(one.best)), f" \u00b1 {one.spread:.3g}"], className="value")
    parts = [_text(one.name, "name"), value, _text(text, "quiet rest"), *buttons]
    return html.Div(parts, className="missing-value", **attributes)


def _value(one: ObservedValue) -> html.Div:
    surprising = one.is_surprising
    if one.spread is not None:
        expected = f"expected {_format_value(one.expected)} \u00b1 {one.spread:.3g}"
    elif surprising:
        expected = f"expected {one.expected} ({_percent(one.expected_probability)})"
    else:
        expected = "as expected"
    attributes: Any = {"data-name": one.name, "data-log-p": f"{one.log_probability:.10f}"}
    parts = [
        _text(one.name, "name"),
        html.Span([html.B(_format_value(one.state)), " accepted" if one.accepted else ""], className="value"),
        _text(expected, "quiet rest"),
        html.Span(f"{one.log_probability:.2f}", className="number unexpected" if surprising else "number"),
    ]
    return html.Div(parts, className="accepted" if one.accepted else "", **attributes)


def _plain_list(title: str, pairs: Sequence[tuple[str, Any]]) -> list[Any]:
    if not pairs:
        return []
    lines = [
        html.Div([_text(name, "name"), html.Span(_format_value(value), className="value")])
        for name, value in pairs[:MAX_VALUES]
    ]
    return [html.H3(title), html.Div(lines, className="list two"), *_more(len(pairs) - MAX_VALUES, "columns")]


def accepted_list(rows: TableRows) -> list[Any]:
    """Return the accepted values, the latest first, each with a button that undoes it."""
    if not rows.accepted:
        return []
    latest = list(rows.accepted.values())[::-1]
    shown = html.Div([_accepted_value(rows, one) for one in latest[:MAX_MISSING]], id="accepted", className="list")
    return [html.H3(f"Accepted ({len(latest):,})"), shown, *_more(len(latest) - MAX_MISSING, "accepted earlier")]


def _accepted_value(rows: TableRows, one: AcceptedValue) -> html.Div:
    name = _text(f"{one.table}.{one.name}" if one.table else one.name, "name")
    value = html.Span(html.B(_format_value(one.state)), className="value")
    undo = _small_button("Undo", "undo", one.table, one.row, name=one.name)
    return html.Div([name, value, _text(rows.row_name(one.table, one.row), "quiet rest"), undo])


# -- common pieces ---------------------------------------------------------------------------------------------------


def _text(text: str, kind: str) -> html.Span:
    return html.Span(text, className=kind, title=text)


def _small_button(text: str, action: str, table: str, row: int, **more: str) -> html.Button:
    return html.Button(text, id={"type": action, "table": table, "row": row, **more}, className="plain small")


def _link(name: str, node: int, place: str) -> html.Button:
    """Return a button that selects a variable."""
    return html.Button(name, id={"type": "select", "node": node, "place": place}, className="link", title=name)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if 0.1 <= share <= 0.9 else f"{100 * share:.1f}%"


def _format_value(value: Any) -> str:
    return "missing" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _more(number: int, kind: str) -> list[Any]:
    return [quiet(f"and {number:,} more {kind}")] if number > 0 else []


# -- the picture -----------------------------------------------------------------------------------------------------


def build_elements(part: Subgraph, chosen: Iterable[int] = ()) -> list[dict[str, Any]]:
    """Return the nodes and edges of a picture; edges that do not touch a chosen node have the class "dimmed"."""
    chosen = set(chosen)
    labels = [shorten(name, MAX_LABEL) for name in part.names]
    widths = np.array([LETTER * len(label) + PADDING for label in labels])
    largest = float(part.strengths.max(initial=0.0)) or 1.0
    nodes, edges = [], []
    for k, (x, y) in enumerate(_layout_pixels(part, widths).tolist()):
        data = {"id": str(part.nodes[k]), "label": labels[k], "width": float(widths[k]), "name": part.names[k]}
        classes = "chosen" if part.nodes[k] in chosen else ""
        nodes.append({"data": data, "position": {"x": x, "y": y}, "classes": classes})
    for edge in map(part.network.edge, part.edges.tolist()[::-1]):  # the strongest are drawn last, on top
        dimmed = ["dimmed"] if chosen and not chosen & set(edge.ends) else []
        width = MIN_WIDTH + (MAX_WIDTH - MIN_WIDTH) * edge.strength / largest
        source, target = map(str, edge.ends)
        data = {"id": f"edge-{edge.number}", "source": source, "target": target, "thickness": width}
        edges.append({"data": data, "classes": " ".join([SIGNS[edge.sign], *dimmed])})
    return edges + nodes


def build_stylesheet(evidence: Iterable[int] = (), moved: Mapping[int, tuple[int, float]] | None = None) -> list[dict]:
    """Return the styles of nodes and edges.

    ``evidence`` are nodes that are set; ``moved`` is {node: (direction, amount)} of the nodes whose beliefs the
    evidence moved, where the direction is a key of `COLORS`.
    """
    styles: dict[str, dict[str, Any]] = {
        "node": {
            "label": "data(label)", "width": "data(width)", "height": HEIGHT, "shape": "round-rectangle",
            "background-color": WHITE, "border-width": 1.2, "border-color": BORDER, "color": INK, "font-size": 13,
            "font-family": FONT.replace("'", ""), "text-valign": "center", "text-halign": "center",
        },
        # Bezier curves separate edges of several templates between two nodes.
        "edge": {"width": "data(thickness)", "curve-style": "bezier", "opacity": 0.62, "line-color": NEUTRAL},
        **{f".{name}": {"line-color": COLORS[sign]} for sign, name in SIGNS.items()},
        "edge.dimmed": {"opacity": 0.16},
        "node.chosen": {"border-width": 3, "border-color": INK, "font-weight": 700},
        "node:active": {"overlay-opacity": 0.08},
    }  # fmt: skip
    for node, (direction, amount) in (moved or {}).items():
        # Small amounts are raised, so that they are visible.
        color = blend([WHITE, COLORS[direction]], max(amount, 0.0) ** 0.7)
        styles[f'node[id = "{node}"]'] = {"background-color": color, "color": WHITE if amount > 0.6 else INK}
    for node in evidence:
        styles[f'node[id = "{node}"]'] = {"background-color": INK, "color": WHITE, "border-color": INK}
    return [{"selector": selector, "style": style} for selector, style in styles.items()]


def _layout_pixels(part: Subgraph, widths: np.ndarray) -> np.ndarray:
    """Return (nodes, 2) centers of the labels, which fill the box and do not overlap."""
    positions = layout_nodes(len(part.nodes), part.ends, part.strengths)
    extent = np.maximum(np.ptp(positions, axis=0), 1e-9)
    size = BOX * max(1.0, len(part.nodes) / BOX_NODES) ** 0.5
    centered = positions - (positions.max(axis=0) + positions.min(axis=0)) / 2
    return separate_labels(centered / extent * size, widths, HEIGHT)
