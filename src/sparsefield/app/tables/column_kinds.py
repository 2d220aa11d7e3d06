"""Kinds of columns as the command line and schema files write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from sparsefield.app.tables.read import list_columns
from sparsefield.errors import DataError


def find_kinds(
    given: Mapping[str, tuple[str, Sequence[str]]], columns: Sequence[str], *, commas: bool = True
) -> dict[str, str]:
    """Return {column: kind}, the scores of a numeric column, or the labels of an ordinal one: ``"low<medium<high"``.

    ``given`` are {kind: (name of its option, entries)}. An entry is a column; of an ordinal one also
    ``column=low<medium<high``, of a numeric one also ``column=linear-scores`` or ``column=normal-scores``; columns that
    share this are ``one=another=low<high``. With ``commas``, an entry may name several columns.
    """
    from sparsefield.data.schema import Transform  # not above: commands that only print help do not import NumPy

    kinds: dict[str, str] = {}
    source: dict[str, str] = {}
    for kind, (option, entries) in given.items():
        for part in [part for entry in entries for part in (_parts(entry, columns) if commas else [entry])]:
            names, detail = ([part], "") if part in columns else _find_detail(part, columns)
            if not names or (kind == "nominal" and detail):
                raise DataError(f"{option} names the column {part!r}, which does not exist; {list_columns(columns)}.")
            labels = detail.split("<")
            if kind == "ordinal" and detail and (len(labels) < 2 or not all(label.strip() for label in labels)):
                example = f"{names[0]}=low<medium<high"
                raise DataError(f"{option} has {part!r}: give all labels in ascending order, such as {example}.")
            if kind == "numeric" and detail and detail not in get_args(Transform):
                known = " or ".join(f"{names[0]}={transform}" for transform in get_args(Transform))
                raise DataError(f"{option} has {part!r}: write {known}, or only its name to let its values decide.")
            for name in names:
                if kinds.setdefault(name, detail or kind) != (detail or kind):
                    options = " and ".join(dict.fromkeys((source[name], option)))
                    raise DataError(f"{options} say two things about column {name!r}: remove one.")
                source[name] = option
    return kinds


def _parts(entry: str, columns: Sequence[str]) -> list[str]:
    """Return the parts between commas; those of ``age, in years=low<high`` belong to names of columns."""
    names, detail = _find_detail(entry, columns)
    if entry in columns or (any("," in name for name in names) and "," not in detail):
        return [entry]
    return [part.strip() for part in entry.split(",")]


def _find_detail(text: str, columns: Sequence[str]) -> tuple[list[str], str]:
    """Return the columns of ``column=detail`` or ``one=another=detail``, and the detail; nothing if there is no column.

    Names may contain an equals sign.
    """
    names, name, rest = [], "", text
    while "=" in rest:
        part, _, rest = rest.partition("=")
        name = f"{name}={part}" if name else part.strip()
        if name in columns:
            names, name = [*names, name], ""
    return names, (f"{name}={rest}" if name else rest).strip() if names else ""
