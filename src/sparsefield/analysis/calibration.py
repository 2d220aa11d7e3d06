"""Calibration and scores of predictions of each known cell from all others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

import numpy as np

from sparsefield.data import Dataset, Variable
from sparsefield.inference import CellProbabilities, state_probabilities

TINY = np.finfo(float).tiny
"""Smallest probability in a log-likelihood, about -708 in logs."""

BINS = 10

SIGNIFICANCE = 0.05
LEAST_GAIN = 0.001
"""Smallest gain in log-likelihood per cell that counts for one column."""

QUARTERS = 4
"""Groups of the levels of a number in a calibration curve."""


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


def pool_gains(scores: Sequence[ColumnGains]) -> Gain:
    """Return the gain over the cells of several columns; NaN without any."""
    if not scores:
        return Gain(math.nan, math.nan)
    weights, means = [score.weight for score in scores], [score.gain.value for score in scores]
    deviation = deviation_of(weights, means, [score.gain_deviation for score in scores])
    size = effective_cells(weights, [score.effective_cells for score in scores])
    return Gain(float(np.average(means, weights=weights)), deviation / math.sqrt(size))


def count_clear_gains(scores: Sequence[ColumnGains]) -> tuple[int, int]:
    """Return how many columns are predicted better, and how many worse, than by frequencies, beyond standard errors.

    Differences below `LEAST_GAIN` do not count: a column without features has them, because frequencies are smoothed.
    """
    gains = [(score.gain.value, max(score.gain.error, LEAST_GAIN)) for score in scores]
    return sum(value > error for value, error in gains), sum(value < -error for value, error in gains)


def shows_dependence(scores: Sequence[ColumnGains]) -> bool:
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


class ColumnGains(Protocol):
    """What `pool_gains` needs of a column."""

    @property
    def name(self) -> str: ...
    @property
    def cells(self) -> int: ...
    @property
    def weight(self) -> float: ...
    @property
    def effective_cells(self) -> float: ...
    @property
    def gain(self) -> Gain: ...
    @property
    def gain_deviation(self) -> float: ...


@dataclass(frozen=True)
class ColumnScore:
    """Scores of the known cells of one column or of several: of the field, and of the marginal frequencies."""

    name: str
    cells: int
    cll: float
    """Conditional log-likelihood: the mean natural log of the probability of the true state."""
    marginal_cll: float
    error_rate: float
    """Share of cells whose most probable state is not the true one."""
    marginal_error_rate: float
    gain_deviation: float
    """Standard deviation over cells of the increase of the log-likelihood."""

    @property
    def weight(self) -> float:
        """Sum of the weights of the cells, which are all 1."""
        return float(self.cells)

    @property
    def effective_cells(self) -> float:
        """Effective number of cells."""
        return float(self.cells)

    @property
    def gain(self) -> Gain:
        """Increase of the conditional log-likelihood over that of the marginal frequencies."""
        error = self.gain_deviation / math.sqrt(self.cells) if self.cells else math.nan
        return Gain(self.cll - self.marginal_cll, error)


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


def score_columns(sample: Dataset, answers: CellProbabilities, *, known_shares: bool = True) -> list[ColumnScore]:
    """Return the scores of each target column that has known cells, in the order of the schema.

    The baseline takes the frequencies of the schema, or without ``known_shares`` those of the rows themselves.
    """
    scores = []
    for table, variable, beliefs, truth in known_cells(sample, answers):
        if known_shares:
            shares = np.asarray(variable.frequencies, dtype=float)
        else:
            shares = np.bincount(truth, minlength=len(variable.states)) / len(truth)
        probabilities = beliefs[np.arange(len(truth)), truth], shares[truth]
        ours, marginal = (np.log(np.maximum(part, TINY)) for part in probabilities)
        scores.append(
            ColumnScore(
                f"{table}.{variable.name}" if table else variable.name,
                len(truth),
                float(ours.mean()),
                float(marginal.mean()),
                float((beliefs.argmax(axis=1) != truth).mean()),
                float((truth != shares.argmax()).mean()),
                float((ours - marginal).std()),
            )
        )
    return scores


def overall(scores: Sequence[ColumnScore]) -> ColumnScore:
    """Return the scores over all columns, weighted by their numbers of cells."""
    cells = sum(score.cells for score in scores)
    if cells == 0:
        return ColumnScore("all columns", 0, *[math.nan] * 5)
    means = [
        sum(score.cells * getattr(score, what) for score in scores) / cells
        for what in ("cll", "marginal_cll", "error_rate", "marginal_error_rate")
    ]
    gains, deviations = [score.gain.value for score in scores], [score.gain_deviation for score in scores]
    deviation = deviation_of([score.cells for score in scores], gains, deviations)
    return ColumnScore("all columns", cells, *means, gain_deviation=deviation)


def calibrate(sample: Dataset, answers: CellProbabilities, bins: int = BINS) -> Calibration:
    """Return the calibration curve over all states of all known cells; those of a number are its quarters."""
    parts = [
        Calibration.of(*_quarters(variable, beliefs, truth), bins)
        for _, variable, beliefs, truth in known_cells(sample, answers)
    ]
    return Calibration.join(parts) if parts else Calibration(np.zeros(bins), *np.full((2, bins), np.nan))


def _quarters(variable: Variable, beliefs: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return beliefs and true states with the levels of a number joined to four groups of about equal frequency.

    Its many levels would all be improbable, and agree with almost any belief.
    """
    if not variable.numeric or len(variable.states) <= QUARTERS:
        return beliefs, truth
    frequencies = np.asarray(variable.frequencies, dtype=float)
    middle = np.cumsum(frequencies) - 0.5 * frequencies
    group = np.minimum((middle * QUARTERS).astype(np.int64), QUARTERS - 1)
    return beliefs @ np.eye(QUARTERS)[group], group[truth]


def known_cells(sample: Dataset, answers: CellProbabilities) -> Iterator[tuple[str, Variable, np.ndarray, np.ndarray]]:
    """Yield table, column, beliefs (cells, states) and true states of the known cells of each target column."""
    for t, table in enumerate(sample.tables):
        codes = table.codes()
        for v, variable in enumerate(table.schema.targets):
            rows = np.flatnonzero(codes[v] >= 0)
            if len(rows):
                beliefs = state_probabilities(table.schema, v, answers.conditionals[t])[rows]
                truth = variable.position_of_code[codes[v, rows]]
                yield sample.layout.tables[t], variable, beliefs, truth
