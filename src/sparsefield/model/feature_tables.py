"""Tables of a field: its features, biases and edges, and the regularization path of its fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import combinations
from string import ascii_lowercase
from typing import Any, NamedTuple

import numpy as np

from sparsefield.data.coding import ColumnClass
from sparsefield.data.frame_building import Frame, make_frame, make_label_columns
from sparsefield.data.schema import Label
from sparsefield.model.field import Field
from sparsefield.model.fit_record import FALSE_DISCOVERY_RATE, PathRow


def feature_table(field: Field, kind: str = "polars") -> Frame:
    """Return the pair and higher-order features with a weight, strongest first.

    Columns are variable_a, state_a, variable_b, state_b, weight; and variable_c, state_c and so on where some feature
    has more than two columns. A state is missing where the score of an ordinal or numeric column is meant, whose weight
    is per standard deviation; the state of a bin of a numeric column is text such as "12 to 18.5". All state columns
    have one type, text if any state is text. A field over linked tables also has the template and the tables.
    """
    rows = list(_feature_rows(field))
    rows.sort(key=lambda row: -abs(row.weight))
    # States of targets count for the type, so that it does not depend on which features were selected.
    labels = [label for schema in field.layout.schemas for label in schema.target_labels]
    return make_frame({**_name_columns(field, rows, kind, labels), "weight": _weights(rows)}, kind)


def bias_table(field: Field, kind: str = "polars") -> Frame:
    """Return the biases, strongest first: variable, state, weight; over linked tables, also the table.

    The state is missing for the score of an ordinal or numeric column, and "square" for the squared score of a numeric
    one, whose bias is its precision.
    """
    layout, rows = field.layout, []
    classes = np.concatenate([schema.column_classes[: schema.n_target_columns] for schema in layout.schemas])
    for column in np.flatnonzero(field.biases):
        table, variable, state = layout.own_column_name(int(layout.column_of_target[column]))
        state = "square" if classes[column] == ColumnClass.SQUARE else state
        rows.append(_Row("", ((table, variable, state),), float(field.biases[column])))
    rows.sort(key=lambda row: -abs(row.weight))
    tables, variables, states = ([row.terms[0][k] for row in rows] for k in range(3))
    names = {"table": tables, "variable": variables} if _is_relational(field) else {"variable": variables}
    columns = make_label_columns(names, kind) | make_label_columns({"state": states}, kind)
    return make_frame({**columns, "weight": _weights(rows)}, kind)


def selection_table(field: Field, weights: np.ndarray, frequencies: np.ndarray, kind: str = "polars") -> Frame:
    """Return pair and higher-order features as in `feature_table`, with selection frequencies, most frequent first.

    ``weights`` and ``frequencies`` are (features,) in the order of the active features of ``field``.
    """
    rows = list(_feature_rows(field))
    order = np.lexsort((-np.abs(weights), -frequencies))
    named = _name_columns(field, [rows[k] for k in order], kind)
    return make_frame({**named, "weight": weights[order], "frequency": frequencies[order]}, kind)


def feature_names(field: Field, order: np.ndarray, kind: str = "polars") -> dict[str, Any]:
    """Return the columns of `feature_table` that name features, in a given order of their numbers."""
    rows = list(_feature_rows(field))
    return _name_columns(field, [rows[k] for k in order.tolist()], kind)


def _name_columns(field: Field, rows: list[_Row], kind: str, labels: Sequence[Label] = ()) -> dict[str, Any]:
    """Return {name: values} of the columns that identify the features in ``rows``.

    The type of the states is one that ``labels`` have, too.
    """
    letters = ascii_lowercase[: max([2, *(len(row.terms) for row in rows)])]
    nothing = (None, None, None)
    columns: dict[str, list[Any]] = {"template": [row.template for row in rows]}
    states: dict[str, list[Any]] = {"": list(labels)}
    for k, letter in enumerate(letters):
        terms = [row.terms[k] if k < len(row.terms) else nothing for row in rows]
        columns[f"table_{letter}"] = [table for table, _, _ in terms]
        columns[f"variable_{letter}"] = [variable for _, variable, _ in terms]
        states[f"state_{letter}"] = [state for _, _, state in terms]
    labeled = make_label_columns(columns, kind) | make_label_columns(states, kind)
    parts = ("table", "variable", "state") if _is_relational(field) else ("variable", "state")
    shown = [f"{part}_{letter}" for letter in letters for part in parts]
    shown = ["template", *shown] if _is_relational(field) else shown
    return {name: labeled[name] for name in shown}


def _weights(rows: list[_Row]) -> np.ndarray:
    return np.array([row.weight for row in rows], dtype=float)


def edge_table(field: Field, kind: str = "polars") -> Frame:
    """Return all pairs of variables that share features; see `MarkovField.edges_`.

    Edges that hold at a false discovery rate of `FALSE_DISCOVERY_RATE` come first, and stronger ones before others. A
    field over linked tables also has columns for the template and the two tables.
    """
    squares: dict[tuple[str, ...], float] = {}
    slopes: dict[tuple[str, ...], float] = {}
    slope_of = cache(partial(_slope, field))
    for row in _feature_rows(field):
        for (table_a, variable_a, state_a), (table_b, variable_b, state_b) in combinations(row.terms, 2):
            key = (row.template, table_a, variable_a, table_b, variable_b)
            squares[key] = squares.get(key, 0.0) + row.weight**2
            slope = slope_of(table_a, variable_a, state_a) * slope_of(table_b, variable_b, state_b)
            slopes[key] = slopes.get(key, 0.0) + slope * row.weight * (len(row.terms) == 2)
    evidence, q_values = field.record.evidence, {}
    if evidence is not None:
        names, tests = field.schema.names, zip(evidence.p_values, evidence.q_values, strict=True)
        q_values = {frozenset(names[k] for k in ends): test for ends, test in zip(evidence.edges, tests, strict=True)}
    unknown = (np.nan, np.nan)
    tests = {key: q_values.get(frozenset((key[2], key[4])), unknown) for key in squares}
    ranked = sorted(squares, key=lambda key: (not tests[key][1] <= FALSE_DISCOVERY_RATE, -squares[key]))
    names = ("template", "table_a", "variable_a", "table_b", "variable_b")
    labeled = make_label_columns({name: [key[k] for key in ranked] for k, name in enumerate(names)}, kind)
    shown = names if _is_relational(field) else ("variable_a", "variable_b")
    strengths = np.sqrt([squares[key] for key in ranked])
    weights = np.array([slopes[key] for key in ranked], dtype=float)
    p_values, q_values = np.array([tests[key] for key in ranked], dtype=float).reshape(-1, 2).T
    columns = {
        "weight": np.where(np.isnan(weights), strengths, weights),
        "sign": np.sign(np.nan_to_num(weights)).astype(np.int64),
        "strength": strengths,
        "p_value": p_values,
        "q_value": q_values,
    }
    return make_frame({**{name: labeled[name] for name in shown}, **columns}, kind)


def _slope(field: Field, table: str, name: str, state: Label | None) -> float:
    """Return 1 or -1 for the score of a variable or the only column of one with two states, 0 for those of levels.

    It is NaN for a state of three and more without an order, and -1 for the lower one of two states.
    """
    schema = field.layout.schemas[field.layout.tables.index(table)]
    if state is None or name not in schema.index_of_name:  # a score, or the number of linked rows
        return 1.0
    number, n_targets = schema.index_of_name[name], len(schema.targets)
    variable = schema.targets[number] if number < n_targets else schema.observed[number - n_targets]
    if len(variable.states) != 2:
        return 0.0 if variable.ordered else np.nan
    low, high = variable.states
    if not variable.ordered and not all(isinstance(label, (int, float)) for label in (low, high)):
        return 1.0
    return -1.0 if state == low else 1.0


class _Row(NamedTuple):
    """A feature by names; each of its terms is a table, a variable and a state."""

    template: str
    terms: tuple[tuple[str, str, Label | None], ...]
    weight: float


def _is_relational(field: Field) -> bool:
    return field.layout.tables != ("",)


def _feature_rows(field: Field) -> Iterator[_Row]:
    """Yield pairs, then conjunctions."""
    for k in np.flatnonzero(field.weights):
        name = field.layout.feature_name(*field.pairs[k].tolist())
        yield _Row(name.template, (name[1:4], name[4:7]), float(field.weights[k]))
    for k in np.flatnonzero(field.conjunction_weights):
        terms = tuple(field.layout.own_column_name(column) for column in field.conjunctions[k].tolist() if column >= 0)
        yield _Row(field.layout.within_label(terms[0][0]), terms, float(field.conjunction_weights[k]))


def path_table(rows: Sequence[PathRow], criterion: str | None, kind: str = "polars") -> Frame:
    """Return the rows of a regularization path, with the criterion of the scores in every row."""
    columns = {name: [getattr(row, name) for row in rows] for name in PathRow.__struct_fields__}
    columns["error"] = [np.nan if error is None else error for error in columns["error"]]
    return make_frame(columns | {"criterion": [criterion] * len(rows)}, kind)
