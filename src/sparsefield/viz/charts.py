"""This module draws small charts as SVG: curves with error bars, and histograms, side by side with one legend."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from sparsefield.viz.axes import (
    TICK_SIZE,
    Frame,
    Scale,
    draw_axes,
    draw_frame,
    draw_text,
    fit_scale,
    format_number,
    is_drawable,
    text_width,
    thin_ticks,
)
from sparsefield.viz.palette import BLUE, GREY, GROUPS, ORANGE, WHITE
from sparsefield.viz.svg import Drawing

__all__ = [
    "Curve",
    "CurvePoint",
    "HistogramPanel",
    "LinePanel",
    "VerticalLine",
    "draw_histogram_panels",
    "draw_line_panels",
]

WIDTH, MARGIN, GUTTER = 900.0, 36.0, 26.0
HEAD, PANEL_HEAD, PANEL_FOOT, LEGEND_STEP = 64.0, 46.0, 60.0, 22.0
INSET = 13.0
"""Free space at both ends of the x axis of a line panel."""

COLORS = (BLUE, ORANGE, *GROUPS)
CIRCLE = "M-3.7 0a3.7 3.7 0 1 0 7.4 0a3.7 3.7 0 1 0-7.4 0Z"
FILL_OPACITY = 0.12


@dataclass(frozen=True)
class CurvePoint:
    """A mean at x, and half the length of its error bar; None where there is no error."""

    x: float
    mean: float
    error: float | None = None


@dataclass(frozen=True)
class Curve:
    """A named line through points, which may be in any order; points that the axes cannot show are omitted."""

    name: str
    points: Sequence[CurvePoint]
    dashed: bool = False
    color: str | None = None


@dataclass(frozen=True)
class VerticalLine:
    """A named vertical line at x."""

    name: str
    x: float
    dashed: bool = False
    color: str = GREY


@dataclass(frozen=True)
class LinePanel:
    """One chart of curves: its title, the labels of its axes, and what it shows."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    log_x: bool = False
    lines: Sequence[VerticalLine] = ()


@dataclass(frozen=True)
class HistogramPanel:
    """One histogram: counts between increasing edges, of which there is one more than counts."""

    title: str
    x_label: str
    edges: Sequence[float]
    counts: Sequence[float]


@dataclass(frozen=True)
class _Style:
    name: str
    color: str
    dashed: bool
    marked: bool


def draw_line_panels(title: str, panels: Sequence[LinePanel], *, subtitle: str = "", columns: int = 2) -> str:
    """Return an SVG document with panels of curves and one legend.

    Examples
    --------
    >>> curve = Curve("CFI", [CurvePoint(25, 1.2, 0.1), CurvePoint(50, 4.0, 0.3)])
    >>> draw_line_panels("Time", [LinePanel("Time", "nodes", "seconds", [curve], log_x=True)]).count('class="point"')
    2
    """
    styles = _choose_styles(panels)
    vertical = [_fit_vertical(panel) for panel in panels]
    card = _Card(title, subtitle, list(styles.values()), len(panels), columns, vertical)
    for k, panel in enumerate(panels):
        frame = card.frame(k)
        draw_frame(card.drawing, frame, panel.title, panel.y_label, panel.x_label)
        across = _fit_horizontal(panel, frame)
        if across is None:
            _draw_empty(card.drawing, frame)
            continue
        upward = replace(vertical[k], start=frame.floor, end=frame.top)
        draw_axes(card.drawing, frame, across, upward)
        for line in panel.lines:
            if is_drawable(line.x, panel.log_x):
                _draw_vertical_line(card.drawing, frame, line, across)
        _draw_curves(card.drawing, panel, styles, across, upward)
    return card.drawing.render()


def draw_histogram_panels(title: str, panels: Sequence[HistogramPanel], *, columns: int = 2) -> str:
    """Return an SVG document with histograms side by side; counts are on a logarithmic axis.

    Examples
    --------
    >>> draw_histogram_panels("t", [HistogramPanel("Signals", "signal", [-1, 0, 1], [3, 90])]).count('class="outline"')
    1
    """
    vertical = [_fit_counts(panel.counts) for panel in panels]
    card = _Card(title, "", [], len(panels), columns, vertical)
    for k, panel in enumerate(panels):
        frame = card.frame(k)
        draw_frame(card.drawing, frame, panel.title, "count", panel.x_label)
        if not any(count > 0 for count in panel.counts):
            _draw_empty(card.drawing, frame)
            continue
        across = thin_ticks(fit_scale(panel.edges, frame.left, frame.right, room=0.0, zero=False), TICK_SIZE)
        upward = replace(vertical[k], start=frame.floor, end=frame.top)
        draw_axes(card.drawing, frame, across, upward)
        _draw_bins(card.drawing, frame, panel, across, upward)
    return card.drawing.render()


