"""This module draws small charts as SVG: curves with error bars, and histograms, side by side with one legend."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from sparsefield.app.pages.axes import TICK_SIZE, PlotArea, Scale, draw_axes, fit_scale, format_number, is_drawable
from sparsefield.app.pages.palette import BLUE, CURVES, GREY, WHITE
from sparsefield.app.pages.svg import Drawing, text_width

WIDTH, MARGIN, GUTTER = 900.0, 36.0, 26.0
HEAD, PANEL_HEAD, PANEL_FOOT, LEGEND_STEP = 64.0, 46.0, 60.0, 22.0
INSET = 13.0
"""Free space at both ends of the x axis of a line panel."""

LABEL_SIZE = 11.5
MARK = 3.7
"""Radius of a point."""


@dataclass(frozen=True)
class CurvePoint:
    """A mean at x, and half the length of its error bar; None where there is no error."""

    x: float
    mean: float
    error: float | None = None

    @property
    def bar(self) -> float:
        """Half the length of the error bar; 0 where none can be drawn."""
        return self.error if self.error is not None and 0 < self.error < math.inf else 0.0


@dataclass(frozen=True)
class Curve:
    """A named line through points, which may be in any order; points that the axes cannot show are omitted."""

    name: str
    points: Sequence[CurvePoint]
    dashed: bool = False
    color: str | None = None

    def drawable_points(self, log_x: bool) -> list[CurvePoint]:
        """Return the points that the axes can show, in the order of x."""
        known = [point for point in self.points if is_drawable(point.x, log_x) and is_drawable(point.mean)]
        return sorted(known, key=lambda point: point.x)


@dataclass(frozen=True)
class VerticalLine:
    """A named vertical line at x."""

    name: str
    x: float
    dashed: bool = False
    color: str = GREY


Styles = Mapping[str, Curve | VerticalLine]
"""The color and dashes of each name."""


@dataclass(frozen=True)
class LinePanel:
    """One chart of curves: its title, the labels of its axes, and what it shows."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    log_x: bool = False
    lines: Sequence[VerticalLine] = ()

    def _points(self) -> list[CurvePoint]:
        return [point for curve in self.curves for point in curve.drawable_points(self.log_x)]

    def _fit_y(self) -> Scale:
        ends = [point.mean + sign * point.bar for point in self._points() for sign in (-1, 0, 1)]
        return fit_scale([end for end in ends if is_drawable(end)], 0.0, 1.0)

    def _fit_x(self, frame: PlotArea) -> Scale | None:
        """Return the x axis; None where there is nothing to show. A few values on a logarithmic axis are the ticks."""
        values = sorted({point.x for point in self._points()})
        if not values:
            return None
        start, end = frame.left + INSET, frame.right - INSET
        scale = fit_scale(values, start, end, logarithmic=self.log_x, room=0.0, zero=False)
        own = replace(scale, ticks=tuple(values), minor=())
        if len(values) < 2:
            return own
        if self.log_x and len(values) <= 8 and len(own.thin_ticks().ticks) > 1:
            scale = own
        return scale.thin_ticks()

    def _draw(self, drawing: Drawing, frame: PlotArea, styles: Styles, across: Scale, upward: Scale) -> None:
        """Draw vertical lines, error bars above them, then curves, then marks."""
        for line in self.lines:
            if is_drawable(line.x, self.log_x):
                _draw_vertical(drawing, frame, line, across)
        drawn = [
            (styles[curve.name], point, across.position(point.x), upward.position(point.mean))
            for curve in self.curves
            for point in curve.drawable_points(self.log_x)
        ]
        for style, point, x, _ in drawn:
            if point.bar:
                low, high = upward.position(point.mean - point.bar), upward.position(point.mean + point.bar)
                d = f"M{x:.2f} {low:.2f}V{high:.2f}M{x - 2.6:.2f} {low:.2f}h5.2M{x - 2.6:.2f} {high:.2f}h5.2"
                drawing.path(d, fill="none", stroke=style.color, stroke_width=1.2, **{"class": "bar"})
        for style, group in groupby(drawn, key=lambda each: each[0]):
            places = [f"{x:.2f} {y:.2f}" for _, _, x, y in group]
            if len(places) > 1:
                more = {**_dash(style.dashed), "class": "curve", "stroke_linejoin": "round"}
                drawing.path("M" + "L".join(places), fill="none", stroke=style.color, stroke_width=1.8, **more)
        for style, point, x, y in drawn:
            mean = format_number(point.mean) + ("" if point.error is None else f" ± {point.error:.2g}")
            _draw_mark(drawing, x, y, style, f"{style.name}: {format_number(point.x)}, {mean}")


