"""Small multiples: curves of means with error bars, and histograms, on one card with one key."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Literal

from benchmarks.charts import COLORS
from sparsefield.viz.axes import (
    TICK,
    Frame,
    Scale,
    draw_axes,
    draw_frame,
    fit_scale,
    has_place,
    say_nothing,
    tell,
    tell_mean,
    text_width,
    thin_ticks,
    write,
)
from sparsefield.viz.svg import GREY, Drawing

__all__ = [
    "Curve",
    "Histogram",
    "HistogramPanel",
    "Level",
    "Look",
    "Panel",
    "Post",
    "Spot",
    "choose_looks",
    "draw_histograms",
    "draw_look",
    "draw_panels",
]

WIDTH, MARGIN, GAP = 900.0, 36.0, 26.0
HEAD, PANEL_HEAD, PANEL_FOOT, KEY_STEP = 64.0, 46.0, 60.0, 22.0
INSET = 13.0
"""Free room at both ends of the x axis, where curves that stand beside each other find place."""

MARKS = (
    "M-3.7 0a3.7 3.7 0 1 0 7.4 0a3.7 3.7 0 1 0-7.4 0Z",
    "M-3.3-3.3H3.3V3.3H-3.3Z",
    "M0-4.4L4.3 3.3H-4.3Z",
    "M0-4.8L4.4 0L0 4.8L-4.4 0Z",
    "M0 4.4L4.3-3.3H-4.3Z",
)
"""Circle, square, triangle, diamond, triangle upside down: curves differ in form as well as in color."""

DASHES = "5 3"
FILL = 0.12
Kind = Literal["curve", "level", "band", "histogram"]


@dataclass(frozen=True)
class Spot:
    """A mean at a place, and half the length of its error bar; None where there is one value only."""

    x: float
    mean: float
    error: float | None = None


@dataclass(frozen=True)
class Curve:
    """A named line through spots.

    Attributes
    ----------
    name : str
        Curves whose names agree up to the first comma, colon or bracket (``CFI, pl`` and ``CFI, cd``) share a color.
    spots : sequence of Spot
        In any order. A spot that has no place (None, not finite, or not above 0 on a logarithmic axis) is left out.
    dashed : bool
        Dashes and hollow marks, as for the second objective of a method.
    color : str or None
        By default the next of the report's colors.
    """

    name: str
    spots: Sequence[Spot]
    dashed: bool = False
    color: str | None = None


@dataclass(frozen=True)
class Level:
    """A horizontal line to compare curves with, and a band of one error to either side."""

    name: str
    mean: float
    error: float | None = None
    dashed: bool = False
    color: str | None = None


@dataclass(frozen=True)
class Post:
    """A vertical line at a place that all curves have in common."""

    name: str
    x: float
    dashed: bool = False
    color: str | None = None


@dataclass(frozen=True)
class Panel:
    """One small chart: what it shows, what its axes count, and its curves."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    levels: Sequence[Level] = ()
    log_x: bool = False
    log_y: bool = False
    posts: Sequence[Post] = ()


@dataclass(frozen=True)
class Histogram:
    """Counts between edges; there is one edge more than there are counts, and edges increase."""

    name: str
    edges: Sequence[float]
    counts: Sequence[float]

    def __post_init__(self) -> None:
        if len(self.edges) != len(self.counts) + 1:
            raise ValueError(
                f"Histogram {self.name!r}: {len(self.counts)} counts need {len(self.counts) + 1} edges, "
                f"not {len(self.edges)}."
            )
        if not all(a < b and math.isfinite(b - a) for a, b in pairwise(self.edges)):
            raise ValueError(f"Histogram {self.name!r}: its edges must be finite and increase.")


@dataclass(frozen=True)
class HistogramPanel:
    """Histograms drawn over each other as outlines."""

    title: str
    x_label: str
    histograms: Sequence[Histogram]


@dataclass(frozen=True)
class Look:
    """How a name looks wherever it stands; a band is a level that has an error."""

    name: str
    color: str
    mark: str
    dashed: bool
    kind: Kind


