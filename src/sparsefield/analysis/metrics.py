"""This module scores predictions of held-out cells: the measures of the paper's section 4, and one more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

UNKNOWN = -1
"""Code of a true state that the field does not know."""


@dataclass(frozen=True)
class CellPredictions:
    """Predicted probabilities of the states of held-out cells of one column, and the true states."""

    probabilities: Array
    """(cells, states): each row sums to 1."""
    truth: Array
    """(cells,): index of the true state; -1 if the true state is none of the states."""
    positive: int | None = None
    """Index of the positive state, for a column of 0 and 1 or False and True."""
    sample_weight: Array | None = None
    """(cells,): weights of the cells; None weights all alike. A weight of 2 counts as a cell that occurs twice."""

    @property
    def weights(self) -> Array:
        """(cells,): the weights of the cells, 1 if none are given."""
        return np.ones(len(self.truth)) if self.sample_weight is None else self.sample_weight

    @property
    def of_truth(self) -> Array:
        """(cells,): the probability of the true state, 0 if it is unknown."""
        picked = self.probabilities[np.arange(len(self.truth)), self.truth]
        return np.where(self.truth == UNKNOWN, 0.0, picked)


@dataclass(frozen=True)
class Scores:
    """Scores over all held-out cells; the functions of this module define them."""

    ap: float
    """Average precision over all states of all cells; the paper calls it AUC."""
    cll: float
    """Conditional log-likelihood per cell."""
    error_rate: float
    ap_positive: float
    """Average precision of the positive state; NaN without 0/1 columns."""


def score(predictions: Sequence[CellPredictions]) -> Scores:
    """Compute all measures over the held-out cells of any number of columns.

    Examples
    --------
    >>> import numpy as np
    >>> score([CellPredictions(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1]), positive=1)])
    Scores(ap=1.0, cll=-0.164252033486018, error_rate=0.0, ap_positive=1.0)
    """
    if not sum(one.weights.sum() for one in predictions):
        raise ValueError("There are no held-out cells to score.")
    return Scores(
        average_precision(predictions),
        conditional_log_likelihood(predictions),
        error_rate(predictions),
        average_precision_of_positives(predictions),
    )


def average_precision(predictions: Sequence[CellPredictions]) -> float:
    """Rank all states of all cells by probability and return the average precision of the true ones.

    It is the area under the precision-recall curve of the paper's section 4, summed in steps of recall: the trapezoid
    rule would overestimate it (Davis and Goadrich, 2006). States with equal probability share one rank. A true state
    that the field does not know is ranked last.
    """
    from sklearn.metrics import average_precision_score

    probabilities, relevant, weights = [], [], []
    for one in predictions:
        hits = np.arange(one.probabilities.shape[1]) == one.truth[:, None]
        unknown = one.truth == UNKNOWN
        n_unknown = np.count_nonzero(unknown)
        probabilities += [one.probabilities.ravel(), np.zeros(n_unknown)]
        relevant += [hits.ravel(), np.ones(n_unknown, dtype=bool)]
        weights += [np.repeat(one.weights, hits.shape[1]), one.weights[unknown]]
    found = (np.concatenate(parts) for parts in (relevant, probabilities))
    return float(average_precision_score(*found, sample_weight=np.concatenate(weights)))


def average_precision_of_positives(predictions: Sequence[CellPredictions]) -> float:
    """Rank the cells of 0/1 columns by the probability of 1 and return the average precision of the cells that are 1.

    Relational learners report this number: it scores the true atoms alone, not the false ones too.
    """
    from sklearn.metrics import average_precision_score

    binary = [one for one in predictions if one.positive is not None and len(one.truth)]
    if not binary:
        return float("nan")
    probabilities = np.concatenate([one.probabilities[:, one.positive] for one in binary])
    relevant = np.concatenate([one.truth == one.positive for one in binary])
    weights = np.concatenate([one.weights for one in binary])
    if not relevant[weights > 0.0].any():
        return float("nan")
    return float(average_precision_score(relevant, probabilities, sample_weight=weights))


def conditional_log_likelihood(predictions: Sequence[CellPredictions]) -> float:
    """Return the weighted mean over cells of the natural log of the probability of the true state, the paper's CLL.

    A probability of 0 counts as the smallest positive number, about -708 in logs.
    """
    probabilities = np.concatenate([one.of_truth for one in predictions])
    logs = np.log(np.maximum(probabilities, np.finfo(float).tiny))
    return float(np.average(logs, weights=_all_weights(predictions)))


def error_rate(predictions: Sequence[CellPredictions]) -> float:
    """Return the share of cells whose most probable state is not the true one; the first of equal states counts."""
    wrong = [one.probabilities.argmax(axis=1) != one.truth for one in predictions]
    return float(np.average(np.concatenate(wrong), weights=_all_weights(predictions)))


def _all_weights(predictions: Sequence[CellPredictions]) -> Array:
    return np.concatenate([one.weights for one in predictions])
