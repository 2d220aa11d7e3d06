"""This module draws the legend of a figure: keys with words, in as many rows as they need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from sparsefield.app.pages.node_rings import draw_ring
from sparsefield.app.pages.palette import GREY, NEUTRAL
from sparsefield.app.pages.svg import Drawing, text_width

KEY_WIDTH = {"line": 26.0, "dot": 10.0, "ring": 14.0, "text": 0.0}
GAP, MARGIN = 18.0, 14.0


@dataclass(frozen=True)
class LegendItem:
    """A key and its words."""

    kind: Literal["line", "dot", "ring", "text"]
    words: str
    color: str = NEUTRAL
    dashed: bool = False


@dataclass(frozen=True)
class Legend:
    """The items of a legend, and the width in which they are laid out."""

    items: tuple[LegendItem, ...]
    width: float

    @property
    def size(self) -> float:
        """Size of the words."""
        return min(max(8.5 + (self.width - 340.0) / 280.0, 8.0), 11.0)

    @cached_property
    def rows(self) -> list[list[tuple[float, LegendItem]]]:
        """Rows of items, each with its left end."""
        found: list[list[tuple[float, LegendItem]]] = []
        x = self.width
        for item in self.items:
            own = self._width(item)
            starts_groups = item.kind == "dot" and bool(found) and found[-1][-1][1].kind != "dot"
            if x + own > self.width - MARGIN or starts_groups:
                found.append([])
                x = MARGIN
            found[-1].append((x, item))
            x += own + GAP
        return found

    @property
    def height(self) -> float:
        """Height of all rows."""
        return (self.size + 8.0) * len(self.rows)

    def draw(self, drawing: Drawing, top: float) -> None:
        """Draw the legend below ``top``."""
        for k, row in enumerate(self.rows):
            y = top + (self.size + 8.0) * (k + 0.5)
            for x, item in row:
                self._draw_key(drawing, x, y, item)
                left = x + KEY_WIDTH[item.kind] + (6.0 if item.kind != "text" else 0.0)
                drawing.text(left, y + 0.35 * self.size, item.words, size=self.size, fill=GREY)

    def _width(self, item: LegendItem) -> float:
        return KEY_WIDTH[item.kind] + 6.0 + 0.9 * text_width(item.words, self.size)

    def _draw_key(self, drawing: Drawing, x: float, y: float, item: LegendItem) -> None:
        if item.kind == "line":
            dashes: dict[str, object] = {"stroke_dasharray": "6 4"} if item.dashed else {}
            drawing.line(x, y, x + KEY_WIDTH["line"], y, stroke=item.color, stroke_width=3.0, **dashes)
        elif item.kind == "dot":
            drawing.circle(x + 5.0, y, 5.0, fill=item.color)
        elif item.kind == "ring":
            draw_ring(drawing, x + 7.0, y, 5.0, 0.6)
