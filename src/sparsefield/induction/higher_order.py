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
from sparsefield.induction.dense_scores import Proposals, contains
from sparsefield.kernels.mean_field_sweep import product_factors
from sparsefield.model import pad_features
from sparsefield.objectives.block_evaluation import EvaluatedBlock
from sparsefield.objectives.dense_evaluator import GradientFactors

FEATURES_PER_ITEM = 128
"""Features that are multiplied by all columns at once: each takes two arrays (rows,) for every block."""


def all_expandable(layout: Layout, width: int) -> np.ndarray:
    """Return all pairs of columns of a table, at least one a target state, padded to (pairs, width)."""
    parts = [np.empty((0, 2), dtype=np.int64)]
    for table in sorted({block.left.table for block in layout.candidate_blocks if block.within}):
        schema, start = layout.schemas[table], layout.column_starts[table]
        a, b = np.triu_indices(schema.n_columns, k=1)
        owner = schema.variable_of_column
        keep = (a < schema.n_target_columns) & (owner[a] != owner[b])
        pairs = start + np.column_stack([a[keep], b[keep]])
        parts.append(pairs[np.isfinite(layout.feature_factors(pairs))])
    return pad_features(np.concatenate(parts), width)


class Expansion(NamedTuple):
    """Features of one table that are expanded by one column."""

    table: int
    members: np.ndarray
    """(features, columns) within the table."""


def score_expansions(
    factors: GradientFactors,
    layout: Layout,
    expandable: np.ndarray,
    min_gradient: float,
    known: np.ndarray,
    order_penalty: float = 1.0,
) -> Proposals:
    """Return expansions whose exact gradient exceeds ``min_gradient`` and whose key is not ``known`` (sorted).

    Parameters
    ----------
    expandable : (features, columns)
        Features to expand: ascending columns of one table, the last of them -1.
    order_penalty : float
        Each column beyond two multiplies ``min_gradient`` by this factor, and divides the score by it.
    """
    own, width = layout.variable_of_own_column[expandable[:, :2]].min(axis=1) >= 0, expandable.shape[1]
    table, expandable = layout.table_of_column[expandable[own, 0]], expandable[own]
    items = []
    for t in np.unique(table).tolist():
        members = np.where(expandable[table == t] >= 0, expandable[table == t] - layout.column_starts[t], -1)
        items += [Expansion(t, members[k : k + FEATURES_PER_ITEM]) for k in range(0, len(members), FEATURES_PER_ITEM)]

    def excess(item: Expansion, sums: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        min_gradients = min_gradient * order_penalty ** (_sizes(item.members) - 1.0)[rows]
        factors = _expansion_factors(item, layout)[rows, columns]
        beyond = np.abs(sums[0]) - min_gradients * np.where(factors < np.inf, factors, 0.0)
        return np.where(factors < np.inf, beyond, -np.inf)  # an infinite factor is that of no candidate

    def eligible(item: Expansion, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        owner, have = layout.schemas[item.table].variable_of_column, item.members[rows]
        return ~((owner[have] == owner[columns][:, None]) & (have >= 0)).any(axis=1)

    query = ThresholdQuery(expansion_summand, (layout, factors.averaged), excess, eligible)
    entries = factors.parts.top_entries(query, items) if items else []
    parts = [_expand(part.item, layout, *part.positions) for part in entries]
    features = np.concatenate([np.empty((0, width), dtype=np.int64), *parts])
    gradients = np.concatenate([np.empty(0), *(part.sums[0] for part in entries)])
    # A triple may be an expansion of several pairs, whose sums have other rounding errors: the largest is used.
    keys = layout.keys(features)
    order = np.lexsort((-np.abs(gradients), keys))
    chosen = order[np.flatnonzero(np.diff(keys[order], prepend=-1))]
    chosen = chosen[~contains(known, keys[chosen])]
    penalty = order_penalty ** (_sizes(features[chosen]) - 2.0) * layout.feature_factors(features[chosen])
    return Proposals(features[chosen], gradients[chosen], np.abs(gradients[chosen]) / penalty)


def _expansion_factors(item: Expansion, layout: Layout) -> np.ndarray:
    """Return the factors of l1 of all expansions (features, columns), infinite where none is possible."""
    schema, start = layout.schemas[item.table], layout.column_starts[item.table]
    classes = layout.column_classes[start : start + schema.n_columns]
    members = np.where(item.members >= 0, item.members + start, -1)
    factors = np.repeat(layout.feature_factors(members)[:, None], schema.n_columns, axis=1)
    for member in item.members.T:
        there = np.flatnonzero(member >= 0)
        factors[there] = np.maximum(factors[there], PENALTY_FACTORS[classes[member[there]][:, None], classes[None]])
    factors[:, schema.target_offsets[-1 - schema.n_latent] : schema.n_target_columns] = np.inf
    return factors


def _sizes(features: np.ndarray) -> np.ndarray:
    """Return the number of columns of each feature (features,)."""
    return (features >= 0).sum(axis=1)


def expansion_summand(part: EvaluatedBlock, item: Expansion, layout: Layout, averaged: bool) -> np.ndarray | None:
    """Return the summand (1, features, columns) of a block of rows to the gradients of expansions."""
    if item.table != part.table:
        return None
    schema, weight = layout.schemas[item.table], part.block.weight
    expectations = part.expectations[: schema.n_columns]
    error, expectation = np.empty((2, len(item.members), len(weight)))
    product_factors(part.errors, expectations, weight, item.members, averaged, error, expectation)
    total = error @ expectations.T
    total[:, : schema.n_target_columns] += expectation @ part.errors.T
    return total[None]


def _expand(item: Expansion, layout: Layout, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Return the expanded features, as ascending column numbers of the layout."""
    features = item.members[row]
    features[np.arange(len(row)), _sizes(features)] = column
    # Target states are before observed columns, so a target state is first; -1 is last.
    features = np.sort(np.where(features >= 0, features, np.iinfo(np.int64).max), axis=1)
    return np.where(features == np.iinfo(np.int64).max, -1, features + layout.column_starts[item.table])
