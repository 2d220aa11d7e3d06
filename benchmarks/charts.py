"""Charts of measurements: lines over decades, and bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sparsefield.viz.palette import BLUE, GREY, ORANGE, PALE
from sparsefield.viz.svg import Drawing

__all__ = ["Bar", "Series", "draw_bars", "draw_lines"]

WIDTH = 900
LEFT, RIGHT, TOP, FLOOR = 92.0, 620.0, 112.0, 420.0
COLORS = (BLUE, ORANGE, "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#1f2430", "#667085")
"""Okabe and Ito's, the two of every other picture first."""

BAR_LEFT, BAR_RIGHT, BAR_STEP = 270.0, 740.0, 34.0


@dataclass(frozen=True)
class Series:
    """A named line of a chart.

    Attributes
    ----------
    name : str
    points : sequence of (x, y)
        In any order. A point that has no place (None, not finite, or not above 0 on a logarithmic chart) is left out.
    hollow : sequence of (x, y)
        Points that were not measured, such as projections: on the same line, with hollow marks.
    """

    name: str
    points: Sequence[tuple[float | None, float | None]]
    hollow: Sequence[tuple[float | None, float | None]] = ()


@dataclass(frozen=True)
class Bar:
    """A bar with its name; ``part`` is how much of it is drawn darker, ``note`` stands behind it."""

    name: str
    value: float
    part: float | None = None
    note: str = ""


def draw_lines(
    title: str, series: Sequence[Series], *, x_label: str, y_label: str, words: str = "", logarithmic: bool = True
) -> str:
    """Lines through points, as an SVG document.

    Parameters
    ----------
    title, words : str
        What it shows, and a smaller line below.
    series : sequence of Series
    x_label, y_label : str
        What the axes count, with the unit.
    logarithmic : bool
        Whether both axes go by powers of ten; otherwise both are linear and start at 0.

    Examples
    --------
    >>> draw_lines("Time", [Series("ours", [(10, 1), (100, 9)])], x_label="columns", y_label="seconds").count("<circle")
    3
    """
    drawing = Drawing(WIDTH, 480, title)
    drawing.text(36, 42, title, size=18, font_weight=600)
    drawing.text(36, 64, words, fill=GREY)
    shown = [(_placed(one.points, logarithmic), _placed(one.hollow, logarithmic)) for one in series]
    everything = [point for full, hollow in shown for point in [*full, *hollow]]
    across = _Axis([x for x, _ in everything], LEFT, RIGHT, logarithmic)
    upward = _Axis([y for _, y in everything], FLOOR, TOP, logarithmic)
    _grid(drawing, across, upward, x_label, y_label)
    for k, (one, (full, hollow)) in enumerate(zip(series, shown, strict=True)):
        color = COLORS[k % len(COLORS)]
        _draw_series(drawing, one.name, full, hollow, color, across, upward)
        _key(drawing, TOP + 8 + 24 * k, color, one.name)
    if any(hollow for _, hollow in shown):
        _key(drawing, TOP + 16 + 24 * len(series), GREY, "projected, not run", hollow=True)
    return drawing.render()


def draw_bars(title: str, bars: Sequence[Bar], *, label: str, words: str = "", part_label: str = "") -> str:
    """Bars one below the other, on a linear scale, as an SVG document.

    Examples
    --------
    >>> draw_bars("Time", [Bar("first", 2.0, part=0.5), Bar("second", 1.0)], label="seconds").count(">second<")
    1
    """
    drawing = Drawing(WIDTH, 132 + BAR_STEP * len(bars), title)
    drawing.text(36, 42, title, size=18, font_weight=600)
    drawing.text(36, 64, words, fill=GREY)
    foot = 92 + BAR_STEP * len(bars)
    axis = _Axis([bar.value for bar in bars if math.isfinite(bar.value)], BAR_LEFT, BAR_RIGHT, False)
    for tick in axis.ticks:
        x = axis.place(tick)
        drawing.line(x, 84, x, foot, stroke=PALE)
        drawing.text(x, foot + 18, _number(tick), size=12, fill=GREY, text_anchor="middle")
    drawing.text(BAR_RIGHT + 24, foot + 18, label, size=12, fill=GREY)
    for k, bar in enumerate(bars):
        y = 92 + BAR_STEP * k
        drawing.text(BAR_LEFT - 12, y + 15, bar.name, text_anchor="end")
        end = axis.place(bar.value) if math.isfinite(bar.value) else BAR_LEFT
        drawing.rect(BAR_LEFT, y, max(end - BAR_LEFT, 0.5), 20, fill="#8fc1e3" if bar.part is not None else BLUE)
        if bar.part is not None:
            drawing.rect(BAR_LEFT, y, max(axis.place(bar.part) - BAR_LEFT, 0.5), 20, fill=BLUE)
        told = bar.note or f"{bar.value:.3g}"
        drawing.text(end + 8, y + 15, told, size=12, fill=GREY)
    if part_label:
        drawing.rect(BAR_RIGHT - 60, 33, 12, 12, fill=BLUE)
        drawing.text(BAR_RIGHT - 40, 44, part_label, fill=GREY)
    return drawing.render()


