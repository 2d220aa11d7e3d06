"""This module renders a row under a model: its missing values, its surprising ones, and those that were accepted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from sparsefield.app.pages.explorer.belief_elements import method_used, shown_states
from sparsefield.app.pages.explorer.page_pieces import (
    MAX_MISSING,
    MAX_VALUES,
    more_items,
    quiet,
    small_button,
    text_piece,
    warnings_list,
    write_percent,
    write_value,
)
from sparsefield.app.pages.explorer.table_rows import AcceptedValue, MissingValue, ObservedValue, RowView, TableRows
from sparsefield.data.number_text import write_number

SURPRISE = "how far ln p is below its mean under the predicted distribution; 0 or less is as expected"
LOG_P = "logarithm of the probability of the state, or of a number at least as far out"


def row_panel(table: str, row: int, view: RowView, method: str) -> list[Any]:
    """Return beliefs about missing values, then the values of the row, most surprising first."""
    parts: list[Any] = warnings_list(view.warnings)
    if view.latent:
        parts.append(html.Div([html.H3("Latent variables")], className="row-head"))
        parts.append(html.Div([_belief(one) for one in view.latent], id="latent-variables", className="list"))
    if view.missing:
        parts += _missing_part(table, row, view, method)
    head = html.Div([html.H3("Most surprising values")], className="row-head")
    captions = html.Div(
        [
            html.Span("value"),
            html.Span("expected"),
            html.Span("surprise", title=SURPRISE, className="number"),
            html.Span("ln p", title=LOG_P, className="number"),
        ],
        className="captions value-captions",
    )
    parts += [head, *([captions] if view.values else [quiet("This row has no values in predicted columns.")])]
    parts.append(html.Div([_value(one) for one in view.values[:MAX_VALUES]], id="values", className="list values"))
    parts += more_items(len(view.values) - MAX_VALUES, "less surprising values")
    parts += _plain_list("Values that did not occur in training (kept as they are)", view.unknown)
    parts += _plain_list("Covariates (observed columns)", view.observed)
    return parts


def _missing_part(table: str, row: int, view: RowView, method: str) -> list[Any]:
    head: list[Any] = [html.H3(f"Missing values ({len(view.missing):,})")]
    if len(view.missing) > 1:
        head.append(small_button(f"Accept all {len(view.missing):,}", "accept-all", table, row))
    shown = [
        _belief(one, small_button("Accept", "accept", table, row, name=one.name)) for one in view.missing[:MAX_MISSING]
    ]
    return [
        html.Div(head, className="row-head"),
        *method_used(method, view.methods),
        html.Div(shown, id="missing-values", className="list"),
        *more_items(len(view.missing) - MAX_MISSING, "missing values"),
    ]


def _belief(one: MissingValue, *buttons: Any) -> html.Div:
    """Return the most probable state of a missing value, or the mean of a number, and the states that are likely."""
    attributes: Any = {"data-name": one.name, "data-state": str(one.best)}
    places = shown_states(one.states, one.belief, ordered=one.ordered)
    if one.spread is not None:
        spread = f" \u00b1 {write_number(one.spread, 3)}" + (" days" if one.dtype else "")
        value = html.Span([html.B(write_value(one.best, one.dtype)), spread], className="value")
    else:
        best = float(one.belief.max())
        attributes["data-p"] = f"{best:.10f}"
        value = html.Span([html.B(str(one.best)), f" {write_percent(best)}"], className="value")
        places = [k for k in places if one.ordered or one.states[k] != one.best][:16]
    text = ", ".join(f"{one.states[k]} {write_percent(one.belief[k])}" for k in places if one.belief[k] >= 0.0005)
    parts = [text_piece(one.name, "name"), value, text_piece(text, "quiet rest"), *buttons]
    return html.Div(parts, className="missing-value", **attributes)


def _value(one: ObservedValue) -> html.Div:
    if one.spread is not None:
        spread = f"{write_number(one.spread, 3)}{' days' if one.dtype else ''}"
        expected = f"{write_value(one.expected, one.dtype)} \u00b1 {spread}"
    elif one.is_surprising:
        expected = f"{one.expected} ({write_percent(one.expected_probability)})"
    else:
        expected = "as expected"
    attributes: Any = {
        "data-name": one.name, "data-log-p": f"{one.log_probability:.10f}", "data-surprise": f"{one.surprise:.10f}",
    }  # fmt: skip
    state = html.B(write_value(one.state, one.dtype))
    parts = [
        text_piece(one.name, "name"),
        html.Span([state, " accepted" if one.accepted else ""], className="value"),
        text_piece(expected, "quiet rest"),
        html.Span(f"{one.surprise:+.2f}", className="number unexpected" if one.is_surprising else "number"),
        html.Span(f"{one.log_probability:.2f}", className="number"),
    ]
    return html.Div(parts, className="accepted" if one.accepted else "", **attributes)


def _plain_list(title: str, pairs: Sequence[tuple[str, Any]]) -> list[Any]:
    if not pairs:
        return []
    lines = [
        html.Div([text_piece(name, "name"), html.Span(write_value(value), className="value")])
        for name, value in pairs[:MAX_VALUES]
    ]
    return [html.H3(title), html.Div(lines, className="list two"), *more_items(len(pairs) - MAX_VALUES, "columns")]


def accepted_list(rows: TableRows) -> list[Any]:
    """Return the accepted values, the latest first, each with a button that undoes it."""
    if not rows.accepted:
        return []
    latest = list(rows.accepted.values())[::-1]
    shown = html.Div([_accepted_value(rows, one) for one in latest[:MAX_MISSING]], id="accepted", className="list")
    return [html.H3(f"Accepted ({len(latest):,})"), shown, *more_items(len(latest) - MAX_MISSING, "accepted earlier")]


def _accepted_value(rows: TableRows, one: AcceptedValue) -> html.Div:
    name = text_piece(f"{one.table}.{one.name}" if one.table else one.name, "name")
    value = html.Span(html.B(write_value(one.state, rows.dtype(one.table, one.name))), className="value")
    undo = small_button("Undo", "undo", one.table, one.row, name=one.name)
    return html.Div([name, value, text_piece(rows.row_name(one.table, one.row), "quiet rest"), undo])
