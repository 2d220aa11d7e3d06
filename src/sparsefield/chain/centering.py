"""This module moves weights of a linear chain by constants that change its penalties and not its likelihood.

The likelihood stays the same if a constant is added to the weights of an attribute with all labels, or to all
transitions. An optimizer makes little progress in these directions, which only the penalties curve, and their best
constant is known in closed form.
"""

from __future__ import annotations

import numpy as np

from sparsefield.chain.features import ChainFeatures

Groups = tuple[np.ndarray, ...]


def constant_groups(features: ChainFeatures) -> Groups:
    """Return arrays (groups, size) of numbers of features to whose weights a constant may be added."""
    m, n_states = features.n_labels, features.n_states
    if m < 2:
        return ()
    starts = features.offsets[:-1][np.diff(features.offsets) == m]
    found = [starts[:, None] + np.arange(m)] if len(starts) else []
    if len(features.steps) == m * m:
        found.append(n_states + np.arange(m * m)[None, :])
    return tuple(found)


def center(theta: np.ndarray, groups: Groups, l1: float, l2: float) -> np.ndarray:
    """Return weights with the constants that make the penalties smallest.

    Examples
    --------
    >>> center(np.array([3.0, 1.0, 1.5]), (np.array([[0, 1, 2]]),), 1.0, 0.0)
    array([ 1.5, -0.5,  0. ])
    """
    found = theta.copy()
    for members in groups:
        found[members] = _shift(theta[members], l1, l2)
    return found


def _shift(weights: np.ndarray, l1: float, l2: float) -> np.ndarray:
    """Add to each row the c that minimizes the sum of l1 x abs(w + c) + l2 / 2 x (w + c)^2.

    The slope in c rises along the breakpoints -w, by 2 x l1 at each. Either it changes its sign at a breakpoint, where
    a weight becomes exactly 0, or between two.
    """
    n, m = weights.shape
    rows, total = np.arange(n), weights.sum(axis=1)
    order = np.argsort(-weights, axis=1, kind="stable")
    breaks = -np.take_along_axis(weights, order, axis=1)
    smooth = l2 * (total[:, None] + m * breaks)
    below = l1 * (2.0 * np.arange(m) - m) + smooth
    first = np.minimum((below + 2.0 * l1 < 0.0).sum(axis=1), m - 1)
    at_break = below[rows, first] <= 0.0
    inner = -(l1 * (2.0 * first - m) / l2 + total) / m if l2 > 0.0 else np.zeros(n)
    shifted = weights + np.where(at_break, breaks[rows, first], inner)[:, None]
    zero = order[rows, first]
    shifted[rows[at_break], zero[at_break]] = 0.0
    return shifted
