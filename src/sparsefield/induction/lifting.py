"""Features of more than two columns (Eq. 14): a feature that is there is a column itself, and is scored like one.

The product of a feature's columns has a belief, an error and a signal. Its pair with a further column is a feature of
one column more, and the gradient of that pair is error x middle + middle x error, as with any pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.data import Layout
from sparsefield.engines import Threads
from sparsefield.induction.candidates import Scored
from sparsefield.objectives.evaluation import Contrast

__all__ = ["Proposals", "all_lifts", "choose_proposals", "combine", "score_lifts"]

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


def all_lifts(layout: Layout, width: int) -> np.ndarray:
    """Every pair of columns that a template within a table lets meet, one of them a target state: for triples that no
    pair leads to."""
    found = [np.empty((0, 2), dtype=np.int64)]
    for table in sorted({meeting.left for meeting in layout.meetings if meeting.within}):
        schema, start = layout.schemas[table], layout.column_starts[table]
        a, b = np.triu_indices(schema.n_columns, k=1)
        owner = schema.variable_of_column
        keep = (a < schema.n_states) & (owner[a] != owner[b])
        found.append(start + np.column_stack([a[keep], b[keep]]))
    return np.pad(np.concatenate(found), ((0, 0), (0, width - 2)), constant_values=-1).astype(np.int64)


def score_lifts(
    contrast: Contrast,
    layout: Layout,
    lifts: np.ndarray,
    thresholds: tuple[float, float],
    cut: float,
    known: np.ndarray,
    engine: Threads,
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
    lifts = lifts[own]
    table = layout.table_of_column[lifts[:, 0]] if len(lifts) else np.empty(0, dtype=np.int64)
    pieces = []
    for t in np.unique(table):
        mine = np.flatnonzero(table == t)
        pieces += [(int(t), lifts[mine[k : k + LIFTS_AT_A_TIME]]) for k in range(0, len(mine), LIFTS_AT_A_TIME)]
    parts = engine.map(
        lambda piece: _score_piece(contrast, layout, piece[0], piece[1], thresholds, cut, growth), pieces
    )
    width = lifts.shape[1]
    features = np.concatenate([np.empty((0, width), dtype=np.int64), *(part[0] for part in parts)])
    gradient = np.concatenate([np.empty(0), *(part[1] for part in parts)])
    # A triple is found from each of its pairs that is lifted; estimates may differ, and the largest counts.
    keys = layout.keys(features)
    order = np.lexsort((-np.abs(gradient), keys))
    first = np.flatnonzero(np.diff(keys[order], prepend=-1))
    chosen = order[first]
    if len(known):
        place = np.minimum(np.searchsorted(known, keys[chosen]), len(known) - 1)
        chosen = chosen[known[place] != keys[chosen]]
    rank = np.abs(gradient[chosen]) / growth ** (_sizes(features[chosen]) - 2.0)
    return Proposals(features[chosen], gradient[chosen], rank)


def _sizes(features: np.ndarray) -> np.ndarray:
    """(features,): how many columns they have."""
    return (features >= 0).sum(axis=1)


def _score_piece(
    contrast: Contrast,
    layout: Layout,
    table: int,
    lifts: np.ndarray,
    thresholds: tuple[float, float],
    cut: float,
    growth: float,
) -> tuple[np.ndarray, np.ndarray]:
    schema, start = layout.schemas[table], layout.column_starts[table]
    columns, states = schema.n_columns, schema.n_states
    members = np.where(lifts >= 0, lifts - start, -1)
    exact = thresholds == (0.0, 0.0)
    total = np.zeros((len(lifts), columns))
    lifted = [
        _lift(errors, middles[:columns], weight, members, contrast.averaged)
        for errors, middles, weight in zip(
            contrast.errors[table], contrast.middles[table], contrast.weights[table], strict=True
        )
    ]
    means = contrast.means[table][:columns]
    weights = contrast.weights[table]
    mean = np.add.reduce([middle @ weight for (_, middle), weight in zip(lifted, weights, strict=True)])
    mean /= max(sum(float(weight.sum()) for weight in weights), np.finfo(float).tiny)
    parts = zip(lifted, contrast.errors[table], contrast.middles[table], weights, strict=True)
    for (error, middle), errors, middles, weight in parts:
        if exact:
            total += error @ middles[:columns].T
            total[:, :states] += middle @ errors.T
        else:
            t_err, t_sig = thresholds
            loud = _beyond(middles[:columns] - means[:, None], t_sig)
            total += _beyond(error, t_err * weight) @ loud.T
            total[:, :states] += _beyond(middle - mean[:, None], t_sig) @ _beyond(errors, t_err * weight).T
    if not exact:
        own = sum(error.sum(axis=1) for error, _ in lifted)
        total += np.outer(own, means)
        total[:, :states] += np.outer(mean, contrast.unary[table])
    return _beyond_cut(total, members, schema.variable_of_column, start, cut * growth ** (_sizes(lifts) - 1.0))


def _lift(
    errors: np.ndarray, middles: np.ndarray, weight: np.ndarray, members: np.ndarray, averaged: bool
) -> tuple[np.ndarray, np.ndarray]:
    """(features, rows) each: errors, times the row's weight, and middles of products of columns."""
    states, rows = errors.shape
    safe = np.where(weight > 0, weight, 1.0)
    before, change = np.ones((len(members), rows)), np.zeros((len(members), rows))
    for k in range(members.shape[1]):
        there = np.flatnonzero(members[:, k] >= 0)
        column = members[there, k]
        error = np.where((column < states)[:, None], errors[np.minimum(column, states - 1)] / safe, 0.0)
        belief = middles[column] - 0.5 * error if averaged else middles[column]
        step = belief + error if averaged else belief
        change[there] = change[there] * step + before[there] * error
        before[there] *= belief
    return change * weight, before + 0.5 * change if averaged else before


def _beyond(values: np.ndarray, threshold: np.ndarray | float) -> np.ndarray:
    return np.where(np.abs(values) > threshold, values, 0.0)


def _beyond_cut(
    gradient: np.ndarray, members: np.ndarray, owner: np.ndarray, start: int, cuts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Features whose further column is of a variable that they do not have yet, as ascending column numbers."""
    row, column = np.nonzero(np.abs(gradient) > cuts[:, None])
    have = members[row]
    taken = ((owner[have] == owner[column][:, None]) & (have >= 0)).any(axis=1)
    row, column, have = row[~taken], column[~taken], have[~taken]
    used = (have >= 0).sum(axis=1)
    features = have.copy()
    features[np.arange(len(row)), used] = column
    # Ascending, with -1 behind: target states come before observed columns, so a target state is first.
    features = np.sort(np.where(features >= 0, features, np.iinfo(np.int64).max), axis=1)
    features = np.where(features == np.iinfo(np.int64).max, -1, features + start)
    return features, gradient[row, column]
