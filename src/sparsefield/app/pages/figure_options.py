"""This module holds the options of a figure of a network, and reads values of columns for them from files."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sparsefield.app.pages.svg import PIXELS_PER_MM
from sparsefield.app.tables.read_options import DEFAULT_MISSING
from sparsefield.data.cell_values import is_missing
from sparsefield.errors import DataError

NameStyle = Literal["auto", "inside", "beside"]
Position = tuple[float, float]

WIDTH, HEIGHT = 900.0, 620.0
"""Size of a figure without a size in print, in pixels."""

SMALLEST_MM, LARGEST_MM = 20.0, 2000.0
MAX_LISTED = 5


@dataclass(frozen=True)
class FigureOptions:
    """How a static figure of a network is drawn."""

    layout: Mapping[str, Position] | None = None
    """{column: (x, y)}: positions on any scale, y downward; None for a layout of the network's own."""
    rings: Mapping[str, float | None] | None = None
    """{column: share from 0 to 1} of the ring around its circle that is filled; no ring where it is missing."""
    ring_title: str = "predictability"
    """What the rings show."""
    edge_labels: bool = False
    """Whether edges have their weights as labels."""
    names: NameStyle = "auto"
    """Names of columns within circles or beside them; "auto" puts short ones within."""
    width_mm: float | None = None
    height_mm: float | None = None
    """Size in print; without it the figure scales with its page."""
    max_edges: int | None = None
    """Number of the strongest edges that are drawn; None for about as many as can be told apart."""
    legend: bool = True
    seed: int = 0
    """Seed of the layout."""

    @property
    def in_mm(self) -> bool:
        """Whether the figure has a size in print."""
        return self.width_mm is not None or self.height_mm is not None

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in pixels; one of them follows from the other where only one is given."""
        width = None if self.width_mm is None else self.width_mm * PIXELS_PER_MM
        height = None if self.height_mm is None else self.height_mm * PIXELS_PER_MM
        if width is None and height is None:
            return WIDTH, HEIGHT
        return width or (height or 0.0) * WIDTH / HEIGHT, height or (width or 0.0) * HEIGHT / WIDTH

    def checked(self, columns: Collection[str]) -> FigureOptions:
        """Return the options, or refuse those that a figure of these columns cannot have, all at once."""
        problems = []
        for name, value in (("width_mm", self.width_mm), ("height_mm", self.height_mm)):
            if value is not None and not SMALLEST_MM <= value <= LARGEST_MM:
                problems.append(f"{name} must be from {SMALLEST_MM:g} to {LARGEST_MM:g}, not {value!r}")
        if self.names not in ("auto", "inside", "beside"):
            problems.append(f"names must be 'auto', 'inside' or 'beside', not {self.names!r}")
        if self.max_edges is not None and self.max_edges < 1:
            problems.append(f"max_edges must be at least 1, not {self.max_edges!r}")
        problems += unknown_columns("rings", self.rings or {}, columns)
        shares = {name: _as_share(value) for name, value in (self.rings or {}).items()}
        rings = {name: share for name, share in shares.items() if not math.isnan(share)}
        wrong = [name for name, share in rings.items() if not 0.0 <= share <= 1.0]
        if wrong:
            problems.append(f"rings must be between 0 and 1, but {_some(wrong)} {_is(wrong)} not")
        lost = [name for name, place in (self.layout or {}).items() if not all(map(math.isfinite, place))]
        if lost:
            problems.append(f"positions must be finite numbers, but {_some(lost)} has none")
        if problems:
            raise DataError(f"The figure cannot be drawn: {'; '.join(problems)}.")
        return replace(self, rings=rings or None)


def _as_share(value: Any) -> float:
    """Return a number, NaN for a missing one, and infinity for what is none, so that it is refused."""
    if is_missing(value) or value == "":
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.inf


def unknown_columns(what: str, given: Mapping[str, Any], columns: Collection[str]) -> list[str]:
    """Return a sentence that names the given columns that do not exist, in a list; an empty one if all exist."""
    unknown = [name for name in given if name not in columns]
    return [f"{what} names {_some(unknown)}, which {_is(unknown)} not in the field"] if unknown else []


def read_positions(layout: Any) -> dict[str, Position] | None:
    """Return {column: (x, y)} of a mapping, a frame or a file with the columns "column", "x" and "y"."""
    if layout is None:
        return None
    if isinstance(layout, Mapping):
        try:
            return {str(name): (float(place[0]), float(place[1])) for name, place in layout.items()}
        except (TypeError, ValueError, IndexError):
            raise DataError("layout must have two numbers for each column, as in {'age': (0.2, 1.5)}.") from None
    place, frame = _open_frame(layout, "layout", ("column", "x", "y"))
    names, x, y = _read_columns(frame, place, ("column", "x", "y"))
    _check_once(names, place)
    try:
        return {str(name): (float(a), float(b)) for name, a, b in zip(names, x, y, strict=True)}
    except (TypeError, ValueError):
        raise DataError(f"{place}: x and y must be numbers in every row.") from None


def read_column_values(given: Any, what: str, *values: str) -> dict[str, Any] | None:
    """Return {column: value} of a mapping, or of a frame or file with "column" and one of ``values``, by preference.

    Values of a text file are text; None where they are missing.
    """
    if given is None or isinstance(given, Mapping):
        return None if given is None else {str(name): value for name, value in given.items()}
    place, frame = _open_frame(given, what, ("column", values[0]))
    value = next((name for name in values if name in frame.columns), " or ".join(values))
    names, found = _read_columns(frame, place, ("column", value))
    _check_once(names, place)
    return {str(name): _none_if_missing(own) for name, own in zip(names, found, strict=True)}


def _none_if_missing(value: Any) -> Any:
    is_word = isinstance(value, str) and value.strip() in DEFAULT_MISSING
    return None if is_word or is_missing(value) else value


def _check_once(names: Sequence[Any], place: str) -> None:
    """Refuse rows without the name of a column, and columns with several rows."""
    empty = [row for row, name in enumerate(names, start=1) if is_missing(name)]
    repeated = [name for name, times in Counter(names).items() if times > 1 and not is_missing(name)]
    problems = [f"row {empty[0]:,} names no column"] if empty else []
    problems += [f"column {repeated[0]!r} has several rows"] if repeated else []
    if problems:
        raise DataError(f"{place}: {' and '.join(problems)}: give one row for each column.")


def _open_frame(given: Any, what: str, wanted: Sequence[str]) -> tuple[str, Any]:
    """Return a frame or file as a frame of narwhals, and what to call it in messages."""
    import narwhals as nw

    place = what
    if isinstance(given, (str, os.PathLike)):
        from sparsefield.app.tables.read import read_source

        place, given = str(given), read_source(str(given)).cells
    try:
        return place, nw.from_native(given, eager_only=True)
    except TypeError:
        raise DataError(
            f"{what} must be a mapping, a frame or a file with {', '.join(wanted)}, not {given!r}."
        ) from None


def _read_columns(frame: Any, place: str, wanted: Sequence[str]) -> list[list[Any]]:
    """Return some columns of a frame as lists."""
    absent = [name for name in wanted if name not in frame.columns]
    if absent:
        listed = ", ".join(wanted[:-1]) + f" and {wanted[-1]}"
        shown = ", ".join(frame.columns[:MAX_LISTED]) + (", ..." if len(frame.columns) > MAX_LISTED else "")
        remedy = "rename its columns"
        if {"community", "value or predictability"} & set(absent):
            option = "--communities auto" if "community" in absent else "DATA"
            remedy += f", or let “sparsefield centrality MODEL {option} -o FILE” write such a table"
        raise DataError(
            f"{place}: the table needs the columns {listed}, with a row for each column of the data, but has no "
            f"{', '.join(absent)} (its columns are {shown}): {remedy}."
        )
    return [frame[name].to_list() for name in wanted]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(map(repr, names[:MAX_LISTED])) + more


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
