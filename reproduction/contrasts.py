"""Signals and errors (Definitions 1 and 2) of a fitted field, as in the paper's figures 1 and 4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsefield.compute import Threads
from sparsefield.data import DenseDataset
from sparsefield.inference import INFERENCE, InferenceMethod
from sparsefield.objectives import OBJECTIVES, DenseEvaluator, GradientFactors

__all__ = ["Spread", "share_looked_at", "spread_of"]

Array = np.ndarray[Any, np.dtype[Any]]

EDGES = np.linspace(-1.0, 1.0, 41)
"""Of the histograms' bars."""


@dataclass(frozen=True)
class Spread:
    """How many states, over all rows, have which signal and which error.

    Attributes
    ----------
    edges : array (bars + 1,)
    signals, errors : array (bars,) of counts
    """

    edges: Array
    signals: Array
    errors: Array


def spread_of(estimator: Any, X: Any) -> Spread:
    """Histograms over the states of all target cells of a table, or of linked ones."""
    contrast = _contrast(estimator, X)
    signals, errors = np.zeros(len(EDGES) - 1), np.zeros(len(EDGES) - 1)
    for _, signal, error in _blocks(contrast):
        signals += np.histogram(signal[: len(error)], EDGES)[0]
        errors += np.histogram(error, EDGES)[0]
    return Spread(EDGES, signals, errors)


def share_looked_at(estimator: Any, X: Any, threshold: float) -> float:
    """Of all products of a signal and an error that make up the gradients of the candidates, the share that has both
    beyond the threshold: what Algorithm 1 would look at, at the end of the fit."""
    met, all_pairs = 0.0, 0.0
    for _, signal, error in _blocks(_contrast(estimator, X)):
        met += float((np.abs(signal) > threshold).sum(axis=0) @ (np.abs(error) > threshold).sum(axis=0))
        all_pairs += float(signal.shape[0]) * error.size
    return met / max(all_pairs, 1.0)


def _blocks(contrast: GradientFactors) -> list[tuple[Array, Array, Array]]:
    """Weights, signals and errors, each of a block of rows; errors are free of the rows' weights."""
    return [
        (part.block.weight, part.expectations - means[:, None], part.errors / part.block.weight)
        for table, means in zip(contrast.local_blocks, contrast.means, strict=True)
        for part in table
    ]


def _contrast(estimator: Any, X: Any) -> GradientFactors:
    """Errors and expectations at the field's own weights, gaps filled."""
    compiled = estimator._compile(X)
    sample = compiled if isinstance(compiled, DenseDataset) else DenseDataset.single(compiled[1])
    given = estimator.inference
    inference = given if isinstance(given, InferenceMethod) else INFERENCE[given]()
    field = estimator.field_
    with Threads(1) as engine:
        evaluator = DenseEvaluator(sample, OBJECTIVES[estimator.objective](), engine)
        graphs = evaluator.compile(field.layout.arcs(field.features))
        if evaluator.has_missing:
            evaluator.impute_missing(inference, graphs, field.theta)
        evaluator.evaluate(graphs, field.theta)
        return evaluator.gradient_factors()
