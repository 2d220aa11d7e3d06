"""This module computes log-linear weights from a full table of log-potentials by a Möbius transform."""

from __future__ import annotations

import numpy as np

Conjunction = tuple[tuple[int, ...], tuple[int, ...]]
"""The axes of a table, and a nonzero state for each."""


def moebius_transform(log_table: np.ndarray, first: int = 0) -> np.ndarray:
    """Return the log-linear weights of a table, in an array of the same shape (a Möbius transform).

    The weight at (s, t, ...) belongs to the conjunction of its nonzero states. An entry of the table is the sum of the
    weights of all conjunctions that hold there, including the constant at (0, 0, ...). Axes before ``first`` are batch
    axes.
    """
    weights = np.array(log_table, dtype=float)
    for axis in range(first, weights.ndim):
        rows = np.moveaxis(weights, axis, 0)
        rows[1:] -= rows[:1]
    return weights


def log_linear_weights(log_table: np.ndarray) -> dict[Conjunction, float]:
    """Return the nonzero log-linear weights of a table, relative to state 0 of every axis.

    Parameters
    ----------
    log_table : array with any number of axes
        Finite log-potentials.

    Returns
    -------
    dict of (axes, states) to weight
        The key ``((), ())`` is the constant.

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
