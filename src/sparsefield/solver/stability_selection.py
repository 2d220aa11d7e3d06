"""Stability selection: how often features are selected from half of the rows.

Halves are drawn in complementary pairs, which share no row (Shah and Samworth, 2013).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sparsefield.data import Dataset, deduplicate_rows, weigh_rows
from sparsefield.model import pad_features
from sparsefield.solver.path import Path

MAX_COMPONENT = 0.1
"""Linked rows are halved by connected components, which are independent, unless one has more than this share of all
rows. Then rows are halved, and those of the other half remain as neighbors."""


@dataclass(frozen=True)
class Selections:
    """Counts of how often each feature was selected."""

    features: np.ndarray
    """(features, columns): features that were selected at least once, padded with -1."""
    keys: np.ndarray
    """(features,): ascending, from `Layout.keys`."""
    times: np.ndarray
    """(features,): number of resamples that selected each."""
    weights: np.ndarray
    """(features,): mean weight over these resamples."""
    resamples: int
    mean_pairs: float
    """Mean number of pairs that a resample selects."""
    unconverged: int
    """Number of fits that did not converge."""

    def frequencies_of(self, keys: np.ndarray) -> np.ndarray:
        """Return the share of resamples that selected each feature, (keys,)."""
        if not len(self.keys):
            return np.zeros(len(keys))
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.times[place], 0) / self.resamples


def count_selections(
    dataset: Dataset,
    make: Callable[[Dataset], Path],
    *,
    pairs: int,
    seed: int,
    width: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> Selections:
    """Learn from both halves of the dataset, ``pairs`` times, and count the selected features.

    Parameters
    ----------
    make : returns a path for a half
    width : largest number of columns of a feature
    progress : called with the number of resamples done, and their total
    """
    layout = dataset.layout
    features, keys = np.empty((0, width), dtype=np.int64), np.empty(0, dtype=np.int64)
    times, sums = np.empty(0), np.empty(0)
    n_pairs = unconverged = 0
    for done, half in enumerate(_halves(dataset, pairs, seed), start=1):
        learned = make(half).run()
        field = learned.field
        chosen = np.concatenate([field.weights, field.conjunction_weights])  # none is 0
        every = np.concatenate([features, pad_features(field.features, width)])
        keys, first, place = np.unique(layout.keys(every), return_index=True, return_inverse=True)
        features = every[first]
        times = np.bincount(place, np.concatenate([times, np.ones(len(chosen))]), len(keys))
        sums = np.bincount(place, np.concatenate([sums, chosen]), len(keys))
        n_pairs += len(field.weights)
        unconverged += not learned.converged
        if progress is not None:
            progress(done, 2 * pairs)
    return Selections(features, keys, times, sums / times, 2 * pairs, n_pairs / (2 * pairs), unconverged)


def halved_by(dataset: Dataset) -> Literal["rows", "components", "linked rows"]:
    """Return the unit that is halved: rows; of linked tables connected components, or "linked rows"."""
    if dataset.is_single:
        return "rows"
    largest = np.bincount(dataset.components).max()
    return "components" if largest <= MAX_COMPONENT * dataset.n_rows else "linked rows"


def draw_halves(dataset: Dataset, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the rows, ascending, of two disjoint halves; an odd row is in neither."""
    if halved_by(dataset) == "components":
        components = dataset.components
        sizes = np.bincount(components)
        order = rng.permutation(len(sizes))
        first = order[np.cumsum(sizes[order]) <= dataset.n_rows / 2]
        mine = np.isin(components, first)
        return np.flatnonzero(mine), np.flatnonzero(~mine)
    order, half = rng.permutation(dataset.n_rows), dataset.n_rows // 2
    return np.sort(order[:half]), np.sort(order[half : 2 * half])


def _halves(dataset: Dataset, pairs: int, seed: int) -> Iterator[Dataset]:
    rng = np.random.default_rng(seed)
    for _ in range(pairs):
        for rows in draw_halves(dataset, rng):
            if dataset.is_single:
                yield deduplicate_rows(dataset.subset(rows))
            else:
                yield weigh_rows(dataset, np.bincount(rows, minlength=dataset.n_rows).astype(float))
