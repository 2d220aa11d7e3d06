"""This module computes the Wald statistics of single weights under a sum of conditionals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sparsefield.compute import BlockCollection
from sparsefield.data import Arcs, Layout
from sparsefield.inference.completions import FieldWeights
from sparsefield.inference.observed_cells import predict_complete
from sparsefield.objectives.block_evaluation import EvaluatedBlock

RIDGE = 1e-8
"""Share of the largest curvature of a regression that is added to its diagonal: sources may be collinear."""


@dataclass(frozen=True)
class _Regression:
    """The regression of a variable on the sources of its arcs; parameters by column: weights, then the intercept."""

    table: int
    target: int
    columns: slice
    """Columns of the variable in its table."""
    arcs: tuple[np.ndarray, ...]
    """For each column, the numbers of the arcs that lead to it."""

    @property
    def every_arc(self) -> np.ndarray:
        return np.concatenate(self.arcs)

    @property
    def weight_positions(self) -> np.ndarray:
        """Return the positions of the weights among the parameters."""
        ends = np.cumsum([len(mine) + 1 for mine in self.arcs]) - 1
        return np.delete(np.arange(ends[-1] + 1), ends)


MIN_INFORMATION = 1e-6
"""Share of the largest information of a group of weights, below which a combination of them is not determined."""


def wald_statistics(
    field: FieldWeights, parts: BlockCollection, arcs: Arcs, weights: np.ndarray, groups: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the square of each weight over its variance, and its degrees of freedom, (features,) each.

    The statistic is about chi-squared where the weight is truly 0. With groups it is that of all weights of a group
    together; combinations of them that the data do not determine, as those of all states of a variable, do not count.

    Each variable is a (multinomial) regression on the sources of its arcs, whose Hessian gives the uncertainty of its
    weights. A pair weight is the mean of the estimates of two regressions, weighted by their information. Both use the
    same rows, so variances come from the influence of each row on the mean (the sandwich estimator of Godambe), not
    from the curvature alone. The weights must be at an optimum of `pl` without L1.

    Parameters
    ----------
    field : the field at the optimum
    parts : blocks evaluated there
    arcs : arcs of the features
    weights : (features,)
    groups : (features,) numbers of groups from 0, or None for single weights
    """
    if not len(weights):
        return np.empty(0), np.empty(0)
    layout = field.layout
    regressions = _regressions(layout, arcs)
    inverses = [
        _inverse(*pair) for pair in zip(regressions, parts.sum(_curvature, field, arcs, regressions), strict=True)
    ]
    information = np.zeros(len(arcs.target))
    for regression, inverse in zip(regressions, inverses, strict=True):
        own = inverse[np.arange(len(inverse)), regression.weight_positions]
        information[regression.every_arc] = 1.0 / np.maximum(own, np.finfo(float).tiny)
    total = np.bincount(arcs.feature, information, len(weights))
    share = information / np.maximum(total[arcs.feature], np.finfo(float).tiny)
    groups = np.arange(len(weights)) if groups is None else groups
    members = np.split(np.argsort(groups, kind="stable"), np.cumsum(np.bincount(groups))[:-1])
    covariances = parts.sum(_covariances, layout, arcs, regressions, inverses, share, members)
    tests = [_test(weights[mine], covariance) for mine, covariance in zip(members, covariances, strict=True)]
    statistics, degrees = np.array(tests, dtype=float).reshape(-1, 2).T
    return statistics[groups], degrees[groups]


def _test(weights: np.ndarray, covariance: np.ndarray) -> tuple[float, float]:
    """Return the Wald statistic of weights with a covariance, and its degrees of freedom."""
    tiny = np.finfo(float).tiny
    if len(weights) == 1:
        return float(weights[0] ** 2 / max(covariance[0, 0], tiny)), 1.0
    variances, directions = np.linalg.eigh(covariance)
    information = 1.0 / np.maximum(variances, tiny)
    known = information > MIN_INFORMATION * information.max()
    return float((np.square(weights @ directions) * information)[known].sum()), float(known.sum())


def _regressions(layout: Layout, arcs: Arcs) -> list[_Regression]:
    """Return the regressions of all variables that have arcs."""
    order = np.argsort(arcs.target, kind="stable")
    ends = np.searchsorted(arcs.target[order], np.arange(layout.n_target_columns + 1))
    found = []
    for table, schema in enumerate(layout.schemas):
        first = int(layout.target_starts[table])
        for target in range(len(schema.targets)):
            start, stop = (int(schema.target_offsets[k]) for k in (target, target + 1))
            if ends[first + stop] > ends[first + start]:
                of_states = tuple(order[ends[first + s] : ends[first + s + 1]] for s in range(start, stop))
                found.append(_Regression(table, target, slice(start, stop), of_states))
    return found


