"""Scores of features of more than two columns (Eq. 14), which expand other features by one column.

The product of the columns of a feature is treated as a column itself, with an error, an expectation and a signal. The
gradient of its pair with another column is error x expectation + expectation x error, as for any pair of columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparsefield.compute import ThresholdQuery
from sparsefield.data import Layout
from sparsefield.data.coding import PENALTY_FACTORS
from sparsefield.induction.candidates import Proposals, contains
from sparsefield.induction.dense_scores import Thresholds
from sparsefield.kernels.mean_field_sweep import product_factors
from sparsefield.model import pad_features
from sparsefield.objectives.block_evaluation import EvaluatedBlock
from sparsefield.objectives.dense_evaluator import GradientFactors

FEATURES_PER_ITEM = 128
"""Features that are multiplied by all columns at once: each takes two arrays (rows,) for every block."""


def all_expandable(layout: Layout, width: int) -> np.ndarray:
    """Return all pairs of columns of a table, at least one a target state, padded to (pairs, width)."""
    found = [np.empty((0, 2), dtype=np.int64)]
    for table in sorted({block.left.table for block in layout.candidate_blocks if block.within}):
        schema, start = layout.schemas[table], layout.column_starts[table]
        a, b = np.triu_indices(schema.n_columns, k=1)
        owner = schema.variable_of_column
        keep = (a < schema.n_target_columns) & (owner[a] != owner[b])
        pairs = start + np.column_stack([a[keep], b[keep]])
        found.append(pairs[np.isfinite(layout.feature_factors(pairs))])
    return pad_features(np.concatenate(found), width)


class Expansion(NamedTuple):
    """Features of one table that are expanded by one column."""

    table: int
    members: np.ndarray
    """(features, columns) within the table."""
    errors: np.ndarray
    """(features,): sum of the errors of each product over all rows."""
    mean: np.ndarray
    """(features,): mean of the expectation of each product."""


def score_expansions(
    factors: GradientFactors,
    layout: Layout,
    expandable: np.ndarray,
    thresholds: tuple[float, float],
    min_gradient: float,
    known: np.ndarray,
    order_penalty: float = 1.0,
) -> Proposals:
    """Return expansions whose gradient exceeds ``min_gradient`` in size and whose key is not ``known`` (sorted).

    Parameters
    ----------
    expandable : (features, columns)
        Features to expand: ascending columns of one table, the last of them -1.
    thresholds : (t_err, t_sig)
        Smaller errors and signals are ignored, as by CFI; with (0, 0) gradients are exact.
    order_penalty : float
        Each column beyond two multiplies ``min_gradient`` by this factor, and divides the score by it.
    """
    own = layout.variable_of_own_column[expandable[:, :2]].min(axis=1) >= 0
    exact, width = thresholds == (0.0, 0.0), expandable.shape[1]
    items = _items(factors, layout, expandable[own], exact)

    def gradient(item: Expansion, sums: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        if exact:
            return sums[0]
        bias_gradient = np.zeros(layout.schemas[item.table].n_columns)
        bias_gradient[: len(factors.bias_gradient[item.table])] = factors.bias_gradient[item.table]
        total = sums[0] + item.errors[row] * factors.means[item.table][column]
        return total + item.mean[row] * bias_gradient[column]

    def excess(item: Expansion, sums: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        min_gradients = min_gradient * order_penalty ** (_sizes(item.members) - 1.0)[rows]
        factors = _expansion_factors(item, layout)[rows, columns]
        beyond = np.abs(gradient(item, sums, rows, columns)) - min_gradients * np.where(factors < np.inf, factors, 0.0)
        return np.where(factors < np.inf, beyond, -np.inf)  # an infinite factor is that of no candidate

    def eligible(item: Expansion, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        owner, have = layout.schemas[item.table].variable_of_column, item.members[rows]
        return ~((owner[have] == owner[columns][:, None]) & (have >= 0)).any(axis=1)

    query = ThresholdQuery(
        expansion_summand,
        (layout, factors.averaged, Thresholds(*thresholds, factors.means)),
        excess,
        eligible,
    )
    found = factors.parts.top_entries(query, items) if items else []
    parts = [_expand(part.item, layout, *part.positions) for part in found]
    features = np.concatenate([np.empty((0, width), dtype=np.int64), *parts])
    gradients = np.concatenate([np.empty(0), *(gradient(part.item, part.sums, *part.positions) for part in found)])
    # A triple may be an expansion of several pairs, with different estimates: the largest is used.
    keys = layout.keys(features)
    order = np.lexsort((-np.abs(gradients), keys))
    first = np.flatnonzero(np.diff(keys[order], prepend=-1))
    chosen = order[first]
    chosen = chosen[~contains(known, keys[chosen])]
    penalty = order_penalty ** (_sizes(features[chosen]) - 2.0) * layout.feature_factors(features[chosen])
    return Proposals(features[chosen], gradients[chosen], np.abs(gradients[chosen]) / penalty)


def _expansion_factors(item: Expansion, layout: Layout) -> np.ndarray:
    """Return the factors of l1 of all expansions (features, columns), infinite for those that are no candidates."""
    start, count = layout.column_starts[item.table], layout.schemas[item.table].n_columns
    classes = layout.column_classes[start : start + count]
    members = np.where(item.members >= 0, item.members + start, -1)
    factors = np.repeat(layout.feature_factors(members)[:, None], count, axis=1)
    for member in item.members.T:
        there = np.flatnonzero(member >= 0)
        factors[there] = np.maximum(factors[there], PENALTY_FACTORS[classes[member[there]][:, None], classes[None]])
    return factors


def _sizes(features: np.ndarray) -> np.ndarray:
    """Return the number of columns of each feature (features,)."""
    return (features >= 0).sum(axis=1)


def _items(factors: GradientFactors, layout: Layout, expandable: np.ndarray, exact: bool) -> list[Expansion]:
    """Group features by table, some at a time, with the sums over rows that estimates need."""
    table = layout.table_of_column[expandable[:, 0]] if len(expandable) else np.empty(0, dtype=np.int64)
    found, nothing = [], np.empty(0)
    for t in np.unique(table).tolist():
        mine = expandable[table == t]
        members = np.where(mine >= 0, mine - layout.column_starts[t], -1)
        for k in range(0, len(members), FEATURES_PER_ITEM):
            found.append(Expansion(t, members[k : k + FEATURES_PER_ITEM], nothing, nothing))
    if exact or not found:
        return found
    sums = factors.parts.sum(_sum_products, found, factors.averaged)
    weights = np.maximum(factors.total_weights, np.finfo(float).tiny)
    return [item._replace(errors=e, mean=m / weights[item.table]) for item, (e, m) in zip(found, sums, strict=True)]


def _sum_products(
    part: EvaluatedBlock, items: list[Expansion], averaged: bool
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Return for each item the sums of errors and the weighted sums of expectations, (features,) each."""
    found = []
    for item in items:
        nothing = np.zeros(len(item.members))
        if item.table != part.table:
            found.append((nothing, nothing))
            continue
        error, expectation = _product_factors(part.errors, part.expectations, part.block.weight, item.members, averaged)
        found.append((error.sum(axis=1), expectation @ part.block.weight))
    return tuple(found)


