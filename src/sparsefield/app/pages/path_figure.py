"""This module shows a regularization path: score and size of the fields along falling l1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sparsefield.app.pages.charts import Curve, CurvePoint, LinePanel, VerticalLine, draw_panels
from sparsefield.app.pages.html_page import Figure, make_page
from sparsefield.app.pages.palette import ORANGE
from sparsefield.solver.model_selection import PATIENCE
from sparsefield.text import count

Row = Mapping[str, Any]
"""l1, features, score, error, selected."""

SCORES = {"heldout": "held-out log-likelihood", "ebic": "minus EBIC"}
HEADINGS = ("l1", "features", "score", "error")


def describe_path(rows: Sequence[Row], criterion: str) -> list[str]:
    """Return sentences on the selected l1, the reason for it, and the best score.

    Examples
    --------
    >>> row = {"l1": 2.0, "features": 3, "score": -1.5, "error": 0.1, "selected": True}
    >>> describe_path([row], "heldout")[0]
    'Selected: l1 = 2, with 3 features and a score of -1.500 (standard error 0.100).'
    """
    chosen, best = _chosen_and_best(rows)
    if best is chosen:
        return [f"Selected: {_describe(chosen)}.", "No other l1 has a better score."]
    lines = [f"Selected: {_describe(chosen)}.", f"Best score: {_describe(best)}."]
    if criterion == "heldout" and best["l1"] < chosen["l1"]:
        lines.append(
            "The selected field is the sparsest whose score is within one standard error of the best; the error is "
            "that of the difference between the two on the same cells."
        )
    if _is_late(rows):
        lines.append(f"A fit does not reach the best score: it stops after {PATIENCE} worse scores in a row.")
    return lines


def format_row(row: Row) -> tuple[str, str, str, str]:
    """Return a row as text, in the order of `HEADINGS`."""
    error = "" if math.isnan(row["error"]) else f"{row['error']:.3f}"
    return f"{row['l1']:.4g}", f"{row['features']:,}", f"{row['score']:,.3f}", error


def draw_path(rows: Sequence[Row], criterion: str, title: str) -> str:
    """Return an SVG document of score and number of features against l1."""
    chosen, best = _chosen_and_best(rows)
    lines, text = [VerticalLine("selected", chosen["l1"], color=ORANGE)], f"Selected: {_short(chosen)}."
    if best is not chosen:
        lines.append(VerticalLine("best score", best["l1"], dashed=True))
        text += f" Best score: {_short(best)}."
    scores = [CurvePoint(row["l1"], row["score"], row["error"]) for row in rows]
    sizes = [CurvePoint(row["l1"], row["features"]) for row in rows]
    panels = [
        LinePanel("Quality", "l1", SCORES[criterion], [Curve("field", scores)], log_x=True, lines=lines),
        LinePanel("Size", "l1", "features", [Curve("field", sizes)], log_x=True, lines=lines),
    ]
    return draw_panels(title, panels, subtitle=text)


def make_path_page(rows: Sequence[Row], criterion: str, title: str) -> str:
    """Return an HTML document with the picture, the sentences and all numbers."""
    note = (
        f"Score: {SCORES[criterion]}; higher is better. Features: those of two or more columns. l1 refers to all "
        "rows, even where folds were learned from fewer."
    )
    picture = Figure(
        draw_path(rows, criterion, title),
        "From the smallest l1 that selects no feature (right) to a hundredth of it (left). Bars are standard errors; "
        "a score without folds has none.",
    )
    return make_page(
        title=title,
        lead=describe_path(rows, criterion),
        head=HEADINGS,
        rows=[format_row(row) for row in rows],
        best=[[bool(row["selected"])] * len(HEADINGS) for row in rows],
        note=note,
        figures=[picture],
    )


def _short(row: Row) -> str:
    return f"l1 = {format_row(row)[0]} ({count(row['features'], 'feature')})"


def _describe(row: Row) -> str:
    l1, _, score, error = format_row(row)
    sure = f" (standard error {error})" if error else ""
    return f"l1 = {l1}, with {count(row['features'], 'feature')} and a score of {score}{sure}"


def _chosen_and_best(rows: Sequence[Row]) -> tuple[Row, Row]:
    return next(row for row in rows if row["selected"]), max(rows, key=lambda row: row["score"])


def _is_late(rows: Sequence[Row]) -> bool:
    """Return whether the best score comes after several worse ones in a row, which end the search of a fit."""
    best, worse = -math.inf, 0
    for row in rows:
        best, worse = (row["score"], 0) if row["score"] > best else (best, worse + 1)
        if worse >= PATIENCE:
            return max(row["score"] for row in rows) > best
    return False
