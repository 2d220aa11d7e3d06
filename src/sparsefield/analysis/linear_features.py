"""This module adds a feature for every pair of columns to a field: those that a linear model of each column has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparsefield.data import Layout
from sparsefield.data.coding import PENALTY_FACTORS, ColumnClass
from sparsefield.model import Field

LINEAR = (ColumnClass.PLAIN, ColumnClass.SCORE, ColumnClass.OBSERVED_SCORE)
"""Classes of the columns of a linear model: indicators of states without an order, and scores."""

ROWS_PER_COLUMN = 20
"""Rows that a table needs for each column of a linear model, so that all pairs of them can have weights."""

MAX_FEATURES = 2000
"""Features of such a field, at most."""


def linear_columns(layout: Layout) -> np.ndarray:
    """Return the numbers of the columns of a linear model of one table."""
    return np.flatnonzero(np.isin(layout.column_classes, LINEAR))


def supports_all_edges(field: Field, n_rows: int) -> bool:
    """Return whether a table has so many rows that all pairs of its columns can have weights."""
    count = len(linear_columns(field.layout))
    return count * ROWS_PER_COLUMN <= n_rows and count * (count - 1) // 2 <= MAX_FEATURES


def add_linear_features(field: Field) -> Field:
    """Return a field over one table with a feature for each pair of scores and states of different columns.

    Features that the field does not have get the weight 0.
    """
    layout, columns = field.layout, linear_columns(field.layout)
    a, b = (columns[k] for k in np.triu_indices(len(columns), 1))
    variable, classes = layout.variable_of_own_column, layout.column_classes
    allowed = (variable[a] != variable[b]) & (layout.target_of_column[a] >= 0)
    allowed &= np.isfinite(PENALTY_FACTORS[classes[a], classes[b]])
    pairs = np.column_stack([a, b])[allowed]
    pairs = pairs[~np.isin(layout.keys(pairs), layout.keys(field.pairs))]
    return replace(
        field,
        pairs=np.concatenate([field.pairs, pairs]),
        weights=np.concatenate([field.weights, np.zeros(len(pairs))]),
    )
