"""A slow oracle: the probability of every assignment from the weights of a field, up to a constant.

It shares nothing with the library but the schema's numbering.
"""

from __future__ import annotations

import itertools

import numpy as np

from sparsefield.data import Layout, Schema, Variable
from sparsefield.model import Field

Joint = dict[tuple[int, ...], float]


def random_field(seed: int, *, states=(2, 3, 4, 2), orders=(1, 2, 3), share: float = 0.6, size: float = 1.0) -> Field:
    """A field whose columns have mixed names, states and bases, with features of up to ``max(orders)`` columns."""
    rng = np.random.default_rng(seed)
    variables = []
    for k, count in enumerate(states):
        labels = [f"s{s}" for s in range(count)] if k % 2 else list(range(count))
        variables.append(Variable(f"col {k}", "target", tuple(labels), int(rng.integers(count)), (1 / count,) * count))
    schema = Schema(tuple(variables), tuple(v.name for v in variables))
    owner = schema.variable_of_column.tolist()
    features: dict[int, list[tuple[int, ...]]] = {}
    for order in orders:
        ways = itertools.combinations(range(schema.n_columns), order)
        features[order] = [c for c in ways if len({owner[x] for x in c}) == order and rng.random() < share]
    biases = rng.normal(scale=size, size=schema.n_target_columns) if 1 in orders else np.zeros(schema.n_target_columns)
    pairs = np.array(features.get(2, []), dtype=np.int64).reshape(-1, 2)
    higher = [c for order in orders if order > 2 for c in features[order]]
    conjunctions = np.full((len(higher), max(3, *orders)), -1, dtype=np.int64)
    for k, columns in enumerate(higher):
        conjunctions[k, : len(columns)] = columns
    weights = rng.normal(scale=size, size=len(pairs)), rng.normal(scale=size, size=len(higher))
    return Field(Layout.single(schema), biases, pairs, weights[0], conjunctions, weights[1])
