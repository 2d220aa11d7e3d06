"""This module renders how well each column is predicted, beside its distribution."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sparsefield.analysis.calibration import ColumnScore
from sparsefield.app.pages.html_page import TableCell, paragraph, render_table
from sparsefield.app.pages.small_bars import draw_distribution, draw_share
from sparsefield.data import BinarySchema
from sparsefield.data.schema import Variable
from sparsefield.model import Field

MAX_SCORES = 400
"""Columns of the table."""


def variables_by_name(field: Field) -> dict[str, Variable]:
    """Return the predicted variables by their names as scores have them; none of a very wide table of binary ones."""
    tables = zip(field.layout.tables, field.layout.schemas, strict=True)
    return {
        f"{table}.{variable.name}" if table else variable.name: variable
        for table, schema in tables
        if not isinstance(schema, BinarySchema)
        for variable in schema.targets
    }


def explained_share(score: ColumnScore) -> float:
    """Return the share of the log-likelihood of frequencies that a field explains, at least 0 (McFadden).

    Examples
    --------
    >>> explained_share(ColumnScore("a", 10, -0.3, -0.6, 0.1, 0.2, 0.0))
    0.5
    """
    if score.marginal_cll >= 0:
        return 0.0
    return max(0.0, 1.0 - score.cll / score.marginal_cll)


def render_columns(scores: Sequence[ColumnScore], numbers: Collection[str], variables: Mapping[str, Variable]) -> str:
    """Return the table of columns, those with the largest gain first."""
    ranked = sorted(scores, key=lambda score: (-score.gain.value, score.name))
    rows = [_row(score, numbers, variables.get(score.name)) for score in ranked[:MAX_SCORES]]
    heads = [
        "column", "distribution", "explained", "", "gain", "log-likelihood", "of frequencies", "error rate",
        "of frequencies", "values",
    ]  # fmt: skip
    more = len(ranked) - len(rows)
    text = (
        "By column: its distribution in training; the share of the log-likelihood of its frequencies that the other "
        "columns explain (1 is perfect prediction, 0 none; McFadden); the mean log-likelihood of the true state given "
        "all other columns, that of the frequencies, and the difference, which is the gain."
        + (f" {more:,} columns with a smaller gain are not listed." if more else "")
    )
    table = render_table(heads, rows, text=(0, 1), sortable=True, pictures=(1,), name="columns")
    return f'<div id="columns">{paragraph(text, "note")}{table}</div>'


def _row(score: ColumnScore, numbers: Collection[str], variable: Variable | None) -> list[TableCell]:
    explained = explained_share(score)
    drawn = draw_distribution(variable) if variable is not None and variable.frequencies else ""
    has_errors = score.name not in numbers
    return [
        TableCell(score.name, "text"),
        TableCell(kind="text small", markup=drawn),
        TableCell.number(explained, ".1%"),
        TableCell(markup=draw_share(explained, f"{explained:.1%} explained"), value=explained),
        TableCell.number(score.gain.value, ".3f"),
        TableCell.number(score.cll, ".3f"),
        TableCell.number(score.marginal_cll, ".3f"),
        TableCell.number(score.error_rate, ".1%") if has_errors else TableCell(),
        TableCell.number(score.marginal_error_rate, ".1%") if has_errors else TableCell(),
        TableCell(f"{score.cells:,}", value=float(score.cells)),
    ]