@dataclass(frozen=True)
class HistogramPanel:
    """One histogram on a logarithmic axis: counts between increasing edges, of which there is one more than counts."""

    title: str
    x_label: str
    edges: Sequence[float]
    counts: Sequence[float]
    y_label: str = "count"
    mark: VerticalLine | None = None
    """A value to compare with the counted ones, between the first and the last edge."""

    def _fit_y(self) -> Scale:
        positive = [count for count in self.counts if is_drawable(count, logarithmic=True)]
        floor = [0.6 * min(positive)] if positive else []
        return fit_scale([*floor, *positive], 0.0, 1.0, logarithmic=True, room=0.02)

    def _fit_x(self, frame: PlotArea) -> Scale | None:
        if not any(count > 0 for count in self.counts):
            return None
        return fit_scale(self.edges, frame.left, frame.right, room=0.0, zero=False).thin_ticks()

    def _draw(self, drawing: Drawing, frame: PlotArea, _: Styles, across: Scale, upward: Scale) -> None:
        """Draw one outline for each run of bins that are not empty, and a tooltip for each bin."""
        bins = list(zip(pairwise(self.edges), self.counts, strict=True))
        d = ""
        for full, run in groupby(bins, key=lambda each: each[1] > 0):
            if full:
                steps = list(run)
                d += f"M{across.position(steps[0][0][0]):.2f} {upward.start:.2f}"
                d += "".join(f"V{upward.position(n):.2f}H{across.position(high):.2f}" for (_, high), n in steps)
                d += f"V{upward.start:.2f}"
        style = {"stroke": BLUE, "stroke_width": 1.4, "stroke_linejoin": "round", "class": "outline"}
        drawing.path(d, fill=BLUE, fill_opacity=0.12, **style)
        for (low, high), count in bins:
            if count > 0:
                hint = f"{format_number(low)} to {format_number(high)}: {format_number(count)}"
                more = {"fill_opacity": 0, "hint": hint, "class": "bin"}
                x, width = across.position(low), across.position(high) - across.position(low)
                drawing.rect(x, frame.top, width, frame.floor - frame.top, **more)
        if self.mark is not None:
            _draw_vertical(drawing, frame, self.mark, across)


def draw_panels(
    title: str, panels: Sequence[LinePanel | HistogramPanel], *, subtitle: str = "", columns: int = 2
) -> str:
    """Return an SVG document with panels side by side and one legend.

    Examples
    --------
    >>> curve = Curve("CFI", [CurvePoint(25, 1.2, 0.1), CurvePoint(50, 4.0, 0.3)])
    >>> draw_panels("Time", [LinePanel("Time", "nodes", "seconds", [curve], log_x=True)]).count('class="point"')
    2
    """
    styles = _choose_styles([panel for panel in panels if isinstance(panel, LinePanel)])
    vertical = [panel._fit_y() for panel in panels]
    drawing, frames = _draw_card(title, subtitle, list(styles.values()), columns, vertical)
    for panel, frame, scale in zip(panels, frames, vertical, strict=True):
        _draw_labels(drawing, frame, panel)
        across, upward = panel._fit_x(frame), replace(scale, start=frame.floor, end=frame.top)
        if across is None:
            middle = (frame.left + frame.right) / 2, (frame.top + frame.floor) / 2
            drawing.text(*middle, "no values", size=TICK_SIZE, fill=GREY, text_anchor="middle")
        else:
            draw_axes(drawing, frame, across, upward)
            panel._draw(drawing, frame, styles, across, upward)
    return drawing.render()


