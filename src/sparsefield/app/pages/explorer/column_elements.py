"""This module renders the description of a column with its neighbors, of a pair of columns, and of a community."""

from __future__ import annotations

from typing import Any

import numpy as np
from dash import html

from sparsefield.analysis.feature_sentences import Feature
from sparsefield.analysis.network import Edge, Neighbor, Network
from sparsefield.app.pages.explorer.community_bubbles import CommunityBubbles
from sparsefield.app.pages.explorer.network_picture import SIGNS
from sparsefield.app.pages.explorer.page_pieces import (
    MAX_NEIGHBORS,
    MAX_ORDERED,
    MAX_STATES,
    link,
    more_items,
    quiet,
    text_piece,
    write_percent,
)
from sparsefield.app.pages.explorer.pair_table import PairTable
from sparsefield.app.pages.fit_summary import describe_number
from sparsefield.data.number_text import write_number
from sparsefield.data.schema import Label, Variable
from sparsefield.text import count

MAX_SIDE = 24
"""States of a column in a heat map."""

FULL_RATIO, FULL_COLOR = 4.0, 54.0
"""Ratio of observed to expected rows at which a cell has its full color, and the percentage of color that it has."""

MAX_MEMBERS = 60


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
        parts += more_items(len(shares) - most, "states")
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
    return html.Div([text_piece(str(state), "state"), bar, html.Span(write_percent(share), className="number")])


def _neighbors(network: Network, node: int) -> list[Any]:
    degree = network.degree(node)
    if not degree:
        return [quiet("It shares no feature with another variable.")]
    found = network.neighbors(node, MAX_NEIGHBORS)
    largest = found[0].edge.strength
    stability = [] if network.stability is None else [html.Span("stability", className="quiet")]
    head = html.Div([html.H3(f"Neighbors ({degree:,})"), *stability], className="row-head")
    rows = [_neighbor(network, one, network.labels[node], largest) for one in found]
    return [
        head, html.Div(rows, id="neighbors", className="neighbors"), *more_items(degree - len(found), "weaker edges"),
    ]  # fmt: skip


def _neighbor(network: Network, one: Neighbor, own: str, largest: float) -> html.Div:
    edge = one.edge
    name = link(one.label, one.number, f"neighbors-{edge.number}")
    fill = html.Div(className=f"fill {SIGNS[edge.sign]}", style={"width": f"{100 * edge.strength / largest:.1f}%"})
    alone = len(one.features) == 1 and not one.left_out
    number = _weight(one.features[0]) if alone else html.Span(f"{edge.strength:.2f}", className="number")
    title = "Show the states of both columns"
    table = html.Button("\u25a6", id={"type": "pair", "edge": edge.number}, className="plain tiny", title=title)
    head = html.Div([name, html.Div(fill, className="bar"), number, table], className="neighbor-head")
    features = [_feature(network, feature, own, with_weight=not alone) for feature in one.features]
    attributes: Any = {"data-label": one.label, "data-strength": f"{edge.strength:.8f}"}
    return html.Div([head, *features, *more_items(one.left_out, "weaker features")], className="neighbor", **attributes)


def _feature(network: Network, feature: Feature, own: str, *, with_weight: bool) -> html.Div:
    """Return a feature, the term of the chosen variable first, with its stability where that is known."""
    terms = sorted(feature.terms, key=lambda term: term.column != own)
    text = ", ".join(term.column if term.state is None else f"{term.column} = {term.state}" for term in terms)
    parts = [text_piece(text + (f" ({feature.template})" if feature.over_link else ""), "feature-name")]
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


# -- a community -----------------------------------------------------------------------------------------------------