def choose_looks(panels: Sequence[Panel] | Sequence[HistogramPanel]) -> dict[str, Look]:
    """A look per name, in the order of the key: curves first, then levels and posts."""
    found: dict[str, tuple[str | None, bool, Kind]] = {}
    for panel in panels:
        for one in panel.histograms if isinstance(panel, HistogramPanel) else panel.curves:
            if isinstance(one, Curve):
                found.setdefault(one.name, (one.color, one.dashed, "curve"))
            else:
                found.setdefault(one.name, (None, False, "histogram"))
    for panel in panels:
        for level in panel.levels if isinstance(panel, Panel) else ():
            found.setdefault(level.name, (level.color, level.dashed, "band" if _error_of(level) else "level"))
        for post in panel.posts if isinstance(panel, Panel) else ():
            found.setdefault(post.name, (post.color, post.dashed, "level"))
    places: dict[str, int] = {}
    asked: dict[str, str] = {}
    for name, (color, _, _) in found.items():
        places.setdefault(_first_part(name), len(places))
        if color is not None:
            asked.setdefault(_first_part(name), color)
    looks: dict[str, Look] = {}
    for name, (color, dashed, kind) in found.items():
        part = _first_part(name)
        k = places[part]
        shown = color or asked.get(part) or COLORS[k % len(COLORS)]
        looks[name] = Look(name, shown, MARKS[k % len(MARKS)], dashed, kind)
    return looks


def draw_look(look: Look) -> str:
    """A sample of a look as a small SVG picture without a card, to stand beside its name."""
    drawing = _Bare(26, 14, look.name)
    _draw_sample(drawing, 0, 7, look)
    return drawing.render()


def draw_panels(title: str, panels: Sequence[Panel], *, words: str = "", columns: int = 3) -> str:
    """Panels of curves on one card with one key, as an SVG document.

    Parameters
    ----------
    title, words : str
        What it shows, and a smaller line below.
    panels : sequence of Panel
    columns : int
        How many panels stand side by side.

    Examples
    --------
    >>> curve = Curve("CFI", [Spot(25, 1.2, 0.1), Spot(50, 4.0, 0.3)])
    >>> draw_panels("Time", [Panel("Time", "nodes", "seconds", [curve], log_x=True)]).count('class="spot"')
    2
    """
    looks = choose_looks(panels)
    upward = [_fit_upward(panel) for panel in panels]
    card = _Card(title, words, list(looks.values()), len(panels), columns, upward)
    for k, panel in enumerate(panels):
        frame = card.frame(k)
        scale = replace(upward[k], start=frame.floor, end=frame.top)
        across = _fit_across(panel, frame)
        draw_frame(card.drawing, frame, panel.title, panel.y_label, panel.x_label)
        if across is None:
            say_nothing(card.drawing, frame)
            continue
        draw_axes(card.drawing, frame, across, scale)
        for level in panel.levels:
            if has_place(level.mean, panel.log_y):
                _draw_level(card.drawing, frame, level, looks[level.name], scale)
        for post in panel.posts:
            if has_place(post.x, panel.log_x):
                _draw_post(card.drawing, frame, post, looks[post.name], across)
        _draw_curves(card.drawing, panel, looks, across, scale)
    return card.drawing.render()


def draw_histograms(
    title: str, panels: Sequence[HistogramPanel], *, words: str = "", columns: int = 2, logarithmic: bool = True
) -> str:
    """Panels of histograms on one card with one key, as an SVG document.

    Parameters
    ----------
    title, words : str
        What it shows, and a smaller line below.
    panels : sequence of HistogramPanel
    columns : int
        How many panels stand side by side.
    logarithmic : bool
        Whether counts go by powers of ten; empty bins then stand on the floor.

    Examples
    --------
    >>> panel = HistogramPanel("Signals", "signal", [Histogram("pl", [-1, 0, 1], [3, 90])])
    >>> draw_histograms("Signals", [panel]).count('class="outline"')
    1
    """
    looks = choose_looks(panels)
    upward = [_fit_counts(panel, logarithmic) for panel in panels]
    card = _Card(title, words, list(looks.values()), len(panels), columns, upward)
    for k, panel in enumerate(panels):
        frame = card.frame(k)
        draw_frame(card.drawing, frame, panel.title, "count", panel.x_label)
        edges = [edge for one in panel.histograms for edge in one.edges if has_place(edge)]
        if not any(has_place(count) for one in panel.histograms for count in one.counts):
            say_nothing(card.drawing, frame)
            continue
        across = thin_ticks(fit_scale(edges, frame.left, frame.right, room=0.0, zero=False), TICK)
        scale = replace(upward[k], start=frame.floor, end=frame.top)
        draw_axes(card.drawing, frame, across, scale)
        for one in panel.histograms:
            _draw_outline(card.drawing, one, looks[one.name], across, scale)
        _draw_bins(card.drawing, frame, panel.histograms, across)
    return card.drawing.render()


