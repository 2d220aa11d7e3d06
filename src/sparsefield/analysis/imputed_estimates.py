"""This module pools the weights of a refit to several imputed tables, with their covariance, by Rubin's rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import f

from sparsefield.analysis.pooling import PooledEstimates, pool
from sparsefield.objectives.wald import wald_test


@dataclass(frozen=True, eq=False)
class ImputedEstimates:
    """The weights of the same features, estimated from several imputed tables."""

    estimates: np.ndarray
    """(imputations, features)"""
    within: np.ndarray
    """(features, features): mean covariance of the estimates from one table."""
    n_rows: int = 0
    """Number of rows that have imputed cells."""

    @property
    def m(self) -> int:
        """Number of imputations."""
        return len(self.estimates)

    @property
    def total(self) -> np.ndarray:
        """(features, features): covariance of the mean of the estimates, within and between imputations."""
        centered = self.estimates - self.estimates.mean(axis=0)
        return self.within + (1.0 + 1.0 / self.m) * (centered.T @ centered) / (self.m - 1)

    def pool(self, directions: Any, level: float) -> PooledEstimates:
        """Pool combinations of weights (combinations, features), given as a sparse matrix."""
        values = (directions @ self.estimates.T).T
        variances = np.maximum(np.asarray(directions.multiply(directions @ self.within).sum(axis=1)), 0.0)
        names = [str(k) for k in range(len(variances))]
        return pool(values, variances=np.tile(variances, (self.m, 1)), confidence=level, names=names)

    def test(self, features: list[int]) -> float:
        """Return the p-value of the test that all of some weights are 0.

        For one weight it is that of Student's t, to which its interval belongs. For several it is that of the statistic
        D1 of Li, Raghunathan and Rubin (1991), in which the variance between imputations is proportional to that within
        them: few imputations do not determine its own covariance matrix.
        """
        own, within = self.estimates[:, features], self.within[np.ix_(features, features)]
        if len(features) == 1:
            variance = max(float(within[0, 0]), np.finfo(float).tiny)
            return float(pool(own, variances=np.full(own.shape, variance)).p_value[0])
        mean = own.mean(axis=0)
        statistic, k = wald_test(mean, within)
        spread = sum(wald_test(row - mean, within)[0] for row in own) / (self.m - 1)
        increase = max((1.0 + 1.0 / self.m) * spread / k, np.finfo(float).eps)
        return float(f.sf(statistic / (k * (1.0 + increase)), k, _degrees_of_freedom(k * (self.m - 1), k, increase)))


def _degrees_of_freedom(t: float, k: float, increase: float) -> float:
    """Return the degrees of freedom of the denominator of D1; ``t`` is k (m - 1)."""
    if t > 4.0:
        return 4.0 + (t - 4.0) * (1.0 + (1.0 - 2.0 / t) / increase) ** 2
    return 0.5 * t * (1.0 + 1.0 / k) * (1.0 + 1.0 / increase) ** 2
