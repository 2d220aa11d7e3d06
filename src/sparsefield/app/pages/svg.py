"""This module describes pictures as a list of shapes, and writes them as SVG without a drawing library.

`sparsefield.app.pages.matplotlib_figure` draws the same shapes on a figure of matplotlib, for PNG and PDF.
"""

from __future__ import annotations

from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from sparsefield.app.pages.palette import FONT, INK, PALE, WHITE
from sparsefield.app.pages.short_names import shorten
from sparsefield.app.pages.visible_text import visible

PIXELS_PER_MM = 96 / 25.4
"""Units of a drawing in a millimeter: those of CSS."""


@dataclass(frozen=True)
class DrawnShape:
    """An element of a picture: a rect, line, circle, path or text, with its attributes by their SVG names."""

    tag: str
    attributes: dict[str, object]
    text: str | None = None
    hint: str | None = None
    """Tooltip."""

    def render(self) -> str:
        """Return the element as SVG."""
        inside = "" if self.hint is None else f"<title>{escape(visible(self.hint))}</title>"
        inside += "" if self.text is None else escape(visible(self.text))
        written = _attributes(self.attributes)
        return f"<{self.tag}{written}>{inside}</{self.tag}>" if inside else f"<{self.tag}{written}/>"


class Drawing:
    """A picture on a white background, which is legible on light and dark pages; by default a card with a border.

    It scales with its container, unless it has a width in millimeters for print. Screen readers read its title.

    Attributes
    ----------
    shapes : list of DrawnShape
        In the order in which they are drawn.

    Examples
    --------
    >>> drawing = Drawing(40, 20, "a line")
    >>> drawing.line(0, 0, 40, 20, stroke="#0072b2")
    >>> drawing.render().count("<line")
    1
    """

    def __init__(self, width: float, height: float, title: str, *, card: bool = True, in_mm: bool = False) -> None:
        self.width, self.height, self.title, self.in_mm = width, height, title, in_mm
        self.shapes: list[DrawnShape] = []
        if card:
            self.rect(0.5, 0.5, width - 1, height - 1, rx=10, fill=WHITE, stroke=PALE)
        else:
            self.rect(0, 0, width, height, fill=WHITE)

    def shape(self, tag: str, *, hint: str | None = None, text: str | None = None, **attributes: object) -> None:
        """Add an element; ``hint`` is its tooltip. Underscores in attribute names become hyphens."""
        named = {key.replace("_", "-"): value for key, value in attributes.items()}
        self.shapes.append(DrawnShape(tag, named, text, hint))

    def rect(self, x: float, y: float, width: float, height: float, **more: object) -> None:
        self.shape("rect", x=x, y=y, width=width, height=height, **more)  # type: ignore[arg-type]

    def line(self, x1: float, y1: float, x2: float, y2: float, **more: object) -> None:
        self.shape("line", x1=x1, y1=y1, x2=x2, y2=y2, **more)  # type: ignore[arg-type]

    def circle(self, x: float, y: float, radius: float, **more: object) -> None:
        self.shape("circle", cx=x, cy=y, r=radius, **more)  # type: ignore[arg-type]

    def path(self, d: str, **more: object) -> None:
        """Add a path of the commands M, L, H, V, Q, C, Z, or h, v and l relative to the last point."""
        self.shape("path", d=d, **more)  # type: ignore[arg-type]

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 13,
        fill: str = INK,
        room: float = 1e9,
        turn: float = 0.0,
        **more: object,
    ) -> None:
        """Add a text, turned by an angle in degrees; if it is longer than ``room``, it is cut, with a tooltip."""
        shown = shorten(text, max(4, int(room / text_width("m", size))))
        more |= {} if shown == text else {"hint": text}
        more |= {"transform": f"rotate({_plain(float(turn))} {_plain(float(x))} {_plain(float(y))})"} if turn else {}
        self.shape("text", text=shown, x=x, y=y, font_size=size, fill=fill, **more)  # type: ignore[arg-type]

    def render(self) -> str:
        """Return the picture as an SVG document, which an HTML page may contain."""
        sizes = {"width": self.width, "height": self.height}
        if self.in_mm:
            sizes = {name: f"{_plain(size / PIXELS_PER_MM)}mm" for name, size in sizes.items()}
        head = {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {_plain(self.width)} {_plain(self.height)}",
            **sizes,
            "role": "img",
            "aria-label": self.title,
            "font-family": FONT,
        }
        return f"<svg{_attributes(head)}>\n" + "\n".join(shape.render() for shape in self.shapes) + "\n</svg>\n"


def text_width(text: str, size: float) -> float:
    """Return an upper estimate of the width of a text."""
    return 0.58 * size * len(text)


def _attributes(values: dict[str, object]) -> str:
    return "".join(f" {key}={quoteattr(visible(_plain(value)))}" for key, value in values.items())


def _plain(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
