"""This module adjusts p-values of edges and nodes by the permutation distribution of their largest statistic.

This is the single-step maxT adjustment of Westfall and Young (1993). It takes account of how statistics go together,
and its smallest p-value, 1 / (1 + permutations), does not depend on their number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SLACK = 1e-6
"""Difference of standardized statistics below which they count as equal; drawn ones are in single precision."""

BLOCK = 64
"""Permutations that are standardized at a time."""


def adjust_by_maximum(observed: Sequence[np.ndarray], drawn: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return adjusted p-values: how often the largest statistic of a permutation reaches an observed one.

    Statistics are standardized over the permutations and the observed value. With several pairs of groups, the largest
    statistic is that of all pairs. Their permutations are independent of each other, which is no less strict where
    statistics go together.

    Parameters
    ----------
    observed : of each pair of groups, (statistics,)
    drawn : of each pair of groups, (permutations, statistics)

    Examples
    --------
    >>> adjust_by_maximum([np.array([9.0, 0.5])], [np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])])[0].tolist()
    [0.25, 0.75]
    """
    parts = [_standardize(one, many) for one, many in zip(observed, drawn, strict=True)]
    largest = np.max([maxima for _, maxima in parts], axis=0)
    return [_shares_reaching(scores - SLACK, largest) for scores, _ in parts]


def adjust_by_plain_maximum(observed: Sequence[np.ndarray], maxima: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return p-values as `adjust_by_maximum` does, without standardizing, of the maxima of each permutation."""
    largest = np.max(list(maxima), axis=0)
    return [_shares_reaching(statistics * (1.0 - SLACK), largest) for statistics in observed]


def _shares_reaching(thresholds: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Return (1 + number of maxima that reach a threshold) / (1 + number of maxima), (thresholds,)."""
    reached = len(largest) - np.searchsorted(np.sort(largest), thresholds, side="left")
    return (1.0 + reached) / (1.0 + len(largest))


def _standardize(observed: np.ndarray, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the standardized observed statistics, and the largest one of each permutation.

    The variance of a statistic is averaged with the mean variance of all: an edge that has a weight in very few
    permutations would otherwise have the largest statistic in each of these.
    """
    count = len(drawn) + 1.0
    rounded = observed.astype(drawn.dtype).astype(np.float64)
    mean = (drawn.sum(axis=0, dtype=np.float64) + rounded) / count
    variance = (_squares(drawn, mean) + np.square(rounded - mean)) / count
    scale = np.sqrt((variance + variance.mean()) / 2.0) if len(variance) else variance
    scale = np.where(scale > 0.0, scale, 1.0)
    blocks = ((drawn[k : k + BLOCK] - mean) / scale for k in range(0, len(drawn), BLOCK))
    return (rounded - mean) / scale, np.concatenate([block.max(axis=1, initial=-np.inf) for block in blocks])


def _squares(drawn: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return the sum of squared deviations of each statistic, (statistics,)."""
    starts = range(0, len(drawn), BLOCK)
    return np.sum([np.square(drawn[k : k + BLOCK] - mean).sum(axis=0) for k in starts], axis=0)
