"""How sure the data make single weights: Wald statistics under a sum of conditionals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from sparsefield.data import Arcs, Block, Layout
from sparsefield.objectives.base import Workspace

__all__ = ["wald_statistics"]

Part = tuple[int, Block, Workspace]
"""Table, block, and what an evaluation left of it."""

NUMBERS_AT_A_TIME = 4_000_000
"""Rows x features that are looked at together, or rows x columns."""

RIDGE = 1e-8
"""Share of a regression's largest curvature that is added to all: sources may repeat each other."""


def wald_statistics(layout: Layout, parts: Sequence[Part], arcs: Arcs, weights: np.ndarray) -> np.ndarray:
    """(features,): the square of each weight over its variance; about chi-squared where the weight is truly 0.

    Each state is a regression on the sources of its arcs, whose second derivatives say how uncertain its weights are
    and how they depend on each other. A pair is estimated by two of them, each as far as it is informed. These see the
    same rows and say nearly the same twice, so variances are taken from what each row adds to their mean, and not from
    the curvature (Godambe's, or a sandwich). The weights must be at an optimum without L1.

    Parameters
    ----------
    parts : of an evaluation at the optimum
    arcs : of the features
    weights : (features,)
    """
    order = np.argsort(arcs.target, kind="stable")
    ends = np.searchsorted(arcs.target[order], np.arange(layout.n_states + 1))
    regressions = [order[a:b] for a, b in pairwise(ends)]
    inverses, information = _invert(layout, parts, arcs, regressions)
    total = np.bincount(arcs.feature, information, len(weights))
    share = information / np.maximum(total[arcs.feature], np.finfo(float).tiny)
    variance = np.zeros(len(weights))
    for table, errors, middles, weight in _pieces(parts, len(weights)):
        influence = np.zeros((len(weights), len(weight)))
        for state in range(layout.state_starts[table], layout.state_starts[table + 1]):
            mine = regressions[state]
            if len(mine):
                slopes = _design(layout, table, middles, arcs, mine) * errors[state - layout.state_starts[table]]
                for feature, row in zip(
                    arcs.feature[mine], share[mine, None] * (inverses[state][:-1] @ slopes), strict=True
                ):
                    influence[feature] += row
        variance += (np.square(influence) / np.where(weight > 0, weight, 1.0)).sum(axis=1)
    return np.square(weights) / np.maximum(variance, np.finfo(float).tiny)


def _invert(
    layout: Layout, parts: Sequence[Part], arcs: Arcs, regressions: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], np.ndarray]:
    """Inverse second derivatives of each regression, its intercept last; and (arcs,): how informed each weight is."""
    curvature = [np.zeros((len(mine) + 1, len(mine) + 1)) for mine in regressions]
    for table, errors, middles, weight in _pieces(parts, 1):
        for state in range(layout.state_starts[table], layout.state_starts[table + 1]):
            if len(regressions[state]):
                design = _design(layout, table, middles, arcs, regressions[state])
                size = np.abs(errors[state - layout.state_starts[table]])
                unsure = size * (weight - size) / np.where(weight > 0, weight, 1.0)
                curvature[state] += (design * unsure) @ design.T
    information, inverses = np.zeros(len(arcs.target)), []
    for mine, hessian in zip(regressions, curvature, strict=True):
        ridge = RIDGE * max(float(hessian.diagonal().max(initial=0.0)), 1.0)
        inverse = np.linalg.inv(hessian + ridge * np.eye(len(hessian)))
        inverses.append(inverse)
        information[mine] = 1.0 / np.maximum(inverse.diagonal()[:-1], np.finfo(float).tiny)
    return inverses, information


def _pieces(parts: Sequence[Part], n_features: int) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """Table, errors, middles and weights of as many blocks at a time as are not too many numbers."""
    for table in sorted({table for table, _, _ in parts}):
        held: list[tuple[Block, Workspace]] = []
        for block, space in [(block, space) for owner, block, space in parts if owner == table]:
            rows = sum(one.n_rows for one, _ in held) + block.n_rows
            if held and rows * max(n_features, len(space.middles)) > NUMBERS_AT_A_TIME:
                yield _join(table, held)
                held = []
            held.append((block, space))
        yield _join(table, held)


def _join(table: int, held: Sequence[tuple[Block, Workspace]]) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    return (
        table,
        np.concatenate([space.errors for _, space in held], axis=1),
        np.concatenate([space.middles for _, space in held], axis=1),
        np.concatenate([block.weight for block, _ in held]),
    )


def _design(layout: Layout, table: int, middles: np.ndarray, arcs: Arcs, mine: np.ndarray) -> np.ndarray:
    """(arcs + 1, rows): the columns, or products of columns, that the arcs come from, and a constant."""
    start, source = layout.column_starts[table], arcs.source[mine]
    plain = source < layout.n_columns
    found = np.ones((len(mine) + 1, middles.shape[1]))
    found[:-1][plain] = middles[source[plain] - start]
    for k in np.flatnonzero(~plain):
        columns = arcs.conjunctions[source[k] - layout.n_columns]
        found[k] = middles[columns[columns >= 0] - start].prod(axis=0)
    return found
