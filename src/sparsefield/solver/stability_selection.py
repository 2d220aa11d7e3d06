"""Stability selection: how often features are selected when only half of the rows are there to learn from.

Halves come in complementary pairs, as Shah and Samworth (2013) draw them: two halves that share no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from sparsefield.data import DenseDataset, LocalDataset, SparseDataset, deduplicate_rows, take_rows, weigh_rows
from sparsefield.model import widen
from sparsefield.solver.trainer import Trainer

__all__ = ["Selections", "count_selections", "draw_halves", "halved_by"]

LARGEST_CIRCLE = 0.1
"""Linked rows are halved circle by circle, which are independent of each other, unless one has more than this share of
all rows. Then rows are halved, and the others stay as their neighbors."""


@dataclass(frozen=True)
class Selections:
    """How often each feature was selected."""

    features: np.ndarray
    """(features, columns): all that were selected at least once, -1 behind their columns."""
    keys: np.ndarray
    """(features,): ascending, as `Layout.keys` has them."""
    times: np.ndarray
    """(features,): in how many resamples."""
    weights: np.ndarray
    """(features,): mean weight over these."""
    resamples: int
    mean_pairs: float
    """Pairs that a resample selects, on average."""
    unconverged: int
    """Fits that ended without their certificate."""

    def frequencies_of(self, keys: np.ndarray) -> np.ndarray:
        """(keys,): share of resamples that selected each feature."""
        if not len(self.keys):
            return np.zeros(len(keys))
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.times[place], 0) / self.resamples


def count_selections(
    sample: LocalDataset,
    make: Callable[[LocalDataset], Trainer],
    *,
    pairs: int,
    seed: int,
    width: int = 2,
    hear: Callable[[int, int], None] | None = None,
) -> Selections:
    """Learn from both halves of the sample, ``pairs`` times, and count.

    Parameters
    ----------
    make : gives a trainer for a half
    width : most columns of a feature
    hear : is told how many resamples are done, and how many there are
    """
    layout = sample.layout
    features, keys = np.empty((0, width), dtype=np.int64), np.empty(0, dtype=np.int64)
    times, sums = np.empty(0), np.empty(0)
    n_pairs = unconverged = 0
    for done, half in enumerate(_halves(sample, pairs, seed), start=1):
        learned = make(half).run()
        field = learned.field
        chosen = np.concatenate([field.weights, field.conjunction_weights])  # none is 0
        every = np.concatenate([features, widen(field.features, width)])
        keys, first, place = np.unique(layout.keys(every), return_index=True, return_inverse=True)
        features = every[first]
        times = np.bincount(place, np.concatenate([times, np.ones(len(chosen))]), len(keys))
        sums = np.bincount(place, np.concatenate([sums, chosen]), len(keys))
        n_pairs += len(field.weights)
        unconverged += not learned.converged
        if hear is not None:
            hear(done, 2 * pairs)
    return Selections(features, keys, times, sums / times, 2 * pairs, n_pairs / (2 * pairs), unconverged)


def halved_by(sample: LocalDataset) -> str:
    """What halves are made of: "rows"; of linked tables whole "components", or else "linked rows"."""
    if isinstance(sample, SparseDataset) or sample.is_plain:
        return "rows"
    return "components" if np.bincount(_circles(sample)).max() <= LARGEST_CIRCLE * sample.n_rows else "linked rows"


def draw_halves(sample: LocalDataset, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of rows, ascending, of two halves that share none; an odd row is in neither."""
    if halved_by(sample) == "components":
        assert isinstance(sample, DenseDataset)
        components = _circles(sample)
        sizes = np.bincount(components)
        order = rng.permutation(len(sizes))
        first = order[np.cumsum(sizes[order]) <= sample.n_rows / 2]
        mine = np.isin(components, first)
        return np.flatnonzero(mine), np.flatnonzero(~mine)
    order, half = rng.permutation(sample.n_rows), sample.n_rows // 2
    return np.sort(order[:half]), np.sort(order[half : 2 * half])


def _halves(sample: LocalDataset, pairs: int, seed: int) -> Iterator[LocalDataset]:
    rng = np.random.default_rng(seed)
    for _ in range(pairs):
        for rows in draw_halves(sample, rng):
            if isinstance(sample, SparseDataset):
                yield take_rows(sample, rows)
            elif sample.is_plain:
                yield deduplicate_rows(take_rows(sample, rows))
            else:
                yield weigh_rows(sample, np.bincount(rows, minlength=sample.n_rows).astype(float))


def _circles(sample: DenseDataset) -> np.ndarray:
    return sample.components if sample.has_links else np.arange(sample.n_rows)
