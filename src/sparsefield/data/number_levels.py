"""Levels of the values of a numeric column, and bins of levels.

A fine grid of levels makes a number a variable with states like any other, with a proper distribution whatever its
weights are. The score of a level is its standardized mean value, so that a weight between two scores is a linear
dependence; indicators of bins express what is not linear.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from sparsefield.data.schema import MOST_DECIMALS, Transform

MAX_LEVELS, MOST_LEVELS = 64, 256
"""Levels of a number, and of one that others nearly determine. The variance within 64 levels is about 0.15% of that of
a normal variable; predictions with 16 levels are worse where columns depend on each other."""

MAX_LOST = 0.02
"""Variance within levels, at most, as a share of the variance that is left given all other numbers."""

LEAST_EIGENVALUE = 1e-3, 1e-6
"""Least eigenvalue of correlations that is believed: over pairs of cells with gaps some are negative; without gaps."""

LEVEL_ROWS = 20_000
"""Rows, at most, from which that variance is estimated."""

MAX_BINS = 16
"""Bins of a number, of about equal frequency."""

LARGE_SKEWNESS = 2.0
"""Skewness, in size, from which ranks are used instead of values: that of an exponential distribution."""

LARGE_KURTOSIS = 15.0
"""Fourth moment of standardized values from which ranks are used: that of a normal distribution is 3, of an exponential
one 9, and outliers on both sides, which are not skewed, raise it to the number of rows."""

HEAVY_SHARE = 1 / MAX_LEVELS
"""Share of the cells from which a single value is a level by itself, such as the zeros of a skewed column."""

SMALL_DEVIATION = 1e-150
"""Standard deviations below this have squares that floats round to fewer digits, or to 0."""

NEGLIGIBLE = 1e-50
"""Ratio of the standard deviation to the largest deviation below which weights of cells are rounding errors."""

SIGNIFICANT_DIGITS = 15
"""Digits of a decimal number that floats keep."""

ITERATIONS = 30
"""Iterations of Lloyd's algorithm, which converges fast from quantiles."""


@dataclass(frozen=True)
class Levels:
    """The levels of a number, ascending."""

    values: np.ndarray
    """(levels,): mean value of each level."""
    cuts: np.ndarray
    """(levels - 1,): values at which levels end; a value equal to a cut belongs to the level below. They are halfway
    between the values of two levels, but close to a value with a large share, whose level has no width, or a width of
    1 among whole numbers."""
    frequencies: np.ndarray
    """(levels,)"""
    scores: np.ndarray
    """(levels,): with mean 0 and variance 1."""
    bins: np.ndarray
    """(levels,): 0, 1, ..."""
    transform: Transform


