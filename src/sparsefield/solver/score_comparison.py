"""This module compares fields by scores of the same batches of held-out data, whose differences are precise."""

from __future__ import annotations

import numpy as np

from sparsefield.solver.state import PathPoint


def is_as_good(point: PathPoint, best: PathPoint, standard_errors: float = 1.0) -> bool:
    """Return whether a point is worse than the best by at most some standard errors of the difference.

    All points are scored on the same data, so differences are far more certain than scores.
    """
    difference = best.scores - point.scores
    error = standard_error(difference, best.weights) if len(difference) > 1 else 0.0
    return bool(np.average(difference, weights=best.weights) <= standard_errors * error)


def standard_error(values: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the standard error of the weighted mean of independent values; NaN for a single one."""
    if len(values) < 2:
        return float("nan")
    shares = np.full(len(values), 1.0 / len(values)) if weights is None else weights / weights.sum()
    residuals = shares * (values - shares @ values)
    return float(np.sqrt(len(values) / (len(values) - 1) * np.square(residuals).sum()))
