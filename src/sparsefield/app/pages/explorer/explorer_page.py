"""This module builds the page of the explorer."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import Any

import dash
import dash_cytoscape as cyto
from dash import dcc, html
from flask import Response, abort

from sparsefield.app.pages.explorer.belief_elements import evidence_hint
from sparsefield.app.pages.explorer.conditional_beliefs import METHODS
from sparsefield.app.pages.explorer.network_callbacks import NODE_LIMITS, draw_part, register_network
from sparsefield.app.pages.explorer.network_picture import build_stylesheet
from sparsefield.app.pages.explorer.page_pieces import quiet
from sparsefield.app.pages.explorer.panel_callbacks import register_evidence, register_rows
from sparsefield.app.pages.explorer.session import Session
from sparsefield.app.pages.explorer.view_callbacks import register_view
from sparsefield.app.pages.explorer.view_state import DEFAULT_METHOD, TABS
from sparsefield.app.pages.palette import BLUE, style_variables

VIEWPORT = {"name": "viewport", "content": "width=device-width, initial-scale=1"}


def make_app(session: Session, token: str) -> dash.Dash:
    """Return the Dash application, under a path that begins with the token; it loads scripts only from this host."""
    app = dash.Dash(
        "sparsefield.app.pages.explorer",
        assets_folder=str(files("sparsefield.app.pages.explorer") / "assets"),
        url_base_pathname=f"/{token}/",
        serve_locally=True,
        title=escape(f"{session.name} - sparsefield"),
        update_title="",
        add_log_handler=False,
        use_pages=False,
        meta_tags=[VIEWPORT],
    )
    app.index_string = app.index_string.replace("{%css%}", f"<style>{style_variables()}</style>{{%css%}}")
    app.layout = _layout(session, token)
    register_network(app, session)
    if session.evidence is not None:
        register_evidence(app, session)
    if session.rows is not None:
        register_rows(app, session)
    register_view(app, session)

    def download(number: int) -> Response:
        """Return a completed table as a file, which may be larger than a page can handle."""
        rows = session.rows
        if rows is None or not 0 <= number < len(rows.tables):
            abort(404)
        table = list(rows.tables)[number]
        with session.lock:
            content = rows.csv(table)
        response = Response(content, mimetype="text/csv")
        response.headers.set("Content-Disposition", "attachment", filename=rows.tables[table].name)
        return response

    app.server.add_url_rule(f"/{token}/completed/<int:number>.csv", "completed", download)
    return app


def _layout(session: Session, token: str) -> html.Div:
    panels = {
        "variable": quiet(_first_hint(session)),
        "evidence": _evidence_controls(session),
        "rows": _row_controls(session, token),
    }
    choices = [{"label": name.capitalize(), "value": name} for name in TABS]
    aside = [
        dcc.RadioItems(choices, TABS[0], id="tab", className="tabs", inline=True),
        *(html.Div(panels[name], id=f"{name}-panel", className="panel") for name in TABS),
    ]
    data = {"chosen": None, "community": None, "edge": None, "evidence": {}, "accepted-count": 0, "theme": "light"}
    stores = [dcc.Store(id=name) if start is None else dcc.Store(id=name, data=start) for name, start in data.items()]
    stores += [dcc.Store(id="view"), dcc.Store(id="written"), dcc.Location(id="address", refresh=False)]
    main = html.Main([_network_card(session), html.Aside(aside, className="card side")])
    return html.Div([_header(session), main, *stores], className="page")


def _first_hint(session: Session) -> str:
    if session.bubbles is not None:
        return "Circles are communities of columns. Click one to open it, or find a variable by its name."
    return "Click a variable in the network, or find it by name, to see its neighbors. Click an edge to see its states."


def _header(session: Session) -> html.Header:
    methods = dcc.Dropdown(METHODS, DEFAULT_METHOD, id="method", clearable=False, searchable=False)
    title = html.Div([html.H1([html.Span("sparsefield"), session.name]), html.P(session.summary)], className="title")
    named: Any = {"aria-label": "Light or dark"}
    theme = html.Button("\u25d0", id="theme-toggle", className="plain icon", title="Light or dark", **named)
    controls = html.Div([html.Label(["Inference", methods], className="method"), theme], className="controls")
    return html.Header([title, controls])


def _network_card(session: Session) -> html.Section:
    limits = [{"label": f"{k} variables", "value": k} for k in NODE_LIMITS]
    limit = dcc.Dropdown(limits, NODE_LIMITS[1], id="limit", clearable=False, searchable=False)
    tools = [
        dcc.Dropdown([], id="find", placeholder="Find a variable \u2026", className="find"),
        html.Button("Overview", id="overview", className="plain", title="Show the whole network"),
        html.Label([html.Span("at most"), limit], className="limit"),
        html.Button("Save picture", id="save", className="plain", title="Download the network as a PNG file"),
    ]
    elements, _ = draw_part(session, None, None, NODE_LIMITS[1], {})
    picture = cyto.Cytoscape(
        id="network",
        elements=elements,
        stylesheet=build_stylesheet(),
        layout={"name": "preset", "fit": True, "padding": 24},
        style={"width": "100%", "height": "100%"},
        minZoom=0.15,
        maxZoom=4,
        boxSelectionEnabled=False,
        autoungrabify=False,
        responsive=True,
    )
    return html.Section([html.Div(tools, className="tools"), picture, _legend()], className="card network")


def _legend() -> html.Div:
    texts = {
        "positive": "positive: where one is present or high, so is the other",
        "negative": "negative: where one is present or high, the other is not",
        "mixed": "no sign: it depends on the states",
    }
    keys = [html.Span([html.I(className=sign), text], className="key") for sign, text in texts.items()]
    width = html.Span("wider edges are stronger", className="quiet")
    return html.Div([*keys, width, html.Span(id="not-shown", className="quiet")], className="legend")


def _loading(name: str) -> dcc.Loading:
    kept = {"visibility": "visible", "opacity": 0.5}  # what was shown before stays legible
    return dcc.Loading(html.Div(id=name), delay_show=400, type="dot", color=BLUE, overlay_style=kept)


def _evidence_controls(session: Session) -> list[Any]:
    if session.evidence is None:
        text = (
            "Beliefs about a row of linked tables depend on the rows that it is linked with. Start the explorer with "
            "the tables to choose an entity and set its values and those around it:"
        )
        return [quiet(text), html.Pre(f"sparsefield explore {session.name} schema.toml")]
    linked = session.evidence.can_unset
    placeholder = "Set a value \u2026" if linked else "Set a variable \u2026"
    tools = [
        dcc.Dropdown([], id="add", placeholder=placeholder, className="find"),
        html.Button("Clear", id="clear", className="plain"),
    ]
    find = {"placeholder": "filter by name \u2026", "type": "text", "debounce": 0.3, "className": "filter"}
    head = [html.H3("Beliefs", id="beliefs-title"), dcc.Input(id="find-belief", **find)]
    return [
        *(_entity_controls(session) if linked else []),
        html.Div(tools, className="tools"),
        html.Div(evidence_hint(linked), id="evidence-list", className="evidence"),
        html.Div(head, className="row-head"),
        _loading("beliefs"),
    ]


def _entity_controls(session: Session) -> list[Any]:
    assert session.rows is not None
    rows = session.rows
    tables = [{"label": name, "value": name} for name in rows.tables if rows.schemas[name].targets]
    first = tables[0]["value"]
    start = _first_missing(session, first)
    table = dcc.Dropdown(tables, first, id="entity-table", clearable=False, searchable=False)
    options = [{"label": rows.row_name(first, start), "value": start}]
    return [
        html.Div(
            [
                html.Label(["Table", table], className="table"),
                dcc.Dropdown(options, start, id="entity-row", clearable=False, className="find"),
            ],
            className="tools entity",
        )
    ]


def _first_missing(session: Session, table: str) -> int:
    assert session.rows is not None
    missing = session.rows.tables[table].missing_rows.values()
    return min((min(rows) for rows in missing if rows), default=0)


def _row_controls(session: Session, token: str) -> list[Any]:
    rows = session.rows
    if rows is None:
        return [
            quiet("No data were given. To see rows, impute missing values and download the completed table:"),
            html.Pre(f"sparsefield explore {session.name} data.csv"),
        ]
    first = next(iter(rows.tables))
    start = _first_missing(session, first)
    tables = [{"label": name, "value": name} for name in rows.tables]
    table = dcc.Dropdown(tables, first, id="table", clearable=False, searchable=False)
    options = [{"label": rows.row_name(first, start), "value": start}]
    title = "Download the table with the accepted values as CSV"
    tools = [
        dcc.Dropdown(options, start, id="row", clearable=False, className="find"),
        html.Button("\u2039", id="previous", className="plain", title="Previous row"),
        html.Button("\u203a", id="next", className="plain", title="Next row"),
        html.A("Download", id="download", href=f"/{token}/completed/0.csv", className="plain", title=title),
    ]
    return [
        html.Label(["Table", table], className="table") if first else html.Div(table, hidden=True),
        html.Div(tools, className="tools"),
        _loading("row-view"),
        html.Div(id="accepted-list"),
    ]
