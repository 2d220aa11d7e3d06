"""This module connects the page's controls to the session; what is shown is computed elsewhere."""

from __future__ import annotations

from typing import Any

from dash import ALL, Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.exceptions import PreventUpdate

from sparsefield.errors import DataError
from sparsefield.viz.explorer import page_elements
from sparsefield.viz.explorer.page_elements import build_elements, build_stylesheet, quiet
from sparsefield.viz.explorer.session import Session

NODE_LIMITS = (15, 25, 40, 60)
"""Choices for the number of variables in a picture; more than some dozens are not legible."""

MAX_OPTIONS = 30
"""Names in a drop-down list; typing narrows them down."""

MAX_BELIEFS = 30


def register_callbacks(app: Dash, session: Session) -> None:
    """Register all callbacks of the page."""
    _register_selection(app, session)
    _register_network(app, session)
    if session.beliefs is not None:
        _register_evidence(app, session)
    if session.rows is not None:
        _register_rows(app, session)


def _clicked_id() -> Any:
    """Return the id of the control that was clicked; a button that has just appeared was not clicked."""
    if not ctx.triggered or not ctx.triggered[0]["value"]:
        raise PreventUpdate
    return ctx.triggered_id


def _list_options(session: Session, text: str | None, *, skip: Any = ()) -> list[dict[str, Any]]:
    skip = set(skip)
    found = session.network.find(text or "", MAX_OPTIONS + len(skip))
    return [{"label": session.network.labels[k], "value": k} for k in found if k not in skip][:MAX_OPTIONS]


def _register_selection(app: Dash, session: Session) -> None:
    @app.callback(Output("find", "options"), Input("find", "search_value"))
    def find(text: str | None) -> Any:
        return _list_options(session, text)

    @app.callback(
        Output("chosen", "data"),
        Output("tab", "value"),
        Output("find", "value"),
        Input("find", "value"),
        Input("network", "tapNodeData"),
        Input({"type": "select", "node": ALL, "place": ALL}, "n_clicks"),
        Input("overview", "n_clicks"),
        prevent_initial_call=True,
    )
    def choose(found: int | None, tapped: dict | None, _: Any, __: Any) -> Any:
        if ctx.triggered_id == "find":
            if found is None:
                raise PreventUpdate
            return found, "variable", None
        control = _clicked_id()
        if control == "overview":
            return None, no_update, no_update
        node = control["node"] if tapped is None or control != "network" else int(tapped["id"])
        return node, "variable", no_update

    @app.callback(Output("variable-panel", "children"), Input("chosen", "data"), prevent_initial_call=True)
    def show_variable(chosen: int | None) -> Any:
        if chosen is None:
            return quiet("The strongest edges of the field. Click a variable to see its neighbors.")
        return page_elements.variable_panel(session.network, chosen, can_set=session.beliefs is not None)

    names = ("variable", "evidence", "rows")

    @app.callback(*(Output(f"{name}-panel", "hidden") for name in names), Input("tab", "value"))
    def show_tab(tab: str) -> Any:
        return tuple(name != tab for name in names)


def _register_network(app: Dash, session: Session) -> None:
    @app.callback(
        Output("network", "elements"),
        Output("not-shown", "children"),
        Input("chosen", "data"),
        Input("limit", "value"),
        Input("evidence-nodes", "data"),
    )
    def draw(chosen: int | None, limit: int, evidence_nodes: list[int]) -> Any:
        # Without a chosen variable, the picture shows the neighborhood of the evidence, if there is any.
        around = [chosen] if chosen is not None else evidence_nodes
        part = session.network.neighborhood(around, limit) if around else session.network.overview(limit)
        kind = "weaker neighbors" if around else "variables"
        return build_elements(part, around), f"{part.left_out:,} {kind} not shown" if part.left_out else ""

    @app.callback(
        Output("network", "stylesheet"),
        Input("evidence", "data"),
        Input("method", "value"),
        State("evidence-nodes", "data"),
    )
    def color(evidence: dict[str, Any], method: str, evidence_nodes: list[int]) -> Any:
        if session.beliefs is None or not evidence:
            return build_stylesheet(evidence_nodes)
        changes, _ = session.compare(evidence, method)
        return build_stylesheet(map(int, evidence), session.node_colors(changes))


