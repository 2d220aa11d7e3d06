"""This module keeps what the page shows in its address, and its colors in the browser."""

from __future__ import annotations

from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, no_update
from dash.exceptions import PreventUpdate

from sparsefield.viz.explorer.evidence_sources import Entity
from sparsefield.viz.explorer.session import Session
from sparsefield.viz.explorer.view_state import ViewState, read_view, write_view


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
        row = Entity(more[0], more[1]) if has_rows and tab == "rows" else None
        own = Entity(more[-2], more[-1]) if is_linked and tab == "evidence" else None
        return write_view(session, ViewState(tab, chosen, community, edge, method, evidence, own, row))

    @app.callback(
        *(Output(*one, allow_duplicate=True) for one in shown),
        Input("address", "hash"),
        prevent_initial_call="initial_duplicate",
    )
    def restore(text: str | None) -> Any:
        if not text or text == "#":
            raise PreventUpdate
        view = read_view(session, text)
        found: list[Any] = [view.tab, view.chosen, view.community, view.edge, view.method, view.evidence]
        for one, controls in ((view.row, rows), (view.entity, entity)):
            found += ([no_update] * 2 if one is None else [one.table, one.row]) if controls else []
        return found

    app.clientside_callback(
        ClientsideFunction("sparsefield", "write_address"), Output("written", "data"), Input("view", "data")
    )
    app.clientside_callback(
        ClientsideFunction("sparsefield", "choose_theme"), Output("theme", "data"), Input("theme-toggle", "n_clicks")
    )
