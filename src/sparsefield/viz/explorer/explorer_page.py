"""The page: where things stand."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import Any

import dash
import dash_cytoscape as cyto
from dash import dcc, html
from flask import Response, abort

from sparsefield.viz.explorer.conditional_beliefs import METHODS, default_method
from sparsefield.viz.explorer.cytoscape_elements import COLORS, elements, stylesheet
from sparsefield.viz.explorer.page_callbacks import NODES, register
from sparsefield.viz.explorer.session import Subject

__all__ = ["make_app"]


def make_app(subject: Subject, token: str) -> dash.Dash:
    """The application under a path that begins with the token; all its scripts are its own."""
    app = dash.Dash(
        "sparsefield.viz.explorer",
        assets_folder=str(files("sparsefield.viz.explorer") / "assets"),
        url_base_pathname=f"/{token}/",
        serve_locally=True,
        title=escape(f"{subject.name} - sparsefield"),
        update_title="",
        add_log_handler=False,
        use_pages=False,
    )
    app.layout = _layout(subject, token)
    register(app, subject)
    _add_download(app, subject, token)
    return app


def _add_download(app: dash.Dash, subject: Subject, token: str) -> None:
    """The completed table as a file; it does not go through the page, and so may be large."""

    def download(number: int) -> Response:
        rows = subject.rows
        if rows is None or not 0 <= number < len(rows.tables):
            abort(404)
        table = list(rows.tables)[number]
        with subject.lock:
            content = rows.csv(table)
        answer = Response(content, mimetype="text/csv")
        answer.headers.set("Content-Disposition", "attachment", filename=rows.tables[table].name)
        return answer

    app.server.add_url_rule(f"/{token}/completed/<int:number>.csv", "completed", download)


def _layout(subject: Subject, token: str) -> html.Div:
    part = subject.network.strongest(NODES[1])
    tabs = {"variable": "Variable", "evidence": "Evidence", "rows": "Rows"}
    head = html.Header(
        [
            html.Div([html.H1([html.Span("sparsefield"), subject.name]), html.P(subject.words)]),
            html.Label(
                [
                    "Inference",
                    dcc.Dropdown(
                        METHODS, default_method(subject.model), id="method", clearable=False, searchable=False
                    ),
                ],
                className="method",
            ),
        ]
    )
    network = html.Section(
        [
            html.Div(
                [
                    dcc.Dropdown([], id="find", placeholder="Find a variable \u2026", className="find"),
                    html.Button("Overview", id="overview", className="plain", title="The strongest links of all"),
                    html.Label(
                        [
                            "at most",
                            dcc.Dropdown(
                                [{"label": f"{k} variables", "value": k} for k in NODES],
                                NODES[1],
                                id="limit",
                                clearable=False,
                                searchable=False,
                            ),
                        ],
                        className="limit",
                    ),
                ],
                className="tools",
            ),
            cyto.Cytoscape(
                id="network",
                elements=elements(subject.network, part),
                stylesheet=stylesheet(),
                layout=PRESET,
                style={"width": "100%", "height": "100%"},
                minZoom=0.2,
                maxZoom=4,
                boxSelectionEnabled=False,
                responsive=True,
            ),
            html.Div([*_legend(), html.Span(id="left-out", className="quiet")], className="legend"),
        ],
        className="card network",
    )
    aside = html.Aside(
        [
            dcc.RadioItems(
                [{"label": words, "value": name} for name, words in tabs.items()],
                "variable",
                id="tab",
                className="tabs",
                inline=True,
            ),
            html.Div(
                html.P(
                    "Click a variable in the network, or find one by its name, to see its neighbors.",
                    className="quiet",
                ),
                id="variable-panel",
                className="panel",
            ),
            html.Div(_evidence(subject), id="evidence-panel", className="panel"),
            html.Div(_rows(subject, token), id="rows-panel", className="panel"),
        ],
        className="card side",
    )
    stores = [dcc.Store(id="chosen"), dcc.Store(id="given", data=[]), dcc.Store(id="evidence", data={}),
              dcc.Store(id="accepted-count", data=0)]  # fmt: skip
    return html.Div([head, html.Main([network, aside]), *stores], className="page")


PRESET = {"name": "preset", "fit": True, "padding": 24}


def _legend() -> list[Any]:
    words = {1: "go together", -1: "seldom go together", 0: "some states do"}
    lines = [
        html.Span([html.I(style={"background": COLORS[sign]}), text], className="key") for sign, text in words.items()
    ]
    return [*lines, html.Span("wider: stronger", className="quiet")]


def _evidence(subject: Subject) -> list[Any]:
    if subject.asker is None:
        words = (
            "Evidence is not offered for linked tables: what is believed of a row rests on the rows that it is "
            "linked with. Start the explorer with the tables, and look at an entity under Rows."
        )
        return [html.P(words, className="quiet")]
    return [
        html.Div(
            [
                dcc.Dropdown([], id="give", placeholder="Set a variable \u2026", className="find"),
                html.Button("Clear", id="clear", className="plain"),
            ],
            className="tools",
        ),
        html.Div(id="given-list", className="given"),
        html.Div(
            [
                html.H3("Beliefs", id="beliefs-title"),
                dcc.Input(
                    id="find-belief", placeholder="name has \u2026", type="text", debounce=0.3, className="filter"
                ),
            ],
            className="row-head",
        ),
        dcc.Loading(html.Div(id="beliefs"), delay_show=400, type="dot", color="#2f6db5"),
    ]


def _rows(subject: Subject, token: str) -> list[Any]:
    rows = subject.rows
    if rows is None:
        return [
            html.P(
                "No data were given. To look at rows, fill their gaps and download the completed table:",
                className="quiet",
            ),
            html.Pre(f"sparsefield explore {subject.name} data.csv"),
        ]
    names = list(rows.tables)
    first = names[0]
    start = min((min(missing) for missing in rows.tables[first].missing_rows.values() if missing), default=0)
    table = dcc.Dropdown(
        [{"label": name, "value": name} for name in names], first, id="table", clearable=False, searchable=False
    )
    return [
        html.Label(["Table", table], className="table") if first else html.Div(table, hidden=True),
        html.Div(
            [
                dcc.Dropdown(
                    [{"label": rows.row_name(first, start), "value": start}],
                    start,
                    id="row",
                    clearable=False,
                    className="find",
                ),
                html.Button("\u2039", id="earlier", className="plain", title="the row before"),
                html.Button("\u203a", id="later", className="plain", title="the row after"),
                html.A(
                    "Download",
                    id="download",
                    href=f"/{token}/completed/0.csv",
                    className="plain",
                    title="The table with what was accepted, as CSV",
                ),
            ],
            className="tools",
        ),
        dcc.Loading(html.Div(id="row-view"), delay_show=400, type="dot", color="#2f6db5"),
        html.Div(id="accepted-list"),
    ]
