"""This module renders the section of a report on how central columns are, and how well they are predicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sparsefield.app.pages.axes import Scale, fit_scale
from sparsefield.app.pages.html_page import TableCell, paragraph, render_figure, render_table, section
from sparsefield.app.pages.palette import BLUE, GREY, ORANGE, PALE
from sparsefield.app.pages.report.data_sections import NO_DATA
from sparsefield.app.pages.svg import Drawing
from sparsefield.text import count

if TYPE_CHECKING:
    from sparsefield.analysis.centrality import Centrality
    from sparsefield.analysis.predictability import Predictability

ID, TITLE = "centrality", "Centrality and predictability"
MOST_DRAWN, MOST_LISTED = 30, 200
WIDTH, LEFT, RIGHT, TOP, STEP = 900.0, 230.0, 660.0, 66.0, 22.0
RADIUS = 5.0


def render_centrality(centrality: Centrality | None, predictability: Predictability | None = None) -> str:
    """Return the dot plot and the table of the measures of each column; without edges, a sentence."""
    if centrality is None or not centrality.degree.any():
        return section(ID, TITLE, paragraph("There is no network, since no two columns share a feature.", "absent"))
    order = np.lexsort((np.arange(len(centrality.names)), -centrality.strength))
    drawn = order[: min(MOST_DRAWN, int(np.count_nonzero(centrality.strength)))].tolist()
    shares = {} if predictability is None else predictability.by_column
    caption = (
        "Columns by strength, the sum of the strengths of their edges (blue). Expected influence (orange) adds them "
        "with their signs; edges of states without an order have no sign and are left out of it. "
    )
    if shares:
        caption += (
            "Bars are predictability: R\u00b2 of numbers, or normalized accuracy, which is 0 for the most frequent "
            "state and 1 for perfect predictions. "
        )
    more = len(centrality.names) - len(drawn)
    caption += f"{count(more, 'column')} with less strength {'is' if more == 1 else 'are'} not drawn." if more else ""
    figure = render_figure(draw_centrality(centrality, shares, drawn), caption)
    return section(
        ID, TITLE, figure, *_describe(centrality, predictability), _render(centrality, predictability, order)
    )


def draw_centrality(centrality: Centrality, shares: dict[str, float], drawn: list[int]) -> str:
    """Return a dot plot of strength and expected influence of some columns, with bars of predictability."""
    values = [*centrality.strength[drawn].tolist(), *centrality.expected_influence[drawn].tolist(), 0.0]
    scale = fit_scale([value for value in values if np.isfinite(value)], LEFT, RIGHT).thin_ticks()
    drawing = Drawing(WIDTH, TOP + STEP * len(drawn) + 40, "Centrality of columns")
    floor = TOP + STEP * len(drawn)
    _draw_legend(drawing, bool(shares))
    for tick, label in zip(scale.ticks, scale.labels(), strict=True):
        x = scale.position(tick)
        drawing.line(x, TOP - 6, x, floor, stroke=GREY if tick == 0 else PALE)
        drawing.text(x, floor + 18, label, size=11, fill=GREY, text_anchor="middle")
    for row, k in enumerate(drawn):
        y = TOP + STEP * (row + 0.5)
        drawing.text(LEFT - 14, y + 4, centrality.names[k], size=12, room=LEFT - 30, text_anchor="end")
        _draw_dots(drawing, scale, centrality, k, y)
        if centrality.names[k] in shares:
            share = shares[centrality.names[k]]
            drawing.rect(RIGHT + 40, y - 5, 140.0, 10, rx=2, fill=PALE)
            drawing.rect(RIGHT + 40, y - 5, 140.0 * share, 10, rx=2, fill=BLUE, hint=f"{share:.2f}")
            drawing.text(RIGHT + 190, y + 4, f"{share:.2f}", size=11, fill=GREY)
    return drawing.render()


def _draw_legend(drawing: Drawing, predicted: bool) -> None:
    for x, color, name in ((LEFT, BLUE, "strength"), (LEFT + 110, ORANGE, "expected influence")):
        drawing.shape("circle", cx=x + RADIUS, cy=30.0, r=RADIUS, fill=color)
        drawing.text(x + 16, 34, name, size=12.5)
    if predicted:
        drawing.text(RIGHT + 40, 34, "predictability", size=12.5)


def _draw_dots(drawing: Drawing, scale: Scale, centrality: Centrality, k: int, y: float) -> None:
    strength, influence = float(centrality.strength[k]), float(centrality.expected_influence[k])
    ends = [value for value in (strength, influence) if np.isfinite(value)]
    drawing.line(scale.position(min(ends)), y, scale.position(max(ends)), y, stroke=PALE, stroke_width=2)
    for value, color, what in ((influence, ORANGE, "expected influence"), (strength, BLUE, "strength")):
        if np.isfinite(value):
            more = {"fill": color, "hint": f"{centrality.names[k]}: {what} {value:.2f}", "class": "point"}
            drawing.shape("circle", cx=scale.position(value), cy=y, r=RADIUS, **more)


def _describe(centrality: Centrality, predictability: Predictability | None) -> list[str]:
    text = (
        "Strengths of edges between columns of many states add many weights, and are not on one scale with those of "
        "binary columns or numbers. "
    )
    if centrality.closeness is not None:
        text += (
            "Closeness is the inverse of the mean distance to other columns, where the length of an edge is 1 / "
            "strength; betweenness is the number of pairs of columns whose shortest path passes through. "
        )
    text += "A bridge edge leads to another community. "
    if predictability is None:
        text += f"Predictability {NO_DATA}"
    else:
        text += "The section on prediction quality says whether these rows may be those of training."
    return [paragraph(text, "note")]


def _render(centrality: Centrality, predictability: Predictability | None, order: np.ndarray) -> str:
    """Return the table of all measures of the strongest columns."""
    measures = [*_centrality_measures(centrality), *_predictability_measures(centrality.names, predictability)]
    rows = [
        [TableCell(centrality.names[k], "text"), *(_number(float(one.values[k]), one.form) for one in measures)]
        for k in order[:MOST_LISTED].tolist()
    ]
    return render_table(["column", *(one.heading for one in measures)], rows, sortable=True)


class _Measure(NamedTuple):
    """A column of the table: its heading, the format of its numbers, and the number of each column of the field."""

    heading: str
    form: str
    values: np.ndarray


def _centrality_measures(found: Centrality) -> list[_Measure]:
    measures = [
        ("neighbors", ",.0f", found.degree),
        ("strength", ".2f", found.strength),
        ("influence", ".2f", found.expected_influence),
        ("closeness", ".3f", found.closeness),
        ("betweenness", ",.1f", found.betweenness),
        ("bridge strength", ".2f", found.bridge_strength),
    ]
    return [_Measure(heading, form, values) for heading, form, values in measures if values is not None]


def _predictability_measures(names: Sequence[str], found: Predictability | None) -> list[_Measure]:
    if found is None:
        return []
    place = {name: k for k, name in enumerate(names)}
    rows, measures = [place[name] for name in found.names], []
    parts = {"R\u00b2": found.r_squared, "accuracy": found.accuracy, "normalized": found.normalized_accuracy}
    for heading, values in {**parts, "gain": found.gain}.items():
        measures.append(_Measure(heading, ".3f", np.full(len(names), np.nan)))
        measures[-1].values[rows] = values
    return measures


def _number(value: float, form: str) -> TableCell:
    return TableCell.number(value, form) if np.isfinite(value) else TableCell()
