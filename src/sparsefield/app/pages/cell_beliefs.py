"""Probabilities of all states of cells, levels of numbers included, and of the bins of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import xlogy

from sparsefield.data import DenseDataset, Label, Schema, Variable
from sparsefield.estimators import MarkovField, RelationalField
from sparsefield.estimators.compiled_rows import compile_densely, infer_cells, infer_missing
from sparsefield.estimators.number_answers import deviation, mean
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


def missing_beliefs(model: MarkovField | RelationalField, sample: DenseDataset) -> TableBeliefs:
    """Return the probabilities of missing cells alone; those of observed ones are 0 or 1."""
    found = infer_missing(model, sample)
    return _by_table(sample, found.values, found.methods)


def _by_table(sample: DenseDataset, values: tuple[np.ndarray, ...], methods: frozenset[str]) -> TableBeliefs:
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


def number_range(variable: Variable, belief: np.ndarray) -> tuple[float, float]:
    """Return the mean and the standard deviation of a number with probabilities (states,) of its levels."""
    return float(mean(variable, belief[None])[0]), float(deviation(variable, belief[None])[0])


def tail_probabilities(belief: np.ndarray) -> np.ndarray:
    """Return, for each level, twice the probability of it and those beyond it on its side, but 1 at most.

    Examples
    --------
    >>> tail_probabilities(np.array([0.1, 0.2, 0.4, 0.3])).round(1)
    array([0.2, 0.6, 1. , 0.6])
    """
    upper = np.cumsum(belief[::-1])[::-1]
    return np.minimum(1.0, 2.0 * np.minimum(np.cumsum(belief), upper))


def expected_log_probability(belief: np.ndarray, probabilities: np.ndarray) -> float:
    """Return the mean of ln of the probabilities (states,) under the belief (states,).

    Examples
    --------
    >>> round(expected_log_probability(np.array([0.5, 0.5, 0.0]), np.array([0.5, 0.5, 0.0])), 3)
    -0.693
    """
    return float(xlogy(belief, np.maximum(probabilities, np.finfo(float).tiny)).sum())
