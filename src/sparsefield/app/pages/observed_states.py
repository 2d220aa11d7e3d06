"""This module reads from compiled rows which of them have a state, or which value, for the two ends of a feature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.analysis.feature_sentences import Feature, Term
from sparsefield.analysis.network import variable_at
from sparsefield.data import CovariateDataset, DenseDataset, Variable
from sparsefield.data.candidate_pairs import COUNT_COLUMN
from sparsefield.data.dataset import LocalDataset, SparseDataset
from sparsefield.data.layout import Layout

Array = np.ndarray


@dataclass(frozen=True)
class FeatureEnd:
    """One of the two columns of a pair feature, with its cells in all pairs of rows that the feature is about."""

    term: Term
    variable: Variable
    known: Array
    """(pairs of rows,) bool: where the column has a value."""
    has_state: Array
    """(pairs of rows,) bool: where it has the state of the term; False for a score."""
    values: Array
    """(pairs of rows,): the numbers of a numeric column, or positions 1, 2, ... of ordered states."""

    @property
    def is_score(self) -> bool:
        return self.term.state is None


def read_ends(sample: LocalDataset, feature: Feature) -> tuple[FeatureEnd, FeatureEnd] | None:
    """Return the two ends of a pair feature in the order of its terms.

    Pairs of rows are the linked ones of its template; within a table, each row with itself. None where an end has no
    cells in the data: the number of linked rows, and latent variables.
    """
    layout, (a, b) = sample.layout, feature.columns
    table = int(layout.table_of_column[a])
    view = int(layout.column_views(table)[0][b - layout.column_starts[table]])
    here, there = _Place.own(layout, a), _Place.own(layout, b) if view < 0 else _Place.linked(layout, view, b)
    if there.column == COUNT_COLUMN or "latent" in (here.variable(layout).role, there.variable(layout).role):
        return None
    places, pairs = [here, there], [None, None]
    if view >= 0:
        offsets, rows = sample.neighbors[view]  # pyright: ignore[reportAttributeAccessIssue]
        pairs = [np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), rows]
        if not layout.neighbor_views[view].forward:
            places, pairs = places[::-1], pairs[::-1]
    one, two = (_read(sample, *end) for end in zip(places, feature.terms, pairs, strict=True))
    return one, two


@dataclass(frozen=True)
class _Place:
    """A column of the flat numbering of its own table."""

    table: int
    column: int

    @classmethod
    def own(cls, layout: Layout, column: int) -> _Place:
        table = int(layout.table_of_column[column])
        return cls(table, column - int(layout.column_starts[table]))

    @classmethod
    def linked(cls, layout: Layout, view: int, column: int) -> _Place:
        found = layout.neighbor_views[view]
        return cls(
            found.source_table, int(found.columns[column - layout.column_starts[found.target_table] - found.start])
        )

    def number(self, layout: Layout) -> int:
        """Return the number of the variable in its schema."""
        return int(layout.schemas[self.table].variable_of_column[self.column])

    def variable(self, layout: Layout) -> Variable:
        return variable_at(layout.schemas[self.table], self.number(layout))


def _read(sample: LocalDataset, place: _Place, term: Term, rows: Array | None) -> FeatureEnd:
    variable = place.variable(sample.layout)
    if isinstance(sample, CovariateDataset) and variable.role == "observed":
        values = sample.covariates.column(place.column - sample.labels.schema.n_columns)
        return FeatureEnd(term, variable, np.ones(len(values), dtype=bool), np.zeros(len(values), dtype=bool), values)
    if isinstance(sample, SparseDataset):
        has_state = _sparse_column(sample, place.column)
        return FeatureEnd(term, variable, np.ones(len(has_state), dtype=bool), has_state, np.empty(0))
    read = _read_observed if variable.role == "observed" else _read_target
    known, has_state, values = read(sample, place, variable)
    if rows is not None:
        known, has_state, values = known[rows], has_state[rows], values[rows]
    return FeatureEnd(term, variable, known, has_state, values)


def _sparse_column(sample: SparseDataset, column: int) -> Array:
    """Return (rows,) bool: where a column of a sparse table is not 0."""
    found = np.zeros(sample.n_rows, dtype=bool)
    start = 0
    for block in sample.table.blocks:
        places = np.flatnonzero(block.columns == column)
        found[start + np.searchsorted(block.offsets, places, side="right") - 1] = True
        start += block.n_rows
    return found


def _read_target(
    sample: DenseDataset | CovariateDataset, place: _Place, variable: Variable
) -> tuple[Array, Array, Array]:
    number, schema = place.number(sample.layout), sample.layout.schemas[place.table]
    codes = np.asarray(sample.tables[place.table].codes()[number])
    known, own = codes >= 0, place.column - int(schema.offsets[number])
    if own < variable.n_scores:
        return known, np.zeros(len(codes), dtype=bool), _state_values(variable)[codes]
    return known, known & (variable.indicators[codes] == own), np.zeros(len(codes))


def _read_observed(
    sample: DenseDataset | CovariateDataset, place: _Place, variable: Variable
) -> tuple[Array, Array, Array]:
    """Return what `FeatureEnd` has of a covariate, whose missing values were replaced by the mean of its columns."""
    schema, number = sample.layout.schemas[place.table], place.number(sample.layout)
    values = _dense_column(sample, place.table, place.column)
    if place.column - int(schema.offsets[number]) < variable.n_scores:
        every = np.ones(len(values), dtype=bool)
        return every, ~every, _values_of_scores(variable, values)
    return np.isin(values, (0.0, 1.0)), values == 1.0, np.zeros(len(values))


def _dense_column(sample: DenseDataset | CovariateDataset, table: int, column: int) -> Array:
    return np.concatenate([block.beliefs[column] for block in sample.tables[table].blocks])


def _state_values(variable: Variable) -> Array:
    """Return the number of each state: the numbers themselves, or 1, 2, ... where ordered states are not numbers."""
    numbers = all(isinstance(state, (int, float)) for state in variable.states)
    return np.array(variable.states if numbers else range(1, len(variable.states) + 1), dtype=float)


def _values_of_scores(variable: Variable, scores: Array) -> Array:
    if variable.numeric and variable.transform == "linear-scores":
        return variable.center + variable.scale * scores
    return np.interp(scores, variable.scores, _state_values(variable))
