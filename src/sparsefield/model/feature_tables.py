"""Features of a field by name, in sentences, and as tables; tables of its biases and edges, and of its path of l1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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

PATHS = {"triangle": ("i, z", "z, j", "i, j"), "cycle": ("j, z", "z, i", "i, j")}
"""The entities of the three terms of a feature over paths."""


class Term(NamedTuple):
    """One state of one column, a bin such as "12 to 18.5", or the score of an ordinal or numeric one: no state."""

    table: str
    variable: str
    state: Label | None

    @property
    def column(self) -> str:
        """Name of the column, with its table where there are several."""
        return f"{self.table}.{self.variable}" if self.table else self.variable

    @property
    def text(self) -> str:
        """``rain=1``, or the name of a column for its score."""
        return self.column if self.state is None else f"{self.column}={self.state}"


@dataclass(frozen=True)
class Feature:
    """A feature of two or more columns that has a weight."""

    template: str
    """Template that joins the rows of the columns; empty within one plain table."""
    terms: tuple[Term, ...]
    weight: float
    columns: tuple[int, ...]
    """Numbers of the terms in the field's layout."""
    number: int
    """Position of the feature in the field: pairs first, then conjunctions."""

    @property
    def name(self) -> str:
        """``rain=1 & wet=1``; over a link ``across who: visit.fun=1 & pupil.mood=glad``."""
        over = f"{self.template}: " if self.over_link else ""
        return over + " & ".join(term.text for term in self.terms)

    @property
    def over_link(self) -> bool:
        """Whether the feature joins columns of linked rows."""
        return not (self.template == "" or self.template.startswith("within"))

    @property
    def sentence(self) -> str:
        """The feature as a sentence: which states occur together, or which columns are high or low together.

        One over a path reads "if pair.r=1(i, z) and pair.s=1(z, j), then pair.t=1(i, j)".
        """
        if (ends := PATHS.get(self.template.split(" ")[0])) and len(self.terms) == 3:
            r, s, t = (f"{term.text}({end})" for term, end in zip(self.terms, ends, strict=True))
            return f"if {r} and {s}, then {'' if self.weight > 0 else 'rarely '}{t}"
        categories = [term.text for term in self.terms if term.state is not None]
        numbers = [term.text for term in self.terms if term.state is None]
        over = f", {self.template}" if self.over_link else ""
        if not categories:
            *others, last = numbers
            if len(others) > 1:
                return f"the product {' x '.join(numbers)} is {'high' if self.weight > 0 else 'low'}{over}"
            if others[0] == last:
                does = "alike" if self.weight > 0 else "unlike each other"
                return f"{last} of two rows are {does}{over}"
            return f"{others[0]} is {'high' if self.weight > 0 else 'low'} where {last} is high{over}"
        what = " and ".join(filter(None, [", ".join(categories[:-1]), categories[-1]]))
        if not numbers:
            return f"{what} {'go together' if self.weight > 0 else 'rarely go together'}{over}"
        does = "is more likely" if len(categories) == 1 else "go together"
        return f"{what} {does} where {' x '.join(numbers)} is {'high' if self.weight > 0 else 'low'}{over}"

    def as_dict(self) -> dict[str, Any]:
        """Return template, terms and weight as plain values, for JSON."""
        terms = [term._asdict() for term in self.terms]
        return {"template": self.template, "terms": terms, "weight": self.weight}


def list_features(field: Field) -> list[Feature]:
    """Return the features of two or more columns, strongest first.

    Examples
    --------
    >>> from sparsefield.app.datasets import make_markov_field
    >>> made = make_markov_field(3, 1, neighbors=1.0, burn_in=1, seed=1).field.field_
    >>> [feature.name for feature in list_features(made)]
    ['x0=1 & x2=1']
    """
    weights = np.concatenate([field.weights, field.conjunction_weights])
    used = np.flatnonzero(weights)
    order = used[np.argsort(-np.abs(weights[used]), kind="stable")]
    return name_features(field, order.tolist())