def count_levels(numbers: np.ndarray) -> np.ndarray:
    """Return how many levels each of some numbers (rows, columns) needs at most, (columns,); NaN is a missing cell.

    The variance within n levels is about 6 / n^2, and that of a number given all others is 1 / H, where H is on the
    diagonal of the inverse of their correlation matrix: the coarser the levels, the wider are predictions.
    """
    numbers = numbers[:: -(-len(numbers) // LEVEL_ROWS)] if len(numbers) else numbers
    known = np.isfinite(numbers)
    n_columns, n_pairs = numbers.shape[1], known.astype(float).T @ known
    if n_columns < 2 or n_pairs.min() < 4 * n_columns:
        return np.full(n_columns, MAX_LEVELS)
    # Of scores, which are not changed by what bends a scale; over the rows where both numbers are known.
    ranks = rankdata(np.where(known, numbers, np.nan), axis=0, nan_policy="omit")
    scores = np.where(known, ndtri((ranks - 0.5) / np.diagonal(n_pairs)), 0.0)
    squares = np.square(scores).T @ known
    eigenvalues, vectors = np.linalg.eigh(scores.T @ scores / np.sqrt(np.maximum(squares * squares.T, 1e-300)))
    precision = np.square(vectors) @ (1.0 / np.maximum(eigenvalues, LEAST_EIGENVALUE[int(known.all())]))
    wanted = np.sqrt(6.0 / MAX_LOST * precision * (1.0 - n_columns / n_pairs.min(axis=0)))
    return np.clip(wanted, MAX_LEVELS, MOST_LEVELS).astype(np.int64)


def find_levels(
    values: np.ndarray, weights: np.ndarray, transform: Transform | None = None, most: int = MAX_LEVELS
) -> Levels:
    """Return the levels of distinct, ascending values with positive total weights; None chooses the transform."""
    shares = weights / weights.sum()
    if transform is None:
        # Of very skewed values, or with outliers, a few cells would decide about weights.
        centered = standardize(values, shares)
        is_far = abs(shares @ centered**3) > LARGE_SKEWNESS or shares @ centered**4 > LARGE_KURTOSIS
        transform = "normal-scores" if is_far else "linear-scores"
    places = values
    if transform == "normal-scores":  # finite also where the weight of a cell is too small for a sum
        places = ndtri(np.clip(np.cumsum(shares) - 0.5 * shares, np.finfo(float).tiny, 1.0 - np.finfo(float).eps))
    ends = _quantize(places, shares, most)
    starts = ends[:-1]
    frequencies = np.add.reduceat(shares, starts)
    means = np.where(np.diff(ends) == 1, values[starts], np.add.reduceat(shares * values, starts) / frequencies)
    scores = np.add.reduceat(shares * places, starts) / frequencies
    last = ends[1:-1]
    # Below the next level even if no number lies between the two.
    before = np.nextafter(values[last], -np.inf)
    cuts = np.minimum(values[last - 1] + 0.5 * (values[last] - values[last - 1]), before)
    if len(means) < len(values):
        heavy, half = shares >= HEAVY_SHARE, 0.5 if (values == np.floor(values)).all() else 0.0
        start = values[last] - half if half else before
        cuts = np.where(heavy[last - 1], values[last - 1] + half, np.where(heavy[last], start, cuts))
    middle = np.cumsum(frequencies) - 0.5 * frequencies
    bins = np.arange(len(means))
    if len(means) > MAX_BINS:
        bins = np.unique(np.minimum((middle * MAX_BINS).astype(np.int64), MAX_BINS - 1), return_inverse=True)[1]
    return Levels(means, cuts, frequencies, standardize(scores, frequencies), bins, transform)


def find_decimals(values: np.ndarray) -> int | None:
    """Return the number of decimals of numbers, 0 for whole ones; None if they are not rounded to decimals.

    Numbers that were stored with 32 bits have the decimals of their shortest text.

    Examples
    --------
    >>> find_decimals(np.array([1.5, 2.25, 3.0])), find_decimals(np.array([1.0, 1 / 3]))
    (2, None)
    """
    if (values == np.floor(values)).all():
        return 0
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    kind, digits = (np.float32, 7) if (single == values).all() else (np.float64, SIGNIFICANT_DIGITS)
    before_point = int(np.floor(np.log10(max(np.abs(values).max(), 1.0)))) + 1
    for decimals in range(1, min(MOST_DECIMALS, digits - before_point) + 1):
        if (np.round(values, decimals).astype(kind) == values.astype(kind)).all():
            return decimals
    return None


def standardize(scores: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Return scores with mean 0 and variance 1; all 0 if they do not vary, or only in cells of negligible weight."""
    centered = scores - frequencies @ scores
    deviation = find_deviation(scores, frequencies)
    varies = deviation > NEGLIGIBLE * np.abs(centered).max(initial=0.0)
    return centered / deviation if varies else np.zeros(len(scores))


def find_deviation(values: np.ndarray, frequencies: np.ndarray) -> float:
    """Return the standard deviation of values, also where their squares are too small for floats."""
    centered = values - frequencies @ values
    deviation = float(np.sqrt(frequencies @ np.square(centered)))
    largest = float(np.abs(centered).max(initial=0.0))
    if deviation >= SMALL_DEVIATION or largest == 0.0:
        return deviation
    return largest * float(np.sqrt(frequencies @ np.square(centered / largest)))


def _quantize(places: np.ndarray, shares: np.ndarray, most: int) -> np.ndarray:
    """Return the ends (levels + 1,) of runs of ascending places with small variances (Lloyd's algorithm)."""
    if len(places) <= most:
        return np.arange(len(places) + 1)
    mass = np.concatenate([[0.0], np.cumsum(shares)])
    moment = np.concatenate([[0.0], np.cumsum(shares * places)])
    ends = np.searchsorted(mass, np.arange(1, most) / most)
    ends = np.unique(np.concatenate([[0], ends, [len(places)]]))
    for _ in range(ITERATIONS):
        means = np.diff(moment[ends]) / np.diff(mass[ends])
        inner = np.searchsorted(places, 0.5 * (means[1:] + means[:-1]))
        moved = np.unique(np.concatenate([[0], inner, [len(places)]]))
        if np.array_equal(moved, ends):
            break
        ends = moved
    heavy = np.flatnonzero(shares >= HEAVY_SHARE)
    return np.unique(np.concatenate([ends, heavy, heavy + 1]))
