"""This module has the small pieces that all panels of the page are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from sparsefield.data.number_text import write_number

MAX_STATES, MAX_VALUES, MAX_MISSING, MAX_NEIGHBORS = 6, 25, 40, 30
MAX_ORDERED = 16
"""States of an ordinal variable that are listed, in their order."""


def quiet(text: str) -> html.P:
    """Return a remark in gray."""
    return html.P(text, className="quiet")


def warnings_list(lines: Sequence[str]) -> list[Any]:
    """Return the library's warnings."""
    return [html.P(line, className="note") for line in lines]


def text_piece(text: str, kind: str) -> html.Span:
    """Return a text of a kind that the style sheet knows."""
    return html.Span(text, className=kind)


def small_button(text: str, action: str, table: str, row: int, **more: str) -> html.Button:
    """Return a button that does something with a row."""
    return html.Button(text, id={"type": action, "table": table, "row": row, **more}, className="plain small")


def link(name: str, node: int, place: str) -> html.Button:
    """Return a button that selects a variable."""
    return html.Button(name, id={"type": "select", "node": node, "place": place}, className="link")


def write_percent(share: float) -> str:
    """Return a share in percent, with a decimal near 0 and 1."""
    return f"{100 * share:.0f}%" if 0.1 <= share <= 0.9 else f"{100 * share:.1f}%"


def write_value(value: Any, dtype: str = "") -> str:
    """Return a value of a cell; a number of days as a date where the column has dates."""
    if value is None:
        return "missing"
    if isinstance(value, float) or (dtype and isinstance(value, int)):
        return write_number(float(value), dtype=dtype)
    return str(value)


def more_items(number: int, kind: str) -> list[Any]:
    """Return a remark on items that are not listed."""
    return [quiet(f"and {number:,} more {kind}")] if number > 0 else []