def _choose_styles(panels: Sequence[LinePanel]) -> Styles:
    """Return the first curve or line of each name with its color, which is the same in every panel."""
    styles: dict[str, Curve | VerticalLine] = {}
    for curve in (curve for panel in panels for curve in panel.curves):
        styles.setdefault(curve.name, replace(curve, color=curve.color or CURVES[len(styles) % len(CURVES)]))
    for line in (line for panel in panels for line in panel.lines):
        styles.setdefault(line.name, line)
    return styles


def _draw_card(
    title: str, subtitle: str, legend: Sequence[Curve | VerticalLine], columns: int, vertical: Sequence[Scale]
) -> tuple[Drawing, list[PlotArea]]:
    """Return a drawing with its title and legend, and one frame for each vertical scale."""
    columns = max(1, min(columns, len(vertical)))
    widest = max((text_width(label, TICK_SIZE) for scale in vertical for label in scale.labels()), default=0.0)
    ticks = min(max(widest, 18.0), 78.0) + 8
    across = (WIDTH - 2 * MARGIN + GUTTER) / columns
    height = min(max(0.62 * (across - GUTTER - ticks), 150.0), 320.0)
    down = PANEL_HEAD + height + PANEL_FOOT
    top = HEAD + (0 if subtitle else -16) + 18 + (LEGEND_STEP if legend else 0)
    drawing = Drawing(WIDTH, top + math.ceil(len(vertical) / columns) * down - 6, title)
    room = WIDTH - 2 * MARGIN
    drawing.text(MARGIN, 42, title, size=18, room=room, font_weight=600)
    if subtitle:
        drawing.text(MARGIN, HEAD, subtitle, size=13, fill=GREY, room=room)
    for k, style in enumerate(legend):
        x, y = MARGIN + k * room / len(legend), top - 14
        drawing.line(x, y - 4, x + 26, y - 4, stroke=style.color, stroke_width=1.8, **_dash(style.dashed))
        if isinstance(style, Curve):
            _draw_mark(drawing, x + 13, y - 4, style)
        drawing.text(x + 34, y, style.name, size=12.5, room=room / len(legend) - 52)
    frames = []
    for row, column in (divmod(k, columns) for k in range(len(vertical))):
        edge, upper = MARGIN + column * across, top + row * down + PANEL_HEAD
        frames.append(PlotArea(edge + ticks, edge + across - GUTTER, upper, upper + height, edge))
    return drawing, frames


def _draw_labels(drawing: Drawing, frame: PlotArea, panel: LinePanel | HistogramPanel) -> None:
    """Draw the title, the labels and the base line of a panel."""
    room, middle = frame.right - frame.edge, (frame.left + frame.right) / 2
    label = {"size": LABEL_SIZE, "fill": GREY, "room": room}
    drawing.text(frame.edge, frame.top - 28, panel.title, size=13.5, room=room, font_weight=600)
    drawing.text(frame.edge, frame.top - 11, panel.y_label, **label)
    drawing.line(frame.left, frame.floor, frame.right, frame.floor, stroke=GREY)
    drawing.text(middle, frame.floor + 36, panel.x_label, **label, text_anchor="middle")


def _draw_vertical(drawing: Drawing, frame: PlotArea, line: VerticalLine, across: Scale) -> None:
    x, hint = across.position(line.x), f"{line.name}: {format_number(line.x)}"
    more = {**_dash(line.dashed), "class": "vertical-line", "hint": hint}
    drawing.line(x, frame.top, x, frame.floor, stroke=line.color, stroke_width=1.8, **more)


def _draw_mark(drawing: Drawing, x: float, y: float, style: Curve | VerticalLine, hint: str | None = None) -> None:
    more: dict[str, object] = {"fill": style.color, "stroke": WHITE, "stroke_width": 0.9}
    if style.dashed:
        more = {"fill": WHITE, "stroke": style.color, "stroke_width": 1.5}
    if hint is not None:
        more["class"] = "point"
    drawing.circle(x, y, MARK, hint=hint, **more)


def _dash(dashed: bool) -> dict[str, object]:
    return {"stroke_dasharray": "5 3"} if dashed else {}
