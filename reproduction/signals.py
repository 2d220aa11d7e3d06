"""This module computes signals and errors (Definitions 1 and 2) of a fitted field, as in figures 1 and 4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsefield.compute import Threads
from sparsefield.compute.threads import identity
from sparsefield.estimators.compiled_rows import compile_densely
from sparsefield.inference import INFERENCE, InferenceMethod
from sparsefield.objectives import OBJECTIVES, DenseEvaluator, GradientFactors

__all__ = ["Spread", "share_looked_at", "spread_of"]

Array = np.ndarray[Any, np.dtype[Any]]

EDGES = np.linspace(-1.0, 1.0, 41)
"""Number of bars of a histogram."""


@dataclass(frozen=True)
class Spread:
    """A spread counts the states of all rows by signal and by error.

    Attributes
    ----------
    edges : array (bars + 1,)
    signals, errors : array (bars,) of counts
    """

    edges: Array
    signals: Array
    errors: Array


def spread_of(estimator: Any, X: Any) -> Spread:
    """Return histograms over the states of all target cells of a table, or of linked tables."""
    factors = _gradient_factors(estimator, X)
    signals, errors = np.zeros(len(EDGES) - 1), np.zeros(len(EDGES) - 1)
    for _, signal, error in _blocks(factors):
        signals += np.histogram(signal[: len(error)], EDGES)[0]
        errors += np.histogram(error, EDGES)[0]
    return Spread(EDGES, signals, errors)


def share_looked_at(estimator: Any, X: Any, threshold: float) -> float:
    """Return the share of products of a signal and an error with both beyond the threshold, at the end of a fit.

    These products make up the gradients of the candidates; Algorithm 1 would compute this share of them."""
    met, all_pairs = 0.0, 0.0
    for _, signal, error in _blocks(_gradient_factors(estimator, X)):
        met += float((np.abs(signal) > threshold).sum(axis=0) @ (np.abs(error) > threshold).sum(axis=0))
        all_pairs += float(signal.shape[0]) * error.size
    return met / max(all_pairs, 1.0)


def _blocks(factors: GradientFactors) -> list[tuple[Array, Array, Array]]:
    """Yield row weights, signals and errors of each block of rows; errors are not weighted."""
    return [
        (part.block.weight, part.expectations - factors.means[part.table][:, None], part.errors / part.block.weight)
        for part in factors.parts.map(identity)
    ]


def _gradient_factors(estimator: Any, X: Any) -> GradientFactors:
    """Return errors and expectations at the weights of the field, with missing cells imputed."""
    sample = compile_densely(estimator, X)
    given = estimator.missing
    inference = given if isinstance(given, InferenceMethod) else INFERENCE[given]()
    field = estimator.field_
    with Threads(1) as engine:
        objective: Any = OBJECTIVES[estimator.objective]()
        evaluator = DenseEvaluator(sample, objective, engine, inference)
        graphs = evaluator.compile(field.layout.arcs(field.features))
        if evaluator.source.has_missing:
            evaluator.source.impute(evaluator.weights_of_field(graphs, field.theta))
        evaluator.evaluate(graphs, field.theta)
        return evaluator.gradient_factors()
