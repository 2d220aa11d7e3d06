"""This module counts how often items that share a weight are in the same basket: support, confidence and lift."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsefield.app.tables.baskets import list_items
from sparsefield.data import BinarySchema, Schema
from sparsefield.errors import DataError
from sparsefield.model import Field

PAIRS_OF_CHUNK = 1000
"""Number of pairs of items that are counted at once."""


@dataclass(frozen=True)
class PairRules:
    """How often two items are in the same basket, (pairs,) each."""

    counts: np.ndarray
    """Number of baskets with both items."""
    first: np.ndarray
    """Number of baskets with the first item."""
    second: np.ndarray
    n_baskets: int

    @property
    def support(self) -> np.ndarray:
        return self.counts / self.n_baskets

    @property
    def confidence_ab(self) -> np.ndarray:
        """NaN where no basket has the first item."""
        return divide(self.counts, self.first)

    @property
    def confidence_ba(self) -> np.ndarray:
        return divide(self.counts, self.second)

    @property
    def lift(self) -> np.ndarray:
        return divide(self.counts * float(self.n_baskets), self.first * self.second.astype(float))

    def take(self, order: np.ndarray) -> PairRules:
        """Return some of the pairs."""
        return PairRules(self.counts[order], self.first[order], self.second[order], self.n_baskets)


def item_names(schema: Schema) -> tuple[str, ...]:
    """Return the columns of a field over items; DataError if one of them has other states than 0 and 1."""
    if isinstance(schema, BinarySchema):
        return schema.order
    others = [v.name for v in schema.variables if v.role != "latent" and not (v.states and {*v.states} <= {0, 1})]
    if others:
        raise DataError(
            f"Baskets are for fields over items, whose columns are 0 or 1; {len(others):,} column(s) have other "
            f"values: {list_items(others)}."
        )
    return schema.input_names


def item_pairs(field: Field) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of items with a weight, (pairs, 2) numbers in `item_names`, and the weights, (pairs,).

    A weight is that of both items being 1, also where the field has a feature of an item that is 0.
    """
    schema, active = field.schema, np.flatnonzero(field.weights)
    position = {name: k for k, name in enumerate(item_names(schema))}
    pairs, weights = [], []
    for (a, b), weight in zip(field.pairs[active].tolist(), field.weights[active].tolist(), strict=True):
        ends = [schema.column_name(column) for column in (a, b)]
        if all(name in position for name, _ in ends):  # not a latent variable
            pairs.append([position[name] for name, _ in ends])
            weights.append(weight if ends[0][1] == ends[1][1] else -weight)
    return np.array(pairs, dtype=np.int64).reshape(-1, 2), np.array(weights, dtype=float)


def count_pairs(matrix: Any, pairs: np.ndarray) -> PairRules:
    """Return how often the items of each pair, (pairs, 2) columns, are in the same row of a 0/1 matrix."""
    by_item, totals = matrix.astype(np.int64).tocsc(), matrix.getnnz(axis=0).astype(np.int64)
    both = [np.empty(0, dtype=np.int64)]
    for start in range(0, len(pairs), PAIRS_OF_CHUNK):
        a, b = pairs[start : start + PAIRS_OF_CHUNK].T
        both.append(np.asarray(by_item[:, a].multiply(by_item[:, b]).sum(axis=0)).ravel())
    return PairRules(np.concatenate(both), totals[pairs[:, 0]], totals[pairs[:, 1]], matrix.shape[0])


def rule_columns(field: Field, matrix: Any) -> dict[str, dict[str, float]]:
    """Return {title: {name of a feature: value}}: support, both confidences and lift, for the tables of a report."""
    names, (pairs, _) = item_names(field.schema), item_pairs(field)
    rules = count_pairs(matrix, pairs)
    features = [f"{names[a]}=1 & {names[b]}=1" for a, b in pairs.tolist()]
    columns = {
        "support": rules.support,
        "confidence of the second item": rules.confidence_ab,
        "confidence of the first item": rules.confidence_ba,
        "lift": rules.lift,
    }
    return {
        title: {name: value for name, value in zip(features, values.tolist(), strict=True) if not np.isnan(value)}
        for title, values in columns.items()
    }


def divide(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Return quotients, NaN where the denominator is 0."""
    numerator = numerator.astype(float)
    return np.divide(numerator, denominator, out=np.full(len(numerator), np.nan), where=denominator > 0)
