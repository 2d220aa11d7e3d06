"""This module learns a binary field by one sparse logistic regression per node, as is common today."""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

Array = np.ndarray[Any, np.dtype[Any]]

INTERCEPT_SCALE = 10
"""Solvers that penalize the intercept, or have none, get it as a column of this size: hardly penalized."""


@dataclass(frozen=True)
class Regressions:
    """Regressions hold one logistic regression per node, on 0/1 columns.

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
class NodeFit:
    """A node fit has the intercept of a node, its weights, whether the fit warned, and its wall and CPU seconds."""

    node: int
    bias: float
    columns: Array
    weights: Array
    converged: bool = True
    seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(frozen=True)
class Solver:
    """A solver is a library that fits an L1 logistic regression.

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
    sparse : {"csc", "csr"}
        The sparse form that it works in, or takes without another conversion.
    """

    module: str
    build: Callable[[float, int], Any]
    order: Any
    has_intercept: bool
    sparse: Any = "csc"


def l1_logistic(l1: float, rows: int = 0) -> Any:
    """Return scikit-learn's L1 logistic regression by liblinear, unfitted."""
    from sklearn.linear_model import LogisticRegression

    # scikit-learn 1.8 renamed the way to ask for L1.
    old = inspect.signature(LogisticRegression).parameters["penalty"].default != "deprecated"
    kind: dict[str, Any] = {"penalty": "l1"} if old else {"l1_ratio": 1.0}
    return LogisticRegression(solver="liblinear", C=1.0 / l1, intercept_scaling=INTERCEPT_SCALE, random_state=0, **kind)


def _celer(l1: float, rows: int) -> Any:
    from celer import LogisticRegression  # pyright: ignore[reportMissingImports]

    return LogisticRegression(C=1.0 / l1)


def _skglm(l1: float, rows: int) -> Any:
    from skglm import SparseLogisticRegression  # pyright: ignore[reportMissingImports]

    return SparseLogisticRegression(alpha=l1 / rows)


SOLVERS: dict[str, Solver] = {
    "skglm": Solver("skglm", _skglm, "F", True),
    # celer's estimator asks for rows first and turns them into columns itself.
    "celer": Solver("celer", _celer, "F", False, "csr"),
    "liblinear": Solver("sklearn", l1_logistic, "C", True, "csr"),
}


def fit_nodewise(samples: Any, l1: float, solver: Solver) -> Regressions:
    """Fit one L1 logistic regression per node on all the other nodes, one after another.

    Parameters
    ----------
    samples : array or sparse matrix (rows, nodes) of 0/1
    l1 : float
        Strength of the penalty, for losses summed over rows.
    solver : Solver
        Who fits.
    """
    return assemble(fit_nodes(samples, l1, solver), samples.shape[1])


def fit_nodes(samples: Any, l1: float, solver: Solver, chosen: Sequence[int] | None = None) -> list[NodeFit]:
    """Fit the regressions of some nodes, ascending, or of all; weights that are 0 are left out."""
    rows, nodes = samples.shape
    order = range(nodes) if chosen is None else sorted(chosen)
    designs = _sparse_designs if sp.issparse(samples) else _dense_designs
    found = []
    for node, others, own, shift in designs(samples, solver, order):
        mean = float(own.mean())
        if not 0.0 < mean < 1.0:
            nothing = np.empty(0, dtype=np.int64)
            found.append(NodeFit(node, constant_logit(mean, rows), nothing, np.empty(0)))
            continue
        started, cpu_started = time.perf_counter(), time.process_time()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = solver.build(l1, rows).fit(others, own)
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
        coefficients = np.ravel(model.coef_)
        bias = np.ravel(model.intercept_)[0] if solver.has_intercept else coefficients[-1] * INTERCEPT_SCALE
        weights = coefficients[: others.shape[1] - (not solver.has_intercept)]
        if len(weights) < nodes:  # the node's own column was not there
            weights = np.insert(weights, node, 0.0)
        weights[node] = 0.0
        bias -= float(weights @ shift)
        kept = np.flatnonzero(weights)
        converged = not any("converge" in str(warning.message).lower() for warning in caught)
        found.append(NodeFit(node, float(bias), kept, weights[kept], converged, seconds, cpu_seconds))
    return found


def assemble(fits: Sequence[NodeFit], nodes: int) -> Regressions:
    """Return the regressions of all nodes as arrays; nodes that were not fitted have zeros."""
    bias, weights = np.zeros(nodes), np.zeros((nodes, nodes))
    for fit in fits:
        bias[fit.node] = fit.bias
        weights[fit.node, fit.columns] = fit.weights
    return Regressions(bias=bias, weights=weights, unconverged=sum(not fit.converged for fit in fits))


Design = tuple[int, Any, Array, Array]
"""A node, the columns to predict it from, its own 0/1 column, and what was subtracted from each node's column."""


def _dense_designs(samples: Array, solver: Solver, order: Sequence[int]) -> Iterator[Design]:
    rows, nodes = samples.shape
    mean = samples.mean(axis=0)
    # Centered columns: the optimum is the same with a free intercept, and every solver gets there sooner.
    columns = np.asfortranarray(samples - mean)
    extra = 0 if solver.has_intercept else 1
    others = np.full((rows, nodes - 1 + extra), INTERCEPT_SCALE, dtype=np.float64, order=solver.order)
    others[:, : nodes - 1] = columns[:, 1:]
    before = 0
    for node in order:
        others[:, before:node] = columns[:, before:node]  # the only columns that differ from the node before
        before = node
        yield node, others, samples[:, node], mean


def _sparse_designs(samples: Any, solver: Solver, order: Sequence[int]) -> Iterator[Design]:
    """Yield one matrix for all nodes, in which a node's own column is zeroed during its fit, and not centered."""
    rows, nodes = samples.shape
    by_column = sp.csc_matrix(samples)
    form = sp.csr_matrix(samples, dtype=np.float64)
    if not solver.has_intercept:
        form = sp.hstack([form, np.full((rows, 1), float(INTERCEPT_SCALE))])
    form = form.asformat(solver.sparse, copy=True)
    numbered = form.copy()
    numbered.data = np.arange(form.nnz, dtype=np.float64)
    numbered = numbered.tocsc()
    shift = np.zeros(nodes)
    for node in order:
        own = np.zeros(rows, dtype=np.int8)
        own[by_column.indices[by_column.indptr[node] : by_column.indptr[node + 1]]] = 1
        places = numbered.data[numbered.indptr[node] : numbered.indptr[node + 1]].astype(np.int64)
        form.data[places] = 0.0
        yield node, form, own, shift
        form.data[places] = 1.0


def symmetrize(regressions: Regressions) -> tuple[Array, Array]:
    """Return one field from separate regressions: the two directed weights of a pair are averaged.

    Returns
    -------
    bias : array (nodes,)
    weights : array (nodes, nodes), symmetric
    """
    return regressions.bias, 0.5 * (regressions.weights + regressions.weights.T)


def constant_logit(mean: float, rows: int) -> float:
    """Return the logit of a constant column, with half a count added to each state."""
    ones = mean * rows
    return float(np.log((ones + 0.5) / (rows - ones + 0.5)))