def community_panel(bubbles: CommunityBubbles, k: int) -> list[Any]:
    """Return the columns of a community, those with the strongest edges first."""
    members, labels = bubbles.members[k], bubbles.network.labels
    text = f"{count(len(members), 'column')} that share more features with each other than with others."
    items = [link(labels[node], node, f"community-{k}") for node in members[:MAX_MEMBERS]]
    return [
        html.Div([html.H2(f"Community {k + 1}", id="community-name"), quiet(text)]),
        html.Div(items, className="members"),
        *more_items(len(members) - MAX_MEMBERS, "columns"),
    ]


# -- a pair of columns -----------------------------------------------------------------------------------------------


def pair_panel(table: PairTable | None, edge: Edge, labels: list[str]) -> list[Any]:
    """Return the states of two columns as heat maps: observed over expected rows, if there are data, and weights."""
    one, two = (labels[node] for node in edge.ends)
    close = html.Button("Close", id={"type": "close-pair", "edge": edge.number}, className="plain small")
    title = html.H2([link(one, edge.ends[0], "pair-one"), " \u00d7 ", link(two, edge.ends[1], "pair-two")])
    parts: list[Any] = [html.Div([title, close], className="row-head pair-head")]
    if table is None:
        return [*parts, quiet("One of the columns has no states.")]
    over = f" {table.template}." if table.template else ""
    parts.append(quiet(f"Rows are states of {one}, columns those of {two}.{over}"))
    ratios = table.ratios
    if ratios is not None:
        parts += _ratio_map(table, ratios)
    largest = float(np.abs(table.weights).max(initial=0.0)) or 1.0
    texts = np.array([[f"{value:+.2f}" for value in row] for row in table.weights])
    parts += [html.H3("Weights"), _heat_map(table, table.weights / largest, texts, texts, "pair-weights")]
    parts.append(
        quiet("Sums of the weights of a pair of states, less the means of its row and column: 0 adds nothing.")
    )
    return parts


def _ratio_map(table: PairTable, ratios: np.ndarray) -> list[Any]:
    assert table.counts is not None
    with np.errstate(divide="ignore", invalid="ignore"):
        amounts = np.clip(np.log(ratios) / np.log(FULL_RATIO), -1.0, 1.0)
    texts = np.array([[_write_ratio(value) for value in row] for row in ratios])
    pairs = zip(table.counts, table.expected, strict=True)
    titles = np.array(
        [[f"{n:,} rows, {write_number(m, 3)} expected" for n, m in zip(*pair, strict=True)] for pair in pairs]
    )
    total = count(int(table.counts.sum()), "row")
    return [
        html.H3("Observed over expected"),
        _heat_map(table, np.nan_to_num(amounts), texts, titles, "pair-ratios"),
        quiet(f"{total} of the data; 1 is what independent columns would have, 2 twice as many rows."),
    ]


def _write_ratio(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"


def _heat_map(table: PairTable, amounts: np.ndarray, texts: np.ndarray, titles: np.ndarray, name: str) -> html.Div:
    """Return a table whose cells are colored by amounts between -1 and 1."""
    rows, columns = (range(min(len(states), MAX_SIDE)) for states in table.states)
    head = html.Tr([html.Th(""), *(html.Th(str(table.states[1][k]), scope="col") for k in columns)])
    body = []
    for k in rows:
        cells = [_cell(float(amounts[k, m]), str(texts[k, m]), str(titles[k, m])) for m in columns]
        body.append(html.Tr([html.Th(str(table.states[0][k]), scope="row"), *cells]))
    left_out = [max(len(states) - MAX_SIDE, 0) for states in table.states]
    more = more_items(left_out[0], "rows") + more_items(left_out[1], "columns")
    return html.Div([html.Table([html.Thead(head), html.Tbody(body)], id=name), *more], className="heat-map")


def _cell(amount: float, text: str, title: str) -> html.Td:
    color = "var(--positive)" if amount > 0 else "var(--negative)"
    share = FULL_COLOR * min(abs(amount), 1.0)
    style = {"background": f"color-mix(in srgb, {color} {share:.0f}%, var(--card))"}
    return html.Td(text, style=style, title=title)
