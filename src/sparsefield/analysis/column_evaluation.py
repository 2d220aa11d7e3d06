"""This module scores predictions of the held-out cells of one column, each kind of column in its own units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsefield.analysis.calibration import TINY, Calibration, Gain, deviation_of, effective_cells
from sparsefield.analysis.metrics import CellPredictions
from sparsefield.data import Variable
from sparsefield.data.column_types import family_of
from sparsefield.data.schema import Kind

Array = np.ndarray[Any, np.dtype[Any]]

INTERVAL = 0.9
"""Probability of the central interval whose coverage is reported for numbers."""


@dataclass(frozen=True)
class CellWeights:
    """The weights of some cells."""

    total: float
    effective: float
    """Effective number of cells, Kish's (sum w)^2 / sum w^2."""

    @classmethod
    def of(cls, weights: Array | None) -> CellWeights | None:
        """Return sum and effective number of weights, at least one of them positive; None without weights."""
        if weights is None:
            return None
        total = float(weights.sum())
        return cls(total, total**2 / float(weights @ weights))


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
    gain_deviation: float = 0.0
    """Standard deviation over cells of the loss of the baseline minus that of the field."""
    cell_weights: CellWeights | None = None
    """Weights of the cells; None where all are 1."""
    unit: str = ""
    """Unit of the errors: "days" for dates, times and durations."""

    @property
    def weight(self) -> float:
        """Sum of the weights of the cells."""
        return float(self.cells) if self.cell_weights is None else self.cell_weights.total

    @property
    def effective_cells(self) -> float:
        """Effective number of cells, for standard errors: that of equally weighted cells."""
        return float(self.cells) if self.cell_weights is None else self.cell_weights.effective

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
        first, cells, weights = parts[0], sum(part.cells for part in parts), [part.weight for part in parts]
        sizes = [part.effective_cells for part in parts]
        power = 2.0 if first.kind == "numeric" else 1.0

        def mean(name: str, power: float = 1.0) -> float:
            powers = [weight * getattr(part, name) ** power for weight, part in zip(weights, parts, strict=True)]
            return float(sum(powers) / sum(weights)) ** (1.0 / power)

        calibrations = [part.calibration for part in parts if part.calibration]
        return cls(
            first.name,
            first.kind,
            cells,
            mean("loss"),
            mean("baseline_loss"),
            mean("error", power),
            mean("baseline_error", power),
            first.scale,
            mean("coverage"),
            Calibration.join(calibrations) if calibrations else None,
            deviation_of(weights, [part.gain.value for part in parts], [part.gain_deviation for part in parts]),
            first.cell_weights and CellWeights(sum(weights), effective_cells(weights, sizes)),
            first.unit,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        names = ("name", "kind", "cells", "loss", "baseline_loss", "error", "baseline_error", "scale", "coverage")
        derived = {"calibration_error": self.calibration_error, "gain": self.gain.value, "gain_error": self.gain.error}
        return {name: getattr(self, name) for name in names} | derived


def evaluate_states(name: str, kind: Kind, found: CellPredictions, baseline: CellPredictions) -> ColumnEvaluation:
    """Return the scores of the held-out cells of a nominal or ordinal column; there must be some."""
    losses, baseline_losses = (-np.log(np.maximum(one.of_truth, TINY)) for one in (found, baseline))
    error, baseline_error = (_mean_error(one, ordered=kind == "ordinal") for one in (found, baseline))
    return ColumnEvaluation(
        name,
        kind,
        len(found.truth),
        _mean(losses, found.sample_weight),
        _mean(baseline_losses, found.sample_weight),
        error,
        baseline_error,
        scale=1.0,
        coverage=float("nan"),
        calibration=Calibration.of(found.probabilities, found.truth, sample_weight=found.sample_weight),
        gain_deviation=_deviation(baseline_losses - losses, found.sample_weight),
        cell_weights=CellWeights.of(found.sample_weight),
    )


def _mean(values: Array, weights: Array | None) -> float:
    return float(np.average(values, weights=weights))


def _deviation(values: Array, weights: Array | None) -> float:
    return math.sqrt(_mean((values - _mean(values, weights)) ** 2, weights))


def _mean_error(predictions: CellPredictions, *, ordered: bool) -> float:
    if not ordered:
        return _mean(predictions.probabilities.argmax(axis=1) != predictions.truth, predictions.sample_weight)
    below = np.cumsum(predictions.probabilities, axis=1) < 0.5 - 1e-12
    medians = np.minimum(below.sum(axis=1), below.shape[1] - 1)
    return _mean(np.abs(medians - predictions.truth), predictions.sample_weight)


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
    name: str, variable: Variable, found: NumberPredictions, visible_mean: float, scale: float
) -> ColumnEvaluation:
    """Return the scores of held-out numbers; there must be some.

    Parameters
    ----------
    variable : the fitted variable, whose levels and frequencies are those of the visible cells
    visible_mean : mean of the visible cells
    scale : standard deviation of all cells
    """
    codes = variable.codes_of(found.truth)
    places, cells, weights = variable.position_of_code[codes], np.arange(len(codes)), found.sample_weight
    widths = _mean(variable.log_widths[codes], weights)
    shares = found.probabilities[cells, places], np.asarray(variable.frequencies)[places]
    logs, baseline_logs = (np.log(np.maximum(share, TINY)) for share in shares)
    error, baseline_error = (math.sqrt(_mean((m - found.truth) ** 2, weights)) for m in (found.mean, visible_mean))
    covered = _mean((found.truth >= found.low) & (found.truth <= found.high), weights)
    return ColumnEvaluation(
        name,
        "numeric",
        len(codes),
        widths - _mean(logs, weights),
        widths - _mean(baseline_logs, weights),
        error,
        baseline_error,
        scale,
        covered,
        calibration=None,
        gain_deviation=_deviation(logs - baseline_logs, weights),
        cell_weights=CellWeights.of(weights),
        unit="days" if family_of(variable.dtype) else "",
    )
