"""A path of falling l1: quality and size of its fields, as words, a picture and a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from reproduction.panels import Curve, Panel, Post, Spot, draw_panels
from sparsefield.solver.model_selection import PATIENCE
from sparsefield.viz.html_page import Figure, make_page
from sparsefield.viz.svg import GREY, ORANGE

__all__ = ["HEADINGS", "draw_path", "make_path_page", "name_score", "tell_path", "tell_row"]

Row = Mapping[str, Any]
"""l1, features, score, error, chosen."""

SCORES = {"heldout": "held-out log-likelihood", "ebic": "minus EBIC"}
HEADINGS = ("l1", "features", "score", "error")


def name_score(selection: str) -> str:
    """What scores are."""
    return SCORES[selection]


def tell_path(rows: Sequence[Row], selection: str) -> list[str]:
    """Which l1 is chosen, why, and which scores best, in sentences.

    Examples
    --------
    >>> row = {"l1": 2.0, "features": 3, "score": -1.5, "error": 0.1, "chosen": True}
    >>> tell_path([row], "heldout")[0]
    'Chosen: l1 = 2, with 3 features and a score of -1.500 (standard error 0.100).'
    """
    chosen, best = _chosen(rows), _best(rows)
    lines = [f"Chosen: {_describe(chosen)}."]
    if best is chosen:
        lines.append("No other value scores better.")
        return lines
    lines.append(f"Best score: {_describe(best)}.")
    if selection == "heldout" and best["l1"] < chosen["l1"]:
        lines.append(
            "The chosen one is the sparsest whose score is within one standard error of the best, the error being that "
            "of the difference between the two on the same cells."
        )
    if _is_late(rows):
        lines.append(f"A fit does not get to the best one: it stops after {PATIENCE} worse scores in a row.")
    return lines


def tell_row(row: Row) -> tuple[str, str, str, str]:
    """A row in figures, as `HEADINGS` has them."""
    error = "" if math.isnan(row["error"]) else f"{row['error']:.3f}"
    return f"{row['l1']:.4g}", f"{row['features']:,}", f"{row['score']:,.3f}", error


def draw_path(rows: Sequence[Row], selection: str, title: str) -> str:
    """Score and number of features against l1, as an SVG document."""
    chosen, best = _chosen(rows), _best(rows)
    posts, words = [Post("chosen", chosen["l1"], color=ORANGE)], f"Chosen: {_shortly(chosen)}."
    if best is not chosen:
        posts.append(Post("best score", best["l1"], dashed=True, color=GREY))
        words += f" Best score: {_shortly(best)}."
    scores = [Spot(row["l1"], row["score"], row["error"]) for row in rows]
    sizes = [Spot(row["l1"], row["features"]) for row in rows]
    panels = [
        Panel("Quality", "l1", name_score(selection), [Curve("field", scores)], log_x=True, posts=posts),
        Panel("Size", "l1", "features", [Curve("field", sizes)], log_x=True, posts=posts),
    ]
    return draw_panels(title, panels, words=words, columns=2)


def make_path_page(rows: Sequence[Row], selection: str, title: str) -> str:
    """The picture, the words and all figures, as an HTML document."""
    note = (
        f"Score: {name_score(selection)}, the higher the better. Features: of two columns and more. l1 is that of all "
        "rows, also where fewer were learned from."
    )
    picture = Figure(
        draw_path(rows, selection, title),
        "From the smallest l1 that selects nothing (right) to a hundredth of it (left). Bars are standard errors; "
        "where there are none, the score is one number.",
    )
    return make_page(
        title=title,
        lead=tell_path(rows, selection),
        head=HEADINGS,
        rows=[tell_row(row) for row in rows],
        best=[[bool(row["chosen"])] * len(HEADINGS) for row in rows],
        note=note,
        figures=[picture],
    )


def _shortly(row: Row) -> str:
    return f"l1 = {tell_row(row)[0]} ({_count(row)})"


def _count(row: Row) -> str:
    return f"{row['features']:,} feature{'' if row['features'] == 1 else 's'}"


def _describe(row: Row) -> str:
    l1, _, score, error = tell_row(row)
    count, sure = _count(row), f" (standard error {error})" if error else ""
    return f"l1 = {l1}, with {count} and a score of {score}{sure}"


def _chosen(rows: Sequence[Row]) -> Row:
    return next(row for row in rows if row["chosen"])


def _best(rows: Sequence[Row]) -> Row:
    return max(rows, key=lambda row: row["score"])


def _is_late(rows: Sequence[Row]) -> bool:
    """Whether the best stands behind several worse ones in a row, which end a fit's own search."""
    best, worse = -math.inf, 0
    for row in rows:
        best, worse = (row["score"], 0) if row["score"] > best else (best, worse + 1)
        if worse >= PATIENCE:
            return _best(rows)["score"] > best
    return False
