"""What happens on a click: thin, since all that is shown is computed elsewhere."""

from __future__ import annotations

from typing import Any

from dash import ALL, Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.exceptions import PreventUpdate

from sparsefield.errors import DataError
from sparsefield.viz.explorer import page_elements
from sparsefield.viz.explorer.cytoscape_elements import elements, stylesheet
from sparsefield.viz.explorer.session import Subject

__all__ = ["NODES", "register"]

NODES = (15, 25, 40, 60)
"""How many variables one picture may have: beyond some dozens nobody reads it."""

OPTIONS = 30
"""Names that a list to choose from has at most; typing narrows it down."""

BELIEFS = 30


def register(app: Dash, subject: Subject) -> None:
    """Tie the page to the subject."""
    _choosing(app, subject)
    _network(app, subject)
    _evidence(app, subject)
    _rows(app, subject)


def _clicked() -> Any:
    """The id of what was clicked; a button that has only just appeared was not."""
    if not ctx.triggered or not ctx.triggered[0]["value"]:
        raise PreventUpdate
    return ctx.triggered_id


def _options(subject: Subject, words: str | None, *, skip: Any = ()) -> list[dict[str, Any]]:
    skip = set(skip)
    found = subject.network.find(words or "", OPTIONS + len(skip))
    return [{"label": subject.network.labels[k], "value": k} for k in found if k not in skip][:OPTIONS]


def _choosing(app: Dash, subject: Subject) -> None:
    @app.callback(Output("find", "options"), Input("find", "search_value"))
    def find(words: str | None) -> Any:
        return _options(subject, words)

    @app.callback(
        Output("chosen", "data"),
        Output("tab", "value"),
        Output("find", "value"),
        Input("find", "value"),
        Input("network", "tapNodeData"),
        Input({"type": "go", "number": ALL, "place": ALL}, "n_clicks"),
        Input("overview", "n_clicks"),
        prevent_initial_call=True,
    )
    def choose(found: int | None, tapped: dict | None, _: Any, __: Any) -> Any:
        if ctx.triggered_id == "find":
            if found is None:
                raise PreventUpdate
            return found, "variable", None
        what = _clicked()
        if what == "overview":
            return None, no_update, no_update
        number = what["number"] if tapped is None or what != "network" else int(tapped["id"])
        return number, "variable", no_update

    @app.callback(Output("variable-panel", "children"), Input("chosen", "data"), prevent_initial_call=True)
    def show_variable(chosen: int | None) -> Any:
        if chosen is None:
            return html.P("The strongest links of the field. Click a variable to see its neighbors.", className="quiet")
        return page_elements.variable_panel(subject.network, chosen, can_give=subject.asker is not None)

    names = ("variable", "evidence", "rows")

    @app.callback(*(Output(f"{name}-panel", "hidden") for name in names), Input("tab", "value"))
    def turn(tab: str) -> Any:
        return tuple(name != tab for name in names)


def _network(app: Dash, subject: Subject) -> None:
    @app.callback(
        Output("network", "elements"),
        Output("left-out", "children"),
        Input("chosen", "data"),
        Input("limit", "value"),
        Input("given", "data"),
    )
    def draw(chosen: int | None, limit: int, given: list[int]) -> Any:
        # Without a chosen variable the picture is about the evidence, if there is any.
        about = [chosen] if chosen is not None else given
        part = subject.network.around(about, limit) if about else subject.network.strongest(limit)
        words = f"{part.left_out:,} {'weaker neighbors' if about else 'variables'} not shown" if part.left_out else ""
        return elements(subject.network, part, about), words

    @app.callback(
        Output("network", "stylesheet"), Input("evidence", "data"), Input("method", "value"), State("given", "data")
    )
    def tint(evidence: dict[str, Any], method: str, given: list[int]) -> Any:
        if subject.asker is None or not evidence:
            return stylesheet(given)
        found, _ = subject.changes(_numbered(evidence), method)
        return stylesheet(map(int, evidence), subject.moved(found))


def _numbered(evidence: dict[str, Any]) -> dict[int, Any]:
    """Keys of JSON are text."""
    return {int(node): value for node, value in evidence.items()}


