"""This module connects the picture and the choice of variables to the session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dash import ALL, Dash, Input, Output, State, ctx, no_update
from dash.exceptions import PreventUpdate

from sparsefield.app.pages.explorer.column_elements import community_panel, pair_panel, variable_panel
from sparsefield.app.pages.explorer.evidence_sources import RowKey, chosen_values
from sparsefield.app.pages.explorer.network_picture import THEMES, build_bubbles, build_elements, build_stylesheet
from sparsefield.app.pages.explorer.page_pieces import quiet
from sparsefield.app.pages.explorer.session import Session
from sparsefield.app.pages.explorer.view_state import TABS

NODE_LIMITS = (15, 25, 40, 60)
"""Choices for the number of variables in a picture; more than some dozens are not legible."""

MAX_OPTIONS = 30
"""Names in a drop-down list; typing narrows them down."""


def clicked_id() -> Any:
    """Return the id of the control that was clicked; a button that has just appeared was not clicked."""
    if not ctx.triggered or not ctx.triggered[0]["value"]:
        raise PreventUpdate
    return ctx.triggered_id


def entity_inputs(session: Session) -> list[Input]:
    """Return the controls that choose an entity, for linked tables."""
    linked = session.evidence is not None and session.evidence.can_unset
    return [Input("entity-table", "value"), Input("entity-row", "value")] if linked else []


def as_entity(parts: tuple[Any, ...]) -> RowKey | None:
    """Return the entity that controls choose."""
    return RowKey(parts[0], int(parts[1])) if len(parts) == 2 and parts[1] is not None else None


def draw_part(
    session: Session, chosen: int | None, community: int | None, limit: int, evidence: dict[str, Any]
) -> tuple[list[dict[str, Any]], str]:
    """Return the picture, and a remark on what it leaves out.

    It shows the neighborhood of the chosen variable, else a community, else the neighborhood of the evidence, else an
    overview: communities where there are many columns.
    """
    network, bubbles = session.network, session.bubbles
    around = [chosen] if chosen is not None else session.evidence_nodes(evidence) if community is None else []
    if around:
        part = network.neighborhood(around, limit)
        return build_elements(part, around), f"{part.left_out:,} weaker neighbors not shown" if part.left_out else ""
    if community is not None and bubbles is not None:
        part = bubbles.open(community, limit)
        more = f", {part.left_out:,} columns not shown" if part.left_out else ""
        return build_elements(part), f"community {community + 1}{more}"
    if bubbles is not None:
        more = f"; {bubbles.left_out:,} columns in none of them" if bubbles.left_out else ""
        return build_bubbles(bubbles), f"{len(bubbles.members):,} communities{more}"
    part = network.overview(limit)
    return build_elements(part), f"{part.left_out:,} variables not shown" if part.left_out else ""


def register_network(app: Dash, session: Session) -> None:
    """Register the callbacks of the picture, of its tools, and of the panel on a variable."""
    _register_selection(app, session)
    _register_picture(app, session)


def _register_selection(app: Dash, session: Session) -> None:
    @app.callback(Output("find", "options"), Input("find", "search_value"))
    def find(text: str | None) -> Any:
        found = session.network.find(text or "", MAX_OPTIONS)
        return [{"label": session.network.labels[k], "value": k} for k in found]

    @app.callback(
        Output("chosen", "data"),
        Output("community", "data"),
        Output("edge", "data"),
        Output("tab", "value"),
        Output("find", "value"),
        Input("find", "value"),
        Input("network", "tapNodeData"),
        Input("network", "tapEdgeData"),
        Input({"type": "select", "node": ALL, "place": ALL}, "n_clicks"),
        Input({"type": "pair", "edge": ALL}, "n_clicks"),
        Input({"type": "close-pair", "edge": ALL}, "n_clicks"),
        Input("overview", "n_clicks"),
        prevent_initial_call=True,
    )
    def choose(found: int | None, node: dict | None, edge: dict | None, *_: Any) -> Any:
        control = ctx.triggered_id
        if control == "find":
            if found is None:
                raise PreventUpdate
            return found, no_update, None, "variable", None
        control = clicked_id()
        if control == "overview":
            return None, None, None, no_update, no_update
        if control == "network":
            tapped = ctx.triggered[0]["prop_id"]
            return _tapped(edge if tapped.endswith("tapEdgeData") else node)
        if control["type"] == "pair":
            return no_update, no_update, control["edge"], "variable", no_update
        if control["type"] == "close-pair":
            return no_update, no_update, None, no_update, no_update
        return control["node"], no_update, None, "variable", no_update

    @app.callback(
        Output("variable-panel", "children"),
        Input("chosen", "data"),
        Input("community", "data"),
        Input("edge", "data"),
        prevent_initial_call=True,
    )
    def show_variable(chosen: int | None, community: int | None, edge: int | None) -> Any:
        if edge is not None:
            return pair_panel(session.pair_table(edge), session.network.edge(edge), session.network.labels)
        if chosen is not None:
            can_set = session.evidence is not None and not session.evidence.can_unset
            return variable_panel(session.network, chosen, can_set=can_set)
        if community is not None and session.bubbles is not None:
            return community_panel(session.bubbles, community)
        if session.bubbles is not None:
            return quiet("Communities of columns that share features. Click one to open it.")
        return quiet("The strongest edges of the field. Click a variable to see its neighbors, or an edge.")

    @app.callback(*(Output(f"{name}-panel", "hidden") for name in TABS), Input("tab", "value"))
    def show_tab(tab: str) -> Any:
        return tuple(name != tab for name in TABS)


def _tapped(data: dict[str, Any] | None) -> Any:
    """Return the outputs of a click on an element of the picture."""
    name = "" if data is None else str(data["id"])
    if name.startswith("community-"):
        return None, int(name.removeprefix("community-")), None, "variable", no_update
    if name.startswith("edge-"):
        return no_update, no_update, int(name.removeprefix("edge-")), "variable", no_update
    if not name.isdecimal():
        raise PreventUpdate
    return int(name), no_update, None, "variable", no_update


def _register_picture(app: Dash, session: Session) -> None:
    @app.callback(
        Output("network", "elements"),
        Output("not-shown", "children"),
        Input("chosen", "data"),
        Input("community", "data"),
        Input("limit", "value"),
        Input("evidence", "data"),
    )
    def draw(chosen: int | None, community: int | None, limit: int, evidence: dict[str, Any]) -> Any:
        return draw_part(session, chosen, community, limit, evidence)

    @app.callback(
        Output("network", "stylesheet"),
        Input("evidence", "data"),
        Input("method", "value"),
        Input("theme", "data"),
        *entity_inputs(session),
    )
    def color(evidence: dict[str, Any], method: str, theme: str, *entity: Any) -> Any:
        nodes = session.evidence_nodes(evidence)
        if session.evidence is None or not chosen_values(evidence):
            return build_stylesheet(nodes, theme=theme)
        found = session.compare(evidence, method, as_entity(entity))
        return build_stylesheet(nodes, session.node_colors(found.changes), theme)

    @app.callback(
        Output("network", "generateImage"), Input("save", "n_clicks"), State("theme", "data"), prevent_initial_call=True
    )
    def save(_: int, theme: str) -> Any:
        options = {"full": True, "scale": 2, "bg": THEMES.get(theme, THEMES["light"]).card}
        name = f"{Path(session.name).stem or 'field'}-network"
        return {"type": "png", "action": "download", "filename": name, "options": options}
