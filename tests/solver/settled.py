"""What a fit with missing cells has minimized, computed anew at its weights."""

from __future__ import annotations

import math

import numpy as np
from oracle import Row, SlowField

from sparsefield import MarkovField
from sparsefield.compute import Threads
from sparsefield.data import Dataset, as_source, compile_table
from sparsefield.inference import InferenceMethod
from sparsefield.objectives import DenseEvaluator, PseudoLikelihood


def sample_of(model: MarkovField, X: np.ndarray) -> Dataset:
    return Dataset.single(compile_table(as_source(X), model.field_.schema))


def clamped_loss(model: MarkovField, X: np.ndarray, inference: InferenceMethod) -> float:
    """Return the loss of observed cells beside the beliefs that a method has of missing ones."""
    with Threads(1) as engine:
        evaluator = DenseEvaluator(sample_of(model, X), PseudoLikelihood(), engine, inference)
        evaluator.source.impute(evaluator.weights_of_field(model.field_.graphs, model.field_.theta))
        return evaluator.evaluate(model.field_.graphs, model.field_.theta)[0]


def completed_loss(model: MarkovField, X: np.ndarray) -> float:
    """Return the loss of observed cells beside completions, averaged over all of them by plain enumeration."""
    field, total = model.field_, 0.0
    slow = SlowField(
        field.schema, field.biases, field.pairs, field.weights, field.conjunctions, field.conjunction_weights
    )
    rows, counts = np.unique(sample_of(model, X).tables[0].codes(), axis=1, return_counts=True)
    for codes, count in zip(rows.T.tolist(), counts.tolist(), strict=True):
        for assignment, p in slow.joint(codes).items():
            total += count * p * slow.pl_loss([Row(tuple(codes), tuple(slow.one_hot(assignment)))])
    assert math.isfinite(total)
    return total
