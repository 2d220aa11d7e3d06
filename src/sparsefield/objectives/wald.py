"""This module computes the Wald statistics of single weights under a sum of conditionals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparsefield.compute import BlockCollection
from sparsefield.data import Arcs, Layout
from sparsefield.inference.cell_probabilities import predict_complete
from sparsefield.inference.completions import FieldWeights
from sparsefield.objectives.block_evaluation import EvaluatedBlock
from sparsefield.objectives.variable_regressions import (
    VariableRegression,
    column_designs,
    regression_hessian,
    variable_regressions,
)

RIDGE = 1e-8
"""Share of the largest curvature of a regression that is added to its diagonal: sources may be collinear."""

MIN_INFORMATION = 1e-6
"""Share of the largest information of a group of averaged weights, below which a combination of them is left out."""

MIN_VARIANCE = 1e-6
"""Share of the largest variance of a group of weights, below which a combination of them is not determined: penalty or
ridge alone hold it, so that it does not vary with the rows."""


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
    regressions = variable_regressions(layout, arcs)
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
    tests = [_test_averaged(weights[mine], covariance) for mine, covariance in zip(members, covariances, strict=True)]
    statistics, degrees = np.array(tests, dtype=float).reshape(-1, 2).T
    return statistics[groups], degrees[groups]


def wald_test(weights: np.ndarray, covariance: np.ndarray) -> tuple[float, float]:
    """Return the Wald statistic of weights with a covariance, and its degrees of freedom.

    Combinations of weights that the rows do not determine do not count: see `MIN_VARIANCE`.
    """
    tiny = np.finfo(float).tiny
    if len(weights) == 1:
        return float(weights[0] ** 2 / max(covariance[0, 0], tiny)), 1.0
    variances, directions = np.linalg.eigh(covariance)
    known = variances > max(MIN_VARIANCE * variances.max(initial=0.0), tiny)
    return float((np.square(weights @ directions)[known] / variances[known]).sum()), float(known.sum())


def _test_averaged(weights: np.ndarray, covariance: np.ndarray) -> tuple[float, float]:
    """Return the statistic and its degrees of freedom from the averaged estimates of two regressions.

    Their covariance has small variances in directions that the rows do not determine, which `wald_test` would count as
    known. Here the most certain directions decide, so that groups of all states of two variables are kept too readily.
    """
    tiny = np.finfo(float).tiny
    if len(weights) == 1:
        return wald_test(weights, covariance)
    variances, directions = np.linalg.eigh(covariance)
    information = 1.0 / np.maximum(variances, tiny)
    known = information > MIN_INFORMATION * information.max()
    return float((np.square(weights @ directions) * information)[known].sum()), float(known.sum())


def _curvature(
    part: EvaluatedBlock, field: FieldWeights, arcs: Arcs, regressions: Sequence[VariableRegression]
) -> tuple[np.ndarray, ...]:
    """Return the contribution of a block to the Hessian of each regression."""
    found, layout = [], field.layout
    schema = layout.schemas[part.table]
    states = predict_complete(field, part.table, part.block._replace(beliefs=part.block.beliefs.copy()))
    for regression in regressions:
        if regression.table != part.table:
            found.append(np.zeros(2 * [len(regression.every_arc) + len(regression.arcs)]))
            continue
        weight = np.where(part.block.codes[regression.target] >= 0, part.block.weight, 0.0)
        mine = slice(*schema.coding.state_offsets[[regression.target, regression.target + 1]])
        designs = column_designs(layout, regression, arcs, part.expectations)
        found.append(regression_hessian(designs, schema.targets[regression.target].coded.T, states[mine], weight))
    return tuple(found)


def _inverse(regression: VariableRegression, hessian: np.ndarray) -> np.ndarray:
    """Return the rows of the inverse Hessian of a regression that belong to its weights."""
    ridge = RIDGE * max(float(hessian.diagonal().max(initial=0.0)), 1.0)
    return np.linalg.inv(hessian + ridge * np.eye(len(hessian)))[regression.weight_positions]


def _covariances(
    part: EvaluatedBlock,
    layout: Layout,
    arcs: Arcs,
    regressions: Sequence[VariableRegression],
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
            designs = column_designs(layout, regression, arcs, part.expectations)
            errors = part.errors[regression.columns]
            slopes = np.concatenate([design * error for design, error in zip(designs, errors, strict=True)])
            found = share[mine, None] * (inverse @ slopes)
            for feature, row in zip(arcs.feature[mine], found, strict=True):
                influence[feature] += row
    influence /= np.sqrt(np.where(weight > 0, weight, 1.0))
    return tuple(influence[mine] @ influence[mine].T for mine in members)
