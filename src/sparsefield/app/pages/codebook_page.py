"""The HTML page of a codebook, which works offline."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sparsefield.app.pages.page import render_page
from sparsefield.app.pages.short_names import cut
from sparsefield.app.tables.codebook import Codebook
from sparsefield.app.tables.column_findings import ColumnEntry
from sparsefield.model.atomic_write import write_atomically
from sparsefield.text import count

VALUES_LENGTH = 120


def write_codebook(book: Codebook, path: str | os.PathLike[str], *, title: str = "Codebook") -> None:
    """Write an HTML page that works offline, with a small distribution of every column."""
    lead = [line for line in (book.source, book.describe_size(), book.describe_findings()) if line]
    advice = [(piece.text, piece.option) for piece in book.advice]
    columns = [_describe(entry) for entry in book.columns]
    page = render_page("codebook.html", ("tables.js",), title=title, lead=lead, advice=advice, columns=columns)
    write_atomically(Path(path), page.encode())


def _describe(entry: ColumnEntry) -> dict[str, Any]:
    levels = entry.levels if entry.n_values else ()
    return {
        "name": entry.name,
        "kind": f"{entry.kind}: {entry.reason}" + (f"; left out: {entry.left_out}" if entry.left_out else ""),
        "values": cut(entry.describe_values(), VALUES_LENGTH),
        "bars": [(level.label, level.rows, f"{level.label}: {count(level.rows, 'row')}") for level in levels],
        "distinct": entry.n_distinct,
        "missing": entry.missing_share,
        "findings": entry.describe_findings(),
    }