class _Card:
    """A drawing with its title and legend, divided into frames."""

    def __init__(
        self, title: str, subtitle: str, legend: Sequence[_Style], count: int, columns: int, vertical: Sequence[Scale]
    ) -> None:
        self.columns = max(1, min(columns, count))
        widest = max((text_width(label, TICK_SIZE) for scale in vertical for label in scale.labels()), default=0.0)
        self.ticks = min(max(widest, 18.0), 78.0) + 8
        self.step = (WIDTH - 2 * MARGIN + GUTTER) / self.columns
        self.plot = min(max(0.62 * (self.step - GUTTER - self.ticks), 150.0), 320.0)
        rows = math.ceil(count / self.columns)
        self.top = HEAD + (0 if subtitle else -16) + 18 + (LEGEND_STEP if legend else 0)
        self.drawing = Drawing(WIDTH, self.top + rows * (PANEL_HEAD + self.plot + PANEL_FOOT) - 6, title)
        room = WIDTH - 2 * MARGIN
        draw_text(self.drawing, MARGIN, 42, title, room, size=18, font_weight=600)
        if subtitle:
            draw_text(self.drawing, MARGIN, HEAD, subtitle, room, size=13, fill=GREY)
        for k, style in enumerate(legend):
            x, y = MARGIN + k * room / len(legend), self.top - 14
            self.drawing.line(x, y - 4, x + 26, y - 4, stroke=style.color, stroke_width=1.8, **_dash(style.dashed))
            if style.marked:
                _draw_mark(self.drawing, x + 13, y - 4, style)
            draw_text(self.drawing, x + 34, y, style.name, room / len(legend) - 52, size=12.5)

    def frame(self, k: int) -> Frame:
        row, column = divmod(k, self.columns)
        edge = MARGIN + column * self.step
        top = self.top + row * (PANEL_HEAD + self.plot + PANEL_FOOT) + PANEL_HEAD
        return Frame(edge + self.ticks, edge + self.step - GUTTER, top, top + self.plot, edge)


def _choose_styles(panels: Sequence[LinePanel]) -> dict[str, _Style]:
    """Return one style for each name, which is the same in every panel."""
    styles: dict[str, _Style] = {}
    for panel in panels:
        for curve in panel.curves:
            color = curve.color or COLORS[len(styles) % len(COLORS)]
            styles.setdefault(curve.name, _Style(curve.name, color, curve.dashed, True))
    for panel in panels:
        for line in panel.lines:
            styles.setdefault(line.name, _Style(line.name, line.color, line.dashed, False))
    return styles


def _drawable_points(curve: Curve, panel: LinePanel) -> list[CurvePoint]:
    known = [point for point in curve.points if is_drawable(point.x, panel.log_x) and is_drawable(point.mean)]
    return sorted(known, key=lambda point: point.x)


def _error_of(point: CurvePoint) -> float:
    """Return half the length of the error bar; 0 where none can be drawn."""
    return point.error if point.error is not None and math.isfinite(point.error) and point.error > 0 else 0.0


def _fit_vertical(panel: LinePanel) -> Scale:
    points = [point for curve in panel.curves for point in _drawable_points(curve, panel)]
    ends = [point.mean + sign * _error_of(point) for point in points for sign in (-1, 0, 1)]
    return fit_scale([end for end in ends if is_drawable(end)], 0.0, 1.0)


def _fit_horizontal(panel: LinePanel, frame: Frame) -> Scale | None:
    """Return the x axis; None where there is nothing to show. A few values on a logarithmic axis are the ticks."""
    values = sorted({point.x for curve in panel.curves for point in _drawable_points(curve, panel)})
    if not values:
        return None
    start, end = frame.left + INSET, frame.right - INSET
    scale = fit_scale(values, start, end, logarithmic=panel.log_x, room=0.0, zero=False)
    if len(values) < 2:
        return replace(scale, ticks=tuple(values), minor=())
    if panel.log_x and len(values) <= 8:
        own = thin_ticks(replace(scale, ticks=tuple(values), minor=()), TICK_SIZE)
        scale = own if len(own.ticks) > 1 else scale
    return thin_ticks(scale, TICK_SIZE)


