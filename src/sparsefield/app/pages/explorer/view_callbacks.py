"""This module keeps what the page shows in its address, and its colors in the browser."""

from __future__ import annotations

from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, no_update
from dash.exceptions import PreventUpdate

from sparsefield.app.pages.explorer.network_callbacks import as_entity
from sparsefield.app.pages.explorer.panel_callbacks import row_options
from sparsefield.app.pages.explorer.session import Session
from sparsefield.app.pages.explorer.view_state import ViewState, read_view, write_view


def register_view(app: Dash, session: Session) -> None:
    """Register the callbacks that write and read the address, and those of light and dark colors."""
    has_rows = session.rows is not None
    is_linked = session.evidence is not None and session.evidence.can_unset
    rows = [("table", "value"), ("row", "value")] if has_rows else []
    entity = [("entity-table", "value"), ("entity-row", "value")] if is_linked else []
    shown = [("tab", "value"), ("chosen", "data"), ("community", "data"), ("edge", "data"), ("method", "value"),
             ("evidence", "data"), *rows, *entity]  # fmt: skip

    @app.callback(Output("view", "data"), *(Input(*one) for one in shown), prevent_initial_call=True)
    def write(tab: str, chosen: Any, community: Any, edge: Any, method: str, evidence: Any, *more: Any) -> str:
        row = as_entity(more[:2]) if has_rows and tab == "rows" else None
        own = as_entity(more[-2:]) if is_linked and tab == "evidence" else None
        return write_view(session, ViewState(tab, chosen, community, edge, method, evidence, own, row))

    # Options come before values, because a control drops a value that it does not offer.
    options = [Output(name, "options", allow_duplicate=True) for name, _ in shown if name in ("row", "entity-row")]

    @app.callback(
        *options,
        *(Output(*one, allow_duplicate=True) for one in shown),
        Input("address", "hash"),
        prevent_initial_call="initial_duplicate",
    )
    def restore(text: str | None) -> Any:
        if not text or text == "#":
            raise PreventUpdate
        view = read_view(session, text)
        found: list[Any] = [view.tab, view.chosen, view.community, view.edge, view.method, view.evidence]
        offered: list[Any] = []
        for one, controls in ((view.row, rows), (view.entity, entity)):
            if controls:
                found += [no_update] * 2 if one is None else [one.table, one.row]
                offered.append(no_update if one is None else row_options(session, one.table, one.row))
        return [*offered, *found]

    app.clientside_callback(
        ClientsideFunction("sparsefield", "write_address"), Output("written", "data"), Input("view", "data")
    )
    app.clientside_callback(
        ClientsideFunction("sparsefield", "choose_theme"), Output("theme", "data"), Input("theme-toggle", "n_clicks")
    )