def _register_evidence(app: Dash, session: Session) -> None:
    @app.callback(Output("add", "options"), Input("add", "search_value"), Input("evidence-nodes", "data"))
    def find(text: str | None, evidence_nodes: list[int]) -> Any:
        return _list_options(session, text, skip=evidence_nodes)

    @app.callback(
        Output("evidence-nodes", "data"),
        Output("add", "value"),
        Output("tab", "value", allow_duplicate=True),
        Input("add", "value"),
        Input({"type": "add", "node": ALL}, "n_clicks"),
        Input({"type": "remove", "node": ALL}, "n_clicks"),
        Input("clear", "n_clicks"),
        State("evidence-nodes", "data"),
        prevent_initial_call=True,
    )
    def change_evidence(wanted: int | None, _: Any, __: Any, ___: Any, nodes: list[int]) -> Any:
        if ctx.triggered_id == "add":
            if wanted is None:
                raise PreventUpdate
            return list(dict.fromkeys([*nodes, wanted])), None, no_update
        control = _clicked_id()
        if control == "clear":
            return [], None, no_update
        node = control["node"]
        if control["type"] == "add":
            return list(dict.fromkeys([*nodes, node])), no_update, "evidence"
        return [k for k in nodes if k != node], no_update, no_update

    @app.callback(Output("evidence-list", "children"), Input("evidence-nodes", "data"), State("evidence", "data"))
    def show_evidence(nodes: list[int], evidence: dict[str, Any]) -> Any:
        if not nodes:
            return quiet("Set variables to see how the beliefs about all others change. No variable is set yet.")
        text = "In the network, blue variables become more likely, orange ones less likely; dark ones are set."
        setters = [_evidence_setter(session, k, evidence.get(str(k))) for k in nodes]
        return [*setters, html.P(text, className="quiet hint")]

    @app.callback(
        Output("evidence", "data"), Input({"type": "state", "node": ALL}, "value"), Input("evidence-nodes", "data")
    )
    def set_states(values: list[Any], nodes: list[int]) -> Any:
        states = {one["id"]["node"]: value for one, value in zip(ctx.inputs_list[0], values, strict=True)}
        return {str(k): states[k] for k in nodes if states.get(k) is not None}

    @app.callback(
        Output("beliefs", "children"),
        Output("beliefs-title", "children"),
        Input("evidence", "data"),
        Input("method", "value"),
        Input("find-belief", "value"),
    )
    def show_beliefs(evidence: dict[str, Any], method: str, text: str | None) -> Any:
        changes, warnings = session.compare(evidence, method)
        if text:
            changes = [change for change in changes if text.strip().lower() in change.name.lower()]
        shown = page_elements.beliefs_list(session.network, changes, MAX_BELIEFS)
        return [*page_elements.warnings_list(warnings), *shown], "Largest changes" if evidence else "Beliefs"


def _evidence_setter(session: Session, node: int, value: Any) -> html.Div:
    """Return a line of evidence: the variable, its state, and a button that removes it."""
    variable = session.network.variable(node)
    assert variable is not None
    more = {"id": {"type": "state", "node": node}, "value": value}
    if variable.numeric:
        control: Any = dcc.Input(**more, type="number", step="any", placeholder="a number", debounce=0.4)
    else:
        options = [{"label": str(state), "value": k} for k, state in enumerate(variable.states)]
        control = dcc.Dropdown(options, **more, placeholder="choose a state \u2026", clearable=False)
    remove = html.Button("\u00d7", id={"type": "remove", "node": node}, className="plain small", title="Remove")
    name = html.Span(variable.name, className="name", title=variable.name)
    return html.Div([name, control, remove], className="setter")


def _register_rows(app: Dash, session: Session) -> None:
    rows = session.rows
    assert rows is not None
    prefix = app.config.requests_pathname_prefix

    @app.callback(
        Output("row", "options"), Input("row", "search_value"), Input("row", "value"), Input("table", "value")
    )
    def find(text: str | None, row: int, table: str) -> Any:
        # The chosen row stays among the options, or the control would be empty.
        found = dict.fromkeys([*rows.find(table, text or "", MAX_OPTIONS), row])
        return [{"label": rows.row_name(table, k), "value": k} for k in found if k < rows.tables[table].n_rows]

    @app.callback(
        Output("row", "value"),
        Output("download", "href"),
        Input("previous", "n_clicks"),
        Input("next", "n_clicks"),
        Input("table", "value"),
        State("row", "value"),
        prevent_initial_call=True,
    )
    def step(_: Any, __: Any, table: str, row: int) -> Any:
        if ctx.triggered_id == "table":
            return 0, f"{prefix}completed/{list(rows.tables).index(table)}.csv"
        row += 1 if ctx.triggered_id == "next" else -1
        return row % max(rows.tables[table].n_rows, 1), no_update

    @app.callback(
        Output("row-view", "children"),
        Input("row", "value"),
        Input("table", "value"),
        Input("method", "value"),
        Input("accepted-count", "data"),
    )
    def show_row(row: int, table: str, method: str, _: int) -> Any:
        if not rows.tables[table].n_rows:
            return quiet("This table has no rows.")
        if row >= rows.tables[table].n_rows:  # a row of the previous table; the update for the new one follows
            raise PreventUpdate
        try:
            with session.lock:
                return page_elements.row_panel(table, row, rows.describe(table, row, method))
        except DataError as error:
            return page_elements.warnings_list([str(error)])

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
        control = _clicked_id()
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
            return page_elements.accepted_list(rows)