class _Bare(Drawing):
    """A drawing without a card."""

    def __init__(self, width: float, height: float, title: str) -> None:
        super().__init__(width, height, title)
        self._parts.clear()


class _Card:
    """A drawing with its title and key, divided into frames."""

    def __init__(
        self, title: str, words: str, key: Sequence[Look], count: int, columns: int, upward: Sequence[Scale]
    ) -> None:
        self.columns = max(1, min(columns, count))
        widest = max((text_width(label, TICK) for scale in upward for label in scale.labels()), default=0.0)
        self.ticks = min(max(widest, 18.0), 78.0) + 8
        self.step = (WIDTH - 2 * MARGIN + GAP) / self.columns
        self.plot = min(max(0.62 * (self.step - GAP - self.ticks), 150.0), 320.0)
        rows = math.ceil(count / self.columns)
        lines = _key_lines(key, WIDTH - 2 * MARGIN)
        self.top = HEAD + (0 if words else -16) + 18 + KEY_STEP * len(lines)
        height = self.top + rows * (PANEL_HEAD + self.plot + PANEL_FOOT) - 6
        self.drawing = Drawing(WIDTH, height, title)
        write(self.drawing, MARGIN, 42, title, WIDTH - 2 * MARGIN, size=18, font_weight=600)
        if words:
            write(self.drawing, MARGIN, HEAD, words, WIDTH - 2 * MARGIN, size=13, fill=GREY)
        for k, line in enumerate(lines):
            for x, look, room in line:
                y = self.top - 14 - KEY_STEP * (len(lines) - 1 - k)
                _draw_sample(self.drawing, MARGIN + x, y - 4, look)
                write(self.drawing, MARGIN + x + 34, y, look.name, room, size=12.5)

    def frame(self, k: int) -> Frame:
        row, column = divmod(k, self.columns)
        edge = MARGIN + column * self.step
        top = self.top + row * (PANEL_HEAD + self.plot + PANEL_FOOT) + PANEL_HEAD
        return Frame(edge + self.ticks, edge + self.step - GAP, top, top + self.plot, edge)


def _key_lines(key: Sequence[Look], width: float) -> list[list[tuple[float, Look, float]]]:
    """The key as lines of (place, look, room for words), in even columns."""
    if not key:
        return []
    widest = min(max(text_width(look.name, 12.5) for look in key) + 58, width / 2)
    most = max(1, int(width / widest))
    per_line = math.ceil(len(key) / math.ceil(len(key) / most))
    return [
        [(widest * k, look, widest - 52) for k, look in enumerate(key[first : first + per_line])]
        for first in range(0, len(key), per_line)
    ]


def _first_part(name: str) -> str:
    for mark in ",:([":
        name = name.partition(mark)[0]
    return name.strip()


def _error_of(one: Spot | Level) -> float:
    """Half the bar's length; 0 where none can be drawn."""
    return one.error if one.error is not None and math.isfinite(one.error) and one.error > 0 else 0.0


def _placed(curve: Curve, panel: Panel) -> list[Spot]:
    known = [spot for spot in curve.spots if has_place(spot.x, panel.log_x) and has_place(spot.mean, panel.log_y)]
    return sorted(known, key=lambda spot: spot.x)