def _fit_counts(counts: Sequence[float]) -> Scale:
    positive = [count for count in counts if is_drawable(count, logarithmic=True)]
    floor = [0.6 * min(positive)] if positive else []
    return fit_scale([*floor, *positive], 0.0, 1.0, logarithmic=True, room=0.02)


def _draw_empty(drawing: Drawing, frame: Frame) -> None:
    middle = (frame.left + frame.right) / 2, (frame.top + frame.floor) / 2
    drawing.text(*middle, "no values", size=TICK_SIZE, fill=GREY, text_anchor="middle")


def _draw_vertical_line(drawing: Drawing, frame: Frame, line: VerticalLine, across: Scale) -> None:
    x, more = across.position(line.x), {**_dash(line.dashed), "class": "vertical-line"}
    hint = f"{line.name}: {format_number(line.x)}"
    drawing.line(x, frame.top, x, frame.floor, stroke=line.color, stroke_width=1.8, hint=hint, **more)


def _draw_curves(
    drawing: Drawing, panel: LinePanel, styles: Mapping[str, _Style], across: Scale, upward: Scale
) -> None:
    """Draw error bars below all lines, and lines below all marks."""
    shown = [
        (
            styles[curve.name],
            [(p, across.position(p.x), upward.position(p.mean)) for p in _drawable_points(curve, panel)],
        )
        for curve in panel.curves
    ]
    for style, points in shown:
        for point, x, _ in points:
            error = _error_of(point)
            if error:
                low, high = upward.position(point.mean - error), upward.position(point.mean + error)
                d = f"M{x:.2f} {low:.2f}V{high:.2f}M{x - 2.6:.2f} {low:.2f}h5.2M{x - 2.6:.2f} {high:.2f}h5.2"
                drawing.path(d, fill="none", stroke=style.color, stroke_width=1.2, **{"class": "bar"})
    for style, points in shown:
        if len(points) > 1:
            d = "M" + "L".join(f"{x:.2f} {y:.2f}" for _, x, y in points)
            more = {**_dash(style.dashed), "class": "curve", "stroke_linejoin": "round"}
            drawing.path(d, fill="none", stroke=style.color, stroke_width=1.8, **more)
    for style, points in shown:
        for point, x, y in points:
            mean = format_number(point.mean) + ("" if point.error is None else f" ± {point.error:.2g}")
            _draw_mark(drawing, x, y, style, f"{style.name}: {format_number(point.x)}, {mean}")


def _draw_mark(drawing: Drawing, x: float, y: float, style: _Style, hint: str | None = None) -> None:
    more: dict[str, object] = {"fill": style.color, "stroke": WHITE, "stroke_width": 0.9}
    if style.dashed:
        more = {"fill": WHITE, "stroke": style.color, "stroke_width": 1.5}
    if hint is not None:
        more["class"] = "point"
    drawing.path(CIRCLE, hint=hint, transform=f"translate({x:.2f} {y:.2f})", **more)


def _draw_bins(drawing: Drawing, frame: Frame, panel: HistogramPanel, across: Scale, upward: Scale) -> None:
    """Draw one outline for each run of bins that are not empty, and a tooltip for each bin."""
    edges = [across.position(edge) for edge in panel.edges]
    bins = [(a, b, count) for (a, b), count in zip(pairwise(edges), panel.counts, strict=True)]
    d = ""
    for full, run in groupby(bins, key=lambda each: each[2] > 0):
        if full:
            steps = list(run)
            d += f"M{steps[0][0]:.2f} {upward.start:.2f}"
            d += "".join(f"V{upward.position(count):.2f}H{x:.2f}" for _, x, count in steps) + f"V{upward.start:.2f}"
    style = {"stroke": BLUE, "stroke_width": 1.4, "stroke_linejoin": "round", "class": "outline"}
    drawing.path(d, fill=BLUE, fill_opacity=FILL_OPACITY, **style)
    for (low, high), (a, b, count) in zip(pairwise(panel.edges), bins, strict=True):
        if count > 0:
            hint = f"{format_number(low)} to {format_number(high)}: {format_number(count)}"
            height = frame.floor - frame.top
            drawing.rect(a, frame.top, b - a, height, fill_opacity=0, hint=hint, **{"class": "bin"})


def _dash(dashed: bool) -> dict[str, object]:
    return {"stroke_dasharray": "5 3"} if dashed else {}
