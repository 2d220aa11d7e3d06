"""One HTML page that holds everything: text, a table and pictures, nothing from the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Figure", "make_page"]

STYLE = """
:root { color-scheme: light; }
body { margin: 0; background: #f6f7f9; color: #1f2430;
       font: 16px/1.55 Inter, "Segoe UI", "Helvetica Neue", Helvetica, Arial, sans-serif; }
main { max-width: 900px; margin: 0 auto; padding: 48px 20px 72px; }
h1 { font-size: 30px; line-height: 1.2; margin: 0 0 12px; letter-spacing: -0.01em; }
p { max-width: 70ch; }
ul { padding-left: 1.2em; } li { margin: 4px 0; }
figure { margin: 40px 0 0; } figure svg { display: block; width: 100%; height: auto; }
figcaption, .note { color: #475467; font-size: 14.5px; margin: 10px 0 0; max-width: 80ch; }
.card { background: #fff; border: 1px solid #e4e7ec; border-radius: 10px; padding: 12px 24px;
        overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { font-weight: 600; color: #475467; font-size: 14px; }
th, td { padding: 8px 10px; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
tbody tr { border-top: 1px solid #e4e7ec; } td.best { font-weight: 700; color: #0072b2; }
"""


@dataclass(frozen=True)
class Figure:
    """An SVG picture and the words below it."""

    svg: str
    caption: str


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
    """An HTML document.

    Parameters
    ----------
    title : str
    lead : sequence of str
        Sentences that come first, as a list.
    head, rows : the table's column names, and its cells
    best : which cells of ``rows`` stand out
    note : str
        Stands below the table.
    figures : sequence of Figure
    """
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in lead)
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(_row(cells, marks) for cells, marks in zip(rows, best, strict=True))
    pictures = "".join(
        f"<figure>{figure.svg}<figcaption>{escape(figure.caption)}</figcaption></figure>" for figure in figures
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body><main><h1>{escape(title)}</h1>"
        f'<ul>{items}</ul>\n<div class="card"><table><thead><tr>{names}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
        f'<p class="note">{escape(note)}</p>\n{pictures}</main></body></html>\n'
    )


def _row(cells: Sequence[str], marks: Sequence[bool]) -> str:
    written = (
        f'<td class="best">{escape(cell)}</td>' if mark else f"<td>{escape(cell)}</td>"
        for cell, mark in zip(cells, marks, strict=True)
    )
    return f"<tr>{''.join(written)}</tr>"
