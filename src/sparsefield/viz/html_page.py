"""This module writes a self-contained HTML page with sentences, one table and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from sparsefield.viz.markup import TableCell, asset, document, paragraph, render_bullets, render_figure, render_table

__all__ = ["Figure", "make_page"]


@dataclass(frozen=True)
class Figure:
    """An SVG picture with its caption."""

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
    """Return an HTML document.

    Parameters
    ----------
    title : str
    lead : sequence of str
        Sentences at the top of the page.
    head, rows : sequences of str
        Column names and cells of the table.
    best : sequence of sequences of bool
        Which cells of ``rows`` are highlighted.
    note : str
        Text below the table.
    figures : sequence of Figure
    """
    cells = [
        [TableCell(text, _cell_kind(k, mark)) for k, (text, mark) in enumerate(zip(texts, marks, strict=True))]
        for texts, marks in zip(rows, best, strict=True)
    ]
    body = [
        f"<h1>{escape(title)}</h1>",
        render_bullets([escape(sentence) for sentence in lead]),
        render_table(head, cells),
        paragraph(note, "note"),
        *(render_figure(figure.svg, figure.caption) for figure in figures),
    ]
    return document(title, f"<main>{''.join(body)}</main>", style=asset("page.css"), scripts=[])


def _cell_kind(column: int, highlighted: bool) -> str:
    return ("text" if column == 0 else "number") + (" best" if highlighted else "")
