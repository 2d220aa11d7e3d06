"""This module computes the signs of edges: whether two columns rise together, or one falls as the other rises.

A feature of two columns of the flat numbering with weight w changes the covariance of the scores of their variables, to
first order, by w times the covariance of each column with the score of its variable: 1 for a score, and frequency times
score for the indicator of a level. The sign of an edge is that of the sum over its features.
"""

from __future__ import annotations

import numpy as np

from sparsefield.data.coding import ColumnClass
from sparsefield.data.grouped_schema import GroupedSchema
from sparsefield.data.schema import Schema, Variable

Array = np.ndarray

AGREEMENT = 0.5
"""Least ratio of the sum over features to the sum of their absolute values: three parts agree for one that does not."""

LEAST_CORRELATION = 0.05
"""Least mean correlation of the features with the scores: features of middle levels say nothing about a direction."""

SCORES = (ColumnClass.SCORE, ColumnClass.OBSERVED_SCORE)


def column_directions(schema: Schema) -> Array:
    """Return (columns, 3): the covariance with the score of the variable, the standard deviation, and the mean.

    The covariance is 0 where the states of a variable have no order. The only column of a variable with two states is
    its score; where the states are ordered or numbers and it is the lower one, the covariance is negative.
    """
    widths, variable_of, classes = schema.widths, schema.variable_of_column, schema.column_classes
    found = np.ones((len(variable_of), 3))
    scores, alone = np.isin(classes, SCORES), widths[variable_of] == 1
    found[~scores & ~alone, 0] = 0.0
    found[scores, 2] = 0.0
    if isinstance(schema, GroupedSchema):  # 0/1 columns and numbers, which have no levels
        return found
    for k, variable in enumerate(schema.variables):
        own = slice(schema.offsets[k], schema.offsets[k + 1])
        if variable.has_reference and variable.width == 1:
            found[own, 0] = -1.0 if _is_lower(variable) else 1.0
        elif variable.ordered and variable.width > variable.n_scores:
            found[own] = _level_directions(variable)
    return found


def _is_lower(variable: Variable) -> bool:
    """Return whether the state with a column is below the reference state, of a variable with two states."""
    state, reference = int(variable.position_of_code[1]), variable.reference
    if variable.ordered:
        return state < reference
    labels = variable.states[state], variable.states[reference]
    return all(isinstance(label, (int, float)) for label in labels) and labels[0] < labels[1]  # pyright: ignore[reportOperatorIssue]


def _level_directions(variable: Variable) -> Array:
    """Return (width, 3) as `column_directions`, of a variable with a score and indicators of levels."""
    frequencies, scores = variable.code_frequencies, np.asarray(variable.scores)
    coded = variable.coded
    if not frequencies.sum() > 0:
        frequencies = np.full(len(coded), 1.0 / len(coded))
    means = frequencies @ coded
    squares = frequencies @ coded**2 - means**2
    found = np.column_stack([(frequencies * scores) @ (coded - means), np.sqrt(np.maximum(squares, 0.0)), means])
    found[: variable.n_scores] = (1.0, 1.0, 0.0)
    found[variable.column_classes == ColumnClass.SQUARE, 0] = 0.0
    return found


def edge_signs(edge: Array, weights: Array, covariances: Array, spreads: Array, n_edges: int) -> Array:
    """Return (edges,) the sign of each edge: 1, -1, or 0 where its features disagree or have no direction.

    Parameters
    ----------
    edge : (features,) the number of the edge
    weights : (features,)
    covariances : (features,) the product of the covariances of both columns with the scores of their variables
    spreads : (features,) the product of the standard deviations of both columns
    n_edges : the number of edges

    Examples
    --------
    Two levels of a positive edge, and two that contradict each other:

    >>> edge, weights = np.array([0, 0, 1, 1]), np.array([1.0, 0.5, 1.0, -0.8])
    >>> edge_signs(edge, weights, np.full(4, 0.04), np.full(4, 0.16), 2).tolist()
    [1, 0]
    """
    change = np.bincount(edge, weights * covariances, n_edges)
    size = np.bincount(edge, np.abs(weights * covariances), n_edges)
    largest = np.bincount(edge, np.abs(weights) * spreads, n_edges)
    clear = (np.abs(change) >= AGREEMENT * size) & (np.abs(change) >= LEAST_CORRELATION * largest) & (size > 0)
    return np.sign(change).astype(np.int64) * clear
