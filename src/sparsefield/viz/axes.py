"""This module fits axes to values, chooses their ticks, and draws them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sparsefield.viz.palette import GREY, PALE
from sparsefield.viz.svg import Drawing

__all__ = [
    "TICK_SIZE",
    "Frame",
    "Scale",
    "draw_axes",
    "draw_frame",
    "draw_text",
    "fit_scale",
    "format_number",
    "is_drawable",
    "text_width",
    "thin_ticks",
]

LABEL_SIZE, TICK_SIZE = 11.5, 11.0

MINUS = "\u2212"
LARGEST = 1e300
"""Values beyond this are drawn at the end of the axis, so that no difference overflows."""

MIN_RANGE = 1e-9
"""A range narrower than this share of its values is drawn as one value."""

NEAR_ZERO = 0.4
"""A linear axis starts at 0 when the smallest value is below this share of the largest."""


@dataclass(frozen=True)
class Scale:
    """A map from values to positions along an axis.

    Attributes
    ----------
    low, high : float
        The values at the two ends; their logarithms on a logarithmic axis.
    start, end : float
        Positions of the two ends.
    ticks, minor : tuple of float
        Values of labeled ticks and of unlabeled ones.
    """

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool
    ticks: tuple[float, ...]
    minor: tuple[float, ...] = ()

    def position(self, value: float) -> float:
        """Return the position of a value; values beyond an end are at that end."""
        if self.logarithmic:
            value = math.log10(value) if value > 0 else -math.inf
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * share

    def labels(self) -> list[str]:
        """Return the labels of the ticks, all in one format."""
        if self.logarithmic:
            return _format_decades(self.ticks)
        return _format_evenly(self.ticks)


def is_drawable(value: float | None, logarithmic: bool = False) -> bool:
    """Return whether an axis can show a value: a finite number, positive on a logarithmic axis."""
    return value is not None and math.isfinite(value) and (value > 0 or not logarithmic)


def fit_scale(
    values: Iterable[float],
    start: float,
    end: float,
    *,
    logarithmic: bool = False,
    room: float = 0.06,
    zero: bool = True,
    most: int = 5,
) -> Scale:
    """Return a scale that shows all values.

    Parameters
    ----------
    values : iterable of float
        Values that `is_drawable` accepts.
    start, end : float
        Positions of the ends of the axis.
    logarithmic : bool
    room : float
        Share of the range that is free at both ends.
    zero : bool
        Whether a linear axis starts at 0 if 0 is near.
    most : int
        Approximate upper bound on the number of ticks.

    Examples
    --------
    >>> fit_scale([-0.42, -0.36], 0, 100).labels()
    ['−0.42', '−0.40', '−0.38', '−0.36']
    >>> fit_scale([3, 800], 0, 100, logarithmic=True).labels()
    ['10', '100', '1,000']
    """
    if logarithmic:
        return _fit_decades([min(max(value, 1 / LARGEST), LARGEST) for value in values], start, end, room, most)
    known = [min(max(value, -LARGEST), LARGEST) for value in values] or [0.0, 1.0]
    low, high = _linear_ends(min(known), max(known), room, zero)
    step = _round_step((high - low) / most)
    return Scale(low, high, start, end, False, tuple(_multiples(low, high, step)))


def thin_ticks(scale: Scale, size: float) -> Scale:
    """Return the scale of a horizontal axis without ticks whose labels would touch the previous one."""
    kept: list[float] = []
    free = -math.inf
    for tick, label in zip(scale.ticks, scale.labels(), strict=True):
        half = text_width(label, size) / 2
        if scale.position(tick) - half >= free:
            kept.append(tick)
            free = scale.position(tick) + half + size / 2
    return replace(scale, ticks=tuple(kept))


def text_width(text: str, size: float) -> float:
    """Return an upper estimate of the width of a text."""
    return 0.58 * size * len(text)


def format_number(value: float) -> str:
    """Return a number with at most four digits, or as an integer with thousands separators.

    Examples
    --------
    >>> format_number(-0.123456), format_number(499500.0), format_number(2.0)
    ('−0.1235', '499,500', '2')
    """
    whole = 1000 <= abs(value) < 1e9
    return (f"{value:,.0f}" if whole else f"{value:.4g}").replace("-", MINUS)


@dataclass(frozen=True)
class Frame:
    """The rectangle of a panel's data, and the left edge of its texts."""

    left: float
    right: float
    top: float
    floor: float
    edge: float


def draw_text(drawing: Drawing, x: float, y: float, text: str, room: float, *, size: float, **more: object) -> None:
    """Draw a text within ``room``; if it is cut, its tooltip has the whole text."""
    most = max(4, int(room / text_width("m", size)))
    if len(text) > most:
        more["hint"] = text
        text = text[: most - 1].rstrip() + "…"
    drawing.text(x, y, text, size=size, **more)  # type: ignore[arg-type]


