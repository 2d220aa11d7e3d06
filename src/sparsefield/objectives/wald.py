"""This module computes the Wald statistics of single weights under a sum of conditionals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sparsefield.compute import BlockCollection
from sparsefield.data import Arcs, Layout
from sparsefield.objectives.block_evaluation import EvaluatedBlock

RIDGE = 1e-8
"""Share of the largest curvature of a regression that is added to its diagonal: sources may be collinear."""


@dataclass(frozen=True)
class _Regression:
    """The regression of a variable on the sources of its arcs; parameters by state: weights, then the intercept."""

    table: int
    target: int
    states: slice
    """States of the variable in its table."""
    arcs: tuple[np.ndarray, ...]
    """For each state, the numbers of the arcs that lead to it."""

    @property
    def every_arc(self) -> np.ndarray:
        return np.concatenate(self.arcs)

    @property
    def weight_positions(self) -> np.ndarray:
        """Return the positions of the weights among the parameters."""
        ends = np.cumsum([len(mine) + 1 for mine in self.arcs]) - 1
        return np.delete(np.arange(ends[-1] + 1), ends)


def wald_statistics(layout: Layout, parts: BlockCollection, arcs: Arcs, weights: np.ndarray) -> np.ndarray:
    """Return the square of each weight over its variance (features,): about chi-squared where the weight is truly 0.

    Each variable is a (multinomial) regression on the sources of its arcs, whose Hessian gives the uncertainty of its
    weights. A pair weight is the mean of the estimates of two regressions, weighted by their information. Both use the
    same rows, so variances come from the influence of each row on the mean (the sandwich estimator of Godambe), not
    from the curvature alone. The weights must be at an optimum of `pl` without L1.

    Parameters
    ----------
    parts : blocks evaluated at the optimum
    arcs : arcs of the features
    weights : (features,)
    """
    regressions = _regressions(layout, arcs)
    inverses = [
        _inverse(*pair) for pair in zip(regressions, parts.sum(_curvature, layout, arcs, regressions), strict=True)
    ]
    information = np.zeros(len(arcs.target))
    for regression, inverse in zip(regressions, inverses, strict=True):
        own = inverse[np.arange(len(inverse)), regression.weight_positions]
        information[regression.every_arc] = 1.0 / np.maximum(own, np.finfo(float).tiny)
    total = np.bincount(arcs.feature, information, len(weights))
    share = information / np.maximum(total[arcs.feature], np.finfo(float).tiny)
    variance = parts.sum(_variance, layout, arcs, regressions, inverses, share, len(weights))
    return np.square(weights) / np.maximum(variance, np.finfo(float).tiny)


def _regressions(layout: Layout, arcs: Arcs) -> list[_Regression]:
    """Return the regressions of all variables that have arcs."""
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
    """Return the contribution of a block to the Hessian of each regression."""
    found, weights = [], part.block.weight
    safe = np.where(weights > 0, weights, 1.0)
    for regression in regressions:
        hessian = np.zeros(2 * [len(regression.every_arc) + len(regression.arcs)])
        found.append(hessian)
        if regression.table != part.table:
            continue
        weight = np.where(part.block.codes[regression.target] >= 0, weights, 0.0)
        designs = list(_designs(layout, regression, part, arcs))
        probability = {state: part.expectations[state] + part.errors[state] / safe for state, _ in designs}
        starts = np.cumsum([0, *(len(design) for _, design in designs)])
        for a, (one, left) in enumerate(designs):
            for b, (other, right) in enumerate(designs[: a + 1]):
                curvature = weight * probability[one] * ((one == other) - probability[other])
                product = (left * curvature) @ right.T
                hessian[starts[a] : starts[a + 1], starts[b] : starts[b + 1]] += product
                if a != b:
                    hessian[starts[b] : starts[b + 1], starts[a] : starts[a + 1]] += product.T
    return tuple(found)


def _inverse(regression: _Regression, hessian: np.ndarray) -> np.ndarray:
    """Return the rows of the inverse Hessian of a regression that belong to its weights."""
    ridge = RIDGE * max(float(hessian.diagonal().max(initial=0.0)), 1.0)
    return np.linalg.inv(hessian + ridge * np.eye(len(hessian)))[regression.weight_positions]


def _variance(
    part: EvaluatedBlock,
    layout: Layout,
    arcs: Arcs,
    regressions: Sequence[_Regression],
    inverses: Sequence[np.ndarray],
    share: np.ndarray,
    n_features: int,
) -> np.ndarray:
    """Return the sum over the rows of a block of the squared influence on each weight (features,)."""
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
    """Yield each state with its design (arcs + 1, rows): the sources of its arcs, and a constant."""
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
