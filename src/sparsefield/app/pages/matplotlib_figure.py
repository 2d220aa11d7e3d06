"""This module draws the shapes of a `Drawing` with matplotlib, for PNG and PDF files.

Texts stay texts, in fonts that PDF files contain. The same drawing gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsefield.app.pages.svg import Drawing, DrawnShape
from sparsefield.app.pages.visible_text import visible
from sparsefield.errors import DataError

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure
    from matplotlib.path import Path as MatplotlibPath

POINTS_PER_UNIT = 72 / 96
"""Points of print in a unit of a drawing, which is a pixel of CSS."""

FONTS = ("Arial", "Helvetica", "Liberation Sans", "DejaVu Sans")
"""Fonts in the order of preference; matplotlib always has the last one."""

ANCHORS = {"start": "left", "middle": "center", "end": "right"}
SETTINGS = {"pdf.fonttype": 42, "path.simplify": False, "lines.scale_dashes": False}
"""Fonts are embedded as TrueType, in which texts can be searched and edited; dashes are as long as they are drawn."""


def write_figure(drawing: Drawing, form: str, *, dpi: int = 300) -> bytes:
    """Return a drawing as the content of a PNG or PDF file; ``form`` is "png" or "pdf".

    This needs matplotlib: ``pip install 'sparsefield[plot]'``.
    """
    matplotlib = import_matplotlib()
    buffer = BytesIO()
    metadata = {"Title": drawing.title, "Creator": "sparsefield"} if form == "pdf" else {"Title": drawing.title}
    metadata |= {"CreationDate": None, "Producer": "matplotlib"} if form == "pdf" else {"Software": "sparsefield"}
    with matplotlib.rc_context(SETTINGS):
        make_figure(drawing).savefig(buffer, format=form, dpi=dpi, metadata=metadata)
    return buffer.getvalue()


def import_matplotlib() -> Any:
    """Return matplotlib, or explain how to install it."""
    try:
        import matplotlib
    except ImportError:
        raise DataError(
            "PNG and PDF files need matplotlib: pip install 'sparsefield[plot]', or write an .svg file."
        ) from None
    return matplotlib


def make_figure(drawing: Drawing) -> MatplotlibFigure:
    """Return a figure of matplotlib with the shapes of a drawing, at its size in print."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(drawing.width / 96, drawing.height / 96))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0, drawing.width), ylim=(drawing.height, 0))
    axes.set_axis_off()
    for order, shape in enumerate(drawing.shapes):
        _DRAW[shape.tag](axes, shape, order)
    return figure


def parse_path(d: str) -> tuple[np.ndarray, list[int]]:
    """Return the vertices (points, 2) and codes of a path, as `matplotlib.path.Path` has them.

    Examples
    --------
    >>> vertices, codes = parse_path("M1 2h3V5Z")
    >>> vertices.tolist(), codes
    ([[1.0, 2.0], [4.0, 2.0], [4.0, 5.0], [1.0, 2.0]], [1, 2, 2, 79])
    """
    vertices: list[tuple[float, float]] = []
    codes: list[int] = []
    here, first = (0.0, 0.0), (0.0, 0.0)
    for command, numbers in re.findall(r"([MLHVQCZhvl])([^MLHVQCZhvl]*)", d):
        values = [float(text) for text in re.findall(r"-?[\d.]+(?:e-?\d+)?", numbers)]
        if command == "Z":
            vertices, codes, here = [*vertices, first], [*codes, 79], first
            continue
        points = _absolute(command, values, here)
        vertices += points
        codes += {"M": [1, *[2] * (len(points) - 1)], "Q": [3] * len(points), "C": [4] * len(points)}.get(
            command, [2] * len(points)
        )
        here = points[-1]
        first = points[0] if command == "M" else first
    return np.array(vertices), codes


def _absolute(command: str, values: list[float], here: tuple[float, float]) -> list[tuple[float, float]]:
    """Return the points of a command; those of lower-case commands are relative to the last point."""
    x, y = here
    if command in "Hh":
        return [(value + (x if command == "h" else 0.0), y) for value in values]
    if command in "Vv":
        return [(x, value + (y if command == "v" else 0.0)) for value in values]
    shift = here if command == "l" else (0.0, 0.0)
    return [(a + shift[0], b + shift[1]) for a, b in zip(values[::2], values[1::2], strict=True)]


