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

    Parameters
    ----------
    given : {kind: (name of its option, entries)}
        An entry is a column; of an ordinal one also ``column=low<medium<high``, of a numeric one also
        ``column=linear-scores`` or ``column=normal-scores``; columns that share this are ``one=another=low<high``.
    columns : columns of the table
    commas : whether an entry may name several columns with commas between them

    Raises
    ------
    DataError
        If a column does not exist or has two kinds, an order has less than two labels, or scores are unknown.

    Examples
    --------
    >>> options = {"ordinal": ("--ordinal", ["a, b=low<high"]), "numeric": ("--numeric", ["c, d=normal-scores"])}
    >>> find_kinds(options, ["a", "b", "c", "d"])
    {'a': 'ordinal', 'b': 'low<high', 'c': 'numeric', 'd': 'normal-scores'}
    >>> find_kinds({"ordinal": ("--ordinal", ["a, b=low<high"])}, ["a, b", "a"])
    {'a, b': 'low<high'}
    """
    from sparsefield.data.schema import Transform  # not above: commands that only print help do not import NumPy

    kinds: dict[str, str] = {}
    source: dict[str, str] = {}
    for kind, (option, entries) in given.items():
        for part in [part for entry in entries for part in (_parts(entry, columns) if commas else [entry])]:
            names, detail = ([part], "") if part in columns else _find_detail(part, columns)
            if not names or (kind == "nominal" and part not in columns):
                shown = part if kind == "nominal" else part.partition("=")[0].strip()
                raise DataError(f"{option} names the column {shown!r}, which does not exist; {list_columns(columns)}.")
            labels = detail.split("<")
            if part in columns:
                pass
            elif kind == "ordinal" and (len(labels) < 2 or not all(label.strip() for label in labels)):
                raise DataError(
                    f"{option} has {part!r}: give all labels of the column in ascending order, such as "
                    f"{names[0]}=low<medium<high, or only its name if sorted labels are in order."
                )
            elif kind == "numeric" and detail not in get_args(Transform):
                known = " or ".join(f"{names[0]}={transform}" for transform in get_args(Transform))
                raise DataError(f"{option} has {part!r}: write {known}, or only its name to let its values decide.")
            for name in names:
                if kinds.setdefault(name, detail or kind) != (detail or kind):
                    what = "orders of labels" if kind == "ordinal" else "ways of scoring"
                    if source[name] == option:
                        raise DataError(f"{option} gives column {name!r} two {what}: remove one.")
                    raise DataError(f"Both {source[name]} and {option} name column {name!r}: remove one.")
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
    parts, names, first = text.split("="), [], 0
    for k in range(1, len(parts)):
        name = "=".join(parts[first:k]).strip()
        if name in columns:
            names.append(name)
            first = k
    return names, "=".join(parts[first:]).strip() if names else ""
