"""This module refuses labels that the given orders of ordinal columns do not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sparsefield.data.column_summaries import LabelSummary, read_categories
from sparsefield.data.frames import Columns
from sparsefield.data.kinds import ColumnKind, in_given_order
from sparsefield.data.labels import Label, as_label
from sparsefield.errors import DataError

SHOWN_LABELS, SHOWN_ORDER = 5, 12


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
