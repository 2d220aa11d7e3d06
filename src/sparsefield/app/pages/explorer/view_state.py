"""This module writes what a page shows as the part of its address after the ``#``, and reads it again.

Browsers never send this part to a server, so that no log of requests contains it. The token is in the path.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

from sparsefield.app.pages.explorer.conditional_beliefs import METHODS
from sparsefield.app.pages.explorer.evidence_sources import UNKNOWN, RowKey, split_key
from sparsefield.app.pages.explorer.pair_table import edge_between
from sparsefield.app.pages.explorer.session import Session
from sparsefield.data.schema import Variable

TABS = ("variable", "evidence", "rows")
DEFAULT_METHOD = next(iter(METHODS))


@dataclass(frozen=True)
class ViewState:
    """What a page shows."""

    tab: str = "variable"
    chosen: int | None = None
    """Node of the chosen variable."""
    community: int | None = None
    edge: int | None = None
    """Number of the edge whose pair of columns is shown."""
    method: str = DEFAULT_METHOD
    evidence: dict[str, Any] = field(default_factory=dict)
    """{key of a cell: position of its state, or number; None where no value is chosen}"""
    entity: RowKey | None = None
    """RowKey whose cells are set, for linked tables."""
    row: RowKey | None = None
    """Row that is shown under Rows."""


def write_view(session: Session, view: ViewState) -> str:
    """Return a view as text: names of columns and states, which mean the same in another session."""
    labels, parts = session.network.labels, []
    if view.tab != TABS[0]:
        parts.append(("tab", view.tab))
    if view.chosen is not None:
        parts.append(("column", labels[view.chosen]))
    if view.community is not None:
        parts.append(("community", str(view.community + 1)))
    if view.edge is not None:
        one, two = session.network.edge(view.edge).ends
        parts += [("pair", labels[one]), ("pair", labels[two])]
    if view.method != DEFAULT_METHOD:
        parts.append(("inference", view.method))
    parts += [("entity", _write_entity(view.entity))] if view.entity else []
    parts += [("row", _write_entity(view.row))] if view.row else []
    if session.evidence is not None:
        for key, value in view.evidence.items():
            variable = session.evidence.variable(key)
            if variable is not None and value is not None:
                parts.append((f"set.{_write_key(session, key)}", _write_value(variable, value)))
    return urlencode(parts)


def read_view(session: Session, text: str) -> ViewState:
    """Return the view of an address; what the model or the data do not have is left out."""
    parts = parse_qsl(text.removeprefix("#"), keep_blank_values=True)
    first = dict(reversed(parts))
    network = session.network
    number = {label: k for k, label in enumerate(network.labels)} if parts else {}
    pair = [value for name, value in parts if name == "pair"]
    edge = edge_between(network, *pair) if len(pair) == 2 else None
    community = int(first["community"]) - 1 if first.get("community", "").isdecimal() else None
    if community is not None and (session.bubbles is None or not 0 <= community < len(session.bubbles.members)):
        community = None
    tab, method = first.get("tab", TABS[0]), first.get("inference", DEFAULT_METHOD)
    return ViewState(
        tab=tab if tab in TABS else TABS[0],
        chosen=number.get(first.get("column", "")),
        community=community,
        edge=edge,
        method=method if method in METHODS else DEFAULT_METHOD,
        evidence=_read_evidence(session, parts, number),
        entity=_read_entity(session, first.get("entity", "")),
        row=_read_entity(session, first.get("row", "")),
    )


def _read_evidence(session: Session, parts: list[tuple[str, str]], number: dict[str, int]) -> dict[str, Any]:
    source, found = session.evidence, {}
    if source is None:
        return found
    for name, value in parts:
        if not name.startswith("set."):
            continue
        name = name.removeprefix("set.")
        key = _read_key(name) if source.can_unset else str(number.get(name, ""))
        variable = source.variable(key) if key else None
        state = None if variable is None else _read_value(variable, value, source.can_unset)
        if state is not None:
            found[key] = state
    return found


def _write_key(session: Session, key: str) -> str:
    assert session.evidence is not None
    if not session.evidence.can_unset:
        return session.evidence.label(key)
    table, row, name = key.split("/", 2)
    return f"{table}/{int(row) + 1}/{name}"


def _read_key(text: str) -> str:
    """Return the key of a cell of linked tables, whose rows are counted from 1 in addresses; empty if it is none."""
    parts = text.split("/", 2)
    if len(parts) < 3 or not parts[1].isdecimal():
        return ""
    key = f"{parts[0]}/{int(parts[1]) - 1}/{parts[2]}"
    return key if split_key(key)[0].row >= 0 else ""


def _write_value(variable: Variable, value: Any) -> str:
    return str(value) if variable.numeric or value == UNKNOWN else str(variable.states[int(value)])


def _read_value(variable: Variable, text: str, can_unset: bool) -> Any:
    if can_unset and text == UNKNOWN:
        return UNKNOWN
    if variable.numeric:
        return text or None
    return next((k for k, state in enumerate(variable.states) if str(state) == text), None)


def _write_entity(entity: RowKey) -> str:
    return f"{entity.table}/{entity.row + 1}" if entity.table else str(entity.row + 1)


def _read_entity(session: Session, text: str) -> RowKey | None:
    table, _, row = text.rpartition("/")
    rows = session.rows
    if rows is None or table not in rows.tables or not row.isdecimal():
        return None
    return RowKey(table, int(row) - 1) if 1 <= int(row) <= rows.tables[table].n_rows else None
