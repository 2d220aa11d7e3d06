"""This module tests whether one method is better than another on the same folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Interval", "PairedTest", "interval", "paired_test"]

LEVEL = 0.05


@dataclass(frozen=True)
class PairedTest:
    """A paired t-test compares two methods over folds.

    Attributes
    ----------
    difference : float
        Mean of the first method's values less the second's.
    p : float
        With the corrected variance of Nadeau and Bengio.
    p_plain : float
        Of the textbook's test, which takes the folds to be independent.
    """

    difference: float
    p: float
    p_plain: float

    def verdict(self, *, larger_is_better: bool = True) -> str:
        """Return whether the first method is better, worse, or not different at 5%."""
        if self.p >= LEVEL:
            return "no difference"
        return "better" if (self.difference > 0) == larger_is_better else "worse"


@dataclass(frozen=True)
class Interval:
    """An interval holds a mean difference and its 95% confidence bounds, NaN for a single value."""

    mean: float
    low: float
    high: float


def interval(gaps: Sequence[float], *, test_to_train: float = 0.0) -> Interval:
    """Return the confidence interval of the mean of paired differences, by Student's t.

    Parameters
    ----------
    gaps : differences of two methods, one for each data set; or for each fold of one data set
    test_to_train : float
        For folds of one data set: n_test / n_train, see `paired_test`. 0 for data sets that share nothing.

    Examples
    --------
    >>> found = interval([0.1, 0.05, 0.15])
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)
    (0.1, -0.024, 0.224)
    """
    from scipy import stats

    values = np.asarray(gaps, dtype=float)
    mean, k = float(values.mean()), len(values)
    if k < 2:
        return Interval(mean, np.nan, np.nan)
    reach = float(stats.t.ppf(1 - LEVEL / 2, k - 1) * values.std(ddof=1) * np.sqrt(1 / k + test_to_train))
    return Interval(mean, mean - reach, mean + reach)


def paired_test(first: Sequence[float], second: Sequence[float], *, test_to_train: float) -> PairedTest:
    """Compare two methods on the same folds.

    Folds share most of their training cells, so their results are not independent, and the textbook's variance of the
    mean, 1/k of the folds' own, is too small. Nadeau and Bengio ("Inference for the Generalization Error", Machine
    Learning 52, 2003) put 1/k + n_test/n_train in its place.

    Parameters
    ----------
    first, second : (folds,) of a measure
    test_to_train : float
        n_test / n_train: held-out cells of a fold per training cell.

    Examples
    --------
    >>> found = paired_test([0.9, 0.8, 0.95], [0.8, 0.75, 0.8], test_to_train=0.5)
    >>> round(found.difference, 3), round(found.p_plain, 3), round(found.p, 3)
    (0.1, 0.074, 0.16)
    """
    from scipy import stats

    gaps = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    k = len(gaps)
    mean, spread = float(gaps.mean()), float(gaps.std(ddof=1))
    if spread == 0:
        certain = 1.0 if mean == 0 else 0.0
        return PairedTest(mean, certain, certain)
    p, p_plain = (
        float(2 * stats.t.sf(abs(mean) / (spread * np.sqrt(share)), k - 1)) for share in (1 / k + test_to_train, 1 / k)
    )
    return PairedTest(mean, p, p_plain)
