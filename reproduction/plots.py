"""This module draws panels of curves, of histograms, and of dots with whiskers, with matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.charts import COLORS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Curve", "DotBoard", "DotLine", "Histogram", "HistogramPanel", "Level", "Mark", "Panel", "Point", "draw_dots",
    "draw_histograms", "draw_panels",
]  # fmt: skip

MARKERS = ("o", "s", "^", "D", "v")
BLUE, ORANGE, GRAY = COLORS[0], COLORS[1], COLORS[-1]
DOT_STYLES = {
    "pl": (BLUE, True, "measured, pl"),
    "cd": (BLUE, False, "measured, cd"),
    "": (GRAY, False, "measured, no field"),
    "paper": (ORANGE, True, "reported in the paper"),
    "peer": (GRAY, True, "reported by others"),
}
"""Color of a kind of dot, whether it is filled, and its name in the legend."""


@dataclass(frozen=True)
class Point:
    """A point is a mean at a position on the x axis, with its standard error; None for a single value."""

    x: float
    mean: float
    error: float | None = None


@dataclass(frozen=True)
class Curve:
    """A curve is a named line through points; a point whose mean is not finite is left out."""

    name: str
    points: Sequence[Point]
    color: str
    dashed: bool = False


@dataclass(frozen=True)
class Level:
    """A level is a horizontal line to compare curves with, with a band of one standard error to either side."""

    name: str
    mean: float
    color: str
    error: float | None = None
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """A panel is one chart of a figure: its title, the names of its axes, and its curves."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    levels: Sequence[Level] = ()
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Histogram:
    """A histogram has counts between ascending edges, of which there is one more than counts."""

    name: str
    edges: Sequence[float]
    counts: Sequence[float]


@dataclass(frozen=True)
class HistogramPanel:
    """A histogram panel draws histograms over each other as outlines."""

    title: str
    x_label: str
    histograms: Sequence[Histogram]
    y_label: str = "count"


@dataclass(frozen=True)
class Mark:
    """A mark is a dot of a kind of `DOT_STYLES`, with a whisker of one standard deviation if it is known."""

    mean: float
    sd: float | None
    kind: str


@dataclass(frozen=True)
class DotLine:
    """A dot line has a method and its marks for each measure."""

    label: str
    marks: Mapping[str, tuple[Mark, ...]]


@dataclass(frozen=True)
class DotBoard:
    """A dot board has the methods on one dataset, and for some measures a reference value, drawn as a line."""

    title: str
    lines: Sequence[DotLine]
    references: Mapping[str, float]


def draw_panels(title: str, panels: Sequence[Panel], *, subtitle: str = "", columns: int = 3) -> Figure:
    """Draw panels of curves with one legend."""
    rows = math.ceil(len(panels) / columns)
    figure = new_figure(3.6 * columns, 1.3 + 2.7 * rows, title, subtitle)
    families = list(dict.fromkeys(_family(curve.name) for panel in panels for curve in panel.curves))
    for k, panel in enumerate(panels):
        axes = figure.add_subplot(rows, columns, k + 1, title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
        axes.set(xscale="log" if panel.log_x else "linear", yscale="log" if panel.log_y else "linear")
        for curve in panel.curves:
            _draw_curve(axes, curve, MARKERS[families.index(_family(curve.name)) % len(MARKERS)], panel.log_y)
        for level in panel.levels:
            _draw_level(axes, level, panel.log_y)
        if panel.log_x:
            ticks = sorted({point.x for curve in panel.curves for point in curve.points})
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.minorticks_off()
    _add_legend(figure)
    return figure


def draw_histograms(title: str, panels: Sequence[HistogramPanel], *, subtitle: str = "", columns: int = 2) -> Figure:
    """Draw panels of histograms, with logarithmic counts and one legend."""
    rows = math.ceil(len(panels) / columns)
    figure = new_figure(4.8 * columns, 1.4 + 2.8 * rows, title, subtitle)
    for k, panel in enumerate(panels):
        labels = {"title": panel.title, "xlabel": panel.x_label, "ylabel": panel.y_label}
        axes = figure.add_subplot(rows, columns, k + 1, **labels)
        axes.set_yscale("log", nonpositive="clip")
        for number, one in enumerate(panel.histograms):
            color = COLORS[number % len(COLORS)]
            axes.stairs(one.counts, one.edges, color=color, label=one.name)
            axes.stairs(one.counts, one.edges, color=color, fill=True, alpha=0.12)
    _add_legend(figure)
    return figure


def draw_dots(title: str, boards: Sequence[DotBoard], measures: Mapping[str, str], *, subtitle: str = "") -> Figure:
    """Draw a row of panels per board, one panel per measure: a dot per method, with its standard deviation.

    Parameters
    ----------
    title, subtitle : str
    boards : sequence of DotBoard
    measures : {measure: title of its panel}
    """
    heights = [len(board.lines) + 3 for board in boards]
    figure = new_figure(11.0, 1.2 + 0.24 * sum(heights), title, subtitle)
    grid = figure.add_gridspec(len(boards), len(measures), height_ratios=heights)
    for row, board in enumerate(boards):
        for column, (measure, name) in enumerate(measures.items()):
            axes = figure.add_subplot(grid[row, column], title=name)
            for place, line in enumerate(board.lines):
                _draw_marks(axes, place, line.marks.get(measure, ()))
            if measure in board.references:
                axes.axvline(board.references[measure], color=ORANGE, linestyle=":")
            labels = [line.label for line in board.lines] if column == 0 else [""] * len(board.lines)
            axes.set_yticks(range(len(board.lines)), labels)
            axes.set_ylim(len(board.lines) - 0.5, -0.5)
            if column == 0:
                axes.set_ylabel(board.title)
    _add_legend(figure)
    return figure


def _draw_curve(axes: Any, curve: Curve, marker: str, log_y: bool) -> None:
    known = [p for p in curve.points if math.isfinite(p.mean) and (p.mean > 0 or not log_y)]
    style = {"color": curve.color, "marker": marker, "markersize": 5, "linestyle": "--" if curve.dashed else "-"}
    style["markerfacecolor"] = "white" if curve.dashed else curve.color
    errors = [point.error or 0.0 for point in known]
    axes.errorbar([p.x for p in known], [p.mean for p in known], errors, capsize=2, label=curve.name, **style)


def _draw_level(axes: Any, level: Level, log_y: bool) -> None:
    if not math.isfinite(level.mean) or (log_y and level.mean <= 0):
        return
    axes.axhline(level.mean, color=level.color, linestyle="--" if level.dashed else "-", label=level.name)
    if level.error:
        axes.axhspan(level.mean - level.error, level.mean + level.error, color=level.color, alpha=0.12)


def _draw_marks(axes: Any, place: int, marks: Sequence[Mark]) -> None:
    for k, mark in enumerate(marks):
        color, filled, name = DOT_STYLES[mark.kind]
        height = place + 0.3 * (k - (len(marks) - 1) / 2)
        face = color if filled else "white"
        axes.errorbar(
            mark.mean, height, xerr=mark.sd, fmt="o", color=color, markerfacecolor=face, markersize=4, label=name
        )


def _family(name: str) -> str:
    """Return the part of a curve's name that decides its marker: the text before the first comma."""
    return name.partition(",")[0]


def _add_legend(figure: Figure) -> None:
    """Add one legend below all panels, with each name once."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        handles, names = axes.get_legend_handles_labels()
        for handle, name in zip(handles, names, strict=True):
            found.setdefault(name, handle)
    if found:
        figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=min(len(found), 5))
