"""One sparse logistic regression per node: what people use today to learn a binary field."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

INTERCEPT_SCALE = 10
"""Solvers that penalise the intercept, or have none, get it as a column of this size: hardly penalised."""


@dataclass(frozen=True)
class Regressions:
    """One logistic regression per node, on 0/1 columns.

    Attributes
    ----------
    bias : array (nodes,)
    weights : array (nodes, nodes)
        Row i predicts node i. Zero diagonal, not symmetric.
    unconverged : int
        How many regressions warned.
    """

    bias: Array
    weights: Array
    unconverged: int


@dataclass(frozen=True)
class Solver:
    """How one library fits an L1 logistic regression.

    Attributes
    ----------
    module : str
        What must be installed.
    build : callable
        ``build(l1, rows)`` gives an unfitted estimator; l1 multiplies the sum of absolute weights where the
        loss is a sum over rows.
    order : {"C", "F"}
        The memory layout that the library works in, so that no time goes into copies.
    has_intercept : bool
        Whether the library fits an intercept itself.
    """

    module: str
    build: Callable[[float, int], Any]
    order: Any
    has_intercept: bool


def l1_logistic(l1: float, rows: int = 0) -> Any:
    """scikit-learn's L1 logistic regression by liblinear, unfitted."""
    from sklearn.linear_model import LogisticRegression

    # scikit-learn 1.8 renamed the way to ask for L1.
    old = inspect.signature(LogisticRegression).parameters["penalty"].default != "deprecated"
    kind: dict[str, Any] = {"penalty": "l1"} if old else {"l1_ratio": 1.0}
    return LogisticRegression(solver="liblinear", C=1.0 / l1, intercept_scaling=INTERCEPT_SCALE, **kind)


def _celer(l1: float, rows: int) -> Any:
    from celer import LogisticRegression  # pyright: ignore[reportMissingImports]

    return LogisticRegression(C=1.0 / l1)


def _skglm(l1: float, rows: int) -> Any:
    from skglm import SparseLogisticRegression  # pyright: ignore[reportMissingImports]

    return SparseLogisticRegression(alpha=l1 / rows)


SOLVERS: dict[str, Solver] = {
    "skglm": Solver("skglm", _skglm, "F", True),
    "celer": Solver("celer", _celer, "F", False),
    "liblinear": Solver("sklearn", l1_logistic, "C", True),
}


def fit_nodewise(samples: Array, l1: float, solver: Solver) -> Regressions:
    """Fit one L1 logistic regression per node on all the other nodes, one after another.

    Parameters
    ----------
    samples : array (rows, nodes) of 0/1
    l1 : float
        Strength of the penalty, for losses summed over rows.
    solver : Solver
        Who fits.
    """
    rows, nodes = samples.shape
    mean = samples.mean(axis=0)
    # Centred columns: the optimum is the same with a free intercept, and every solver gets there sooner.
    columns = np.asfortranarray(samples - mean)
    extra = 0 if solver.has_intercept else 1
    others = np.full((rows, nodes - 1 + extra), INTERCEPT_SCALE, dtype=np.float64, order=solver.order)
    others[:, : nodes - 1] = columns[:, 1:]
    bias, weights = np.zeros(nodes), np.zeros((nodes, nodes))
    unconverged = 0
    for node in range(nodes):
        if node > 0:  # the only column that differs from the node before
            others[:, node - 1] = columns[:, node - 1]
        if not 0.0 < mean[node] < 1.0:
            bias[node] = constant_logit(mean[node], rows)
            continue
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = solver.build(l1, rows).fit(others, samples[:, node])
        unconverged += any("converge" in str(warning.message).lower() for warning in caught)
        coefficients = np.ravel(model.coef_)
        weights[node, np.arange(nodes) != node] = coefficients[: nodes - 1]
        own = np.ravel(model.intercept_)[0] if solver.has_intercept else coefficients[-1] * INTERCEPT_SCALE
        bias[node] = own - weights[node] @ mean
    return Regressions(bias=bias, weights=weights, unconverged=unconverged)


def symmetrise(regressions: Regressions) -> tuple[Array, Array]:
    """One field from separate regressions: the two directed weights of a pair are averaged.

    Returns
    -------
    bias : array (nodes,)
    weights : array (nodes, nodes), symmetric
    """
    return regressions.bias, 0.5 * (regressions.weights + regressions.weights.T)


def constant_logit(mean: float, rows: int) -> float:
    """Logit of a column that never changes, with half a count added to each state."""
    ones = mean * rows
    return float(np.log((ones + 0.5) / (rows - ones + 0.5)))
