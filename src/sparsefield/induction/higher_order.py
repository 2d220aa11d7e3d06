"""Features of more than two columns (Eq. 14): a feature that is there is a column itself, and is scored like one.

The product of a feature's columns has a belief, an error and a signal. Its pair with a further column is a feature of
one column more, and the gradient of that pair is error x expectation + expectation x error, as with any pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sparsefield.compute import ThresholdQuery
from sparsefield.data import Layout
from sparsefield.induction.candidates import Scored
from sparsefield.induction.thresholding import Thresholds
from sparsefield.objectives.block_evaluation import EvaluatedBlock
from sparsefield.objectives.dense_evaluator import GradientFactors

__all__ = ["Proposals", "all_expandable", "choose_proposals", "combine", "score_expansions"]

LIFTS_AT_A_TIME = 128
"""Lifted features that are multiplied with all columns at once: each takes two rows of floats for every block."""


@dataclass(frozen=True)
class Proposals:
    """Candidate features of any number of columns, with the gradient of each and the value that ranks them."""

    features: np.ndarray
    """(candidates, columns): -1 where a feature has fewer."""
    gradient: np.ndarray
    rank: np.ndarray

    def __len__(self) -> int:
        return len(self.gradient)

    def take(self, index: np.ndarray) -> Proposals:
        return Proposals(self.features[index], self.gradient[index], self.rank[index])


def combine(pairs: Scored, higher: Proposals | None, width: int) -> Proposals:
    """Pairs, and what goes beyond them, as one list."""
    features = np.pad(pairs.pairs, ((0, 0), (0, width - 2)), constant_values=-1)
    if higher is None:
        return Proposals(features, pairs.gradient, pairs.rank)
    return Proposals(
        np.concatenate([features, higher.features]),
        np.concatenate([pairs.gradient, higher.gradient]),
        np.concatenate([pairs.rank, higher.rank]),
    )


def choose_proposals(found: Proposals, limit: int) -> Proposals:
    """The ``limit`` features of highest rank; equal ranks go by position."""
    if len(found) > limit:
        least = np.partition(found.rank, len(found) - limit)[len(found) - limit]
        found = found.take(np.flatnonzero(found.rank >= least))
    order = np.lexsort((*found.features.T[::-1], -found.rank))
    return found.take(order[:limit])


def all_expandable(layout: Layout, width: int) -> np.ndarray:
    """Every pair of columns that a template within a table lets meet, one of them a target state: for triples that no
    pair leads to."""
    found = [np.empty((0, 2), dtype=np.int64)]
    for table in sorted({meeting.left.table for meeting in layout.candidate_blocks if meeting.within}):
        schema, start = layout.schemas[table], layout.column_starts[table]
        a, b = np.triu_indices(schema.n_columns, k=1)
        owner = schema.variable_of_column
        keep = (a < schema.n_states) & (owner[a] != owner[b])
        found.append(start + np.column_stack([a[keep], b[keep]]))
    return np.pad(np.concatenate(found), ((0, 0), (0, width - 2)), constant_values=-1).astype(np.int64)


class Expansion(NamedTuple):
    """Features of one table that a further column may join."""

    table: int
    members: np.ndarray
    """(features, columns) within the table."""
    errors: np.ndarray
    """(features,): the sum of their products' errors over all rows, and the mean of their expectations."""
    mean: np.ndarray


