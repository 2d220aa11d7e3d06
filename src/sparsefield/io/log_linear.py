"""From a full table of logarithms to weights of conjunctions of states, which are 0 where a state is the first."""

from __future__ import annotations

import numpy as np

__all__ = ["log_linear_weights", "moebius_transform"]

Conjunction = tuple[tuple[int, ...], tuple[int, ...]]
"""Axes of a table, and a state other than 0 of each."""


def moebius_transform(log_table: np.ndarray, first: int = 0) -> np.ndarray:
    """The weight of every conjunction, in an array of the table's shape (a Moebius transform).

    The entry at (s, t, ...) belongs to the axes at which it is not 0. An entry of the table is the sum of the weights
    of all conjunctions that hold there, the constant at (0, 0, ...) included. Axes before ``first`` only number tables.
    """
    weights = np.array(log_table, dtype=float)
    for axis in range(first, weights.ndim):
        rows = np.moveaxis(weights, axis, 0)
        rows[1:] -= rows[:1]
    return weights


def log_linear_weights(log_table: np.ndarray) -> dict[Conjunction, float]:
    """Weights of the conjunctions that make up a table, relative to state 0 of every axis.

    Parameters
    ----------
    log_table : array of any number of axes
        Finite logarithms.

    Returns
    -------
    dict of (axes, states) to weight
        Weights that are 0 are left out; ``((), ())`` is the constant.

    Examples
    --------
    >>> log_linear_weights(np.array([[0.0, 1.0], [2.0, 7.0]]))
    {((1,), (1,)): 1.0, ((0,), (1,)): 2.0, ((0, 1), (1, 1)): 4.0}
    """
    weights = moebius_transform(log_table)
    found = {}
    for place in zip(*np.nonzero(weights), strict=True) if weights.ndim else [()] * bool(weights):
        axes = tuple(axis for axis, state in enumerate(place) if state)
        found[axes, tuple(int(place[axis]) for axis in axes)] = float(weights[place])
    return found
