"""This module times one L1 logistic regression per column, by several libraries, on a random sample of the columns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks.dependent_data import SplitRows
from benchmarks.glmnet import TimedFits, fit_glmnet, has_glmnet
from benchmarks.measure import climb, installed
from benchmarks.nodewise import SOLVERS, NodeFit, fit_nodes

__all__ = ["PEERS", "PeerFit", "is_installed", "measure_peer", "sample_columns", "score_columns"]

Array = np.ndarray[Any, np.dtype[Any]]

PEERS = (*SOLVERS, "glmnet")
FACTORS = (0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
"""Penalties that a peer tries, as multiples of the one that is equivalent to ours; the search starts in the middle."""

SPARSE_SHARE = 0.15
"""Where fewer cells are on, peers are timed on a sparse matrix as well, and the faster form counts."""

GLMNET_START, GLMNET_STEPS = 32.0, 8
"""The path on which glmnet arrives at its penalty: a shorter one does not converge here, a longer one takes longer."""

WARM_UP_ROWS, WARM_UP_COLUMNS = 60, 6


@dataclass(frozen=True)
class PeerFit:
    """The regressions of some columns at one penalty.

    Attributes
    ----------
    l1 : float
        For losses summed over rows, of one weight in one direction.
    factor : float
        This over the equivalent penalty.
    fits : list of NodeFit
    seconds, cpu_seconds : float
        Of the columns that were fitted.
    """

    l1: float
    factor: float
    fits: list[NodeFit]
    seconds: float
    cpu_seconds: float

    def weights(self) -> int:
        """Return the number of weights other than 0."""
        return sum(fit.columns.size for fit in self.fits)

    def unconverged(self) -> int:
        """Return how many regressions warned that they had not converged."""
        return sum(not fit.converged for fit in self.fits)

    def scores(self, cells: Array) -> Array:
        """Return the mean log-likelihood of the cells of each fitted column, given the others of their rows."""
        return np.array([_log_likelihood(fit, cells) for fit in self.fits])


def is_installed(name: str) -> bool:
    """Return whether a peer can run; an unknown one is a ValueError."""
    if name not in PEERS:
        raise ValueError(f"no peer called {name!r}; there are {', '.join(PEERS)}.")
    return has_glmnet() if name == "glmnet" else installed(SOLVERS[name].module)


def sample_columns(train: Array, count: int, seed: int = 0) -> list[int]:
    """Return columns that vary, ascending: all, or ``count`` of them at random."""
    varying = np.flatnonzero(np.ptp(train, axis=0))
    if count and count < varying.size:
        varying = np.sort(np.random.default_rng(seed).choice(varying, count, replace=False))
    return varying.tolist()


def score_columns(cells: Array, bias: Array, weights: Array, chosen: Sequence[int]) -> Array:
    """Return the mean log-likelihood of some columns' cells; row i of ``weights`` predicts column i."""
    found = cells.astype(np.float64) @ weights[list(chosen)].T + bias[list(chosen)]
    signs = 1.0 - 2.0 * cells[:, list(chosen)]
    return -np.logaddexp(0.0, signs * found).mean(axis=0)


def measure_peer(name: str, data: SplitRows, l1: float, chosen: Sequence[int], budget: float) -> list[PeerFit]:
    """Return the fits of some columns at the equivalent penalty and, where another is better on validation rows, at it.

    Everything is compiled before, by a small fit. Reading data and making designs is not timed.

    Parameters
    ----------
    l1 : float
        Ours, of a weight that acts in both directions; a regression has one weight for each, and half of this.
    budget : float
        Seconds after which no further penalty is tried.
    """
    started = time.perf_counter()
    found: dict[float, PeerFit] = {}
    with threadpool_limits(limits=1):
        forms = _forms(data.train)
        for form in forms:
            _fit(name, _warm_up_cells(form), 1.0, 1.0, range(WARM_UP_COLUMNS))
        tried = [_fit(name, form, 0.5 * l1, 1.0, chosen) for form in forms]
        fastest = int(np.argmin([fit.cpu_seconds for fit in tried]))
        found[1.0] = tried[fastest]

        def score(factor: float) -> float:
            if factor not in found:
                if time.perf_counter() - started > budget:
                    return -np.inf
                found[factor] = _fit(name, forms[fastest], 0.5 * l1, factor, chosen)
            return float(found[factor].scores(data.validation).mean())

        best, _ = climb(FACTORS, score)
    return [found[factor] for factor in dict.fromkeys((1.0, best))]


def _forms(train: Array) -> list[Any]:
    return [train, sp.csr_matrix(train)] if train.mean() < SPARSE_SHARE else [train]


def _warm_up_cells(form: Any) -> Any:
    cells = np.random.default_rng(0).integers(0, 2, (WARM_UP_ROWS, WARM_UP_COLUMNS)).astype(np.int8)
    return sp.csr_matrix(cells) if sp.issparse(form) else cells


def _fit(name: str, samples: Any, l1: float, factor: float, chosen: Sequence[int]) -> PeerFit:
    if name == "glmnet":
        timed: TimedFits = fit_glmnet(samples, l1 * factor, chosen, start=GLMNET_START, steps=GLMNET_STEPS)
        return PeerFit(l1 * factor, factor, timed.fits, timed.seconds, timed.cpu_seconds)
    fits = fit_nodes(samples, l1 * factor, SOLVERS[name], chosen)
    seconds, cpu_seconds = (
        sum(values) for values in zip(*((fit.seconds, fit.cpu_seconds) for fit in fits), strict=True)
    )
    return PeerFit(l1 * factor, factor, fits, seconds, cpu_seconds)


def _log_likelihood(fit: NodeFit, cells: Array) -> float:
    logits = cells[:, fit.columns].astype(np.float64) @ fit.weights + fit.bias
    return -float(np.logaddexp(0.0, (1.0 - 2.0 * cells[:, fit.node]) * logits).mean())
