"""This module connects the panels of evidence and of rows to the session; what they show is computed elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dash import ALL, Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.exceptions import PreventUpdate

from sparsefield.app.pages.explorer.belief_elements import beliefs_list, evidence_hint, method_used
from sparsefield.app.pages.explorer.conditional_beliefs import BeliefChange
from sparsefield.app.pages.explorer.evidence_sources import UNKNOWN, EvidenceSource, cell_key, chosen_values
from sparsefield.app.pages.explorer.network_callbacks import MAX_OPTIONS, as_entity, clicked_id, entity_inputs
from sparsefield.app.pages.explorer.page_pieces import quiet, warnings_list
from sparsefield.app.pages.explorer.row_elements import accepted_list, row_panel
from sparsefield.app.pages.explorer.session import Session
from sparsefield.data.column_types import family_of
from sparsefield.errors import DataError

MAX_BELIEFS = 30


def register_evidence(app: Dash, session: Session) -> None:
    """Register the callbacks of evidence."""
    assert session.evidence is not None
    source = session.evidence
    _register_setters(app, session, source)

    @app.callback(
        Output("beliefs", "children"),
        Output("beliefs-title", "children"),
        Input("evidence", "data"),
        Input("method", "value"),
        Input("find-belief", "value"),
        *entity_inputs(session),
    )
    def show_beliefs(evidence: dict[str, Any], method: str, text: str | None, *entity: Any) -> Any:
        found, is_set = session.compare(evidence, method, as_entity(entity)), bool(chosen_values(evidence))
        shares = source.shares(evidence)
        label = _cell_label(source) if source.can_unset else None
        if text:
            kept = [change for change in found.changes if text.strip().lower() in change.name.lower()]
            found = type(found)(kept, found.methods, found.warnings)
        parts = [
            *method_used(method, found.methods),
            *warnings_list(found.warnings),
            *beliefs_list(session.network, found, MAX_BELIEFS, shares, label),
        ]
        if source.can_unset and not found.changes and not found.warnings:
            parts.append(
                quiet("All cells of this entity and those around it are known: set one to \u201cunknown\u201d.")
            )
        return parts, "Largest changes" if is_set and not source.can_unset else "Beliefs"


def _cell_label(source: EvidenceSource) -> Callable[[BeliefChange], str]:
    return lambda change: source.label(cell_key(change.table, change.row, change.name))


def _register_setters(app: Dash, session: Session, source: EvidenceSource) -> None:
    entity = entity_inputs(session)

    @app.callback(Output("add", "options"), Input("add", "search_value"), Input("evidence", "data"), *entity)
    def find(text: str | None, evidence: dict[str, Any], *entity: Any) -> Any:
        found = source.options(text or "", list(evidence), as_entity(entity), MAX_OPTIONS)
        return [{"label": label, "value": key} for key, label in found]

    @app.callback(
        Output("evidence", "data"),
        Output("add", "value"),
        Output("tab", "value", allow_duplicate=True),
        Input("add", "value"),
        Input({"type": "add", "node": ALL}, "n_clicks"),
        Input({"type": "remove", "cell": ALL}, "n_clicks"),
        Input("clear", "n_clicks"),
        Input({"type": "state", "cell": ALL}, "value"),
        State("evidence", "data"),
        prevent_initial_call=True,
    )
    def change_evidence(wanted: str | None, _: Any, __: Any, ___: Any, values: Any, evidence: dict[str, Any]) -> Any:
        control = ctx.triggered_id
        if control == "add":
            if wanted is None:
                raise PreventUpdate
            return {**evidence, wanted: evidence.get(wanted)}, None, no_update
        if isinstance(control, dict) and control["type"] == "state":
            return _with_values(evidence, ctx.inputs_list[4], values), no_update, no_update
        control = clicked_id()
        if control == "clear":
            return {}, None, no_update
        if control["type"] == "add":
            key = str(control["node"])
            return {**evidence, key: evidence.get(key)}, no_update, "evidence"
        return {key: value for key, value in evidence.items() if key != control["cell"]}, no_update, no_update

    @app.callback(
        Output("evidence-list", "children"),
        Input("evidence", "data"),
        State({"type": "state", "cell": ALL}, "value"),
        State({"type": "state", "cell": ALL}, "id"),
    )
    def show_evidence(evidence: dict[str, Any], values: list[Any], ids: list[dict[str, str]]) -> Any:
        if evidence and evidence == {one["cell"]: value for one, value in zip(ids, values, strict=True)}:
            return no_update  # controls that are in use are not replaced
        if not evidence:
            return evidence_hint(source.can_unset)
        text = "In the network, blue variables become more likely, orange ones less likely; filled ones are set."
        return [*(_setter(source, key, value) for key, value in evidence.items()), html.P(text, className="quiet hint")]


def _with_values(evidence: dict[str, Any], inputs: list[dict[str, Any]], values: list[Any]) -> dict[str, Any]:
    """Return the evidence with the values of its controls; nothing is updated if they have it already."""
    found = dict(evidence)
    for one, value in zip(inputs, values, strict=True):
        key = one["id"]["cell"]
        if key in found:
            found[key] = None if value == "" else value
    if found == evidence:
        raise PreventUpdate
    return found


def _setter(source: EvidenceSource, key: str, value: Any) -> html.Div:
    """Return a line of evidence: the cell, its state, and a button that removes it."""
    variable = source.variable(key)
    assert variable is not None
    more = {"id": {"type": "state", "cell": key}, "value": value}
    if variable.numeric and (source.can_unset or family_of(variable.dtype)):
        what = "2020-01-31" if family_of(variable.dtype) == "dates" else "a number"
        hint = f"{what}, or {UNKNOWN}" if source.can_unset else what
        control: Any = dcc.Input(**more, type="text", placeholder=hint, debounce=0.6)
    elif variable.numeric:
        control = dcc.Input(**more, type="number", step="any", placeholder="a number", debounce=0.4)
    else:
        options: list[Any] = [{"label": str(state), "value": k} for k, state in enumerate(variable.states)]
        options += [{"label": UNKNOWN, "value": UNKNOWN}] if source.can_unset else []
        control = dcc.Dropdown(options, **more, placeholder="choose a state \u2026", clearable=False)
    remove = html.Button("\u00d7", id={"type": "remove", "cell": key}, className="plain small", title="Remove")
    label = source.label(key)
    return html.Div([html.Span(label, className="name", title=label), control, remove], className="setter")


def register_rows(app: Dash, session: Session) -> None:
    """Register the callbacks of rows."""
    rows = session.rows
    assert rows is not None
    prefix = app.config.requests_pathname_prefix
    choices = [("row", "table")]
    if session.evidence is not None and session.evidence.can_unset:
        choices.append(("entity-row", "entity-table"))
    for row_control, table_control in choices:
        _register_row_options(app, session, row_control, table_control)

    @app.callback(
        Output("row", "value"),
        Output("row", "options", allow_duplicate=True),
        Output("download", "href"),
        Input("previous", "n_clicks"),
        Input("next", "n_clicks"),
        Input("table", "value"),
        State("row", "value"),
        prevent_initial_call=True,
    )
    def step(_: Any, __: Any, table: str, row: int | None) -> Any:
        row = 0 if row is None else row
        if ctx.triggered_id == "table":
            address = f"{prefix}completed/{list(rows.tables).index(table)}.csv"
            row = row if row < rows.tables[table].n_rows else 0
            return row, row_options(session, table, row), address
        row = (row + (1 if ctx.triggered_id == "next" else -1)) % max(rows.tables[table].n_rows, 1)
        return row, row_options(session, table, row), no_update

    @app.callback(
        Output("row-view", "children"),
        Input("row", "value"),
        Input("table", "value"),
        Input("method", "value"),
        Input("accepted-count", "data"),
    )
    def show_row(row: int | None, table: str, method: str, _: int) -> Any:
        if not rows.tables[table].n_rows:
            return quiet("This table has no rows.")
        # A row of the previous table, or none yet; the update for the new one follows.
        if row is None or row >= rows.tables[table].n_rows:
            raise PreventUpdate
        try:
            with session.lock:
                return row_panel(table, row, rows.describe(table, row, method), method)
        except DataError as error:
            return warnings_list([str(error)])

    _register_acceptance(app, session)


def _register_row_options(app: Dash, session: Session, row_control: str, table_control: str) -> None:
    rows = session.rows
    assert rows is not None

    @app.callback(
        Output(row_control, "options"),
        Input(row_control, "search_value"),
        Input(row_control, "value"),
        Input(table_control, "value"),
    )
    def find(text: str | None, row: int | None, table: str) -> Any:
        return row_options(session, table, row, text or "")


def row_options(session: Session, table: str, row: int | None, text: str = "") -> list[dict[str, Any]]:
    """Return the rows that a control offers; the chosen one is always among them, or the control would be empty."""
    rows = session.rows
    assert rows is not None
    found = rows.find(table, text, MAX_OPTIONS)
    found += [row] if row is not None and row not in found else []
    return [{"label": rows.row_name(table, k), "value": k} for k in found if k < rows.tables[table].n_rows]


def _register_acceptance(app: Dash, session: Session) -> None:
    rows = session.rows
    assert rows is not None

    @app.callback(
        Output("accepted-count", "data"),
        Input({"type": "accept", "table": ALL, "row": ALL, "name": ALL}, "n_clicks"),
        Input({"type": "accept-all", "table": ALL, "row": ALL}, "n_clicks"),
        Input({"type": "undo", "table": ALL, "row": ALL, "name": ALL}, "n_clicks"),
        State("method", "value"),
        State("accepted-count", "data"),
        prevent_initial_call=True,
    )
    def accept(_: Any, __: Any, ___: Any, method: str, count: int) -> Any:
        control = clicked_id()
        table, row = control["table"], control["row"]
        with session.lock:
            if control["type"] == "undo":
                rows.undo(table, row, control["name"])
            else:
                rows.accept(table, row, [control["name"]] if control["type"] == "accept" else None, method)
        return count + 1

    @app.callback(Output("accepted-list", "children"), Input("accepted-count", "data"))
    def show_accepted(_: int) -> Any:
        with session.lock:
            return accepted_list(rows)