def name_features(field: Field, numbers: Sequence[int]) -> list[Feature]:
    """Return features by their numbers: pairs are numbered first, then conjunctions."""
    layout, n_pairs = field.layout, len(field.weights)
    features = []
    for k in numbers:
        if k < n_pairs:
            a, b = field.pairs[k].tolist()
            name = layout.feature_name(a, b)
            terms, template = tuple(Term(*term) for term in name.terms), name.template
            columns: tuple[int, ...] = (a, b)
            weight = float(field.weights[k])
        else:
            columns = tuple(column for column in field.conjunctions[k - n_pairs].tolist() if column >= 0)
            terms = tuple(Term(*layout.own_column_name(column)) for column in columns)
            template, weight = layout.within_label(terms[0].table), float(field.conjunction_weights[k - n_pairs])
        features.append(Feature(template if layout.tables != ("",) else "", terms, weight, columns, k))
    return features


def feature_table(field: Field, kind: str = "polars") -> Frame:
    """Return the pair and higher-order features with a weight, strongest first.

    Columns are variable_a, state_a, variable_b, state_b, weight; and variable_c, state_c and so on where some feature
    has more than two columns. A state is missing where the score of an ordinal or numeric column is meant, whose weight
    is per standard deviation; the state of a bin of a numeric column is text such as "12 to 18.5". All state columns
    have one type, text if any state is text. A field over linked tables also has the template and the tables.
    """
    features = list_features(field)
    # States of targets count for the type, so that it does not depend on which features were selected.
    labels: list[Any] = [1 for schema in field.layout.schemas if schema.n_target_columns and not schema.described]
    targets = [v for schema in field.layout.schemas for v in schema.described if v.role != "observed"]
    labels += [label for v in targets for label in v.column_labels if label is not None]
    weights = np.array([feature.weight for feature in features], dtype=float)
    return make_frame({**_name_columns(field, features, kind, labels), "weight": weights}, kind)


def bias_table(field: Field, kind: str = "polars") -> Frame:
    """Return the biases, strongest first: variable, state, weight; over linked tables, also the table.

    The state is missing for the score of an ordinal or numeric column, and "square" for the squared score of a numeric
    one, whose bias is its precision.
    """
    layout, order = field.layout, np.flatnonzero(field.biases)
    order = order[np.argsort(-np.abs(field.biases[order]), kind="stable")]
    classes = np.concatenate([schema.column_classes[: schema.n_target_columns] for schema in layout.schemas])
    terms = [layout.own_column_name(column) for column in layout.column_of_target[order].tolist()]
    tables, variables = ([term[k] for term in terms] for k in range(2))
    squares = (classes[order] == ColumnClass.SQUARE).tolist()
    states = ["square" if is_square else term[2] for term, is_square in zip(terms, squares, strict=True)]
    names = {"table": tables, "variable": variables} if _is_relational(field) else {"variable": variables}
    columns = make_label_columns(names, kind) | make_label_columns({"state": states}, kind)
    return make_frame({**columns, "weight": field.biases[order]}, kind)


def feature_names(field: Field, order: np.ndarray, kind: str = "polars") -> dict[str, Any]:
    """Return the columns of `feature_table` that name features, in a given order of their numbers."""
    return _name_columns(field, name_features(field, order.tolist()), kind)


def _name_columns(field: Field, features: list[Feature], kind: str, labels: Sequence[Label] = ()) -> dict[str, Any]:
    """Return {name: values} of the columns that identify features.

    The type of the states is one that ``labels`` have, too.
    """
    letters = ascii_lowercase[: max([2, *(len(feature.terms) for feature in features)])]
    nothing = (None, None, None)
    columns: dict[str, list[Any]] = {"template": [feature.template for feature in features]}
    states: dict[str, list[Any]] = {"": list(labels)}
    for k, letter in enumerate(letters):
        terms = [feature.terms[k] if k < len(feature.terms) else nothing for feature in features]
        columns[f"table_{letter}"] = [table for table, _, _ in terms]
        columns[f"variable_{letter}"] = [variable for _, variable, _ in terms]
        states[f"state_{letter}"] = [state for _, _, state in terms]
    labeled = make_label_columns(columns, kind) | make_label_columns(states, kind)
    parts = ("table", "variable", "state") if _is_relational(field) else ("variable", "state")
    shown = [f"{part}_{letter}" for letter in letters for part in parts]
    shown = ["template", *shown] if _is_relational(field) else shown
    return {name: labeled[name] for name in shown}