def score_expansions(
    contrast: GradientFactors,
    layout: Layout,
    lifts: np.ndarray,
    thresholds: tuple[float, float],
    cut: float,
    known: np.ndarray,
    growth: float = 1.0,
) -> Proposals:
    """Features of one column more than those in ``lifts``, with a gradient beyond ``cut``, key not ``known`` (sorted).

    Parameters
    ----------
    lifts : (features, columns)
        Own columns of one table each, ascending, with room for at least one more (-1 at the end).
    thresholds : (t_err, t_sig)
        Smaller errors and signals are ignored, as by CFI; with (0, 0) gradients are exact.
    growth : float
        Each column beyond two multiplies what a gradient has to pass, and divides its rank among the others.
    """
    own = layout.variable_of_own_column[lifts[:, :2]].min(axis=1) >= 0 if len(lifts) else np.empty(0, dtype=bool)
    exact, width = thresholds == (0.0, 0.0), lifts.shape[1]
    items = _items(contrast, layout, lifts[own], exact)

    def gradient(item: Expansion, sums: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        if exact:
            return sums[0]
        unary = np.zeros(layout.schemas[item.table].n_columns)
        unary[: len(contrast.unary[item.table])] = contrast.unary[item.table]
        total = sums[0] + item.errors[row] * contrast.means[item.table][column]
        return total + item.mean[row] * unary[column]

    def excess(item: Expansion, sums: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        cuts = cut * growth ** (_sizes(item.members) - 1.0)
        return np.abs(gradient(item, sums, rows, columns)) - cuts[rows]

    def eligible(item: Expansion, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        owner, have = layout.schemas[item.table].variable_of_column, item.members[rows]
        return ~((owner[have] == owner[columns][:, None]) & (have >= 0)).any(axis=1)

    question = ThresholdQuery(
        part_of_expansion,
        (layout, contrast.averaged, Thresholds(*thresholds, contrast.means)),
        excess,
        eligible,
    )
    found = contrast.parts.top_entries(question, items) if items else []
    parts = [_joined(part.item, layout, *part.positions) for part in found]
    features = np.concatenate([np.empty((0, width), dtype=np.int64), *parts])
    gradients = np.concatenate([np.empty(0), *(gradient(part.item, part.sums, *part.positions) for part in found)])
    # A triple is found from each of its pairs that is lifted; estimates may differ, and the largest counts.
    keys = layout.keys(features)
    order = np.lexsort((-np.abs(gradients), keys))
    first = np.flatnonzero(np.diff(keys[order], prepend=-1))
    chosen = order[first]
    if len(known):
        place = np.minimum(np.searchsorted(known, keys[chosen]), len(known) - 1)
        chosen = chosen[known[place] != keys[chosen]]
    rank = np.abs(gradients[chosen]) / growth ** (_sizes(features[chosen]) - 2.0)
    return Proposals(features[chosen], gradients[chosen], rank)


def _sizes(features: np.ndarray) -> np.ndarray:
    """(features,): how many columns they have."""
    return (features >= 0).sum(axis=1)


def _items(contrast: GradientFactors, layout: Layout, lifts: np.ndarray, exact: bool) -> list[Expansion]:
    """Lifts of one table, some at a time; sums over rows are taken where estimates need them."""
    table = layout.table_of_column[lifts[:, 0]] if len(lifts) else np.empty(0, dtype=np.int64)
    found, nothing = [], np.empty(0)
    for t in np.unique(table).tolist():
        mine = lifts[table == t]
        members = np.where(mine >= 0, mine - layout.column_starts[t], -1)
        for k in range(0, len(members), LIFTS_AT_A_TIME):
            found.append(Expansion(t, members[k : k + LIFTS_AT_A_TIME], nothing, nothing))
    if exact or not found:
        return found
    sums = contrast.parts.sum(_sums_of_lifts, found, contrast.averaged)
    weights = np.maximum(contrast.total_weights, np.finfo(float).tiny)
    return [item._replace(errors=e, mean=m / weights[item.table]) for item, (e, m) in zip(found, sums, strict=True)]


def _sums_of_lifts(
    part: EvaluatedBlock, items: list[Expansion], averaged: bool
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Per item, (features,) each: sums of errors, and weighted sums of expectations."""
    found = []
    for item in items:
        nothing = np.zeros(len(item.members))
        if item.table != part.table:
            found.append((nothing, nothing))
            continue
        error, expectation = _lift(part.errors, part.expectations, part.block.weight, item.members, averaged)
        found.append((error.sum(axis=1), expectation @ part.block.weight))
    return tuple(found)


def part_of_expansion(
    part: EvaluatedBlock, item: Expansion, layout: Layout, averaged: bool, thresholds: Thresholds
) -> np.ndarray | None:
    """(1, features, columns): what the rows of a part add to the gradients of features joined by a further column."""
    if item.table != part.table:
        return None
    schema, weight = layout.schemas[item.table], part.block.weight
    columns, states = schema.n_columns, schema.n_states
    expectations = part.expectations[:columns]
    error, expectation = _lift(part.errors, expectations, weight, item.members, averaged)
    if (thresholds.errors, thresholds.signals) == (0.0, 0.0):
        total = error @ expectations.T
        total[:, :states] += expectation @ part.errors.T
        return total[None]
    t_err, t_sig = thresholds.errors * weight, thresholds.signals
    loud = _beyond(expectations - thresholds.means[item.table][:columns, None], t_sig)
    total = _beyond(error, t_err) @ loud.T
    total[:, :states] += _beyond(expectation - item.mean[:, None], t_sig) @ _beyond(part.errors, t_err).T
    return total[None]


def _lift(
    errors: np.ndarray, expectations: np.ndarray, weight: np.ndarray, members: np.ndarray, averaged: bool
) -> tuple[np.ndarray, np.ndarray]:
    """(features, rows) each: errors, times the row's weight, and expectations of products of columns."""
    states, rows = errors.shape
    safe = np.where(weight > 0, weight, 1.0)
    before, change = np.ones((len(members), rows)), np.zeros((len(members), rows))
    for k in range(members.shape[1]):
        there = np.flatnonzero(members[:, k] >= 0)
        column = members[there, k]
        error = np.where((column < states)[:, None], errors[np.minimum(column, states - 1)] / safe, 0.0)
        belief = expectations[column] - 0.5 * error if averaged else expectations[column]
        step = belief + error if averaged else belief
        change[there] = change[there] * step + before[there] * error
        before[there] *= belief
    return change * weight, before + 0.5 * change if averaged else before


def _beyond(values: np.ndarray, threshold: np.ndarray | float) -> np.ndarray:
    return np.where(np.abs(values) > threshold, values, 0.0)


def _joined(item: Expansion, layout: Layout, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Features with their further column, as ascending column numbers."""
    features = item.members[row]
    features[np.arange(len(row)), _sizes(features)] = column
    # Ascending, with -1 behind: target states come before observed columns, so a target state is first.
    features = np.sort(np.where(features >= 0, features, np.iinfo(np.int64).max), axis=1)
    return np.where(features == np.iinfo(np.int64).max, -1, features + layout.column_starts[item.table])
