"""This module computes how well each column is predicted from all others: explained variance, accuracy and gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsefield.analysis import calibration
from sparsefield.analysis.scored_rows import ScoredRows
from sparsefield.model import Field

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Predictability:
    """How well the known cells of each column are predicted from all others of their row; arrays are (columns,).

    Only columns that the field predicts and that have known cells are listed.
    """

    names: tuple[str, ...]
    """The columns; for linked tables ``"table.column"``."""
    kinds: tuple[str, ...]
    cells: Array
    """Number of known cells."""
    r_squared: Array
    """Share of the variance of a numeric column that predicted means explain, in these rows; NaN for other kinds."""
    accuracy: Array
    """Share of cells whose most probable state is the true one; NaN for numeric columns."""
    normalized_accuracy: Array
    """(accuracy - that of the most frequent state of training) / (1 - the latter); NaN where the latter is 1."""
    gain: Array
    """Mean log-likelihood of a cell (natural log), minus that of the frequencies of the column in training."""
    gain_error: Array
    """Standard errors of the gains, as if cells were independent."""

    @property
    def values(self) -> Array:
        """R^2, or normalized accuracy of states, between 0 and 1: 0 where it is negative or not defined."""
        found = np.where([kind == "numeric" for kind in self.kinds], self.r_squared, self.normalized_accuracy)
        return np.clip(np.nan_to_num(found), 0.0, 1.0)

    @property
    def by_column(self) -> dict[str, float]:
        """{column: its value}, such as for rings around the nodes of a network."""
        return dict(zip(self.names, self.values.tolist(), strict=True))

    def as_columns(self) -> dict[str, Any]:
        """Return {name: values} for a frame."""
        measures = ("cells", "r_squared", "accuracy", "normalized_accuracy", "gain", "gain_error")
        found = {name: getattr(self, name) for name in measures}
        return {"column": list(self.names), "kind": list(self.kinds), **found, "predictability": self.values}


def find_predictability(field: Field, scored: ScoredRows) -> Predictability:
    """Return how well each column is predicted from all others in some rows."""
    scores = calibration.score_columns(scored.sample, scored.answers, known_shares=field.record.is_learned)
    cells = list(calibration.known_cells(scored.sample, scored.answers))
    r_squared, normalized = np.full((2, len(scores)), np.nan)
    for k, (table, variable, beliefs, _) in enumerate(cells):
        if variable.numeric:
            numbers = scored.numbers[table][variable.name]
            means = beliefs @ np.array(variable.states, dtype=float)
            r_squared[k] = _r_squared(numbers[~np.isnan(numbers)], means)
        else:
            normalized[k] = _normalize(1.0 - scores[k].error_rate, 1.0 - scores[k].marginal_error_rate)
    kinds = tuple(variable.kind for _, variable, _, _ in cells)
    accuracy = [np.nan if kind == "numeric" else 1.0 - s.error_rate for kind, s in zip(kinds, scores, strict=True)]
    return Predictability(
        tuple(score.name for score in scores),
        kinds,
        np.array([score.cells for score in scores], dtype=np.int64),
        r_squared,
        np.array(accuracy, dtype=float),
        normalized,
        np.array([score.gain.value for score in scores], dtype=float),
        np.array([score.gain.error for score in scores], dtype=float),
    )


def describe_training_rows(n_rows: int) -> str:
    """Return what to know about predictability if there are as many rows as in training."""
    return (
        f"The table has {n_rows:,} rows, as many as the field was learned from, so they are probably the training "
        "rows. Predictability then shows how well the field fits these rows, not how well it predicts new ones: give "
        "held-out rows for that."
    )


def _r_squared(truth: Array, predicted: Array) -> float:
    total = np.square(truth - truth.mean()).sum()
    return float(1.0 - np.square(truth - predicted).sum() / total) if total > 0.0 else np.nan


def _normalize(accuracy: float, most_frequent: float) -> float:
    return (accuracy - most_frequent) / (1.0 - most_frequent) if most_frequent < 1.0 else np.nan
