"""This module computes the probabilities of all states of cells, levels of numbers included, and groups the latter."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsefield.data import DenseDataset, Label, Schema, Variable
from sparsefield.estimators.number_answers import deviation, mean
from sparsefield.inference import state_probabilities


def cell_beliefs(model: Any, data: Any) -> dict[str, dict[str, np.ndarray]]:
    """Return {table: {column: (rows, states)}} as ``predict_proba`` has it, with the levels of numbers.

    ``data`` are linked tables for a `RelationalField`, and one table, whose name is empty, for a `MarkovField`.
    """
    compiled = model._compile(data)
    sample = compiled if isinstance(compiled, DenseDataset) else DenseDataset.single(compiled[1])
    layout = sample.layout
    parts = zip(layout.tables, layout.schemas, model._infer(sample).conditionals, strict=True)
    return {name: beliefs_by_column(schema, found) for name, schema, found in parts}


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


def tail_probability(belief: np.ndarray, place: int) -> float:
    """Return twice the probability of a level and those beyond it, on its side of the distribution, but 1 at most.

    Examples
    --------
    >>> tail_probability(np.array([0.1, 0.2, 0.4, 0.3]), 0)
    0.2
    """
    return min(1.0, 2.0 * float(min(belief[: place + 1].sum(), belief[place:].sum())))
