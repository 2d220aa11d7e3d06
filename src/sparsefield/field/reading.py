"""A field in words: the tables of features and of edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparsefield.data.frames import make_frame, make_label_columns
from sparsefield.field.field import Field

__all__ = ["edge_table", "feature_table"]


def feature_table(field: Field, kind: str = "polars") -> Any:
    """All features with a weight: variable_a, state_a, variable_b, state_b, weight; strongest first.

    A unary feature has no b. A numeric observed column has no state: its weight is per standard deviation. Both columns
    of states are of one type, and so text when any state is. A field over linked tables also names the template and
    the two tables.
    """
    rows = [*_unary_rows(field), *_pair_rows(field)]
    rows.sort(key=lambda row: -abs(row[-1]))
    names = ("template", "table_a", "variable_a", "state_a", "table_b", "variable_b", "state_b")
    columns = {name: [row[k] for row in rows] for k, name in enumerate(names)}
    states = {name: columns.pop(name) for name in ("state_a", "state_b")}
    made = {**make_label_columns(columns, kind), **make_label_columns(states, kind)}
    shown = names if _is_relational(field) else ("variable_a", "state_a", "variable_b", "state_b")
    weights = np.array([row[-1] for row in rows], dtype=float)
    return make_frame({**{name: made[name] for name in shown}, "weight": weights}, kind)


def edge_table(field: Field, kind: str = "polars") -> Any:
    """Pairs of variables that share a feature: variable_a, variable_b, strength (the norm of their weights).

    A field over linked tables also names the template and the two tables.
    """
    squares: dict[tuple[str, ...], float] = {}
    for template, table_a, variable_a, _, table_b, variable_b, _, weight in _pair_rows(field):
        key = (template, table_a, variable_a, table_b, variable_b)
        squares[key] = squares.get(key, 0.0) + weight**2
    ranked = sorted(squares.items(), key=lambda item: -item[1])
    names = ("template", "table_a", "variable_a", "table_b", "variable_b")
    made = make_label_columns({name: [key[k] for key, _ in ranked] for k, name in enumerate(names)}, kind)
    shown = names if _is_relational(field) else ("variable_a", "variable_b")
    strengths = np.sqrt([square for _, square in ranked])
    return make_frame({**{name: made[name] for name in shown}, "strength": strengths}, kind)


def _is_relational(field: Field) -> bool:
    return field.layout.tables != ("",)


def _unary_rows(field: Field) -> Iterator[tuple[Any, ...]]:
    layout = field.layout
    for state in np.flatnonzero(field.unary):
        column = int(layout.column_of_state[state])
        table = int(layout.table_of_column[column])
        name = layout.schemas[table].column_name(column - int(layout.column_starts[table]))
        yield "", layout.tables[table], *name, None, None, None, float(field.unary[state])


def _pair_rows(field: Field) -> Iterator[tuple[Any, ...]]:
    for k in np.flatnonzero(field.weights):
        a, b = field.pairs[k]
        yield *field.layout.feature_name(int(a), int(b)), float(field.weights[k])
