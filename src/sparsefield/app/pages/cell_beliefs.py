"""Beliefs about cells, levels of numbers included, and beside them the shares of states in the rows of the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsefield.analysis.network import variable_at
from sparsefield.data import Dataset, Label, Schema, Variable
from sparsefield.data.table import Table
from sparsefield.estimators import MarkovField, RelationalField
from sparsefield.estimators.answers import deviation, mean
from sparsefield.estimators.compiled_rows import compile_densely, infer_cells, infer_missing
from sparsefield.inference import state_probabilities


@dataclass(frozen=True)
class TableBeliefs:
    """The probabilities of the states of all cells of tables, levels of numbers included."""

    values: dict[str, dict[str, np.ndarray]]
    """{table: {column: (rows, states)}}"""
    methods: frozenset[str]
    """The inference methods that computed those of missing cells."""


def cell_beliefs(model: MarkovField | RelationalField, data: Any) -> TableBeliefs:
    """Return the probabilities as ``predict_proba`` has them, with the levels of numbers.

    ``data`` are linked tables for a `RelationalField`, and one table, whose name is empty, for a `MarkovField`.
    """
    sample = compile_densely(model, data)
    found = infer_cells(model, sample)
    return _by_table(sample, found.conditionals, found.methods)


def missing_beliefs(model: MarkovField | RelationalField, sample: Dataset) -> TableBeliefs:
    """Return the probabilities of missing cells alone; those of observed ones are 0 or 1."""
    found = infer_missing(model, sample)
    return _by_table(sample, found.values, found.methods)


def _by_table(sample: Dataset, values: tuple[np.ndarray, ...], methods: frozenset[str]) -> TableBeliefs:
    parts = zip(sample.layout.tables, sample.layout.schemas, values, strict=True)
    return TableBeliefs({name: beliefs_by_column(schema, found) for name, schema, found in parts}, methods)


def beliefs_by_column(schema: Schema, probabilities: np.ndarray) -> dict[str, np.ndarray]:
    """Return {column: (rows, states)} of all targets from the probabilities (states, rows) of a table."""
    return {v.name: state_probabilities(schema, k, probabilities) for k, v in enumerate(schema.targets)}


def group_states(variable: Variable, probabilities: np.ndarray) -> tuple[tuple[Label, ...], np.ndarray]:
    """Return the states of a variable with their probabilities, (..., states): the bins of a number, which are fewer.

    Examples
    --------
    >>> age = Variable("age", "target", (20.0, 30.0, 60.0), kind="numeric", cuts=(25.0, 45.0), bins=(0, 0, 1))
    >>> group_states(age, np.array([0.5, 0.2, 0.3]))
    (('up to 45', 'over 45'), array([0.7, 0.3]))
    """
    if not variable.bins:
        return variable.states, probabilities
    starts = np.flatnonzero(np.diff(variable.bins, prepend=-1))
    return variable.bin_labels, np.add.reduceat(probabilities, starts, axis=-1)


def state_labels(variable: Variable) -> tuple[Label, ...]:
    """Return the states of a variable, or the bins of a number."""
    return variable.bin_labels if variable.bins else variable.states


def code_of(variable: Variable, value: Any) -> int:
    """Return the code of a state, or of the level of a number."""
    return int(variable.codes_of(np.array([value]))[0]) if variable.numeric else variable.code_of_label[value]


def number_range(variable: Variable, belief: np.ndarray) -> tuple[float, float]:
    """Return the mean and the standard deviation of a number with probabilities (states,) of its levels."""
    return float(mean(variable, belief[None])[0]), float(deviation(variable, belief[None])[0])


class DataShares:
    """States of one table, as positions among the states of their variable, or among the bins of a number."""

    def __init__(self, table: Table) -> None:
        self.schema, self.n_rows = table.schema, table.n_rows
        self._codes = table.codes()

    def matching(self, evidence: Mapping[str, Any]) -> np.ndarray | None:
        """Return (rows,) bool: which rows agree with evidence {predicted column: state or number}.

        A number agrees if it is in the same bin. None where a covariate is among the evidence: the compiled rows have
        no states of covariates.
        """
        rows = np.ones(self.n_rows, dtype=bool)
        for name, value in evidence.items():
            number = self.schema.index_of_name[name]
            if number >= len(self.schema.targets):
                return None
            variable = variable_at(self.schema, number)
            rows &= self._positions(number) == _shown_positions(variable)[code_of(variable, value)]
        return rows

    def counts(self, name: str, rows: np.ndarray | None = None) -> np.ndarray | None:
        """Return (states,) the rows with each state of a column, of some rows or of all; None for a covariate."""
        number = self.schema.index_of_name[name]
        if number >= len(self.schema.targets):
            return None
        positions = self._positions(number)
        chosen = positions >= 0 if rows is None else rows & (positions >= 0)
        return np.bincount(positions[chosen], minlength=len(state_labels(variable_at(self.schema, number))))

    def cross_counts(self, one: str, two: str) -> np.ndarray | None:
        """Return (states, states) the rows with each pair of states of two columns; None for a covariate."""
        numbers = self.schema.index_of_name[one], self.schema.index_of_name[two]
        if max(numbers) >= len(self.schema.targets):
            return None
        a, b = map(self._positions, numbers)
        sizes = [len(state_labels(variable_at(self.schema, number))) for number in numbers]
        known = (a >= 0) & (b >= 0)
        return np.bincount(a[known] * sizes[1] + b[known], minlength=sizes[0] * sizes[1]).reshape(sizes)

    def _positions(self, number: int) -> np.ndarray:
        codes = np.asarray(self._codes[number])
        return np.where(codes >= 0, _shown_positions(variable_at(self.schema, number))[codes], -1)


def _shown_positions(variable: Variable) -> np.ndarray:
    """Return (codes,) the position of each code among the states, or the bins of a number."""
    positions = np.asarray(variable.position_of_code)
    return np.unique(variable.bins, return_inverse=True)[1][positions] if variable.bins else positions
