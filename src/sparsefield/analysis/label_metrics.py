"""This module scores predictions of all labels of a row: the usual measures of multi-label classification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class LabelScores:
    """Scores of predicted labels, as scikit-learn defines them."""

    hamming_loss: float
    """Share of the labels that are wrong."""
    subset_accuracy: float
    """Share of the rows in which every label is right."""
    micro_f1: float
    """F1 of the positives of all labels together; of a single label, of its classes together. NaN for several labels,
    one of which has more than two states."""
    macro_f1: float
    """Mean of the F1 of each label; of a single label, of each of its classes. NaN as above."""


def score_labels(
    truth: Array, predicted: Array, positive: Sequence[int | None], sample_weight: Array | None = None
) -> LabelScores:
    """Return the scores of predicted labels.

    Parameters
    ----------
    truth, predicted : (rows, labels) numbers of states, -1 for a true state that is not known
    positive : number of the positive state of each label, None for a label of more than two states
    sample_weight : (rows,) weights of the rows; None weights all alike

    Examples
    --------
    >>> score_labels(np.array([[1, 0], [1, 1]]), np.array([[1, 0], [0, 1]]), positive=[1, 1])
    LabelScores(hamming_loss=0.25, subset_accuracy=0.5, micro_f1=0.8, macro_f1=0.8333333333333333)
    """
    weights = np.ones(len(truth)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    wrong = truth != predicted
    hamming, subset = (float(np.average(one, weights=weights)) for one in (wrong.mean(axis=1), ~wrong.any(axis=1)))
    counts = _counts(truth, predicted, positive, weights)
    if counts is None:
        return LabelScores(hamming, subset, float("nan"), float("nan"))
    return LabelScores(hamming, subset, float(_f1(*counts.sum(axis=1))), float(_f1(*counts).mean()))


def _counts(truth: Array, predicted: Array, positive: Sequence[int | None], weights: Array) -> Array | None:
    """Return true positives, positive predictions and positives, (3, labels or classes); None where F1 has no meaning.

    Of one label, every class that occurs counts; of several, their positive states.
    """
    if truth.shape[1] == 1:
        classes = np.unique(np.concatenate([truth, predicted]))
        of_truth, of_predicted = truth == classes, predicted == classes
    elif None not in positive:
        of_truth, of_predicted = truth == np.asarray(positive), predicted == np.asarray(positive)
    else:
        return None
    return np.stack([weights @ one for one in (of_truth & of_predicted, of_predicted, of_truth)])


def _f1(hits: Array, predicted: Array, positive: Array) -> Array:
    """Return 2 hits / (predicted + positive), 0 where both are 0."""
    total = np.asarray(predicted + positive)
    return np.divide(2.0 * hits, total, out=np.zeros(total.shape), where=total > 0.0)
