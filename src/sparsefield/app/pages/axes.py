"""This module fits axes to values, chooses their ticks, and draws them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sparsefield.app.pages.palette import GREY, PALE
from sparsefield.app.pages.svg import Drawing, text_width

TICK_SIZE = 11.0
MINUS = "\u2212"
LARGEST = 1e300
"""Values beyond this are drawn at the end of the axis, so that no difference overflows."""

MIN_RANGE = 1e-9
"""A range narrower than this share of its values is drawn as one value."""

NEAR_ZERO = 0.4
"""A linear axis starts at 0 when the smallest value is below this share of the largest."""

MAX_TICKS = 5
"""Approximate upper bound on the number of labeled ticks."""


@dataclass(frozen=True)
class Scale:
    """A map from values to positions along an axis, from (low, start) to (high, end)."""

    low: float
    high: float
    """The values at the two ends; their logarithms on a logarithmic axis."""
    start: float
    end: float
    logarithmic: bool
    ticks: tuple[float, ...]
    """Values of labeled ticks; ``minor`` are those of unlabeled ones."""
    minor: tuple[float, ...] = ()

    def position(self, value: float) -> float:
        """Return the position of a value; values beyond an end are at that end."""
        if self.logarithmic:
            value = math.log10(value) if value > 0 else -math.inf
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * share

    def labels(self) -> list[str]:
        """Return the labels of the ticks, all in one format."""
        return _format_decades(self.ticks) if self.logarithmic else _format_evenly(self.ticks)

    def thin_ticks(self) -> Scale:
        """Return the scale of a horizontal axis without ticks whose labels would touch the previous one."""
        kept: list[float] = []
        free = -math.inf
        for tick, label in zip(self.ticks, self.labels(), strict=True):
            half = text_width(label, TICK_SIZE) / 2
            if self.position(tick) - half >= free:
                kept.append(tick)
                free = self.position(tick) + half + TICK_SIZE / 2
        return replace(self, ticks=tuple(kept))


@dataclass(frozen=True)
class PlotArea:
    """The rectangle of a panel's data, and the left edge of its texts."""

    left: float
    right: float
    top: float
    floor: float
    edge: float


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
) -> Scale:
    """Return a scale that shows all values, which `is_drawable` accepts.

    A share ``room`` of the range is free at both ends. With ``zero``, a linear axis starts at 0 if 0 is near.

    Examples
    --------
    >>> fit_scale([-0.42, -0.36], 0, 100).labels()
    ['−0.42', '−0.40', '−0.38', '−0.36']
    >>> fit_scale([3, 800], 0, 100, logarithmic=True).labels()
    ['10', '100', '1,000']
    """
    if logarithmic:
        return _fit_decades([min(max(value, 1 / LARGEST), LARGEST) for value in values], start, end, room)
    known = [min(max(value, -LARGEST), LARGEST) for value in values] or [0.0, 1.0]
    low, high = _linear_ends(min(known), max(known), room, zero)
    return Scale(low, high, start, end, False, tuple(_round_ticks(low, high)))


def format_number(value: float) -> str:
    """Return a number with at most four digits, or as an integer with thousands separators.

    Examples
    --------
    >>> format_number(-0.123456), format_number(499500.0), format_number(2.0)
    ('−0.1235', '499,500', '2')
    """
    return (f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}").replace("-", MINUS)


def draw_axes(drawing: Drawing, frame: PlotArea, across: Scale, upward: Scale) -> None:
    """Draw the ticks and grid lines of a panel."""
    for tick, label in zip(upward.ticks, upward.labels(), strict=True):
        y = upward.position(tick)
        if abs(y - frame.floor) > 0.5:
            drawing.line(frame.left, y, frame.right, y, stroke=PALE)
        drawing.text(frame.left - 7, y + 4, label, size=TICK_SIZE, fill=GREY, text_anchor="end")
    for y in map(upward.position, upward.minor):
        drawing.line(frame.left, y, frame.left + 3, y, stroke="#c3c9d3")
    for x in map(across.position, across.minor):
        drawing.line(x, frame.floor, x, frame.floor - 3, stroke="#c3c9d3")
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
    # Room is not added beyond 0.
    least, greatest = 0.0 if low >= 0 else -math.inf, 0.0 if high <= 0 else math.inf
    if zero and 0 < low < NEAR_ZERO * high:
        low = 0.0
    if zero and 0 > high > NEAR_ZERO * low:
        high = 0.0
    free = room * (high - low)
    return max(low - free, least), min(high + free, greatest)


def _fit_decades(values: Sequence[float], start: float, end: float, room: float) -> Scale:
    scaled = [math.log10(value) for value in values] or [0.0, 1.0]
    low, high = min(scaled), max(scaled)
    free = room * (high - low) if high - low > MIN_RANGE else 0.5
    farthest = math.log10(LARGEST)
    low, high = max(low - free, -farthest), min(high + free, farthest)
    powers = range(math.ceil(low), math.floor(high) + 1)
    stride = max(1, math.ceil(len(powers) / (MAX_TICKS + 1)))
    ticks = [10.0**power for power in powers if power % stride == 0]
    minor: list[float] = []
    if stride == 1:
        whole = range(math.floor(low), math.ceil(high) + 1)
        minor = [k * 10.0**power for power in whole for k in range(2, 10) if low <= math.log10(k) + power <= high]
    if len(ticks) < 2:
        ticks = sorted([*ticks, *(value for value in minor if f"{value:e}"[0] in "25")])
    if len(ticks) < 2:
        ticks = _round_ticks(10.0**low, 10.0**high)
    return Scale(low, high, start, end, True, tuple(ticks), tuple(minor))


def _round_ticks(low: float, high: float) -> list[float]:
    """Return the multiples of 1, 2 or 5 times a power of 10 that are between two values."""
    least, slack = (high - low) / MAX_TICKS, 1e-6
    power = 10.0 ** math.floor(math.log10(least))
    step = next((step * power for step in (1, 2, 5) if step * power >= least), 10 * power)
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
    if all(0.99e-3 < tick < 1e5 for tick in ticks):
        return [f"{tick:,.0f}" if tick >= 1000 else f"{tick:.3g}" for tick in ticks]
    return [_format_power(tick, 3) for tick in ticks]


def _format_power(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    raised = "10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return raised if mantissa == "1" else f"{mantissa}×{raised}".replace("-", MINUS)  # noqa: RUF001
