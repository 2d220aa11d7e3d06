"""Dots and whiskers: one line per method, one panel per measure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sparsefield.viz.palette import BLUE, GREY, INK, ORANGE, PALE
from sparsefield.viz.svg import Drawing

__all__ = ["Board", "Line", "Mark", "draw_boards"]

Kind = Literal["pl", "cd", "paper", "peer"]

WIDTH, LEFT, PANEL, ROOM = 1000.0, 262.0, 206.0, 36.0
HEAD, BOARD_HEAD, STEP, FOOT = 78.0, 62.0, 22.0, 42.0
MEASURES = {"auc": "AUC, all states", "auc_yes": "AUC, true state alone", "cll": "CLL"}
STYLES: dict[str, tuple[str, bool, str]] = {
    "pl": (BLUE, True, "measured, pl"),
    "cd": (BLUE, False, "measured, cd"),
    "paper": (ORANGE, True, "the paper's"),
    "peer": (GREY, True, "others', cited"),
}
"""Color, whether a dot is filled, and words for the key."""


@dataclass(frozen=True)
class Mark:
    """A dot, and a whisker of one standard deviation to either side where it is known."""

    mean: float
    sd: float | None
    kind: str


@dataclass(frozen=True)
class Line:
    """A method: its marks per measure."""

    label: str
    marks: Mapping[str, tuple[Mark, ...]]


@dataclass(frozen=True)
class Board:
    """A data set: its lines, and per measure a value to compare all others with."""

    title: str
    lines: tuple[Line, ...]
    guides: Mapping[str, float]


def draw_boards(boards: Sequence[Board]) -> str:
    """An SVG document with the boards one below the other."""
    height = HEAD + sum(BOARD_HEAD + STEP * len(board.lines) + FOOT for board in boards)
    drawing = Drawing(WIDTH, height, "AUC and conditional log-likelihood of all methods, with standard deviations")
    drawing.text(36, 42, "Hidden cells, predicted", size=18, font_weight=600)
    drawing.text(
        36, 64, "right is better; whiskers: one standard deviation over folds; line: the paper's CFI", fill=GREY
    )
    for k, (color, filled, words) in enumerate(STYLES.values()):
        x = 560.0 + 108.0 * k
        _dot(drawing, x, 38.0, color, filled)
        drawing.text(x + 10, 42, words, size=12, fill=GREY)
    top = HEAD
    for board in boards:
        _draw_board(drawing, board, top)
        top += BOARD_HEAD + STEP * len(board.lines) + FOOT
    return drawing.render()


def _draw_board(drawing: Drawing, board: Board, top: float) -> None:
    first, last = top + BOARD_HEAD, top + BOARD_HEAD + STEP * len(board.lines)
    drawing.text(36, top + 28, board.title, size=15, font_weight=600)
    for k, line in enumerate(board.lines):
        y = first + STEP * (k + 0.5)
        drawing.line(LEFT, y, WIDTH - 36, y, stroke="#f2f4f7")
        drawing.text(LEFT - 16, y + 4, line.label, size=12, text_anchor="end", fill=INK)
    for k, (measure, words) in enumerate(MEASURES.items()):
        left = LEFT + k * (PANEL + ROOM)
        drawing.text(left + PANEL / 2, top + 50, words, size=12, font_weight=600, text_anchor="middle")
        values = [(line, mark) for line in board.lines for mark in line.marks.get(measure, ())]
        if not values:
            continue
        scale = _Scale.over([mark for _, mark in values], left)
        _draw_axis(drawing, scale, first, last)
        if measure in board.guides:
            x = scale.place(board.guides[measure])
            drawing.line(x, first, x, last, stroke=ORANGE, stroke_dasharray="3 4", stroke_opacity=0.7)
        for n, line in enumerate(board.lines):
            _draw_marks(drawing, line, line.marks.get(measure, ()), scale, first + STEP * (n + 0.5))


@dataclass(frozen=True)
class _Scale:
    """From values to places, and where the ticks stand."""

    low: float
    high: float
    step: float
    left: float

    @classmethod
    def over(cls, marks: Sequence[Mark], left: float) -> _Scale:
        low = min(mark.mean - (mark.sd or 0) for mark in marks)
        high = max(mark.mean + (mark.sd or 0) for mark in marks)
        span = max(high - low, 0.01)
        power = 10.0 ** math.floor(math.log10(span / 3))
        step = power * next(k for k in (1, 2, 5, 10) if k * power >= span / 5)
        return cls(math.floor(low / step) * step, max(math.ceil(high / step) * step, low + step), step, left)

    def place(self, value: float) -> float:
        return self.left + PANEL * (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        return [self.low + k * self.step for k in range(round((self.high - self.low) / self.step) + 1)]


def _draw_axis(drawing: Drawing, scale: _Scale, first: float, last: float) -> None:
    places = max(0, -math.floor(math.log10(scale.step)))
    for tick in scale.ticks():
        x = scale.place(tick)
        drawing.line(x, first, x, last, stroke=PALE)
        words = f"{tick:.{places}f}".replace("-", "−")  # noqa: RUF001
        drawing.text(x, last + 18, words, size=11, fill=GREY, text_anchor="middle")
    drawing.line(scale.left, last, scale.left + PANEL, last, stroke=GREY)


def _draw_marks(drawing: Drawing, line: Line, marks: Sequence[Mark], scale: _Scale, y: float) -> None:
    for k, mark in enumerate(marks):
        color, filled, words = STYLES[mark.kind]
        x, at = scale.place(mark.mean), y + 7.0 * (k - (len(marks) - 1) / 2)
        hint = f"{line.label} ({words}): {mark.mean:.3f}" + ("" if mark.sd is None else f" ({mark.sd:.3f})")
        if mark.sd is not None:
            ends = scale.place(mark.mean - mark.sd), scale.place(mark.mean + mark.sd)
            drawing.line(ends[0], at, ends[1], at, stroke=color, stroke_width=1.4)
        _dot(drawing, x, at, color, filled, hint)


def _dot(drawing: Drawing, x: float, y: float, color: str, filled: bool, hint: str | None = None) -> None:
    drawing.shape(
        "circle", cx=x, cy=y, r=3.6, fill=color if filled else "#ffffff", stroke=color, stroke_width=1.4, hint=hint
    )
