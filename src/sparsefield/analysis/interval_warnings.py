"""This module warns of weights that L2 determines more than the rows do, and of refits that stopped early."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsefield.analysis.godambe import Estimate, solve
from sparsefield.analysis.refit_problem import RefitProblem
from sparsefield.errors import PenaltyWarning
from sparsefield.model import Field
from sparsefield.viz.feature_sentences import name_features

MAX_PENALTY_SHARE = 0.2
"""Largest share of the L2 penalty in the curvature of the loss along a weight, above which its interval is doubtful."""

MAX_STEP = 1.96
"""Standard errors by which a Newton step without L2 may change a weight."""

NAMED = 5
"""Features that a warning names."""


def penalized_features(problem: RefitProblem, estimate: Estimate, covariance: np.ndarray) -> np.ndarray:
    """Return the numbers of the features whose weights the L2 penalty determines more than the rows do.

    It is a large share of their curvature, or a Newton step without it leads out of a 95% interval. Where columns
    determine each other, the curvature grows with the weight, and only the step shows that the optimum is far away.
    """
    mine = slice(problem.n_biases, None)
    curvature, l2 = estimate.hessian.diagonal()[mine], problem.l2[mine]
    step = solve(estimate.hessian + np.diag(problem.l2), problem.l2 * estimate.theta)[mine]
    reach = MAX_STEP * np.sqrt(np.maximum(covariance.diagonal()[mine], 0.0))
    return np.flatnonzero((l2 > MAX_PENALTY_SHARE * (curvature + l2)) | (np.abs(step) > reach))


def warn_of_penalty(field: Field, problem: RefitProblem, estimate: Estimate, covariance: np.ndarray) -> None:
    """Warn of weights that L2 determines, as of two columns that are equal: their intervals can be too narrow."""
    found = penalized_features(problem, estimate, covariance)
    if len(found):
        names = ", ".join(feature.name for feature in name_features(field, found[:NAMED].tolist()))
        more = f" and {len(found) - NAMED:,} more" if len(found) > NAMED else ""
        warnings.warn(
            f"The penalty l2 = {problem.l2.max():g} determines the weights of {names}{more} more than the rows do, "
            "as where one column determines another: their intervals can be too narrow.",
            PenaltyWarning,
            stacklevel=3,
        )


def warn_if_not_converged(estimate: Estimate) -> None:
    """Warn of estimates that are not at the optimum of the refit."""
    if not estimate.converged:
        warnings.warn(
            "The estimates without L1 did not converge, so their intervals are not reliable: raise l2 or l1.",
            ConvergenceWarning,
            stacklevel=3,
        )
