"""Kinds of columns as the command line and schema files write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    >>> find_kinds({"ordinal": ("--ordinal", ["a=b=low<high"])}, ["a", "b"])
    {'a': 'low<high', 'b': 'low<high'}
    >>> find_kinds({"ordinal": ("--ordinal", ["a, b=low<high"])}, ["a, b", "a"])
    {'a, b': 'low<high'}
    """
    found: dict[str, str] = {}
    source: dict[str, str] = {}
    for kind, (option, entries) in given.items():
        for name, detail in _split(entries, columns, option, commas=commas, kind=kind):
            value = detail or kind
            if found.setdefault(name, value) != value:
                if source[name] == option:
                    what = "orders of labels" if kind == "ordinal" else "ways of scoring"
                    raise DataError(f"{option} gives column {name!r} two {what}: remove one.")
                raise DataError(f"Both {source[name]} and {option} name column {name!r}: remove one.")
            source[name] = option
    return found


def _split(
    entries: Sequence[str], columns: Sequence[str], option: str, *, commas: bool, kind: str
) -> Iterator[tuple[str, str]]:
    """Yield each column with its order of labels or its scores, which are empty if there are none."""
    check = _DETAIL_CHECKS.get(kind)
    for entry in entries:
        one = not commas or entry in columns or _is_one_detail(entry, columns)
        for part in [entry] if one else [part.strip() for part in entry.split(",")]:
            if part in columns:
                yield part, ""
                continue
            names, detail = _find_detail(part, columns) if check else ([], "")
            if not names or not check:
                shown = part.partition("=")[0].strip() if check else part
                raise DataError(f"{option} names the column {shown!r}, which does not exist; {list_columns(columns)}.")
            problem = check(names[0], detail)
            if problem:
                raise DataError(f"{option} has {part!r}: {problem}")
            yield from ((name, detail) for name in names)


def _check_order(name: str, order: str) -> str:
    if order.count("<") >= 1 and all(label.strip() for label in order.split("<")):
        return ""
    return (
        f"give all labels of the column in ascending order, such as {name}=low<medium<high, or only its name if sorted "
        "labels are in order."
    )


def _check_scores(name: str, scores: str) -> str:
    from sparsefield.data.schema import Transform  # not above: commands that only print help do not import NumPy

    if scores in get_args(Transform):
        return ""
    known = " or ".join(f"{name}={transform}" for transform in get_args(Transform))
    return f"write {known}, or only its name to let its values decide."


_DETAIL_CHECKS = {"ordinal": _check_order, "numeric": _check_scores}
"""Functions that return what is wrong with the text after the equals sign, or nothing; for the kinds that have one."""


def _is_one_detail(entry: str, columns: Sequence[str]) -> bool:
    """Return whether the commas of an entry such as ``age, in years=low<high`` belong to names of columns."""
    names, detail = _find_detail(entry, columns)
    return any("," in name for name in names) and "," not in detail


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