def _fit_upward(panel: Panel) -> Scale:
    shown: list[Spot | Level] = [spot for curve in panel.curves for spot in _placed(curve, panel)]
    shown += [level for level in panel.levels if has_place(level.mean, panel.log_y)]
    # A bar that reaches down to nearly 0 would take up all powers of ten: it is shown to a fifth of its mean.
    lows = [max(one.mean - _error_of(one), one.mean / 5 if panel.log_y else -math.inf) for one in shown]
    ends = lows + [one.mean + sign * _error_of(one) for one in shown for sign in (0, 1)]
    return fit_scale([end for end in ends if has_place(end, panel.log_y)], 0.0, 1.0, logarithmic=panel.log_y, most=5)


def _fit_across(panel: Panel, frame: Frame) -> Scale | None:
    """The x axis; None where there is nothing to show. A few values that go by powers are ticks themselves."""
    places = sorted({spot.x for curve in panel.curves for spot in _placed(curve, panel)})
    if not places and not any(has_place(level.mean, panel.log_y) for level in panel.levels):
        return None
    start, end = frame.left + INSET, frame.right - INSET
    scale = fit_scale(places, start, end, logarithmic=panel.log_x, room=0.0, zero=False)
    if len(places) < 2:
        return replace(scale, ticks=tuple(places), minor=())
    if panel.log_x and len(places) <= 8:
        own = thin_ticks(replace(scale, ticks=tuple(places), minor=()), TICK)
        scale = own if len(own.ticks) > 1 else scale
    return thin_ticks(scale, TICK)


def _fit_counts(panel: HistogramPanel, logarithmic: bool) -> Scale:
    counts = [count for one in panel.histograms for count in one.counts if has_place(count, logarithmic)]
    if logarithmic:
        floor = [min(0.6 * min(counts), 0.6 * max(counts))] if counts else []
        return fit_scale([*floor, *counts], 0.0, 1.0, logarithmic=True, room=0.02)
    return fit_scale([0.0, *counts], 0.0, 1.0)


def _offsets(panel: Panel, across: Scale) -> list[float]:
    """How far each curve stands aside, so that error bars at the same x stay apart and the order of x is kept."""
    count = len(panel.curves)
    places = sorted({across.place(spot.x) for curve in panel.curves for spot in _placed(curve, panel)})
    nearest = min((b - a for a, b in pairwise(places)), default=math.inf)
    step = min(2.3, 2 * (INSET - 3) / max(count - 1, 1), 0.6 * nearest / max(count, 1))
    return [step * (k - (count - 1) / 2) for k in range(count)]


def _draw_sample(drawing: Drawing, x: float, y: float, look: Look) -> None:
    if look.kind == "histogram":
        drawing.rect(x + 1, y - 5.5, 24, 11, fill=look.color, fill_opacity=FILL, stroke=look.color, stroke_width=1.4)
        return
    if look.kind == "band":
        drawing.rect(x, y - 5, 26, 10, fill=look.color, fill_opacity=FILL)
    drawing.line(x, y, x + 26, y, stroke=look.color, stroke_width=1.8, **_dash(look.dashed))
    if look.kind == "curve":
        _draw_mark(drawing, x + 13, y, look)


def _draw_level(drawing: Drawing, frame: Frame, level: Level, look: Look, upward: Scale) -> None:
    hint = f"{level.name}: {tell_mean(level.mean, level.error)}"
    error = _error_of(level)
    if error:
        top, floor = upward.place(level.mean + error), upward.place(level.mean - error)
        drawing.rect(
            frame.left, top, frame.right - frame.left, floor - top, fill=look.color, fill_opacity=FILL, hint=hint,
            **{"class": "band"},
        )  # fmt: skip
    y = upward.place(level.mean)
    drawing.line(
        frame.left, y, frame.right, y, stroke=look.color, stroke_width=1.8, hint=hint, **_dash(look.dashed),
        **{"class": "level"},
    )  # fmt: skip


def _draw_post(drawing: Drawing, frame: Frame, post: Post, look: Look, across: Scale) -> None:
    x = across.place(post.x)
    drawing.line(
        x, frame.top, x, frame.floor, stroke=look.color, stroke_width=1.8, hint=f"{post.name}: {tell(post.x)}",
        **_dash(look.dashed), **{"class": "post"},
    )  # fmt: skip