def expansion_summand(
    part: EvaluatedBlock, item: Expansion, layout: Layout, averaged: bool, thresholds: Thresholds
) -> np.ndarray | None:
    """Return the summand (1, features, columns) of a block of rows to the gradients of expansions."""
    if item.table != part.table:
        return None
    schema, weight = layout.schemas[item.table], part.block.weight
    columns, states = schema.n_columns, schema.n_target_columns
    expectations = part.expectations[:columns]
    error, expectation = _product_factors(part.errors, expectations, weight, item.members, averaged)
    if (thresholds.errors, thresholds.signals) == (0.0, 0.0):
        total = error @ expectations.T
        total[:, :states] += expectation @ part.errors.T
        return total[None]
    t_err, t_sig = thresholds.errors * weight, thresholds.signals
    signals = _keep_large(expectations - thresholds.means[item.table][:columns, None], t_sig)
    total = _keep_large(error, t_err) @ signals.T
    total[:, :states] += _keep_large(expectation - item.mean[:, None], t_sig) @ _keep_large(part.errors, t_err).T
    return total[None]


def _product_factors(
    errors: np.ndarray, expectations: np.ndarray, weight: np.ndarray, members: np.ndarray, averaged: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted errors and the expectations of products of columns, (features, rows) each."""
    error, expectation = np.empty((len(members), len(weight))), np.empty((len(members), len(weight)))
    product_factors(errors, expectations, weight, members, averaged, error, expectation)
    return error, expectation


def _keep_large(values: np.ndarray, threshold: np.ndarray | float) -> np.ndarray:
    return np.where(np.abs(values) > threshold, values, 0.0)


def _expand(item: Expansion, layout: Layout, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Return the expanded features, as ascending column numbers of the layout."""
    features = item.members[row]
    features[np.arange(len(row)), _sizes(features)] = column
    # Target states are before observed columns, so a target state is first; -1 is last.
    features = np.sort(np.where(features >= 0, features, np.iinfo(np.int64).max), axis=1)
    return np.where(features == np.iinfo(np.int64).max, -1, features + layout.column_starts[item.table])
