"""Pieces of the page: what was computed, as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from sparsefield.data.schema import Label, Variable
from sparsefield.viz.explorer.conditional_beliefs import Change
from sparsefield.viz.explorer.subgraph import Neighbor, Network, Tie
from sparsefield.viz.explorer.table_rows import Accepted, Cell, MissingCell, Rows, RowView

__all__ = ["accepted_list", "beliefs_list", "notes_list", "row_panel", "variable_panel"]

MOST_STATES = 5
MOST_CELLS = 25
MOST_GAPS = 40
MOST_NEIGHBORS = 30
SIGNS = {1: "more", -1: "less", 0: "mixed"}


def notes_list(notes: Sequence[str]) -> list[Any]:
    """What the library had to say."""
    return [html.P(note, className="note") for note in notes]


# -- a variable ------------------------------------------------------------------------------------------------------


def variable_panel(network: Network, number: int, *, can_give: bool) -> list[Any]:
    """What a variable is, and its neighbors with their weights, strongest first."""
    if not network.is_variable(number):
        words = "How many rows of the other table a row is linked with. It has weights, but is no column."
        return [html.H2(network.labels[number]), html.P(words, className="quiet"), *_neighbors(network, number)]
    variable = network.variable(number)
    head = [html.H2(network.labels[number], id="variable-name"), html.P(_kind(variable), className="quiet")]
    parts: list[Any] = [html.Div(head)]
    if variable.frequencies and max(variable.frequencies) > 0 and _learned(network):
        shares = sorted(zip(variable.frequencies, variable.states, strict=True), key=lambda pair: -pair[0])
        parts.append(html.Div([_share(state, share) for share, state in shares[:MOST_STATES]], className="beliefs"))
        parts += _more(len(shares) - MOST_STATES, "states")
    if can_give:
        parts.append(html.Button("Use as evidence", id={"type": "give", "number": number}, className="plain"))
    return [*parts, *_neighbors(network, number)]


def _learned(network: Network) -> bool:
    return network.field.record.is_learned


def _kind(variable: Variable) -> str:
    if variable.numeric:
        return f"A number, conditioned on; mean {variable.center:.4g}, deviation {variable.scale:.4g}."
    role = "Predicted" if variable.role == "target" else "Conditioned on" if variable.role == "observed" else "Hidden"
    return f"{role}; {len(variable.states):,} states. Weights count against {variable.states[variable.base]}."


def _share(state: Label, share: float) -> html.Div:
    return html.Div([_word(str(state), "state"), _bar(share), html.Span(_percent(share), className="number")])


def _neighbors(network: Network, number: int) -> list[Any]:
    degree = network.degree(number)
    if not degree:
        return [html.P("No weight ties it to any other variable.", className="quiet")]
    found = network.neighbors(number, MOST_NEIGHBORS)
    most = found[0].strength
    head = html.Div([html.H3(f"Neighbors ({degree:,})"), *_head_of_stability(network)], className="row-head")
    rows = [_neighbor(one, network.labels[number], most) for one in found]
    return [head, html.Div(rows, id="neighbors", className="neighbors"), *_more(degree - len(found), "weaker ones")]


def _head_of_stability(network: Network) -> list[Any]:
    """The heading of the column that stands beside weights where the model tells how stable they are."""
    return [] if network.stability is None else [html.Span("stability", className="quiet")]


def _neighbor(one: Neighbor, mine: str, most: float) -> html.Div:
    name = html.Button(
        one.label, id={"type": "go", "number": one.number, "place": "neighbors"}, className="link", title=one.label
    )
    bar = html.Div(
        html.Div(className=f"fill {SIGNS[one.sign]}", style={"width": f"{100 * one.strength / most:.1f}%"}),
        className="bar",
    )
    alone = len(one.ties) == 1 and not one.left_out
    number = _weight(one.ties[0]) if alone else html.Span(f"{one.strength:.2f}", className="number")
    head = html.Div([name, bar, number], className="neighbor-head")
    ties = [_tie(tie, mine, weight=not alone) for tie in one.ties]
    attributes: Any = {"data-label": one.label, "data-strength": f"{one.strength:.8f}"}
    return html.Div([head, *ties, *_more(one.left_out, "weaker weights")], className="neighbor", **attributes)


def _tie(tie: Tie, mine: str, *, weight: bool) -> html.Div:
    """One weight in words; where the model knows it, with its stability beside."""
    terms = [(mine, tie.state), *tie.others]
    words = ", ".join(name if state is None else f"{name} = {state}" for name, state in terms)
    parts = [_word(words + (f" ({tie.template})" if tie.template else ""), "words")]
    if weight:
        parts.append(_weight(tie))
    if tie.stability is not None:
        title = "share of resamples that selected this weight"
        parts.append(html.Span(f"{tie.stability:.0%}", className="number stability", title=title))
    return html.Div(parts, className="tie")


def _weight(tie: Tie) -> html.Span:
    return html.Span(f"{tie.weight:+.2f}", className=f"number {'more' if tie.weight > 0 else 'less'}")


# -- beliefs ---------------------------------------------------------------------------------------------------------


def beliefs_list(network: Network, found: Sequence[Change], shown: int) -> list[Any]:
    """Beliefs before and after, in the order given."""
    parts = [_change(network, change) for change in found[:shown]]
    return [*parts, *_more(len(found) - shown, "variables; find one by its name above")]


def _change(network: Network, change: Change) -> html.Div:
    number = network.number(change.name)
    variable = network.variable(number)
    name = html.Button(
        change.name, id={"type": "go", "number": number, "place": "beliefs"}, className="link", title=change.name
    )
    places = range(len(change.states))
    if len(change.states) == 2:  # one tells the other
        places = [1 - variable.base]
    ranked = sorted(places, key=lambda k: (-abs(change.after[k] - change.before[k]), -change.after[k]))
    lines = [_moved(change, k) for k in ranked[:MOST_STATES]]
    more = _more(len(ranked) - MOST_STATES, "states")
    attributes: Any = {"data-name": change.name}
    return html.Div([name, *lines, *more], className="change", **attributes)


def _moved(change: Change, k: int) -> html.Div:
    before, after = float(change.before[k]), float(change.after[k])
    rises = after >= before
    low, high = (before, after) if rises else (after, before)
    bar = html.Div(
        [
            html.Div(className="fill kept", style={"width": f"{100 * low:.2f}%"}),
            html.Div(
                className=f"fill {'more' if rises else 'gone'}",
                style={"left": f"{100 * low:.2f}%", "width": f"{100 * (high - low):.2f}%"},
            ),
        ],
        className="bar",
    )
    words = f"{after:.1%}" if before == after else f"{before:.1%} \u2192 {after:.1%}"
    attributes: Any = {
        "data-state": str(change.states[k]),
        "data-before": f"{before:.10f}",
        "data-after": f"{after:.10f}",
    }
    return html.Div(
        [_word(str(change.states[k]), "state"), bar, html.Span(words, className="number wide")],
        className="moved",
        **attributes,
    )


# -- a row -----------------------------------------------------------------------------------------------------------


def row_panel(table: str, row: int, view: RowView) -> list[Any]:
    """Gaps with what may stand in them, then cells, most surprising first."""
    parts: list[Any] = notes_list(view.notes)
    if view.latent:
        parts.append(html.Div([html.H3("Latent variables")], className="row-head"))
        parts.append(
            html.Div([_belief(missing_cell) for missing_cell in view.latent], id="latent-variables", className="list")
        )
    if view.missing:
        words, every = f"Accept all {len(view.missing):,}", {"type": "accept-all", "table": table, "row": row}
        accept_all = [html.Button(words, id=every, className="plain small")] if len(view.missing) > 1 else []
        parts.append(html.Div([html.H3(f"Gaps ({len(view.missing):,})"), *accept_all], className="row-head"))
        parts.append(
            html.Div(
                [_gap(table, row, missing_cell) for missing_cell in view.missing[:MOST_GAPS]],
                id="gaps",
                className="list",
            )
        )
        parts += _more(len(view.missing) - MOST_GAPS, "gaps")
    parts.append(
        html.Div([html.H3("Most surprising cells"), html.Span("ln p", className="quiet")], className="row-head")
    )
    if not view.cells:
        parts.append(html.P("No predicted cell of this row is known.", className="quiet"))
    parts.append(html.Div([_cell(cell) for cell in view.cells[:MOST_CELLS]], id="cells", className="list"))
    parts += _more(len(view.cells) - MOST_CELLS, "cells, less surprising")
    parts += _plain("Values that training never saw, left as they are", view.unknown)
    parts += _plain("Conditioned on", view.observed)
    return parts


def _gap(table: str, row: int, missing_cell: MissingCell) -> html.Div:
    button = html.Button(
        "Accept", id={"type": "accept", "table": table, "row": row, "name": missing_cell.name}, className="plain small"
    )
    return _belief(missing_cell, button)


def _belief(missing_cell: MissingCell, *buttons: Any) -> html.Div:
    best, others = (
        missing_cell.best,
        sorted(range(len(missing_cell.states)), key=lambda k: -missing_cell.belief[k])[1:3],
    )
    words = ", ".join(f"{missing_cell.states[k]} {_percent(missing_cell.belief[k])}" for k in others)
    attributes: Any = {
        "data-name": missing_cell.name,
        "data-state": str(missing_cell.states[best]),
        "data-p": f"{missing_cell.belief[best]:.10f}",
    }
    return html.Div(
        [
            _word(missing_cell.name, "name"),
            html.Span(
                [html.B(str(missing_cell.states[best])), f" {_percent(missing_cell.belief[best])}"], className="value"
            ),
            _word(words, "quiet rest"),
            *buttons,
        ],
        className="gap",
        **attributes,
    )


def _cell(cell: Cell) -> html.Div:
    surprising = cell.expected != cell.state
    expected = f"expected {cell.expected} ({_percent(cell.expected_probability)})" if surprising else "as expected"
    kind = "accepted" if cell.accepted else ""
    attributes: Any = {"data-name": cell.name, "data-log-p": f"{cell.log_probability:.10f}"}
    return html.Div(
        [
            _word(cell.name, "name"),
            html.Span([html.B(str(cell.state)), " accepted" if cell.accepted else ""], className="value"),
            _word(expected, "quiet rest"),
            html.Span(f"{cell.log_probability:.2f}", className="number odd" if surprising else "number"),
        ],
        className=f"cell {kind}",
        **attributes,
    )


def _plain(title: str, pairs: Sequence[tuple[str, Any]]) -> list[Any]:
    if not pairs:
        return []
    lines = [
        html.Div([_word(name, "name"), html.Span(_told(value), className="value")])
        for name, value in pairs[:MOST_CELLS]
    ]
    return [html.H3(title), html.Div(lines, className="list two"), *_more(len(pairs) - MOST_CELLS, "columns")]


def accepted_list(rows: Rows) -> list[Any]:
    """What was accepted, the latest first, each with a way back."""
    if not rows.accepted:
        return []
    latest = list(rows.accepted.values())[::-1]
    head = html.H3(f"Accepted ({len(latest):,})")
    return [head, html.Div([_accepted(rows, one) for one in latest[:MOST_GAPS]], id="accepted", className="list"),
            *_more(len(latest) - MOST_GAPS, "accepted earlier")]  # fmt: skip


def _accepted(rows: Rows, one: Accepted) -> html.Div:
    place = rows.row_name(one.table, one.row)
    undo = html.Button(
        "Undo", id={"type": "undo", "table": one.table, "row": one.row, "name": one.name}, className="plain small"
    )
    name = f"{one.table}.{one.name}" if one.table else one.name
    return html.Div(
        [_word(name, "name"), html.Span(html.B(str(one.state)), className="value"), _word(place, "quiet rest"), undo]
    )


# -- words -----------------------------------------------------------------------------------------------------------


def _word(text: str, kind: str) -> html.Span:
    return html.Span(text, className=kind, title=text)


def _bar(share: float) -> html.Div:
    return html.Div(html.Div(className="fill kept", style={"width": f"{100 * share:.2f}%"}), className="bar")


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if 0.1 <= share <= 0.9 else f"{100 * share:.1f}%"


def _told(value: Any) -> str:
    return "not known" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _more(count: int, what: str) -> list[Any]:
    return [html.P(f"and {count:,} more {what}", className="quiet")] if count > 0 else []
