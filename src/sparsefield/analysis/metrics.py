"""Scores of predicted cells: the measures of the paper's section 4, and of single columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

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
    weights: Array
    """(cells,): a weight of 2 counts as a cell that occurs twice."""
    positive: int | None = None
    """Index of the positive state, for a column of 0 and 1 or False and True."""

    @property
    def log_probabilities(self) -> Array:
        """(cells,): natural log of the probability of the true state; 0 counts as the smallest positive number."""
        picked = self.probabilities[np.arange(len(self.truth)), self.truth]
        return np.log(np.maximum(np.where(self.truth == UNKNOWN, 0.0, picked), TINY))


@dataclass(frozen=True)
class Scores:
    """Scores over all held-out cells of columns with states; NaN where there are none."""

    ap: float
    """Average precision of the true states among all states of all cells, ranked by probability: the area under the
    precision-recall curve of the paper's section 4 (AUC), summed in steps of recall, since the trapezoid rule
    overestimates it (Davis and Goadrich, 2006). A true state that the field does not know is ranked last."""
    cll: float
    """Mean natural log of the probability of the true state; 0 counts as the smallest positive number."""
    error_rate: float
    """Share of cells whose most probable state is not the true one; the first of equal states counts."""
    ap_positive: float
    """Average precision of the cells of 0/1 columns that are 1, ranked by the probability of 1, as relational learners
    report it; NaN without such cells."""


def score(predictions: Sequence[CellPredictions]) -> Scores:
    """Return all measures over the held-out cells of any number of columns.

    Examples
    --------
    >>> import numpy as np
    >>> score([CellPredictions(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1]), np.ones(2), positive=1)])
    Scores(ap=1.0, cll=-0.164252033486018, error_rate=0.0, ap_positive=1.0)
    """
    if not sum(column.weights.sum() for column in predictions):
        return Scores(math.nan, math.nan, math.nan, math.nan)
    weights = np.concatenate([column.weights for column in predictions])
    logs = np.concatenate([column.log_probabilities for column in predictions])
    wrong = np.concatenate([column.probabilities.argmax(axis=1) != column.truth for column in predictions])
    states, positives = [], [np.empty((3, 0))]
    for column in predictions:
        hits, unknown = np.arange(column.probabilities.shape[1]) == column.truth[:, None], column.truth == UNKNOWN
        repeated = np.repeat(column.weights, hits.shape[1])
        states.append(np.array([hits.ravel(), column.probabilities.ravel(), repeated]))
        states.append(np.array([np.ones(unknown.sum()), np.zeros(unknown.sum()), column.weights[unknown]]))
        if column.positive is not None:
            k = column.positive
            positives.append(np.array([column.truth == k, column.probabilities[:, k], column.weights]))
    ap, ap_positive = (_average_precision(*np.concatenate(parts, axis=1)) for parts in (states, positives))
    cll, error = (float(np.average(part, weights=weights)) for part in (logs, wrong))
    return Scores(ap, cll, error, ap_positive)


def _average_precision(relevant: Array, probabilities: Array, weights: Array) -> float:
    if not relevant[weights > 0.0].any():
        return math.nan
    return float(average_precision_score(relevant, probabilities, sample_weight=weights))


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


def calibration_sums(beliefs: Array, truth: Array, weights: Array) -> Array:
    """Return the sums of a calibration curve, (3, `BINS`): predicted probabilities of states, in bins of equal width.

    The sums are over the predictions, of which there is one for each state of each cell: of the weights of the cells,
    of weights times probabilities, and of the weights of true states. Those of several columns add up.
    """
    place = np.minimum((beliefs * BINS).astype(np.int64), BINS - 1).ravel()
    weights = np.broadcast_to(weights[:, None], beliefs.shape).ravel()
    hits = (np.arange(beliefs.shape[1]) == truth[:, None]).ravel()
    return np.array([np.bincount(place, weights * part, BINS) for part in (1.0, beliefs.ravel(), hits)])


def calibration_error(sums: Array) -> float:
    """Return the expected calibration error: the mean distance of a probability and the share of true states."""
    return float(np.abs(sums[2] - sums[1]).sum() / max(sums[0].sum(), TINY))


@dataclass(frozen=True, eq=False)
class ColumnEvaluation:
    """Scores of the held-out cells of a column: of the field, and of a baseline that knows the visible cells alone.

    The baseline predicts the frequencies of the states or levels, and the mean of numbers. Means are weighted where
    cells have weights.
    """

    name: str
    """The column, for linked tables ``"table.column"``."""
    kind: Kind
    cells: int
    weight: float
    """Sum of the weights of the cells."""
    loss: float
    """Mean negative natural log of the probability of the true value; for numbers with more values than levels of its
    density per standard deviation, as in `MarkovField.score`."""
    baseline_loss: float
    """The loss of the baseline."""
    error: float
    """Share of wrong states of a nominal column, mean distance of the median and the true state in states of an ordinal
    one, and root mean squared error of the mean of a numeric one, in its own units."""
    baseline_error: float
    """The error of the baseline."""
    gain: Gain
    """Decrease of the mean loss from the baseline to the field."""
    coverage: float = math.nan
    """Share of the numbers that are in the central interval with a probability of 90%; NaN for other kinds."""
    calibration: Array | None = None
    """`calibration_sums` of the probabilities of states; None for numbers."""
    scale: float = 1.0
    """Standard deviation of a numeric column; 1 for others."""
    unit: str = ""
    """Unit of the errors: "days" for dates, times and durations."""

    @classmethod
    def of(
        cls, name: str, kind: Kind, logs: Sequence[Array], errors: Sequence[Array], weights: Array, **more: Any
    ) -> ColumnEvaluation:
        """Return the scores from log-likelihoods and errors, (cells,) each, of the field and of the baseline.

        The number of cells counts as Kish's effective one, (sum w)^2 / sum w^2.
        """
        gains = logs[0] - logs[1]
        means = [float(np.average(part, weights=weights)) for part in (*logs, *errors, gains, np.square(gains))]
        error = math.sqrt(max(means[5] - means[4] ** 2, 0.0) * np.square(weights).sum()) / weights.sum()
        ours, base = (value ** (0.5 if kind == "numeric" else 1.0) for value in means[2:4])
        gain, total = Gain(means[4], error), float(weights.sum())
        return cls(name, kind, len(gains), total, -means[0], -means[1], ours, base, gain, **more)

    @classmethod
    def join(cls, parts: Sequence[ColumnEvaluation]) -> ColumnEvaluation:
        """Return the scores over the cells of several folds of one column, or of several columns."""
        weights = np.array([part.weight for part in parts])
        shares, power = weights / weights.sum(), 2.0 if parts[0].kind == "numeric" else 1.0

        def mean(name: str, power: float = 1.0) -> float:
            values = np.array([getattr(part, name) for part in parts])
            return float((shares @ values**power) ** (1.0 / power))

        curves = [part.calibration for part in parts if part.calibration is not None]
        error = math.sqrt(sum((share * part.gain.error) ** 2 for share, part in zip(shares, parts, strict=True)))
        return replace(
            parts[0],
            cells=sum(part.cells for part in parts),
            weight=float(weights.sum()),
            gain=Gain(float(shares @ [part.gain.value for part in parts]), error),
            calibration=np.sum(curves, axis=0) if curves else None,
            **{name: mean(name) for name in ("loss", "baseline_loss", "coverage")},
            **{name: mean(name, power) for name in ("error", "baseline_error")},
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        names = ("name", "kind", "cells", "loss", "baseline_loss", "error", "baseline_error", "scale", "coverage")
        off = math.nan if self.calibration is None else calibration_error(self.calibration)
        derived = {"calibration_error": off, "gain": self.gain.value, "gain_error": self.gain.error}
        return {name: getattr(self, name) for name in names} | derived


def pool_gains(scores: Sequence[ColumnEvaluation]) -> Gain:
    """Return the gain over the cells of several columns; NaN without any."""
    return ColumnEvaluation.join(scores).gain if scores else Gain(math.nan, math.nan)


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
    both, weights = (predictions, baseline), predictions.weights
    errors = [_state_errors(part, ordered=kind == "ordinal") for part in both]
    curve = calibration_sums(predictions.probabilities, predictions.truth, weights)
    return ColumnEvaluation.of(name, kind, [p.log_probabilities for p in both], errors, weights, calibration=curve)


def _state_errors(predictions: CellPredictions, *, ordered: bool) -> Array:
    """Return which cells are wrong, or the distance of the median and the true state of ordered ones, (cells,)."""
    if not ordered:
        return predictions.probabilities.argmax(axis=1) != predictions.truth
    below = np.cumsum(predictions.probabilities, axis=1) < 0.5 - 1e-12
    return np.abs(np.minimum(below.sum(axis=1), below.shape[1] - 1) - predictions.truth)


def evaluate_numbers(
    name: str,
    variable: Variable,
    truth: Array,
    probabilities: Array,
    answers: Sequence[Array],
    *,
    visible_mean: float,
    scale: float,
    weights: Array,
) -> ColumnEvaluation:
    """Return the scores of held-out numbers; there must be some.

    Parameters
    ----------
    variable : the fitted variable, whose levels and frequencies are those of the visible cells
    truth : (cells,) true numbers
    probabilities : (cells, levels) of the levels of the fitted variable
    answers : predicted means, and the lower and upper ends of the central intervals, (cells,) each
    visible_mean : mean of the visible cells
    scale : standard deviation of all cells
    weights : (cells,)
    """
    codes, (mean, low, high) = variable.codes_of(truth), answers
    places = variable.position_of_code[codes]
    shares = probabilities[np.arange(len(codes)), places], np.asarray(variable.frequencies)[places]
    logs = [np.log(np.maximum(share, TINY)) - variable.log_widths[codes] for share in shares]
    errors = [np.square(each - truth) for each in (mean, visible_mean)]
    inside = float(np.average((truth >= low) & (truth <= high), weights=weights))
    unit = "days" if family_of(variable.dtype) else ""
    return ColumnEvaluation.of(name, "numeric", logs, errors, weights, coverage=inside, scale=scale, unit=unit)
