"""This module builds the page of the explorer."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import Any

import dash
import dash_cytoscape as cyto
from dash import dcc, html
from flask import Response, abort

from sparsefield.viz.explorer.conditional_beliefs import METHODS, default_method
from sparsefield.viz.explorer.page_callbacks import NODE_LIMITS, register_callbacks
from sparsefield.viz.explorer.page_elements import COLORS, build_elements, build_stylesheet, quiet
from sparsefield.viz.explorer.session import Session
from sparsefield.viz.palette import BLUE


def make_app(session: Session, token: str) -> dash.Dash:
    """Return the Dash application, under a path that begins with the token; it loads scripts only from this host."""
    app = dash.Dash(
        "sparsefield.viz.explorer",
        assets_folder=str(files("sparsefield.viz.explorer") / "assets"),
        url_base_pathname=f"/{token}/",
        serve_locally=True,
        title=escape(f"{session.name} - sparsefield"),
        update_title="",
        add_log_handler=False,
        use_pages=False,
    )
    app.layout = _layout(session, token)
    register_callbacks(app, session)

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
    choice: Any = {"clearable": False, "searchable": False}
    methods = dcc.Dropdown(METHODS, default_method(session.model), id="method", **choice)
    limits = [{"label": f"{k} variables", "value": k} for k in NODE_LIMITS]
    tabs = {"variable": "Variable", "evidence": "Evidence", "rows": "Rows"}
    head = html.Header(
        [
            html.Div([html.H1([html.Span("sparsefield"), session.name]), html.P(session.summary)]),
            html.Label(["Inference", methods], className="method"),
        ]
    )
    tools = [
        dcc.Dropdown([], id="find", placeholder="Find a variable \u2026", className="find"),
        html.Button("Overview", id="overview", className="plain", title="Show the strongest edges"),
        html.Label(["at most", dcc.Dropdown(limits, NODE_LIMITS[1], id="limit", **choice)], className="limit"),
    ]
    picture = cyto.Cytoscape(
        id="network",
        elements=build_elements(session.network.overview(NODE_LIMITS[1])),
        stylesheet=build_stylesheet(),
        layout={"name": "preset", "fit": True, "padding": 24},
        style={"width": "100%", "height": "100%"},
        minZoom=0.2,
        maxZoom=4,
        boxSelectionEnabled=False,
        responsive=True,
    )
    network = html.Section([html.Div(tools, className="tools"), picture, _legend()], className="card network")
    panels = {
        "variable": quiet("Click a variable in the network, or find it by name, to see its neighbors."),
        "evidence": _evidence_controls(session),
        "rows": _row_controls(session, token),
    }
    choices = [{"label": label, "value": name} for name, label in tabs.items()]
    aside = [
        dcc.RadioItems(choices, "variable", id="tab", className="tabs", inline=True),
        *(html.Div(content, id=f"{name}-panel", className="panel") for name, content in panels.items()),
    ]
    data = {"chosen": None, "evidence-nodes": [], "evidence": {}, "accepted-count": 0}
    stores = [dcc.Store(id=name) if start is None else dcc.Store(id=name, data=start) for name, start in data.items()]
    main = html.Main([network, html.Aside(aside, className="card side")])
    return html.Div([head, main, *stores], className="page")


def _legend() -> html.Div:
    texts = {1: "go together", -1: "rarely go together", 0: "depends on the states"}
    keys = [
        html.Span([html.I(style={"background": COLORS[sign]}), text], className="key") for sign, text in texts.items()
    ]
    width = html.Span("wider edges are stronger", className="quiet")
    return html.Div([*keys, width, html.Span(id="not-shown", className="quiet")], className="legend")


def _loading(name: str) -> dcc.Loading:
    return dcc.Loading(html.Div(id=name), delay_show=400, type="dot", color=BLUE)


def _evidence_controls(session: Session) -> list[Any]:
    if session.beliefs is None:
        text = (
            "Evidence cannot be set for linked tables, since the beliefs about a row depend on the rows that it is "
            "linked with. Start the explorer with the tables and open a row under Rows."
        )
        return [quiet(text)]
    tools = [
        dcc.Dropdown([], id="add", placeholder="Set a variable \u2026", className="find"),
        html.Button("Clear", id="clear", className="plain"),
    ]
    find = {"placeholder": "filter by name \u2026", "type": "text", "debounce": 0.3, "className": "filter"}
    head = [html.H3("Beliefs", id="beliefs-title"), dcc.Input(id="find-belief", **find)]
    return [
        html.Div(tools, className="tools"),
        html.Div(id="evidence-list", className="evidence"),
        html.Div(head, className="row-head"),
        _loading("beliefs"),
    ]


def _row_controls(session: Session, token: str) -> list[Any]:
    rows = session.rows
    if rows is None:
        return [
            quiet("No data were given. To see rows, impute missing values and download the completed table:"),
            html.Pre(f"sparsefield explore {session.name} data.csv"),
        ]
    first = next(iter(rows.tables))
    start = min((min(missing) for missing in rows.tables[first].missing_rows.values() if missing), default=0)
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
