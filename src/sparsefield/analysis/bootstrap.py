"""Weights of fixed features from resampled rows; case dropping.

A resample is a weighting of the rows. Its optimum is near that of all rows, so steps that use the Hessian of all rows
converge fast.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from sparsefield.analysis.network import Network, counted_edges
from sparsefield.analysis.refit import (
    Estimate,
    RefitProblem,
    compile_refit,
    minimize,
    minimize_nearby,
    newton_solver,
    refit_field,
)
from sparsefield.compute import Threads
from sparsefield.data import make_frame
from sparsefield.data.frame_building import Frame
from sparsefield.estimators import FieldEstimator
from sparsefield.model import Field
from sparsefield.options import raise_problems

INDICES = ("strength", "expected_influence")
"""The sum of the strengths of the edges of a column, and the sum of their signed weights."""

SHARES = tuple(np.round(np.arange(0.05, 0.951, 0.05), 2).tolist())
"""Shares of the rows that case dropping drops."""

CORRELATION, PROBABILITY = 0.7, 0.95
"""The correlation that an index has to keep, and with which probability (Epskamp, Borsboom and Fried, 2018)."""

CONSTANT = 1e-12
"""Values whose deviation from their mean is a smaller share of them than this are constant but for rounding."""

TOLERANCE = 0.004
"""Steps end where about this distance from the optimum is left, in standard errors."""

MIN_THREADED = 300_000
"""Rows times parameters, below which resamples run on one thread: several would wait for the interpreter."""

Progress = Callable[[int, int], None]


def row_factors(n_rows: int, seed: int, number: int, dropped: float = 0.0) -> np.ndarray:
    """Return how often each row is in a resample: drawn with replacement, or, if a share is dropped, once or not."""
    rng = np.random.default_rng((seed, number))
    if not dropped:
        return np.bincount(rng.integers(0, n_rows, n_rows), minlength=n_rows).astype(float)
    factors = np.ones(n_rows)
    factors[rng.choice(n_rows, round(dropped * n_rows), replace=False)] = 0.0
    return factors


def draw_weights(
    problem: RefitProblem,
    estimate: Estimate,
    count: int,
    n_jobs: int | None,
    *,
    seed: int,
    dropped: float = 0.0,
    progress: Progress | None = None,
) -> np.ndarray:
    """Return the weights (count, features) that are estimated from resamples 0, 1, ...

    ``estimate`` is the optimum for all rows; ``dropped`` the share of the rows that resamples lack.
    """
    solve = newton_solver((1.0 - dropped) * estimate.hessian + np.diag(problem.l2))

    def solve_resample(number: int) -> tuple[np.ndarray, bool]:
        factors = row_factors(problem.n_rows, seed, number, dropped)
        start, rows = problem.start(estimate.theta, problem.rows.weight, factors), np.flatnonzero(factors)
        part = problem.subset(rows)
        weight = part.rows.weight * factors[rows]
        # Rows that were not drawn can leave directions flat, which only the own Hessian shows.
        optimum = minimize(part, minimize_nearby(part, start, weight, solve, TOLERANCE), weight, TOLERANCE)
        return optimum.theta, optimum.converged

    draws, unfinished = np.empty((count, len(estimate.theta) - problem.n_biases)), 0
    with Threads(n_jobs if problem.n_rows * len(estimate.theta) > MIN_THREADED else 1) as engine:
        for number, (theta, converged) in enumerate(engine.stream(solve_resample, range(count))):
            draws[number] = theta[problem.n_biases :]
            unfinished += not converged
            if progress is not None:
                progress(number + 1, count)
    if unfinished:
        warnings.warn(
            f"The estimates from {unfinished:,} of {count:,} resamples did not converge: raise l2 or l1.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return draws


@dataclass(frozen=True, eq=False)
class CentralityStability:
    """Correlations of the centrality of columns in parts of the rows with that in all rows."""

    shares: np.ndarray
    """(shares,): shares of the rows that were dropped, ascending."""
    values: np.ndarray
    """(indices, shares, resamples): correlations of `INDICES`; NaN for an index that is the same for all columns."""
    kind: str = "polars"

    @property
    def coefficients(self) -> dict[str, float]:
        """The correlation stability coefficient of each index.

        It is the largest share of rows that can be dropped such that the correlation is at least 0.7 with a probability
        of 95%, also for all smaller shares; 0 if it is for none, and NaN where there are no correlations. Below 0.25,
        the order of the columns by an index means little, and it should be above 0.5 (Epskamp et al., 2018).
        """
        coefficients = {}
        for name, values in zip(INDICES, self.values, strict=True):
            stable = np.mean(values >= CORRELATION, axis=1) >= PROBABILITY
            count = len(stable) if stable.all() else int(np.argmin(stable))
            share = float(self.shares[count - 1]) if count else 0.0
            coefficients[name] = math.nan if np.isnan(values).all() else share
        return coefficients

    def to_frame(self) -> Frame:
        """Return index, share of dropped rows, mean correlation, and the limits between which 95% of them are."""
        low, high = np.quantile(self.values, [0.025, 0.975], axis=2)
        columns = {
            "index": np.repeat(INDICES, len(self.shares)).tolist(),
            "dropped": np.tile(self.shares, len(INDICES)),
            "mean": self.values.mean(axis=2).ravel(),
            "low": low.ravel(),
            "high": high.ravel(),
        }
        return make_frame(columns, self.kind)


def centrality_stability(
    field: FieldEstimator,
    X: Any,
    y: Any = None,
    *,
    n: int = 100,
    shares: Sequence[float] = SHARES,
    seed: int = 0,
    sample_weight: Any = None,
    drop_incomplete: bool = False,
    progress: Progress | None = None,
) -> CentralityStability:
    """Drop shares of the rows, and compare the centrality of the columns with that from all rows (case dropping).

    The weights of the selected features are estimated again, without L1, from the remaining rows. The indices are
    strength, the sum of the strengths of the edges of a column, and expected influence, the sum of their signed
    weights; the latter has no correlations where no edge has a sign.

    Parameters
    ----------
    field : fitted `MarkovField` or `CRFClassifier`
    X : the table that the field was learned from
    y : labels, for a `CRFClassifier`
    n : number of resamples for each share
    shares : shares of the rows that are dropped, ascending
    seed : seed of the resamples
    sample_weight : (rows,) weights, if the fit had some
    drop_incomplete : whether rows with missing cells are left out instead of refused
    progress : function that is called with the number of resamples that are done and their total number

    Examples
    --------
    >>> from sparsefield import MarkovField, centrality_stability
    >>> from sparsefield.app.datasets import make_markov_field
    >>> X = make_markov_field(6, 500, weights=(-2.0, 2.0), burn_in=100, thin=5, seed=1).samples
    >>> stability = centrality_stability(MarkovField(l1=10.0).fit(X), X, n=20, shares=[0.1, 0.5])
    >>> sorted(stability.coefficients)
    ['expected_influence', 'strength']
    """
    check_is_fitted(field)
    problems, ascending = [], list(shares)
    if not isinstance(n, Integral) or n < 2:
        problems.append(f"n must be a whole number from 2, got {n!r}.")
    if not ascending or sorted(set(ascending)) != ascending or not 0.0 < ascending[0] <= ascending[-1] < 1.0:
        problems.append(f"shares must be ascending numbers between 0 and 1, got {shares!r}.")
    raise_problems(problems)
    problem, _ = compile_refit(field, X, y, sample_weight, drop_incomplete)
    estimate = refit_field(field, problem)
    weights = estimate.theta[problem.n_biases :]
    indices = centrality_indices(field.field_, weights)
    reference = indices(weights[None])[:, 0]
    correlations = []
    for k, share in enumerate(ascending):
        done = k * n
        tell = None if progress is None else lambda more, _, done=done: progress(done + more, len(ascending) * n)
        values = indices(draw_weights(problem, estimate, n, field.n_jobs, seed=seed, dropped=share, progress=tell))
        correlations.append([correlate(*pair) for pair in zip(values, reference, strict=True)])
    values = np.array(correlations).swapaxes(0, 1)
    return CentralityStability(np.array(ascending, dtype=float), values, field.kind_)


def centrality_indices(field: Field, weights: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function from weights (draws, features) to `INDICES`, (indices, draws, columns), as in `centrality`.

    A norm has the sign that the edge has with ``weights``, or the other one if weights point away from these.
    """
    pairs, higher = np.split(weights, [len(field.weights)])
    network = Network(replace(field, weights=pairs, conjunction_weights=higher))
    edges = counted_edges(network)
    places = np.repeat(edges, 2), network.ends[edges].ravel()
    ends = sp.csr_array((np.ones(len(places[0])), places), shape=(len(network.ends), network.n_variables))
    return lambda drawn: np.stack([part @ ends for part in network.weigh(drawn)])


def correlate(values: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return the correlation of each row of values (draws, columns) with a reference (columns,).

    It is NaN where the reference is constant, since nothing could correlate with it, and 0 for constant rows.
    """
    a, b = values - values.mean(axis=1, keepdims=True), reference - reference.mean()
    if np.linalg.norm(b) <= CONSTANT * np.linalg.norm(reference):
        return np.full(len(values), np.nan)
    norms = np.linalg.norm(a, axis=1)
    varying = norms > CONSTANT * np.linalg.norm(values, axis=1)
    return np.divide(a @ b, norms * np.linalg.norm(b), out=np.zeros(len(values)), where=varying)
