"""How sure the data make single weights: Wald statistics under a sum of conditionals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sparsefield.compute import BlockCollection
from sparsefield.data import Arcs, Layout
from sparsefield.objectives.block_evaluation import EvaluatedBlock

__all__ = ["wald_statistics"]

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


def wald_statistics(layout: Layout, parts: BlockCollection, arcs: Arcs, weights: np.ndarray) -> np.ndarray:
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
    inverses = [
        _inverse(*pair) for pair in zip(regressions, parts.sum(_curvature, layout, arcs, regressions), strict=True)
    ]
    information = np.zeros(len(arcs.target))
    for regression, inverse in zip(regressions, inverses, strict=True):
        own = inverse[np.arange(len(inverse)), regression.places]
        information[regression.every_arc] = 1.0 / np.maximum(own, np.finfo(float).tiny)
    total = np.bincount(arcs.feature, information, len(weights))
    share = information / np.maximum(total[arcs.feature], np.finfo(float).tiny)
    variance = parts.sum(_variance, layout, arcs, regressions, inverses, share, len(weights))
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


def _curvature(
    part: EvaluatedBlock, layout: Layout, arcs: Arcs, regressions: Sequence[_Regression]
) -> tuple[np.ndarray, ...]:
    """Second derivatives of each regression, as far as the rows of a part tell."""
    found, weights = [], part.block.weight
    safe = np.where(weights > 0, weights, 1.0)
    for regression in regressions:
        hessian = np.zeros(2 * [len(regression.every_arc) + len(regression.arcs)])
        found.append(hessian)
        if regression.table != part.table:
            continue
        weight = np.where(part.block.codes[regression.target] >= 0, weights, 0.0)
        designs = list(_designs(layout, regression, part, arcs))
        sure = {state: part.expectations[state] + part.errors[state] / safe for state, _ in designs}
        places = np.cumsum([0, *(len(design) for _, design in designs)])
        for a, (one, left) in enumerate(designs):
            for b, (other, right) in enumerate(designs[: a + 1]):
                curvature = weight * sure[one] * ((one == other) - sure[other])
                product = (left * curvature) @ right.T
                hessian[places[a] : places[a + 1], places[b] : places[b + 1]] += product
                if a != b:
                    hessian[places[b] : places[b + 1], places[a] : places[a + 1]] += product.T
    return tuple(found)


def _inverse(regression: _Regression, hessian: np.ndarray) -> np.ndarray:
    """Of the inverse second derivatives of a regression, the rows that belong to its weights."""
    ridge = RIDGE * max(float(hessian.diagonal().max(initial=0.0)), 1.0)
    return np.linalg.inv(hessian + ridge * np.eye(len(hessian)))[regression.places]


def _variance(
    part: EvaluatedBlock,
    layout: Layout,
    arcs: Arcs,
    regressions: Sequence[_Regression],
    inverses: Sequence[np.ndarray],
    share: np.ndarray,
    n_features: int,
) -> np.ndarray:
    """(features,): squares of what each row of a part adds to a weight."""
    weight = part.block.weight
    influence = np.zeros((n_features, len(weight)))
    for regression, inverse in zip(regressions, inverses, strict=True):
        if regression.table == part.table:
            mine = regression.every_arc
            designs = _designs(layout, regression, part, arcs)
            slopes = np.concatenate([design * part.errors[state] for state, design in designs])
            found = share[mine, None] * (inverse @ slopes)
            for feature, row in zip(arcs.feature[mine], found, strict=True):
                influence[feature] += row
    return (np.square(influence) / np.where(weight > 0, weight, 1.0)).sum(axis=1)


def _designs(
    layout: Layout, regression: _Regression, part: EvaluatedBlock, arcs: Arcs
) -> Iterator[tuple[int, np.ndarray]]:
    """State by state, (arcs + 1, rows): the columns, or products of columns, that arcs come from, and a constant."""
    start = layout.column_starts[regression.table]
    for state, mine in zip(range(regression.states.start, regression.states.stop), regression.arcs, strict=True):
        source = arcs.source[mine]
        plain = source < layout.n_columns
        found = np.ones((len(mine) + 1, part.block.n_rows))
        found[:-1][plain] = part.expectations[source[plain] - start]
        for k in np.flatnonzero(~plain):
            columns = arcs.conjunctions[source[k] - layout.n_columns]
            found[k] = part.expectations[columns[columns >= 0] - start].prod(axis=0)
        yield state, found
