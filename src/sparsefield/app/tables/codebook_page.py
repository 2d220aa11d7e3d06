"""This module writes a codebook as an HTML page that works offline."""

from __future__ import annotations

from html import escape

from sparsefield.app.pages.html_page import TableCell, bullets, document, paragraph, render_table, section
from sparsefield.app.pages.short_names import cut
from sparsefield.app.pages.small_bars import draw_bars
from sparsefield.app.tables.codebook_contents import CodebookContents
from sparsefield.app.tables.codebook_text import describe_findings, summarize_findings, summarize_size
from sparsefield.app.tables.column_entries import ColumnEntry
from sparsefield.text import count

WIDTH, HEIGHT = 150, 34
"""Size of a small distribution, in pixels."""

VALUES_LENGTH = 120
HEADINGS = ("column", "kind", "values", "distribution", "distinct", "missing", "findings")


def make_codebook_page(book: CodebookContents, title: str) -> str:
    """Return the page of a codebook."""
    return document(title, f"<main><h1>{escape(title)}</h1>{render_body(book)}</main>", "tables.js")


def render_body(book: CodebookContents) -> str:
    """Return what the page says about the table: its size, advice, and a row for each column."""
    lead = [line for line in (book.source, summarize_size(book), summarize_findings(book)) if line]
    advice = bullets([f"{escape(one.text)}{_option(one.option)}" for one in book.advice])
    rows = [_row(entry) for entry in book.columns]
    return "".join(
        [
            *(paragraph(line) for line in lead),
            section("advice", "Advice", advice) if advice else "",
            section("columns", "Columns", render_table(HEADINGS, rows, text=(0, 1, 2, 3, 6), sortable=True)),
        ]
    )


def _option(option: str) -> str:
    return f": <code>{escape(option)}</code>" if option else ""


def _row(entry: ColumnEntry) -> list[TableCell]:
    kind = f"{entry.kind}: {entry.reason}" + (f"; left out: {entry.left_out}" if entry.left_out else "")
    return [
        TableCell(entry.name, "text"),
        TableCell(kind, "text"),
        TableCell(cut(entry.describe_values(), VALUES_LENGTH), "text"),
        TableCell(kind="text", markup=draw_levels(entry) or "\u2013"),
        TableCell.number(entry.n_distinct, ",d"),
        TableCell.number(entry.missing_share, ".1%"),
        TableCell(describe_findings(entry), "text", value=float(len(entry.findings))),
    ]


def draw_levels(entry: ColumnEntry) -> str:
    """Return a small SVG with a bar for each level or range; its tooltips have their numbers of rows."""
    if not entry.levels or not entry.n_values:
        return ""
    hints = [f"{level.label}: {count(level.rows, 'row')}" for level in entry.levels]
    heights = [float(level.rows) for level in entry.levels]
    return draw_bars(heights, hints, f"distribution of {entry.name}", width=WIDTH, height=HEIGHT)
