"""Plain SVG: shapes in, text out."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

__all__ = ["BLUE", "GREY", "INK", "ORANGE", "PALE", "Drawing", "blend", "diverging"]

FONT = "Inter, 'Segoe UI', 'Helvetica Neue', Helvetica, Arial, sans-serif"
INK, GREY, PALE = "#1f2430", "#667085", "#e4e7ec"
BLUE, ORANGE = "#0072b2", "#d55e00"
"""Okabe and Ito's blue and vermilion: apart for every kind of color vision, and in gray."""


class Drawing:
    """A picture on a white card, legible on light and dark pages alike.

    Parameters
    ----------
    width, height : float
        Size in user units; the picture scales to the place it is shown in.
    title : str
        What it shows, for those who cannot see it.

    Examples
    --------
    >>> drawing = Drawing(40, 20, "a line")
    >>> drawing.line(0, 0, 40, 20, stroke=BLUE)
    >>> drawing.render().count("<line")
    1
    """

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self._parts: list[str] = []
        self.rect(0.5, 0.5, width - 1, height - 1, rx=10, fill="#ffffff", stroke=PALE)

    def shape(self, tag: str, *, hint: str | None = None, text: str | None = None, **attributes: object) -> None:
        """Any element; ``hint`` is shown when a mouse rests on it. Underscores in names become hyphens."""
        inside = "" if hint is None else f"<title>{escape(hint)}</title>"
        inside += "" if text is None else escape(text)
        written = _attributes(attributes)
        self._parts.append(f"<{tag}{written}>{inside}</{tag}>" if inside else f"<{tag}{written}/>")

    def rect(self, x: float, y: float, width: float, height: float, **more: object) -> None:
        self.shape("rect", x=x, y=y, width=width, height=height, **more)  # type: ignore[arg-type]

    def line(self, x1: float, y1: float, x2: float, y2: float, **more: object) -> None:
        self.shape("line", x1=x1, y1=y1, x2=x2, y2=y2, **more)  # type: ignore[arg-type]

    def path(self, d: str, **more: object) -> None:
        self.shape("path", d=d, **more)  # type: ignore[arg-type]

    def text(self, x: float, y: float, words: str, *, size: float = 13, fill: str = INK, **more: object) -> None:
        self.shape("text", text=words, x=x, y=y, font_size=size, fill=fill, **more)  # type: ignore[arg-type]

    def render(self) -> str:
        """The picture as an SVG document (which may also stand inside an HTML page)."""
        head = {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {_plain(self.width)} {_plain(self.height)}",
            "width": self.width,
            "height": self.height,
            "role": "img",
            "aria_label": self.title,
            "font_family": FONT,
        }
        return f"<svg{_attributes(head)}>\n" + "\n".join(self._parts) + "\n</svg>\n"


def blend(colors: Sequence[str], share: float) -> str:
    """A color between the given ones, spaced evenly: 0 is the first, 1 the last.

    Examples
    --------
    >>> blend(["#000000", "#ffffff"], 0.5)
    '#808080'
    """
    place = min(max(share, 0.0), 1.0) * (len(colors) - 1)
    left = min(int(place), len(colors) - 2)
    pairs = zip(_channels(colors[left]), _channels(colors[left + 1]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (place - left)):02x}" for a, b in pairs)


def diverging(value: float) -> str:
    """-1 orange, 0 nearly white, 1 blue."""
    return blend([ORANGE, "#f3b583", "#f7f7f5", "#8fc1e3", BLUE], 0.5 + value / 2)


def _channels(color: str) -> list[int]:
    return [int(color[k : k + 2], 16) for k in (1, 3, 5)]


def _attributes(values: dict[str, object]) -> str:
    return "".join(f" {key.replace('_', '-')}={quoteattr(_plain(value))}" for key, value in values.items())


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)