def _curvature(
    part: EvaluatedBlock, field: FieldWeights, arcs: Arcs, regressions: Sequence[_Regression]
) -> tuple[np.ndarray, ...]:
    """Return the contribution of a block to the Hessian of each regression."""
    found, weights, layout = [], part.block.weight, field.layout
    schema = layout.schemas[part.table]
    states = predict_complete(field, part.table, part.block._replace(beliefs=part.block.beliefs.copy())).probabilities
    for regression in regressions:
        hessian = np.zeros(2 * [len(regression.every_arc) + len(regression.arcs)])
        found.append(hessian)
        if regression.table != part.table:
            continue
        weight = np.where(part.block.codes[regression.target] >= 0, weights, 0.0)
        designs = dict(_designs(layout, regression, part, arcs))
        mine = slice(*schema.coding.state_offsets[[regression.target, regression.target + 1]])
        p, coded = states[mine], schema.targets[regression.target].coded.T
        means = coded @ p
        sizes = np.cumsum([0, *(len(arcs_of) + 1 for arcs_of in regression.arcs)])
        intercepts = sizes[1:] - 1
        hessian[np.ix_(intercepts, intercepts)] = (coded * (p @ weight)) @ coded.T - (means * weight) @ means.T
        with_arcs = [c for c in range(len(coded)) if len(regression.arcs[c])]
        for a in with_arcs:
            here, left = slice(sizes[a], sizes[a + 1]), designs[regression.columns.start + a]
            covariances = weight * ((coded[a] * coded) @ p - means[a] * means)
            hessian[here, intercepts] = left @ covariances.T
            hessian[intercepts, here] = hessian[here, intercepts].T
            for b in with_arcs[: with_arcs.index(a) + 1]:
                there = slice(sizes[b], sizes[b + 1])
                product = (left * covariances[b]) @ designs[regression.columns.start + b].T
                hessian[here, there], hessian[there, here] = product, product.T
    return tuple(found)


def _inverse(regression: _Regression, hessian: np.ndarray) -> np.ndarray:
    """Return the rows of the inverse Hessian of a regression that belong to its weights."""
    ridge = RIDGE * max(float(hessian.diagonal().max(initial=0.0)), 1.0)
    return np.linalg.inv(hessian + ridge * np.eye(len(hessian)))[regression.weight_positions]


def _covariances(
    part: EvaluatedBlock,
    layout: Layout,
    arcs: Arcs,
    regressions: Sequence[_Regression],
    inverses: Sequence[np.ndarray],
    share: np.ndarray,
    members: Sequence[np.ndarray],
) -> tuple[np.ndarray, ...]:
    """Return the sums over the rows of a block of the products of influences on the weights of each group."""
    weight = part.block.weight
    influence = np.zeros((sum(map(len, members)), len(weight)))
    for regression, inverse in zip(regressions, inverses, strict=True):
        if regression.table == part.table:
            mine = regression.every_arc
            designs = _designs(layout, regression, part, arcs)
            slopes = np.concatenate([design * part.errors[state] for state, design in designs])
            found = share[mine, None] * (inverse @ slopes)
            for feature, row in zip(arcs.feature[mine], found, strict=True):
                influence[feature] += row
    influence /= np.sqrt(np.where(weight > 0, weight, 1.0))
    return tuple(influence[mine] @ influence[mine].T for mine in members)


def _designs(
    layout: Layout, regression: _Regression, part: EvaluatedBlock, arcs: Arcs
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each state with its design (arcs + 1, rows): the sources of its arcs, and a constant."""
    start = layout.column_starts[regression.table]
    for state, mine in zip(range(regression.columns.start, regression.columns.stop), regression.arcs, strict=True):
        source = arcs.source[mine]
        plain = source < layout.n_columns
        found = np.ones((len(mine) + 1, part.block.n_rows))
        found[:-1][plain] = part.expectations[source[plain] - start]
        for k in np.flatnonzero(~plain):
            columns = arcs.conjunctions[source[k] - layout.n_columns]
            found[k] = part.expectations[columns[columns >= 0] - start].prod(axis=0)
        yield state, found
