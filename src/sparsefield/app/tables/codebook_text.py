"""This module writes a codebook as text: a table for a terminal or a notebook, and sentences that summarize it."""

from __future__ import annotations

from collections.abc import Sequence

from sparsefield.app.pages.short_names import cut, shorten
from sparsefield.app.tables.codebook_contents import CodebookContents, columns_in_order
from sparsefield.app.tables.column_entries import ColumnEntry

HEADINGS = ("column", "kind", "values", "missing", "findings")
MOST_COLUMNS = 30
"""Number of columns that are shown; with more, those that have findings come first."""

NAME_LENGTH, VALUES_LENGTH, FINDINGS_LENGTH = 28, 44, 90


def summarize_size(book: CodebookContents) -> str:
    """Return the numbers of rows and of columns by kind, and the share of missing cells, as a sentence."""
    parts = [f"{count:,} {kind}" for kind, count in book.kinds.items()]
    parts += [f"{len(book.left_out):,} left out"] if book.left_out else []
    rows, columns = _plural(book.n_rows, "row"), _plural(len(book), "column")
    return f"{rows}, {columns} ({', '.join(parts)}), {book.missing_share:.1%} of the cells missing."


def summarize_findings(book: CodebookContents) -> str:
    """Return how many columns have findings, and how many rows repeat others, as a sentence; empty if none."""
    found = len(book.with_findings)
    parts = [f"{_plural(found, 'column')} {'has' if found == 1 else 'have'} findings"] if found else []
    repeats = book.duplicate_rows
    parts += [f"{_plural(repeats, 'row')} {'repeats' if repeats == 1 else 'repeat'} an earlier one"] if repeats else []
    return "; ".join(parts) + "." if parts else ""


def shown_columns(book: CodebookContents, all_columns: bool = False) -> Sequence[ColumnEntry]:
    """Return the columns to show: all if they are few, else those with findings first, and not more than fit."""
    if all_columns or len(book) <= MOST_COLUMNS:
        return book.columns
    return columns_in_order(book)[:MOST_COLUMNS]


def table_row(entry: ColumnEntry) -> tuple[str, ...]:
    """Return the cells of a column for the headings."""
    kind = f"({entry.kind})" if entry.left_out else entry.kind
    values = cut(entry.describe_values(), VALUES_LENGTH)
    return shorten(entry.name, NAME_LENGTH), kind, values, f"{entry.missing_share:.1%}", describe_findings(entry)


def describe_findings(entry: ColumnEntry) -> str:
    """Return the findings of a column in one line."""
    return "; ".join(f"{finding.type}: {finding.text}" for finding in entry.findings)


def describe_hidden(book: CodebookContents, shown: Sequence[ColumnEntry]) -> str:
    """Return how many columns are not shown; empty if all are."""
    rest = len(book) - len(shown)
    more = len(book.with_findings) - sum(bool(entry.findings) for entry in shown)
    if not rest:
        return ""
    return f"{_plural(rest, 'column')} not shown, " + (
        f"{more:,} of them with findings" if more else "without findings"
    )


def render_text(book: CodebookContents) -> str:
    """Return the codebook as plain text."""
    shown = shown_columns(book)
    rows = [HEADINGS, *(table_row(entry) for entry in shown)]
    rows = [(*row[:-1], cut(row[-1], FINDINGS_LENGTH)) for row in rows]
    widths = [max(len(row[k]) for row in rows) for k in range(len(HEADINGS))]
    lines = [book.source, summarize_size(book), summarize_findings(book), ""]
    lines += ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    hidden = describe_hidden(book, shown)
    lines += ["", f"{hidden}: see .columns."] if hidden else []
    lines += ["", *(f"- {one}" for one in book.advice)] if book.advice else []
    return "\n".join(line for k, line in enumerate(lines) if line or k > 2)


def _plural(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")
