"""This module writes self-contained HTML pages; texts are escaped here, and only here is markup built from data."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from sparsefield.app.pages.palette import figure_style, style_variables

NONE = '"none"'


@dataclass(frozen=True)
class TableCell:
    """A cell of a table: text, or ready ``markup``; ``value`` is the key for sorting."""

    text: str = ""
    kind: str = "number"
    value: float | None = None
    markup: str = ""

    @classmethod
    def number(cls, value: float, form: str = ".2f", kind: str = "number") -> TableCell:
        """Return a cell with a formatted number, which is also the key for sorting."""
        return cls(f"{value:{form}}".replace("-", "\u2212"), kind, value)

    def render(self) -> str:
        """Return the cell as HTML."""
        value = "" if self.value is None else f' data-value="{self.value:.6g}"'
        return f'<td class="{self.kind}"{value}>{self.markup or escape(self.text)}</td>'


@dataclass(frozen=True)
class Figure:
    """An SVG picture with its caption."""

    svg: str
    caption: str


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph of text; the kind "absent" explains why a part of the page is absent."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def bullets(lines: Sequence[str]) -> str:
    """Return a list; its lines are markup."""
    return f'<ul class="text">{"".join(f"<li>{line}</li>" for line in lines)}</ul>' if lines else ""


def render_figure(svg: str, caption: str) -> str:
    """Return a picture with its caption."""
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def section(name: str, title: str, *parts: str) -> str:
    """Return a section with its heading; empty parts are omitted."""
    return f'<section id="{name}"><h2>{escape(title)}</h2>\n' + "\n".join(filter(None, parts)) + "</section>\n"


def fold(name: str, title: str, *parts: str) -> str:
    """Return parts that are folded until the reader opens them."""
    return f'<details id="{name}"><summary>{escape(title)}</summary>\n' + "".join(parts) + "</details>\n"


def render_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[TableCell]],
    *,
    text: Sequence[int] = (0,),
    sortable: bool = False,
    pictures: Sequence[int] = (),
    name: str = "",
) -> str:
    """Return a table whose columns ``text`` hold text; a script makes the heads of a ``sortable`` one buttons.

    Columns of ``pictures`` cannot be sorted. A table with a ``name`` can be downloaded as a CSV file of that name.
    """

    def head(k: int, title: str) -> str:
        is_button = sortable and title and k not in pictures
        inside = f'<button type="button">{escape(title)}</button>' if is_button else escape(title)
        kind = ' class="text"' if k in text else ""
        return f'<th scope="col"{kind}{" aria-sort=" + NONE if is_button else ""}>{inside}</th>'

    names = "".join(head(k, title) for k, title in enumerate(heads))
    body = "".join(f"<tr>{''.join(cell.render() for cell in row)}</tr>\n" for row in rows)
    kinds = "card tall" if len(rows) > 20 else "card"
    attribute = (' class="sortable"' if sortable else "") + (f' data-name="{escape(name)}"' if name else "")
    table = f"<table{attribute}><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="table"><div class="{kinds}">{table}</div></div>'


def make_page(
    *,
    title: str,
    lead: Sequence[str],
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    best: Sequence[Sequence[bool]],
    note: str,
    figures: Sequence[Figure],
) -> str:
    """Return an HTML document with the sentences ``lead``, one table, a note on it, and pictures.

    The table has the column names ``head`` and the cells ``rows``, of which ``best`` marks those to highlight.
    """

    def cell(column: int, text: str, highlighted: bool) -> TableCell:
        return TableCell(text, ("text" if column == 0 else "number") + (" best" if highlighted else ""))

    cells = [
        [cell(k, text, mark) for k, (text, mark) in enumerate(zip(texts, marks, strict=True))]
        for texts, marks in zip(rows, best, strict=True)
    ]
    body = [
        f"<h1>{escape(title)}</h1>",
        bullets([escape(sentence) for sentence in lead]),
        render_table(head, cells),
        paragraph(note, "note"),
        *(render_figure(figure.svg, figure.caption) for figure in figures),
    ]
    return document(title, f"<main>{''.join(body)}</main>")


def document(title: str, body: str, *scripts: str, kind: str = "") -> str:
    """Return a whole page, whose policy allows only the style and the named scripts of this package."""
    style, codes = base_style() + _asset("page.css"), [_asset(name) for name in ("theme.js", *scripts)]
    allowed = " ".join(map(_digest, codes))
    policy = (
        f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src {_digest(style)}; script-src {allowed}"
    )
    ending = "".join(f"<script>{code}</script>\n" for code in codes)
    attribute = f' class="{kind}"' if kind else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{escape(title)}</title><style>{style}</style></head>\n"
        f"<body{attribute}>{body}\n{ending}</body></html>\n"
    )


def base_style() -> str:
    """Return the style sheet that all pages share: colors for light and dark pages, fonts, buttons, cards and keys."""
    return style_variables() + figure_style() + _asset("base.css")


def _asset(name: str) -> str:
    return (files("sparsefield.app.pages") / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
