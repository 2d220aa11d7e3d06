"""Kinds of columns (nominal, ordinal or numeric), and labels that the given order of an ordinal column lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np

from sparsefield import config
from sparsefield.data.cell_values import plain_labels
from sparsefield.data.column_summaries import ColumnTraits, LabelSummary, read_categories
from sparsefield.data.frames import Columns
from sparsefield.data.labels import Label, as_label
from sparsefield.data.schema import Kind, Transform
from sparsefield.errors import DataError

Kinds = Mapping[str, Kind | Transform | Sequence[Label]] | Literal["auto"]
"""{column: kind}, where a list of labels in ascending order means an ordinal column, and the name of a transform a
numeric one with such scores; "auto" for columns without one."""

SHOWN_LABELS, SHOWN_ORDER = 5, 12


@dataclass(frozen=True)
class ColumnKind:
    """The kind of a column."""

    kind: Kind
    order: tuple[Label, ...] = ()
    """The labels of an ordinal column in ascending order, if these are given; otherwise they are sorted."""
    transform: Transform | None = None
    """How the numbers of a numeric column become scores, if this is given; otherwise their distribution decides."""


def given_kinds(kinds: Kinds, names: Sequence[str]) -> dict[str, ColumnKind]:
    """Return the kinds that are given, and refuse unknown columns and kinds, all at once."""
    if isinstance(kinds, str) and kinds == "auto":
        return {}
    if not isinstance(kinds, Mapping):
        raise DataError(f"kinds must be 'auto' or {{column: kind}}, got {kinds!r}.")
    found, problems, existing = {}, [], set(names)
    for name, kind in kinds.items():
        if name not in existing:
            known = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            problems.append(f"kinds= names the column {name!r}, which is not there. Columns: {known}.")
            continue
        try:
            found[name] = _given_kind(name, kind)
        except DataError as error:
            problems.append(str(error))
    if problems:
        raise DataError(" ".join(problems))
    return found


def _given_kind(name: str, kind: Any) -> ColumnKind:
    if isinstance(kind, str) and kind in get_args(Kind):
        return ColumnKind(cast(Kind, kind))
    if isinstance(kind, str) and kind in get_args(Transform):
        return ColumnKind("numeric", transform=cast(Transform, kind))
    if isinstance(kind, str) and "<" in kind:
        order = [label.strip() for label in kind.split("<")]
    elif isinstance(kind, (str, bytes, Mapping, Set)) or not isinstance(kind, Iterable):
        raise DataError(
            f"kinds= has {kind!r} for column {name!r}: a kind is 'nominal', 'ordinal', 'numeric', 'linear-scores' "
            "or 'normal-scores' (numeric with such scores), or the list of all labels in ascending order."
        )
    else:
        order = plain_labels(name, list(kind))
    if not order:
        raise DataError(f"kinds= has no labels for column {name!r}: list them in ascending order, or say 'ordinal'.")
    if not all(isinstance(label, (str, int, float, bool, np.generic)) for label in order):
        raise DataError(f"kinds= has {kind!r} for column {name!r}: labels are text, numbers or booleans.")
    order = [as_label(label, name) for label in order]
    if len(set(order)) < len(order):
        raise DataError(f"kinds= has a label twice for column {name!r}: {', '.join(map(repr, order))}.")
    return ColumnKind("ordinal", tuple(order))


def kind_of(traits: ColumnTraits) -> ColumnKind:
    """Return the kind of a column for which none is given."""
    if traits.order:
        return ColumnKind("ordinal", traits.order)
    if traits.numeric:
        return ColumnKind("numeric")
    if traits.numbers and 3 <= len(traits.distinct) <= config.NUMERIC_STATES:
        return ColumnKind("ordinal")
    return ColumnKind("nominal")


def in_given_order(name: str, order: Sequence[Any], labels: Sequence[Label]) -> list[Label]:
    """Return the labels of an ordinal column in their given order, with the types that they have in the column.

    Labels are compared as text and as numbers, too, since those of the command line are text.
    """
    by_value: dict[Any, Label] = {label: label for label in labels}
    by_text = {str(label): label for label in labels}
    number = _number_type(labels)

    def find(label: Any) -> Label:
        if label in by_value:
            return by_value[label]
        if str(label) in by_text:
            return by_text[str(label)]
        try:
            return as_label(number(label), name)
        except ValueError:
            return as_label(label, name)

    found = [find(label) for label in order]
    if len(set(found)) < len(found):
        shown = ", ".join(map(repr, order))
        raise DataError(f"The given order of column {name!r} has a label twice, once as text: {shown}.")
    return found


def _number_type(labels: Sequence[Label]) -> Callable[[Any], Any]:
    """Return the function that makes a text one of the labels: the type of all, if they are numbers."""
    if not labels or any(isinstance(label, (str, bool)) for label in labels):
        return lambda text: text
    if any(isinstance(label, float) for label in labels):
        return float
    return lambda text: int(float(text)) if float(text).is_integer() else float(text)


class FirstRows(NamedTuple):
    """The first rows of some labels of a column, in a partition of the rows."""

    rows: dict[Label, int]
    """{label: row} of the labels that occur."""
    n_rows: int

    @classmethod
    def join(cls, parts: Sequence[FirstRows]) -> FirstRows:
        rows: dict[Label, int] = {}
        before = 0
        for part in parts:
            for label, row in part.rows.items():
                rows.setdefault(label, before + row)
            before += part.n_rows
        return cls(rows, before)


def check_orders(
    kinds: Mapping[str, ColumnKind],
    found: Mapping[str, Any],
    states: Mapping[str, Sequence[Label]],
    summarize: Callable[..., list[Any]],
) -> None:
    """Raise a DataError about labels that the given orders of ordinal columns do not have, of all columns at once.

    Parameters
    ----------
    kinds : kind of each column
    found : summary of each column
    states : further states of columns, which need not occur
    summarize : as for `learn_from_parts`
    """
    unordered: dict[str, list[Label]] = {}
    for name, summary in found.items():
        order = kinds[name].order
        if order and isinstance(summary, LabelSummary):
            labels = [*summary.in_order()[0], *(as_label(state, name) for state in states.get(name, ()))]
            ordered = in_given_order(name, order, labels)
            missing = [label for label in dict.fromkeys(labels) if label not in ordered]
            unordered |= {name: missing} if missing else {}
    if unordered:
        rows = summarize(_find_first_rows, unordered)
        problems = map(_problem, unordered.items(), (kinds[name].order for name in unordered), rows)
        raise DataError(
            f"{' '.join(problems)} Add what is missing to the order (kinds=, at the command line --ordinal), or "
            "correct the cells. Rows are counted from 0."
        )


def _find_first_rows(source: Columns, weights: Any, wanted: Mapping[str, Sequence[Label]]) -> list[FirstRows]:
    """Return the first rows of the ``wanted`` labels of each column; ``weights`` are not used."""
    found = []
    for name, labels in wanted.items():
        cells = read_categories(source, name)
        places = {label: k for k, label in enumerate(cells.labels) if label in labels}
        rows = {label: int(np.argmax(cells.codes == k)) for label, k in places.items()}
        found.append(FirstRows(rows, source.n_rows))
    return found


def _problem(unordered: tuple[str, Sequence[Label]], order: Sequence[Label], found: FirstRows) -> str:
    name, labels = unordered
    places = [(label, found.rows.get(label)) for label in labels[:SHOWN_LABELS]]
    shown = [f"{label!r} (given by states=)" if row is None else f"{label!r} (row {row:,})" for label, row in places]
    shown += ["..."] if len(labels) > SHOWN_LABELS else []
    listed = [str(label) for label in order[:SHOWN_ORDER]] + (["..."] if len(order) > SHOWN_ORDER else [])
    return (
        f"Column {name!r} holds {', '.join(shown)}, which its given order of labels does not have: "
        f"{' < '.join(listed)}."
    )