def edge_table(field: Field, kind: str = "polars") -> Frame:
    """Return all pairs of variables that share features; see `MarkovField.edges_`.

    Edges that hold at a false discovery rate of `FALSE_DISCOVERY_RATE` come first, and stronger ones before others. A
    field over linked tables also has columns for the template and the two tables.
    """
    parts: dict[tuple[str, ...], np.ndarray] = {}
    slope_of = cache(partial(_slope, field))
    for feature in list_features(field):
        for a, b in combinations(feature.terms, 2):
            slope = slope_of(*a) * slope_of(*b) * (len(feature.terms) == 2)
            key, square = (feature.template, *a[:2], *b[:2]), feature.weight**2
            sums = parts.setdefault(key, np.zeros(3))
            sums += square, slope * feature.weight, square * (slope == 0.0)
    evidence, q_values = field.record.evidence, {}
    if evidence is not None:
        names, tests = field.schema.names, zip(evidence.p_values, evidence.q_values, strict=True)
        q_values = {frozenset(names[k] for k in ends): test for ends, test in zip(evidence.edges, tests, strict=True)}
    unknown = (np.nan, np.nan)
    tests = {key: q_values.get(frozenset((key[2], key[4])), unknown) for key in parts}
    squares, linear, others = np.array([*parts.values()]).reshape(-1, 3).T
    weights = np.where(np.isnan(linear), np.sqrt(squares), linear)
    strengths = np.where(weights != 0.0, np.abs(weights), np.sqrt(squares))
    p_values, q_values = np.array([tests[key] for key in parts], dtype=float).reshape(-1, 2).T
    order = np.lexsort((-strengths, ~(q_values <= FALSE_DISCOVERY_RATE)))
    ranked = [list(parts)[k] for k in order.tolist()]
    names = ("template", "table_a", "variable_a", "table_b", "variable_b")
    labeled = make_label_columns({name: [key[k] for key in ranked] for k, name in enumerate(names)}, kind)
    shown = names if _is_relational(field) else ("variable_a", "variable_b")
    columns = {
        "weight": weights,
        "sign": np.sign(np.nan_to_num(linear)).astype(np.int64),
        "strength": strengths,
        "beyond": np.where(np.isnan(linear), 0.0, np.sqrt(others)),
        "p_value": p_values,
        "q_value": q_values,
    }
    columns = {name: values[order] for name, values in columns.items()}
    return make_frame({**{name: labeled[name] for name in shown}, **columns}, kind)


def _slope(field: Field, table: str, name: str, state: Label | None) -> float:
    """Return 1 or -1 for the score of a variable or the only column of one with two states, 0 for those of levels.

    It is NaN for a state of three and more without an order, and -1 for the lower one of two states.
    """
    schema = field.layout.schemas[field.layout.tables.index(table)]
    if state is None or name not in schema.index_of_name:  # a score, or the number of linked rows
        return 1.0
    variable = schema.variable(schema.index_of_name[name])
    if len(variable.states) != 2:
        return 0.0 if variable.ordered else np.nan
    return 1.0 if state == variable.states[variable.upper] else -1.0


def _is_relational(field: Field) -> bool:
    return field.layout.tables != ("",)


def path_table(rows: Sequence[PathRow], criterion: str | None, kind: str = "polars") -> Frame:
    """Return the rows of a regularization path, with the criterion of the scores in every row."""
    columns = {name: [getattr(row, name) for row in rows] for name in PathRow.__struct_fields__}
    columns["error"] = [np.nan if error is None else error for error in columns["error"]]
    return make_frame(columns | {"criterion": [criterion] * len(rows)}, kind)