def _style(shape: DrawnShape) -> dict[str, Any]:
    """Return the colors and lines of a shape as matplotlib names them."""
    from matplotlib.colors import to_rgba

    given = shape.attributes
    opacity = float(str(given.get("opacity", 1.0)))

    def color(name: str, otherwise: str) -> Any:
        text = str(given.get(name, otherwise))
        return "none" if text == "none" else to_rgba(text, opacity * float(str(given.get(f"{name}-opacity", 1.0))))

    width = float(str(given.get("stroke-width", 1.0))) * POINTS_PER_UNIT
    dashes = [float(text) for text in str(given.get("stroke-dasharray", "")).replace(",", " ").split()]
    solid = {"butt": "butt", "round": "round"}.get(str(given.get("stroke-linecap", "butt")), "butt")
    stroke = color("stroke", "none")
    return {
        "facecolor": color("fill", "#000000"),
        "edgecolor": stroke,
        "linewidth": 0.0 if stroke == "none" else width,
        "linestyle": (0, [part * POINTS_PER_UNIT for part in dashes]) if dashes else "solid",
        "capstyle": solid,
        "joinstyle": "round" if given.get("stroke-linejoin") == "round" else "miter",
    }


def _numbers(shape: DrawnShape, *names: str) -> list[float]:
    return [float(str(shape.attributes.get(name, 0.0))) for name in names]


def _add(axes: Any, patch: Any, order: int) -> None:
    patch.set_zorder(order)
    patch.set_clip_on(False)
    axes.add_artist(patch)


def _draw_rect(axes: Any, shape: DrawnShape, order: int) -> None:
    from matplotlib.patches import FancyBboxPatch, Rectangle

    x, y, width, height, rounded = _numbers(shape, "x", "y", "width", "height", "rx")
    if not rounded or width <= 2 * rounded or height <= 2 * rounded:
        _add(axes, Rectangle((x, y), width, height, **_style(shape)), order)
        return
    box = f"round,pad=0,rounding_size={rounded}"
    _add(axes, FancyBboxPatch((x, y), width, height, boxstyle=box, **_style(shape)), order)


def _draw_circle(axes: Any, shape: DrawnShape, order: int) -> None:
    from matplotlib.patches import Circle

    x, y, radius = _numbers(shape, "cx", "cy", "r")
    _add(axes, Circle((x, y), radius, **_style(shape)), order)


def _draw_line(axes: Any, shape: DrawnShape, order: int) -> None:
    x1, y1, x2, y2 = _numbers(shape, "x1", "y1", "x2", "y2")
    _draw_outline(axes, shape, np.array([(x1, y1), (x2, y2)]), [1, 2], order, filled=False)


def _draw_path(axes: Any, shape: DrawnShape, order: int) -> None:
    _draw_outline(axes, shape, *parse_path(str(shape.attributes["d"])), order, filled=True)


def _draw_outline(
    axes: Any, shape: DrawnShape, vertices: np.ndarray, codes: list[int], order: int, *, filled: bool
) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    path: MatplotlibPath = Path(vertices, codes)
    _add(axes, PathPatch(path, **_style(shape) | ({} if filled else {"facecolor": "none"})), order)


def _draw_text(axes: Any, shape: DrawnShape, order: int) -> None:
    """Draw a text; its outline is drawn separately below it, since matplotlib turns texts with effects into paths."""
    from matplotlib.patheffects import Stroke

    given, (x, y, size) = shape.attributes, _numbers(shape, "x", "y", "font-size")
    turn = re.match(r"rotate\((-?[\d.]+)", str(given.get("transform", "")))
    style = {
        "fontsize": size * POINTS_PER_UNIT,
        "fontfamily": _font(),
        "fontweight": "bold" if int(str(given.get("font-weight", 400))) >= 600 else "normal",
        "fontstyle": str(given.get("font-style", "normal")),
        "ha": ANCHORS[str(given.get("text-anchor", "start"))],
        "va": "baseline",
        "rotation": -float(turn.group(1)) if turn else 0.0,
        "rotation_mode": "anchor",
        "parse_math": False,  # a dollar sign in a name is a dollar sign
    }
    text = visible(shape.text or "")
    if "stroke" in given:
        width = float(str(given.get("stroke-width", 1.0))) * POINTS_PER_UNIT
        color = str(given["stroke"])
        effects = [Stroke(linewidth=width, foreground=color)]
        axes.text(x, y, text, color=color, zorder=order - 0.5, path_effects=effects, **style)
    axes.text(x, y, text, color=str(given.get("fill", "#000000")), zorder=order, **style)


def _font() -> str:
    from matplotlib.font_manager import fontManager

    known = {font.name for font in fontManager.ttflist}
    return next(name for name in FONTS if name in known)


_DRAW: dict[str, Callable[[Any, DrawnShape, int], None]] = {
    "rect": _draw_rect,
    "circle": _draw_circle,
    "line": _draw_line,
    "path": _draw_path,
    "text": _draw_text,
}