class _Axis:
    """Where values stand between two ends of a line, and where its ticks are."""

    def __init__(self, values: Sequence[float], start: float, end: float, logarithmic: bool) -> None:
        self.start, self.end, self.logarithmic = start, end, logarithmic
        if logarithmic:
            scaled = [math.log10(value) for value in values] or [0.0, 1.0]
            room = max(0.05 * (max(scaled) - min(scaled)), 0.1)
            self.low, self.high = min(scaled) - room, max(scaled) + room
            steps = (1,) if self.high - self.low > 2.0 else (1, 2, 5)
            powers = range(math.floor(self.low), math.ceil(self.high) + 1)
            ticks = [step * 10.0**power for power in powers for step in steps]
            self.ticks = [tick for tick in ticks if self.low <= math.log10(tick) <= self.high]
        else:
            self.low, self.high = 0.0, 1.05 * max([*values, 1e-9])
            step = _round_step(self.high / 5)
            self.ticks = [step * k for k in range(math.floor(self.high / step) + 1)]

    def place(self, value: float) -> float:
        scaled = math.log10(value) if self.logarithmic else value
        return self.start + (self.end - self.start) * (scaled - self.low) / (self.high - self.low)


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, ... (or their tenths) that is not below ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least)


def _placed(points: Sequence[tuple[float | None, float | None]], logarithmic: bool) -> list[tuple[float, float]]:
    def has_place(value: float | None) -> bool:
        return value is not None and math.isfinite(value) and (value > 0 if logarithmic else value >= 0)

    return sorted((float(x), float(y)) for x, y in points if has_place(x) and has_place(y))  # type: ignore[arg-type]


def _grid(drawing: Drawing, across: _Axis, upward: _Axis, x_label: str, y_label: str) -> None:
    for tick in across.ticks:
        x = across.place(tick)
        drawing.line(x, TOP, x, FLOOR, stroke=PALE)
        drawing.text(x, FLOOR + 18, _number(tick), size=12, fill=GREY, text_anchor="middle")
    for tick in upward.ticks:
        y = upward.place(tick)
        drawing.line(LEFT, y, RIGHT, y, stroke=PALE)
        drawing.text(LEFT - 8, y + 4, _number(tick), size=12, fill=GREY, text_anchor="end")
    drawing.line(LEFT, FLOOR, RIGHT, FLOOR, stroke=GREY)
    drawing.text((LEFT + RIGHT) / 2, FLOOR + 42, x_label, text_anchor="middle")
    drawing.text(LEFT - 56, TOP - 14, y_label)


def _draw_series(
    drawing: Drawing,
    name: str,
    full: Sequence[tuple[float, float]],
    hollow: Sequence[tuple[float, float]],
    color: str,
    across: _Axis,
    upward: _Axis,
) -> None:
    line = [(across.place(x), upward.place(y)) for x, y in sorted([*full, *hollow])]
    if len(line) > 1:
        drawing.path(
            "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in line), fill="none", stroke=color, stroke_width=2,
            stroke_linejoin="round",
        )  # fmt: skip
    for points, inside in ((full, color), (hollow, "#ffffff")):
        for x, y in points:
            hint = f"{name}: {_number(x)}, {y:.3g}"
            cx, cy = across.place(x), upward.place(y)
            drawing.shape("circle", hint=hint, cx=cx, cy=cy, r=4, fill=inside, stroke=color, stroke_width=2)


def _key(drawing: Drawing, y: float, color: str, words: str, *, hollow: bool = False) -> None:
    x = RIGHT + 26
    if not hollow:
        drawing.line(x, y - 4, x + 20, y - 4, stroke=color, stroke_width=2)
    inside = "#ffffff" if hollow else color
    drawing.shape("circle", cx=x + 10, cy=y - 4, r=4, fill=inside, stroke=color, stroke_width=2)
    drawing.text(x + 30, y, words, fill=GREY)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.3g}"
