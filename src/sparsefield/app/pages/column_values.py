"""Values of columns that users give for a figure: a mapping, a frame, or a file with a row for each column."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sparsefield.app.tables.read_options import DEFAULT_MISSING
from sparsefield.data.cell_values import is_missing
from sparsefield.errors import DataError

Position = tuple[float, float]
MAX_LISTED = 5


def unknown_columns(what: str, given: Mapping[str, Any], columns: Collection[str]) -> list[str]:
    """Return a sentence that names the given columns that do not exist, in a list; an empty one if all exist."""
    unknown = [name for name in given if name not in columns]
    return [f"{what} names {list_some(unknown)}, which {_is(unknown)} not in the field"] if unknown else []


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
            remedy += f", or let “sparsefield analyze centrality MODEL {option} -o FILE” write such a table"
        raise DataError(
            f"{place}: the table needs the columns {listed}, with a row for each column of the data, but has no "
            f"{', '.join(absent)} (its columns are {shown}): {remedy}."
        )
    return [frame[name].to_list() for name in wanted]


def list_some(names: Sequence[str]) -> str:
    """Return the first names in quotes, and the number of the others."""
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(map(repr, names[:MAX_LISTED])) + more


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