def draw_frame(drawing: Drawing, frame: Frame, title: str, y_label: str, x_label: str) -> None:
    """Draw the title, the labels and the base line of a panel."""
    room = frame.right - frame.edge
    draw_text(drawing, frame.edge, frame.top - 28, title, room, size=13.5, font_weight=600)
    draw_text(drawing, frame.edge, frame.top - 11, y_label, room, size=LABEL_SIZE, fill=GREY)
    drawing.line(frame.left, frame.floor, frame.right, frame.floor, stroke=GREY)
    middle = (frame.left + frame.right) / 2
    draw_text(drawing, middle, frame.floor + 36, x_label, room, size=LABEL_SIZE, fill=GREY, text_anchor="middle")


def draw_axes(drawing: Drawing, frame: Frame, across: Scale, upward: Scale) -> None:
    """Draw the ticks and grid lines of a panel."""
    for tick, label in zip(upward.ticks, upward.labels(), strict=True):
        y = upward.position(tick)
        if abs(y - frame.floor) > 0.5:
            drawing.line(frame.left, y, frame.right, y, stroke=PALE)
        drawing.text(frame.left - 7, y + 4, label, size=TICK_SIZE, fill=GREY, text_anchor="end")
    for tick in upward.minor:
        drawing.line(frame.left, upward.position(tick), frame.left + 3, upward.position(tick), stroke="#c3c9d3")
    for tick in across.minor:
        drawing.line(across.position(tick), frame.floor, across.position(tick), frame.floor - 3, stroke="#c3c9d3")
    for tick, label in zip(across.ticks, across.labels(), strict=True):
        x = across.position(tick)
        drawing.line(x, frame.floor, x, frame.floor + 4, stroke=GREY)
        drawing.text(x, frame.floor + 17, label, size=TICK_SIZE, fill=GREY, text_anchor="middle")


def _linear_ends(low: float, high: float, room: float, zero: bool) -> tuple[float, float]:
    size = max(abs(low), abs(high))
    if size < 1 / LARGEST:
        return 0.0, 1.0
    if high - low < MIN_RANGE * size:
        return low - 0.1 * size, high + 0.1 * size
    below = low >= 0
    above = high <= 0
    if zero and 0 < low < NEAR_ZERO * high:
        low = 0.0
    if zero and 0 > high > NEAR_ZERO * low:
        high = 0.0
    free = room * (high - low)
    return (
        max(low - free, 0.0) if below else low - free,
        min(high + free, 0.0) if above else high + free,
    )


def _fit_decades(values: Sequence[float], start: float, end: float, room: float, most: int) -> Scale:
    scaled = [math.log10(value) for value in values] or [0.0, 1.0]
    low, high = min(scaled), max(scaled)
    free = room * (high - low) if high - low > MIN_RANGE else 0.5
    farthest = math.log10(LARGEST)
    low, high = max(low - free, -farthest), min(high + free, farthest)
    powers = range(math.ceil(low), math.floor(high) + 1)
    stride = max(1, math.ceil(len(powers) / (most + 1)))
    ticks = [10.0**power for power in powers if power % stride == 0]
    minor: list[float] = []
    if stride == 1:
        whole = range(math.floor(low), math.ceil(high) + 1)
        minor = [k * 10.0**power for power in whole for k in range(2, 10) if low <= math.log10(k) + power <= high]
    if len(ticks) < 2:
        ticks = sorted([*ticks, *(value for value in minor if f"{value:e}"[0] in "25")])
    if len(ticks) < 2:
        least, greatest = 10.0**low, 10.0**high
        ticks = _multiples(least, greatest, _round_step((greatest - least) / most))
    return Scale(low, high, start, end, True, tuple(ticks), tuple(minor))


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2, 5, 10, ... (or their tenths) that is at least ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return next((step * power for step in (1, 2, 5) if step * power >= least), 10 * power)


def _multiples(low: float, high: float, step: float) -> list[float]:
    slack = 1e-6
    first, last = math.ceil(low / step - slack), math.floor(high / step + slack)
    return [min(max(k * step, low), high) for k in range(first, last + 1)]


def _format_evenly(ticks: Sequence[float]) -> list[str]:
    if len(ticks) < 2:
        return [format_number(tick) for tick in ticks]
    step = (ticks[-1] - ticks[0]) / (len(ticks) - 1)
    places = max(0, -math.floor(math.log10(step) + 1e-6))
    if max(abs(tick) for tick in ticks) < 1e7 and places <= 5:
        return [f"{tick:,.{places}f}".replace("-", MINUS) if round(tick, places) else "0" for tick in ticks]
    size = math.floor(math.log10(max(abs(tick) for tick in ticks)))
    digits = max(0, size - math.floor(math.log10(step) + 1e-6))
    return [_format_power(tick, digits) for tick in ticks]


def _format_decades(ticks: Sequence[float]) -> list[str]:
    if all(tick > 0.99e-3 and tick < 1e5 for tick in ticks):
        return [f"{tick:,.0f}" if tick >= 1000 else f"{tick:.3g}" for tick in ticks]
    return [_format_power(tick, 3) for tick in ticks]


def _format_power(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    raised = "10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return raised if mantissa == "1" else f"{mantissa}×{raised}".replace("-", MINUS)  # noqa: RUF001
