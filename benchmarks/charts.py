"""This module draws charts of measurements with matplotlib, which is imported only when a chart is drawn."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.atomic_write import write_atomically
from sparsefield.errors import DataError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["COLORS", "Bar", "ChartsUnavailableError", "Series", "draw_bars", "draw_lines", "new_figure", "save_figure"]

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#1f2430", "#667085")
"""The palette of Okabe and Ito, which stays distinguishable with color blindness."""

STYLE = {
    "axes.grid": True, "axes.spines.right": False, "axes.spines.top": False, "axes.titlesize": "medium",
    "font.size": 10, "grid.color": "#e4e7ec", "legend.frameon": False,
    "svg.fonttype": "none", "svg.hashsalt": "sparsefield",
}  # fmt: skip
"""Text stays text in SVG files, and the same chart gives the same bytes."""


class ChartsUnavailableError(DataError):
    """This error says that matplotlib is not installed."""


@dataclass(frozen=True)
class Series:
    """A series is a named line of a chart.

    Attributes
    ----------
    name : str
    points : sequence of (x, y)
        In any order. A point is left out if a value is None, not finite, or not positive on a logarithmic axis.
    projected : sequence of (x, y)
        Estimates that were not measured; they have hollow markers on the same line.
    """

    name: str
    points: Sequence[tuple[float | None, float | None]]
    projected: Sequence[tuple[float | None, float | None]] = ()


@dataclass(frozen=True)
class Bar:
    """A bar is horizontal and has a name; ``part`` of it is drawn darker, and ``note`` is written after it."""

    name: str
    value: float
    part: float | None = None
    note: str = ""


def new_figure(width: float, height: float, title: str, subtitle: str = "") -> Figure:
    """Return an empty figure of a size in inches.

    Raises
    ------
    ChartsUnavailableError
        If matplotlib is not installed; the message names the extra that installs it.
    """
    try:
        import matplotlib as mpl
        from cycler import cycler
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ChartsUnavailableError("Charts need matplotlib: pip install 'sparsefield[bench]'.") from error
    style: Any = STYLE | {"axes.prop_cycle": cycler(color=COLORS)}
    mpl.rcParams.update(style)
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(f"{title}\n{subtitle}" if subtitle else title)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure atomically, in the format of the file's suffix."""
    out = io.BytesIO()
    kind = path.suffix.removeprefix(".")
    figure.savefig(out, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, out.getvalue())


def draw_lines(
    title: str,
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    subtitle: str = "",
    logarithmic: bool = True,
) -> Figure:
    """Draw lines through points; unless ``logarithmic``, both axes are linear and start at 0."""
    figure = new_figure(8.0, 4.8, title, subtitle)
    axes = figure.add_subplot(xlabel=x_label, ylabel=y_label)
    if logarithmic:
        axes.set(xscale="log", yscale="log")
    for k, one in enumerate(series):
        measured, projected = (_drawable(points, logarithmic) for points in (one.points, one.projected))
        color = COLORS[k % len(COLORS)]
        axes.plot(*_columns(sorted([*measured, *projected])), color=color)
        axes.plot(*_columns(measured), "o", color=color, label=one.name)
        axes.plot(*_columns(projected), "o", color=color, markerfacecolor="white")
    if any(_drawable(one.projected, logarithmic) for one in series):
        axes.plot([], [], "o", color=COLORS[-1], markerfacecolor="white", label="projected, not run")
    if series:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    if not logarithmic:
        axes.set(xlim=(0.0, None), ylim=(0.0, None))
    return figure


def draw_bars(title: str, bars: Sequence[Bar], *, label: str, subtitle: str = "", part_label: str = "") -> Figure:
    """Draw horizontal bars, the first on top, on a linear scale."""
    figure = new_figure(8.0, 1.6 + 0.35 * len(bars), title, subtitle)
    axes = figure.add_subplot(xlabel=label)
    axes.grid(axis="y", visible=False)
    for k, bar in enumerate(bars):
        value = bar.value if math.isfinite(bar.value) else 0.0
        axes.barh(k, value, color=COLORS[0] if bar.part is None else "#8fc1e3")
        if bar.part is not None:
            axes.barh(k, bar.part, color=COLORS[0])
        axes.annotate(bar.note or f"{bar.value:.3g}", (value, k), (4, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(bars)), [bar.name for bar in bars])
    axes.invert_yaxis()
    axes.margins(x=0.2)
    if part_label:
        axes.barh([0], [0], color=COLORS[0], label=part_label)
        axes.legend(loc="lower right")
    return figure


def _drawable(points: Sequence[tuple[Any, Any]], logarithmic: bool) -> list[tuple[float, float]]:
    def has_place(value: float | None) -> bool:
        return value is not None and math.isfinite(value) and (value > 0 if logarithmic else value >= 0)

    return sorted((float(x), float(y)) for x, y in points if has_place(x) and has_place(y))


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]
