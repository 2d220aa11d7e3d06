"""The HTML page of a codebook, which works offline."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path

from sparsefield.app.pages.fit_summary import count
from sparsefield.app.pages.html_page import TableCell, bullets, document, paragraph, render_table, section
from sparsefield.app.pages.short_names import cut
from sparsefield.app.pages.small_bars import draw_bars
from sparsefield.app.tables.codebook import Codebook
from sparsefield.app.tables.column_findings import ColumnEntry
from sparsefield.model.atomic_write import write_atomically

VALUES_LENGTH = 120
HEADINGS = ("column", "kind", "values", "distribution", "distinct", "missing", "findings")


def write_codebook(book: Codebook, path: str | os.PathLike[str], *, title: str = "Codebook") -> None:
    """Write an HTML page that works offline, with a small distribution of every column."""
    lead = [line for line in (book.source, book.describe_size(), book.describe_findings()) if line]
    options = [f": <code>{escape(one.option)}</code>" if one.option else "" for one in book.advice]
    advice = [escape(one.text) + option for one, option in zip(book.advice, options, strict=True)]
    table = render_table(HEADINGS, [_row(entry) for entry in book.columns], text=(0, 1, 2, 3, 6), sortable=True)
    parts = [paragraph(line) for line in lead] + ([section("advice", "Advice", bullets(advice))] if advice else [])
    body = "".join([*parts, section("columns", "Columns", table)])
    page = document(title, f"<main><h1>{escape(title)}</h1>{body}</main>", "tables.js")
    write_atomically(Path(path), page.encode())


def _row(entry: ColumnEntry) -> list[TableCell]:
    kind = f"{entry.kind}: {entry.reason}" + (f"; left out: {entry.left_out}" if entry.left_out else "")
    hints = [f"{level.label}: {count(level.rows, 'row')}" for level in entry.levels]
    bars = draw_bars([float(level.rows) for level in entry.levels], hints, f"distribution of {entry.name}")
    return [
        TableCell(entry.name, "text"),
        TableCell(kind, "text"),
        TableCell(cut(entry.describe_values(), VALUES_LENGTH), "text"),
        TableCell(kind="text", markup=bars if hints and entry.n_values else "\u2013"),
        TableCell.number(entry.n_distinct, ",d"),
        TableCell.number(entry.missing_share, ".1%"),
        TableCell(entry.describe_findings(), "text", value=float(len(entry.findings))),
    ]
