"""Scores of predicted cells: the measures of the paper's section 4, of labels of whole rows, and of single columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, f1_score

from sparsefield.data import Variable
from sparsefield.data.column_types import family_of
from sparsefield.data.schema import Kind

Array = np.ndarray[Any, np.dtype[Any]]

TINY = np.finfo(float).tiny
"""Smallest probability in a log-likelihood, about -708 in logs."""

BINS = 10

SIGNIFICANCE = 0.05
LEAST_GAIN = 0.001
"""Smallest gain in log-likelihood per cell that counts for one column."""

UNKNOWN = -1
"""Code of a true state that the field does not know."""

INTERVAL = 0.9
"""Probability of the central interval whose coverage is reported for numbers."""


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
    def log_probabilities(self) -> Array:
        """(cells,): natural log of the probability of the true state; 0 counts as the smallest positive number."""
        picked = self.probabilities[np.arange(len(self.truth)), self.truth]
        return np.log(np.maximum(np.where(self.truth == UNKNOWN, 0.0, picked), TINY))


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
    if not sum(column.weights.sum() for column in predictions):
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
    probabilities, relevant, weights = [], [], []
    for column in predictions:
        hits = np.arange(column.probabilities.shape[1]) == column.truth[:, None]
        unknown = column.truth == UNKNOWN
        n_unknown = np.count_nonzero(unknown)
        probabilities += [column.probabilities.ravel(), np.zeros(n_unknown)]
        relevant += [hits.ravel(), np.ones(n_unknown, dtype=bool)]
        weights += [np.repeat(column.weights, hits.shape[1]), column.weights[unknown]]
    ranked = (np.concatenate(parts) for parts in (relevant, probabilities))
    return float(average_precision_score(*ranked, sample_weight=np.concatenate(weights)))


def average_precision_of_positives(predictions: Sequence[CellPredictions]) -> float:
    """Rank the cells of 0/1 columns by the probability of 1 and return the average precision of the cells that are 1.

    Relational learners report this number: it scores the true atoms alone, not the false ones too.
    """
    binary = [column for column in predictions if column.positive is not None and len(column.truth)]
    if not binary:
        return float("nan")
    probabilities = np.concatenate([column.probabilities[:, column.positive] for column in binary])
    relevant = np.concatenate([column.truth == column.positive for column in binary])
    weights = _all_weights(binary)
    if not relevant[weights > 0.0].any():
        return float("nan")
    return float(average_precision_score(relevant, probabilities, sample_weight=weights))


def conditional_log_likelihood(predictions: Sequence[CellPredictions]) -> float:
    """Return the weighted mean over cells of the natural log of the probability of the true state, the paper's CLL.

    A probability of 0 counts as the smallest positive number, about -708 in logs.
    """
    logs = np.concatenate([column.log_probabilities for column in predictions])
    return float(np.average(logs, weights=_all_weights(predictions)))


def error_rate(predictions: Sequence[CellPredictions]) -> float:
    """Return the share of cells whose most probable state is not the true one; the first of equal states counts."""
    wrong = [column.probabilities.argmax(axis=1) != column.truth for column in predictions]
    return float(np.average(np.concatenate(wrong), weights=_all_weights(predictions)))


def _all_weights(predictions: Sequence[CellPredictions]) -> Array:
    return np.concatenate([column.weights for column in predictions])


@dataclass(frozen=True)
class LabelScores:
    """Scores of predicted labels of whole rows, as scikit-learn defines them."""

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
    wrong = truth != predicted
    hamming, subset = _mean(wrong.mean(axis=1), sample_weight), _mean(~wrong.any(axis=1), sample_weight)
    if truth.shape[1] == 1:
        labels = truth[:, 0], predicted[:, 0]
    elif None not in positive:
        labels = truth == np.asarray(positive), predicted == np.asarray(positive)
    else:
        return LabelScores(hamming, subset, float("nan"), float("nan"))
    micro, macro = (
        float(f1_score(*labels, average=average, sample_weight=sample_weight, zero_division=0))  # pyright: ignore[reportArgumentType]
        for average in ("micro", "macro")
    )
    return LabelScores(hamming, subset, micro, macro)


@dataclass(frozen=True)
class Gain:
    """The mean log-likelihood of cells, minus that of the marginal frequencies, over pairs of the same cells."""

    value: float
    error: float
    """Standard error, as if cells were independent. It depends on the shares of their weights, not on the sum."""

    @property
    def is_clear(self) -> bool:
        """Whether the gain exceeds its standard error."""
        return self.value > self.error


@dataclass(frozen=True)
class Calibration:
    """A calibration curve: predicted probabilities of states of cells, in bins of equal width."""

    count: np.ndarray
    """(bins,): number of predictions, or sum of their weights; there is one for each state of each cell."""
    belief: np.ndarray
    """(bins,): mean probability; NaN in an empty bin."""
    share: np.ndarray
    """(bins,): share of the predicted states that are true."""

    @classmethod
    def of(
        cls, beliefs: np.ndarray, truth: np.ndarray, bins: int = BINS, sample_weight: np.ndarray | None = None
    ) -> Calibration:
        """Return the calibration curve of beliefs (cells, states), given the true states and weights of the cells."""
        place = np.minimum((beliefs * bins).astype(np.int64), bins - 1)
        hits = np.arange(beliefs.shape[1]) == truth[:, None]
        weight = np.ones(len(truth)) if sample_weight is None else sample_weight
        weights = np.broadcast_to(weight[:, None], beliefs.shape)
        return cls._of_sums(
            np.bincount(place.ravel(), weights.ravel(), bins),
            np.bincount(place.ravel(), (weights * beliefs).ravel(), bins),
            np.bincount(place[hits], weights[hits], bins),
        )

    @classmethod
    def join(cls, parts: Sequence[Calibration]) -> Calibration:
        """Return the calibration curve over the cells of several curves with the same bins."""

        def total(name: str) -> np.ndarray:
            sums = [np.where(part.count > 0, part.count * getattr(part, name), 0.0) for part in parts]
            return np.sum(sums, axis=0)

        return cls._of_sums(np.sum([part.count for part in parts], axis=0), total("belief"), total("share"))

    @classmethod
    def _of_sums(cls, count: np.ndarray, belief: np.ndarray, true: np.ndarray) -> Calibration:
        with np.errstate(invalid="ignore"):
            return cls(count, belief / count, true / count)

    @property
    def error(self) -> float:
        """Expected calibration error: mean distance of share and belief, weighted by the number of predictions."""
        full = self.count > 0
        distance = np.abs(self.share[full] - self.belief[full])
        return float((self.count[full] * distance).sum() / self.count.sum()) if full.any() else 0.0


@dataclass(frozen=True)
class ColumnEvaluation:
    """Scores of the held-out cells of a column: of the field, and of a baseline that knows the visible cells alone.

    The baseline predicts the frequencies of the states or levels, and the mean of numbers. Means are weighted where
    cells have weights.
    """

    name: str
    """The column, for linked tables ``"table.column"``."""
    kind: Kind
    cells: int
    loss: float
    """Mean negative natural log of the probability of the true value; for numbers with more values than levels of its
    density per standard deviation, as in `MarkovField.score`."""
    baseline_loss: float
    error: float
    """Share of wrong states of a nominal column, mean distance of the median and the true state in states of an ordinal
    one, and root mean squared error of the mean of a numeric one, in its own units."""
    baseline_error: float
    scale: float
    """Standard deviation of a numeric column; 1 for others."""
    coverage: float
    """Share of the numbers that are in the central interval with a probability of 90%; NaN for other kinds."""
    calibration: Calibration | None
    """Calibration of the probabilities of states; None for numbers."""
    gain_deviation: float
    """Standard deviation over cells of the loss of the baseline minus that of the field."""
    weight: float
    """Sum of the weights of the cells."""
    effective_cells: float
    """Effective number of cells, Kish's (sum w)^2 / sum w^2, for standard errors."""
    unit: str = ""
    """Unit of the errors: "days" for dates, times and durations."""

    @property
    def gain(self) -> Gain:
        """Decrease of the mean loss from the baseline to the field, and its standard error."""
        return Gain(self.baseline_loss - self.loss, self.gain_deviation / math.sqrt(self.effective_cells))

    @property
    def calibration_error(self) -> float:
        """Expected calibration error of the probabilities of states; NaN for numbers."""
        return self.calibration.error if self.calibration else float("nan")

    @classmethod
    def join(cls, parts: Sequence[ColumnEvaluation]) -> ColumnEvaluation:
        """Return the scores over the cells of several folds of one column."""
        first, weights = parts[0], [part.weight for part in parts]
        power = 2.0 if first.kind == "numeric" else 1.0

        def mean(name: str, power: float = 1.0) -> float:
            powers = [weight * getattr(part, name) ** power for weight, part in zip(weights, parts, strict=True)]
            return float(sum(powers) / sum(weights)) ** (1.0 / power)

        calibrations = [part.calibration for part in parts if part.calibration]
        return cls(
            first.name,
            first.kind,
            sum(part.cells for part in parts),
            mean("loss"),
            mean("baseline_loss"),
            mean("error", power),
            mean("baseline_error", power),
            first.scale,
            mean("coverage"),
            Calibration.join(calibrations) if calibrations else None,
            deviation_of(weights, [part.gain.value for part in parts], [part.gain_deviation for part in parts]),
            sum(weights),
            effective_cells(weights, [part.effective_cells for part in parts]),
            first.unit,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        names = ("name", "kind", "cells", "loss", "baseline_loss", "error", "baseline_error", "scale", "coverage")
        derived = {"calibration_error": self.calibration_error, "gain": self.gain.value, "gain_error": self.gain.error}
        return {name: getattr(self, name) for name in names} | derived


def deviation_of(weights: Sequence[float], means: Sequence[float], deviations: Sequence[float]) -> float:
    """Return the standard deviation over several groups of cells from their weights, means and standard deviations.

    Examples
    --------
    >>> deviation_of([2, 2], [1.0, -1.0], [0.0, 0.0])
    1.0
    """
    n = sum(weights)
    mean = sum(k * m for k, m in zip(weights, means, strict=True)) / n
    parts = zip(weights, means, deviations, strict=True)
    return math.sqrt(sum(k * (d * d + (m - mean) ** 2) for k, m, d in parts) / n)


def effective_cells(weights: Sequence[float], sizes: Sequence[float]) -> float:
    """Return the effective size of several groups of cells, Kish's (sum w)^2 / sum w^2, from weights and sizes of each.

    Examples
    --------
    >>> effective_cells([10.0, 10.0], [10.0, 10.0]), effective_cells([20.0, 10.0], [10.0, 10.0])
    (20.0, 18.0)
    """
    return sum(weights) ** 2 / sum(weight**2 / size for weight, size in zip(weights, sizes, strict=True))


def pool_gains(scores: Sequence[ColumnEvaluation]) -> Gain:
    """Return the gain over the cells of several columns; NaN without any."""
    if not scores:
        return Gain(math.nan, math.nan)
    weights, means = [score.weight for score in scores], [score.gain.value for score in scores]
    deviation = deviation_of(weights, means, [score.gain_deviation for score in scores])
    size = effective_cells(weights, [score.effective_cells for score in scores])
    return Gain(float(np.average(means, weights=weights)), deviation / math.sqrt(size))


def count_clear_gains(scores: Sequence[ColumnEvaluation]) -> tuple[int, int]:
    """Return how many columns are predicted better, and how many worse, than by frequencies, beyond standard errors.

    Differences below `LEAST_GAIN` do not count: a column without features has them, because frequencies are smoothed.
    """
    gains = [(score.gain.value, max(score.gain.error, LEAST_GAIN)) for score in scores]
    return sum(value > error for value, error in gains), sum(value < -error for value, error in gains)


def shows_dependence(scores: Sequence[ColumnEvaluation]) -> bool:
    """Return whether predictions from other columns are better than frequencies, beyond a standard error.

    They are if the gain over all cells is clear. One column that is predicted badly, such as one with hundreds of
    labels, can outweigh all others, so they also are if more columns are better than worse, by more than the standard
    error of a sign test, or if the gain of one column is significant at 5% after Bonferroni's correction.
    """
    better, worse = count_clear_gains(scores)
    if pool_gains(scores).is_clear or better - worse > math.sqrt(better + worse):
        return True
    errors = NormalDist().inv_cdf(1.0 - SIGNIFICANCE / max(len(scores), 1))
    return any(score.gain.value > errors * max(score.gain.error, LEAST_GAIN) for score in scores)


def evaluate_states(name: str, kind: Kind, predictions: CellPredictions, baseline: CellPredictions) -> ColumnEvaluation:
    """Return the scores of the held-out cells of a nominal or ordinal column; there must be some."""
    logs, baseline_logs = predictions.log_probabilities, baseline.log_probabilities
    weights = predictions.sample_weight
    return ColumnEvaluation(
        name,
        kind,
        len(predictions.truth),
        -_mean(logs, weights),
        -_mean(baseline_logs, weights),
        *(_mean(_state_errors(part, ordered=kind == "ordinal"), weights) for part in (predictions, baseline)),
        scale=1.0,
        coverage=float("nan"),
        calibration=Calibration.of(predictions.probabilities, predictions.truth, sample_weight=weights),
        gain_deviation=_deviation(logs - baseline_logs, weights),
        **_sizes(predictions.weights),
    )


def _state_errors(predictions: CellPredictions, *, ordered: bool) -> Array:
    """Return which cells are wrong, or the distance of the median and the true state of ordered ones, (cells,)."""
    if not ordered:
        return predictions.probabilities.argmax(axis=1) != predictions.truth
    below = np.cumsum(predictions.probabilities, axis=1) < 0.5 - 1e-12
    medians = np.minimum(below.sum(axis=1), below.shape[1] - 1)
    return np.abs(medians - predictions.truth)


def _mean(values: Array, weights: Array | None) -> float:
    return float(np.average(values, weights=weights))


def _deviation(values: Array, weights: Array | None) -> float:
    return math.sqrt(_mean((values - _mean(values, weights)) ** 2, weights))


def _sizes(weights: Array) -> dict[str, float]:
    total = float(weights.sum())
    return {"weight": total, "effective_cells": total**2 / float(weights @ weights)}


@dataclass(frozen=True)
class NumberPredictions:
    """Predictions of held-out numbers of one column, and the true numbers."""

    probabilities: Array
    """(cells, levels): of the levels of the fitted variable."""
    mean: Array
    """(cells,)"""
    low: Array
    """(cells,): lower end of the central interval."""
    high: Array
    """(cells,): upper end of it."""
    truth: Array
    """(cells,)"""
    sample_weight: Array | None = None
    """(cells,): weights of the cells; None weights all alike."""


def evaluate_numbers(
    name: str, variable: Variable, predictions: NumberPredictions, visible_mean: float, scale: float
) -> ColumnEvaluation:
    """Return the scores of held-out numbers; there must be some.

    Parameters
    ----------
    variable : the fitted variable, whose levels and frequencies are those of the visible cells
    visible_mean : mean of the visible cells
    scale : standard deviation of all cells
    """
    truth, weights = predictions.truth, predictions.sample_weight
    codes = variable.codes_of(truth)
    places, widths = variable.position_of_code[codes], _mean(variable.log_widths[codes], weights)
    shares = predictions.probabilities[np.arange(len(codes)), places], np.asarray(variable.frequencies)[places]
    logs, baseline_logs = (np.log(np.maximum(share, TINY)) for share in shares)
    return ColumnEvaluation(
        name,
        "numeric",
        len(codes),
        widths - _mean(logs, weights),
        widths - _mean(baseline_logs, weights),
        *(math.sqrt(_mean((mean - truth) ** 2, weights)) for mean in (predictions.mean, visible_mean)),
        scale=scale,
        coverage=_mean((truth >= predictions.low) & (truth <= predictions.high), weights),
        calibration=None,
        gain_deviation=_deviation(logs - baseline_logs, weights),
        **_sizes(np.ones(len(codes)) if weights is None else weights),
        unit="days" if family_of(variable.dtype) else "",
    )
