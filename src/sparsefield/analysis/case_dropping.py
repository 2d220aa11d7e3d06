"""Case dropping: how many rows can be dropped before the centrality of columns changes (Epskamp et al., 2018)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from sparsefield.analysis.bootstrap import Progress, Resampling, count_from, dropped_rows, learn_again
from sparsefield.analysis.confidence_intervals import warn_if_not_converged
from sparsefield.analysis.network import Network
from sparsefield.analysis.refit import compile_refit, minimize
from sparsefield.compute import Threads
from sparsefield.data.frame_building import Frame, make_frame
from sparsefield.estimators import FieldEstimator
from sparsefield.model import Field
from sparsefield.options import raise_problems

INDICES = ("strength", "expected_influence")
"""The sum of the strengths of the edges of a column, and the sum of their signed weights."""

SHARES = tuple(np.round(np.arange(0.05, 0.951, 0.05), 2).tolist())
"""Shares of the rows that are dropped."""

CONSTANT = 1e-12
"""Values whose deviation from their mean is a smaller share of them than this are constant but for rounding."""


@dataclass(frozen=True, eq=False)
class CentralityStability:
    """Correlations of the centrality of columns in parts of the rows with that in all rows.

    ``coefficients`` has the correlation stability coefficient of each index; ``correlations`` is a frame of all shares.
    """

    shares: np.ndarray
    """(shares,): shares of the rows that were dropped, ascending."""
    values: np.ndarray
    """(indices, shares, resamples): correlations of `INDICES`."""
    correlation: float = 0.7
    """Correlation that has to be kept, ..."""
    probability: float = 0.95
    """... with this probability."""
    signed: bool = True
    """Whether an edge of the field has a sign; without one, there is no expected influence."""
    kind: str = "polars"
    n_complete: int = 0
    """Number of complete rows, of which shares were dropped."""
    n_incomplete: int = 0
    """Number of rows with missing cells, which were left out."""

    def __repr__(self) -> str:
        found = ", ".join(f"{name} {share:.2f}" for name, share in self.coefficients.items())
        size = f"{len(self.shares)} shares of {self.n_complete:,} rows, {self.values.shape[2]:,} resamples each"
        return f"<CentralityStability: {found}; {size}; .coefficients, .correlations>"

    @cached_property
    def coefficients(self) -> dict[str, float]:
        """The largest share of rows that can be dropped such that the correlation is kept with the probability.

        It is kept for all smaller shares, too; 0 if it is for none, and NaN where `undefined` has a reason. Below 0.25,
        the order of the columns by an index means little, and it should be above 0.5 (Epskamp, Borsboom and Fried,
        2018).
        """
        found = {}
        for name, values in zip(INDICES, self.values, strict=True):
            kept = np.mean(values >= self.correlation, axis=1) >= self.probability
            count = len(kept) if kept.all() else int(np.argmin(kept))
            found[name] = float(self.shares[count - 1]) if count else 0.0
        return found | dict.fromkeys(self.undefined, math.nan)

    @property
    def undefined(self) -> dict[str, str]:
        """The reason for each index that has no correlations, because it does not vary among the columns."""
        reasons = dict.fromkeys(INDICES, "it is the same for all columns")
        if not self.signed:
            reasons["expected_influence"] = "no edge has a sign"
        missing = [bool(np.isnan(part).all()) for part in self.values]
        return {name: reasons[name] for name, none in zip(INDICES, missing, strict=True) if none}

    @property
    def correlations(self) -> Frame:
        """Frame of index, share of dropped rows, mean correlation, and the limits between which 95% of them are."""
        low, high = np.quantile(self.values, [0.025, 0.975], axis=2)
        columns = {
            "index": np.repeat(INDICES, len(self.shares)).tolist(),
            "dropped": np.tile(self.shares, len(INDICES)),
            "mean": self.values.mean(axis=2).ravel(),
            "low": low.ravel(),
            "high": high.ravel(),
        }
        return make_frame(columns, self.kind)


class EdgeCentrality:
    """The centrality of the columns of a field with other weights, many at a time."""

    def __init__(self, field: Field) -> None:
        network = Network(field)
        self._signs, self._directions = network.signs, network.directions().T
        edge = np.repeat(np.arange(len(network.ends)), 2)
        shape = len(network.ends), network.n_variables
        self._ends = sp.csr_array((np.ones(len(edge)), (edge, network.ends.ravel())), shape=shape)

    @property
    def signed(self) -> bool:
        """Whether any edge has a sign."""
        return bool(self._signs.any())

    def indices(self, weights: np.ndarray) -> np.ndarray:
        """Return `INDICES` (indices, draws, columns) for weights (draws, features).

        A signed weight has the sign of the edge in the field, or the other one if the weights point away from those of
        the field.
        """
        strengths = np.sqrt(np.square(weights) @ (self._directions != 0.0).astype(float))
        along = np.sign(weights @ self._directions)
        return np.stack([strengths @ self._ends, (self._signs * along * strengths) @ self._ends])


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


def check_shares(n: Any, shares: Sequence[float], correlation: float, probability: float) -> None:
    """Refuse invalid options, all at once."""
    problems = []
    if not isinstance(n, Integral) or n < 2:
        problems.append(f"n must be a whole number from 2, got {n!r}.")
    given = list(shares)
    if not given or sorted(set(given)) != given or not 0.0 < given[0] <= given[-1] < 1.0:
        problems.append(f"shares must be ascending numbers between 0 and 1, got {shares!r}.")
    for name, value in (("correlation", correlation), ("probability", probability)):
        if not 0.0 < value < 1.0:
            problems.append(f"{name} must be between 0 and 1, got {value!r}.")
    raise_problems(problems)


def centrality_stability(
    field: FieldEstimator,
    X: Any,
    y: Any = None,
    *,
    n: int = 100,
    shares: Sequence[float] = SHARES,
    correlation: float = 0.7,
    probability: float = 0.95,
    select: bool = False,
    seed: int = 0,
    sample_weight: Any = None,
    drop_incomplete: bool = False,
    progress: Progress | None = None,
) -> CentralityStability:
    """Drop shares of the rows, and compare the centrality of the columns with that from all rows.

    The indices are strength, the sum of the strengths of the edges of a column, and expected influence, the sum of
    their signed weights. The correlation stability coefficient is the largest share that can be dropped such that
    the correlation with the index from all rows is kept. It is NaN for an index that is the same for all columns,
    as that of two columns, and for the expected influence of a field whose edges have no signs.

    Parameters
    ----------
    field : fitted `MarkovField` or `CRFClassifier`
    X : the table that the field was learned from
    y : labels, for a `CRFClassifier`
    n : number of resamples for each share
    shares : shares of the rows that are dropped, ascending
    correlation, probability : correlation that has to be kept, and with which probability
    select : whether features are selected again from the remaining rows
        False estimates the weights of the selected features again, without L1, which is fast. True learns again
        with l1 times the square root of the share of remaining rows, as R's bootnet does with its estimators.
    seed : seed of the resamples
    sample_weight : (rows,) weights, if the fit had some
    drop_incomplete : whether rows with missing cells are left out instead of refused
        The tables of `impute` have no missing cells, and can be passed one by one.
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
    check_shares(n, shares, correlation, probability)
    rows, problem, incomplete = compile_refit(field, X, y, sample_weight, drop_incomplete)
    with Threads(1):
        estimate = minimize(problem, field.field_.theta, problem.rows.weight)
    warn_if_not_converged(estimate, stacklevel=3)
    compared = field.field_ if select else _with_theta(field.field_, estimate.theta)
    centrality = EdgeCentrality(compared)
    reference = centrality.indices(compared.theta[None, problem.n_biases :])[:, 0]
    correlations = []
    for k, share in enumerate(shares):
        shown = count_from(progress, k * n, len(shares) * n)
        weighting = dropped_rows(problem.n_rows, share, seed)
        if select:
            values, l1 = [], field.l1_ * float(np.sqrt(1.0 - share))
            for learned in learn_again(field, rows, l1, weighting, range(n)):
                values.append(EdgeCentrality(learned).indices(learned.theta[None, len(learned.biases) :])[:, 0])
                if shown is not None:
                    shown(len(values), n)
            values = np.stack(values, axis=1)
        else:
            drawn = Resampling(problem, estimate, weighting, 1.0 - share).draw(n, field.n_jobs, shown)
            values = centrality.indices(drawn)
        correlations.append([correlate(*pair) for pair in zip(values, reference, strict=True)])
    values = np.array(correlations).swapaxes(0, 1)
    ways = (correlation, probability, centrality.signed, field.kind_, problem.n_rows, incomplete)
    return CentralityStability(np.array(shares, dtype=float), values, *ways)


def _with_theta(field: Field, theta: np.ndarray) -> Field:
    """Return the field with other biases and weights."""
    biases, weights, higher = np.split(theta, np.cumsum([len(field.biases), len(field.weights)]))
    return replace(field, biases=biases, weights=weights, conjunction_weights=higher)
