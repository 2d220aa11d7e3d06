"""How sure the data make single weights: Wald statistics under a sum of conditionals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class _Regression:
    """One variable given the sources of its arcs. Its parameters come state by state: weights, then the intercept."""

    table: int
    target: int
    states: slice
    """Of the table."""
    arcs: tuple[np.ndarray, ...]
    """State by state, numbers of the arcs that lead to it."""

    @property
    def every_arc(self) -> np.ndarray:
        return np.concatenate(self.arcs)

    @property
    def places(self) -> np.ndarray:
        """Where the weights stand among the parameters."""
        ends = np.cumsum([len(mine) + 1 for mine in self.arcs]) - 1
        return np.delete(np.arange(ends[-1] + 1), ends)


@dataclass(frozen=True)
class _Rows:
    """Some rows of a table."""

    table: int
    codes: np.ndarray
    errors: np.ndarray
    middles: np.ndarray
    weight: np.ndarray


def wald_statistics(layout: Layout, parts: Sequence[Part], arcs: Arcs, weights: np.ndarray) -> np.ndarray:
    """(features,): the square of each weight over its variance; about chi-squared where the weight is truly 0.

    Each variable is a (multinomial) regression on the sources of its arcs, whose second derivatives say how uncertain
    its weights are and how they depend on each other. A pair is estimated by two of them, each as far as it is
    informed. These see the same rows and say nearly the same twice, so variances are taken from what each row adds to
    their mean, and not from the curvature (Godambe's, or a sandwich). The weights must be at an optimum of `pl`
    without L1.

    Parameters
    ----------
    parts : of an evaluation at the optimum
    arcs : of the features
    weights : (features,)
    """
    regressions = _regressions(layout, arcs)
    inverses = _invert(layout, parts, arcs, regressions)
    information = np.zeros(len(arcs.target))
    for regression, inverse in zip(regressions, inverses, strict=True):
        own = inverse[np.arange(len(inverse)), regression.places]
        information[regression.every_arc] = 1.0 / np.maximum(own, np.finfo(float).tiny)
    total = np.bincount(arcs.feature, information, len(weights))
    share = information / np.maximum(total[arcs.feature], np.finfo(float).tiny)
    variance = np.zeros(len(weights))
    for rows in _pieces(parts, len(weights)):
        influence = np.zeros((len(weights), len(rows.weight)))
        for regression, inverse in zip(regressions, inverses, strict=True):
            if regression.table == rows.table:
                mine = regression.every_arc
                slopes = np.concatenate(
                    [design * rows.errors[state] for state, design in _designs(layout, regression, rows, arcs)]
                )
                found = share[mine, None] * (inverse @ slopes)
                for feature, row in zip(arcs.feature[mine], found, strict=True):
                    influence[feature] += row
        variance += (np.square(influence) / np.where(rows.weight > 0, rows.weight, 1.0)).sum(axis=1)
    return np.square(weights) / np.maximum(variance, np.finfo(float).tiny)


def _regressions(layout: Layout, arcs: Arcs) -> list[_Regression]:
    """Of the variables that any arc leads to."""
    order = np.argsort(arcs.target, kind="stable")
    ends = np.searchsorted(arcs.target[order], np.arange(layout.n_states + 1))
    found = []
    for table, schema in enumerate(layout.schemas):
        first = int(layout.state_starts[table])
        for target in range(len(schema.targets)):
            start, stop = (int(schema.state_offsets[k]) for k in (target, target + 1))
            if ends[first + stop] > ends[first + start]:
                of_states = tuple(order[ends[first + s] : ends[first + s + 1]] for s in range(start, stop))
                found.append(_Regression(table, target, slice(start, stop), of_states))
    return found


def _invert(layout: Layout, parts: Sequence[Part], arcs: Arcs, regressions: Sequence[_Regression]) -> list[np.ndarray]:
    """Of the inverse second derivatives of each regression, the rows that belong to its weights."""
    hessians = [np.zeros(2 * [len(one.every_arc) + len(one.arcs)]) for one in regressions]
    for rows in _pieces(parts, 1):
        for regression, hessian in zip(regressions, hessians, strict=True):
            if regression.table != rows.table:
                continue
            seen = rows.codes[regression.target] >= 0
            weight = np.where(seen, rows.weight, 0.0)
            safe = np.where(rows.weight > 0, rows.weight, 1.0)
            designs = list(_designs(layout, regression, rows, arcs))
            sure = {state: rows.middles[state] + rows.errors[state] / safe for state, _ in designs}
            places = np.cumsum([0, *(len(design) for _, design in designs)])
            for a, (one, left) in enumerate(designs):
                for b, (other, right) in enumerate(designs[: a + 1]):
                    curvature = weight * sure[one] * ((one == other) - sure[other])
                    product = (left * curvature) @ right.T
                    hessian[places[a] : places[a + 1], places[b] : places[b + 1]] += product
                    if a != b:
                        hessian[places[b] : places[b + 1], places[a] : places[a + 1]] += product.T
    found = []
    for regression, hessian in zip(regressions, hessians, strict=True):
        ridge = RIDGE * max(float(hessian.diagonal().max(initial=0.0)), 1.0)
        found.append(np.linalg.inv(hessian + ridge * np.eye(len(hessian)))[regression.places])
    return found


def _designs(layout: Layout, regression: _Regression, rows: _Rows, arcs: Arcs) -> Iterator[tuple[int, np.ndarray]]:
    """State by state, (arcs + 1, rows): the columns, or products of columns, that arcs come from, and a constant."""
    start = layout.column_starts[regression.table]
    for state, mine in zip(range(regression.states.start, regression.states.stop), regression.arcs, strict=True):
        source = arcs.source[mine]
        plain = source < layout.n_columns
        found = np.ones((len(mine) + 1, len(rows.weight)))
        found[:-1][plain] = rows.middles[source[plain] - start]
        for k in np.flatnonzero(~plain):
            columns = arcs.conjunctions[source[k] - layout.n_columns]
            found[k] = rows.middles[columns[columns >= 0] - start].prod(axis=0)
        yield state, found


def _pieces(parts: Sequence[Part], n_features: int) -> Iterator[_Rows]:
    """As many blocks of a table at a time as are not too many numbers."""
    for table in sorted({table for table, _, _ in parts}):
        held: list[tuple[Block, Workspace]] = []
        for block, space in [(block, space) for owner, block, space in parts if owner == table]:
            rows = sum(one.n_rows for one, _ in held) + block.n_rows
            if held and rows * max(n_features, len(space.middles)) > NUMBERS_AT_A_TIME:
                yield _join(table, held)
                held = []
            held.append((block, space))
        yield _join(table, held)


def _join(table: int, held: Sequence[tuple[Block, Workspace]]) -> _Rows:
    return _Rows(
        table,
        np.concatenate([block.codes for block, _ in held], axis=1),
        np.concatenate([space.errors for _, space in held], axis=1),
        np.concatenate([space.middles for _, space in held], axis=1),
        np.concatenate([block.weight for block, _ in held]),
    )
