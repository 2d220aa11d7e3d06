"""This module writes SVG documents without a drawing library."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from sparsefield.viz.palette import FONT, INK, PALE, WHITE
from sparsefield.viz.visible_text import visible


class Drawing:
    """A picture on a white card, which is legible on light and dark pages.

    It scales with its container. Screen readers read its title.

    Examples
    --------
    >>> drawing = Drawing(40, 20, "a line")
    >>> drawing.line(0, 0, 40, 20, stroke="#0072b2")
    >>> drawing.render().count("<line")
    1
    """

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self._parts: list[str] = []
        self.rect(0.5, 0.5, width - 1, height - 1, rx=10, fill=WHITE, stroke=PALE)

    def shape(self, tag: str, *, hint: str | None = None, text: str | None = None, **attributes: object) -> None:
        """Add an element; ``hint`` is its tooltip. Underscores in attribute names become hyphens."""
        inside = "" if hint is None else f"<title>{escape(visible(hint))}</title>"
        inside += "" if text is None else escape(visible(text))
        written = _attributes(attributes)
        self._parts.append(f"<{tag}{written}>{inside}</{tag}>" if inside else f"<{tag}{written}/>")

    def rect(self, x: float, y: float, width: float, height: float, **more: object) -> None:
        self.shape("rect", x=x, y=y, width=width, height=height, **more)  # type: ignore[arg-type]

    def line(self, x1: float, y1: float, x2: float, y2: float, **more: object) -> None:
        self.shape("line", x1=x1, y1=y1, x2=x2, y2=y2, **more)  # type: ignore[arg-type]

    def path(self, d: str, **more: object) -> None:
        self.shape("path", d=d, **more)  # type: ignore[arg-type]

    def text(
        self, x: float, y: float, text: str, *, size: float = 13, fill: str = INK, room: float = 1e9, **more: object
    ) -> None:
        """Add a text; if it is longer than ``room``, it is cut and its tooltip has the whole text."""
        shown = shorten(text, max(4, int(room / text_width("m", size))))
        more |= {} if shown == text else {"hint": text}
        self.shape("text", text=shown, x=x, y=y, font_size=size, fill=fill, **more)  # type: ignore[arg-type]

    def render(self) -> str:
        """Return the picture as an SVG document, which an HTML page may contain."""
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


def text_width(text: str, size: float) -> float:
    """Return an upper estimate of the width of a text."""
    return 0.58 * size * len(text)


def shorten(text: str, longest: int) -> str:
    """Return a text of at most ``longest`` characters; one that was cut ends with three dots."""
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _attributes(values: dict[str, object]) -> str:
    return "".join(f" {key.replace('_', '-')}={quoteattr(visible(_plain(value)))}" for key, value in values.items())


def _plain(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