def _draw_curves(drawing: Drawing, panel: Panel, looks: Mapping[str, Look], across: Scale, upward: Scale) -> None:
    """Bars lie below all lines, and lines below all marks."""
    shown: list[tuple[Look, list[tuple[Spot, float, float]]]] = []
    for curve, offset in zip(panel.curves, _offsets(panel, across), strict=True):
        spots = _placed(curve, panel)
        places = [(spot, across.place(spot.x) + offset, upward.place(spot.mean)) for spot in spots]
        shown.append((looks[curve.name], places))
    for look, places in shown:
        for spot, x, _ in places:
            error = _error_of(spot)
            if error:
                _draw_bar(drawing, x, spot.mean - error, spot.mean + error, look.color, upward)
    for look, places in shown:
        if len(places) > 1:
            d = "M" + "L".join(f"{x:.2f} {y:.2f}" for _, x, y in places)
            more = {**_dash(look.dashed), "class": "curve", "stroke_linejoin": "round"}
            drawing.path(d, fill="none", stroke=look.color, stroke_width=1.8, **more)
    for look, places in shown:
        for spot, x, y in places:
            _draw_mark(drawing, x, y, look, f"{look.name}: {tell(spot.x)}, {tell_mean(spot.mean, spot.error)}")


def _draw_bar(drawing: Drawing, x: float, low: float, high: float, color: str, upward: Scale) -> None:
    """An error bar; an end that the axis does not show has no cap."""
    ends = upward.place(low), upward.place(high)
    d = f"M{x:.2f} {ends[0]:.2f}V{ends[1]:.2f}"
    for value, y in zip((low, high), ends, strict=True):
        d += f"M{x - 2.6:.2f} {y:.2f}h5.2" if upward.holds(value) else ""
    drawing.path(d, fill="none", stroke=color, stroke_width=1.2, stroke_opacity=0.8, **{"class": "bar"})


def _draw_mark(drawing: Drawing, x: float, y: float, look: Look, hint: str | None = None) -> None:
    more: dict[str, object] = {"fill": look.color, "stroke": "#ffffff", "stroke_width": 0.9}
    if look.dashed:
        more = {"fill": "#ffffff", "stroke": look.color, "stroke_width": 1.5}
    if hint is not None:
        more["class"] = "spot"
    drawing.path(look.mark, hint=hint, transform=f"translate({x:.2f} {y:.2f})", **more)


def _draw_outline(drawing: Drawing, one: Histogram, look: Look, across: Scale, upward: Scale) -> None:
    """A step per bin, in one piece for each run of bins that are not empty."""
    places = pairwise(across.place(edge) for edge in one.edges)
    bins = [(a, b, count) for (a, b), count in zip(places, one.counts, strict=True)]
    d = ""
    for full, run in groupby(bins, key=lambda each: has_place(each[2], upward.logarithmic) and each[2] != 0):
        if full:
            steps = list(run)
            d += f"M{steps[0][0]:.2f} {upward.start:.2f}"
            d += "".join(f"V{upward.place(count):.2f}H{x:.2f}" for _, x, count in steps) + f"V{upward.start:.2f}"
    if d:
        drawing.path(d, fill=look.color, fill_opacity=FILL)
        line = {"stroke": look.color, "stroke_width": 1.4, "stroke_linejoin": "round", "class": "outline"}
        drawing.path(d, fill="none", **line)


def _draw_bins(drawing: Drawing, frame: Frame, histograms: Sequence[Histogram], across: Scale) -> None:
    """Clear columns over the bins, which tell the counts of all histograms with the same edges."""
    groups: dict[tuple[float, ...], list[Histogram]] = {}
    for one in histograms:
        groups.setdefault(tuple(one.edges), []).append(one)
    for edges, group in groups.items():
        for k, (low, high) in enumerate(pairwise(edges)):
            told = [f"{one.name}: {tell(one.counts[k])}" for one in group if one.counts[k]]
            if told:
                x = across.place(low)
                drawing.rect(
                    x, frame.top, across.place(high) - x, frame.floor - frame.top, fill_opacity=0,
                    hint=f"{tell(low)} to {tell(high)}: {', '.join(told)}", **{"class": "bin"},
                )  # fmt: skip


def _dash(dashed: bool) -> dict[str, object]:
    return {"stroke_dasharray": DASHES} if dashed else {}