def _evidence(app: Dash, subject: Subject) -> None:
    if subject.asker is None:
        return

    @app.callback(Output("give", "options"), Input("give", "search_value"), Input("given", "data"))
    def find(words: str | None, given: list[int]) -> Any:
        return _options(subject, words, skip=given)

    @app.callback(
        Output("given", "data"),
        Output("give", "value"),
        Output("tab", "value", allow_duplicate=True),
        Input("give", "value"),
        Input({"type": "give", "number": ALL}, "n_clicks"),
        Input({"type": "drop", "number": ALL}, "n_clicks"),
        Input("clear", "n_clicks"),
        State("given", "data"),
        prevent_initial_call=True,
    )
    def give(wanted: int | None, _: Any, __: Any, ___: Any, given: list[int]) -> Any:
        if ctx.triggered_id == "give":
            if wanted is None:
                raise PreventUpdate
            return list(dict.fromkeys([*given, wanted])), None, no_update
        what = _clicked()
        if what == "clear":
            return [], None, no_update
        number = what["number"]
        if what["type"] == "give":
            return list(dict.fromkeys([*given, number])), no_update, "evidence"
        return [k for k in given if k != number], no_update, no_update

    @app.callback(Output("given-list", "children"), Input("given", "data"), State("evidence", "data"))
    def show_given(given: list[int], evidence: dict[str, Any]) -> Any:
        if not given:
            return html.P(
                "Set variables to see how everything else moves. Nothing is set: these are the beliefs without "
                "evidence.",
                className="quiet",
            )
        words = "In the network, blue boxes become likelier and orange ones less likely; dark ones are set."
        return [*(_setter(subject, k, evidence.get(str(k))) for k in given), html.P(words, className="quiet hint")]

    @app.callback(Output("evidence", "data"), Input({"type": "state", "number": ALL}, "value"), Input("given", "data"))
    def set_states(values: list[Any], given: list[int]) -> Any:
        set_now = {one["id"]["number"]: value for one, value in zip(ctx.inputs_list[0], values, strict=True)}
        return {str(k): set_now[k] for k in given if set_now.get(k) is not None}

    @app.callback(
        Output("beliefs", "children"),
        Output("beliefs-title", "children"),
        Input("evidence", "data"),
        Input("method", "value"),
        Input("find-belief", "value"),
    )
    def show_beliefs(evidence: dict[str, Any], method: str, words: str | None) -> Any:
        found, notes = subject.changes(_numbered(evidence), method)
        if words:
            found = [change for change in found if words.strip().lower() in change.name.lower()]
        title = "What moves most" if evidence else "Beliefs"
        return [*page_elements.notes_list(notes), *page_elements.beliefs_list(subject.network, found, BELIEFS)], title


def _setter(subject: Subject, number: int, value: Any) -> html.Div:
    """A line of evidence: the variable, its state, and a way to let go of it."""
    variable = subject.network.variable(number)
    identity = {"type": "state", "number": number}
    if variable.numeric:
        chooser: Any = dcc.Input(
            id=identity, value=value, type="number", step="any", placeholder="a number", debounce=0.4
        )
    else:
        options = [{"label": str(state), "value": k} for k, state in enumerate(variable.states)]
        chooser = dcc.Dropdown(options, value, id=identity, placeholder="choose a state \u2026", clearable=False)
    drop = html.Button("\u00d7", id={"type": "drop", "number": number}, className="plain small", title="Let go of it")
    return html.Div(
        [html.Span(variable.name, className="name", title=variable.name), chooser, drop], className="setter"
    )


def _rows(app: Dash, subject: Subject) -> None:
    rows = subject.rows
    if rows is None:
        return
    prefix = app.config.requests_pathname_prefix

    @app.callback(
        Output("row", "options"), Input("row", "search_value"), Input("row", "value"), Input("table", "value")
    )
    def find(words: str | None, row: int, table: str) -> Any:
        found = rows.find(table, words or "", OPTIONS)
        # What is chosen stays among the options, or it would vanish.
        return [{"label": rows.row_name(table, k), "value": k} for k in dict.fromkeys([*found, row])
                if k < rows.tables[table].n_rows]  # fmt: skip

    @app.callback(
        Output("row", "value"),
        Output("download", "href"),
        Input("earlier", "n_clicks"),
        Input("later", "n_clicks"),
        Input("table", "value"),
        State("row", "value"),
        prevent_initial_call=True,
    )
    def step(_: Any, __: Any, table: str, row: int) -> Any:
        if ctx.triggered_id == "table":
            return 0, f"{prefix}completed/{list(rows.tables).index(table)}.csv"
        row += 1 if ctx.triggered_id == "later" else -1
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
            return html.P("This table has no rows.", className="quiet")
        if row >= rows.tables[table].n_rows:  # of the table before; the next one is on its way
            raise PreventUpdate
        try:
            with subject.lock:
                return page_elements.row_panel(table, row, rows.look(table, row, method))
        except DataError as error:
            return page_elements.notes_list([str(error)])

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
        what = _clicked()
        table, row = what["table"], what["row"]
        with subject.lock:
            if what["type"] == "undo":
                rows.undo(table, row, what["name"])
            elif what["type"] == "accept":
                rows.accept(table, row, [what["name"]], method)
            else:
                rows.accept(table, row, None, method)
        return count + 1

    @app.callback(Output("accepted-list", "children"), Input("accepted-count", "data"))
    def show_accepted(_: int) -> Any:
        with subject.lock:
            return page_elements.accepted_list(rows)
