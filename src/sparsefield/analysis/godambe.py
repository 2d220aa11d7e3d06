"""This module estimates weights by Newton steps, and their covariance by the sandwich estimator of Godambe.

The pseudo-likelihood is no likelihood: rows enter it once for each variable. So the inverse Hessian is not the
covariance of the weights; the covariance of the scores of the rows stands between two of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from sparsefield.analysis.refit_problem import RefitProblem

MIN_CURVATURE = 1e-9
"""Share of the largest curvature, below which a combination of parameters is not determined: of the biases of all
states of a variable, only the differences are."""

NEWTON_TOLERANCE = 1e-6
"""The steps end where the Newton decrement, about the distance in standard errors, is below this."""

MAX_STEPS = 50
MAX_HALVINGS = 30

ROWS_AT_A_TIME = 4096


@dataclass(frozen=True)
class Estimate:
    """The optimum of a refit."""

    theta: np.ndarray
    """(parameters,)"""
    hessian: np.ndarray
    """(parameters, parameters), without the penalty."""
    converged: bool


def minimize(
    problem: RefitProblem, start: np.ndarray, weight: np.ndarray, tolerance: float = NEWTON_TOLERANCE
) -> Estimate:
    """Return the optimum of a refit with given weights of the rows, by Newton steps with step halving."""
    theta, value = start, problem.loss(start, weight)
    for _ in range(MAX_STEPS):
        hessian, gradient = problem.hessian(theta, weight), problem.gradient(theta, weight)
        step = solve(hessian + np.diag(problem.l2), gradient)
        slope = float(gradient @ step)
        if slope <= tolerance**2:
            return Estimate(theta, hessian, True)
        for _ in range(MAX_HALVINGS):
            new = problem.loss(theta - step, weight)
            if new <= value - 1e-4 * slope:
                break
            step, slope = 0.5 * step, 0.5 * slope
        else:  # rounding errors are larger than what a step would gain
            return Estimate(theta, hessian, slope <= 1e-6 * abs(value))
        theta, value = theta - step, new
    return Estimate(theta, problem.hessian(theta, weight), False)


def solve(hessian: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Return the Newton step; it is small, but arbitrary, for combinations of parameters that are not determined."""
    scale = 1.0 / np.sqrt(np.maximum(hessian.diagonal(), np.finfo(float).tiny))
    scaled = hessian * np.outer(scale, scale)
    scaled.flat[:: len(scaled) + 1] += MIN_CURVATURE
    try:
        return scale * cho_solve(cho_factor(scaled), scale * gradient)
    except LinAlgError:  # a state has nearly all of the probability: rounding errors exceed its curvature
        return pseudo_inverse(hessian) @ gradient


def pseudo_inverse(matrix: np.ndarray) -> np.ndarray:
    """Return the inverse of a Hessian, with 0 for combinations of parameters that are not determined."""
    scale = 1.0 / np.sqrt(np.maximum(matrix.diagonal(), np.finfo(float).tiny))
    values, directions = np.linalg.eigh(matrix * np.outer(scale, scale))
    known = values > MIN_CURVATURE * values[-1]
    return ((directions[:, known] / values[known]) @ directions[:, known].T) * np.outer(scale, scale)


def sandwich(problem: RefitProblem, estimate: Estimate, weight: np.ndarray) -> np.ndarray:
    """Return the covariance of the estimates, (parameters, parameters).

    It is H^-1 J H^-1: H the Hessian with the L2 penalty, and J the covariance of the gradient, from the scores of the
    rows, which are independent of each other.
    """
    count, size = problem.n_rows, len(estimate.theta)
    products, total = np.zeros((size, size)), np.zeros(size)
    for start in range(0, count, ROWS_AT_A_TIME):
        rows = slice(start, start + ROWS_AT_A_TIME)
        scores = weight[rows] * problem.scores(estimate.theta, rows)
        products += scores @ scores.T
        total += scores.sum(axis=1)
    between = (products - np.outer(total, total) / count) * (count / max(count - 1, 1))
    inverse = pseudo_inverse(estimate.hessian + np.diag(problem.l2))
    return inverse @ between @ inverse
