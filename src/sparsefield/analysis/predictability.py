"""Predictability of each column from all others: explained variance, accuracy and gain."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsefield.analysis import calibration
from sparsefield.analysis.scored_rows import ScoredRows, score_rows
from sparsefield.data import make_frame
from sparsefield.data.frame_building import Frame
from sparsefield.estimators import FieldEstimator
from sparsefield.model import Field

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Predictability:
    """How well the known cells of each column are predicted from all others of their row.

    Only columns that the field predicts and that have known cells are listed.
    """

    columns: dict[str, Any]
    """The columns of the frame that `predictability` returns."""

    @property
    def by_column(self) -> dict[str, float]:
        """{column: its value}, such as for rings around the nodes of a network."""
        return dict(zip(self.columns["column"], self.columns["predictability"].tolist(), strict=True))

    def rows_of(self, names: tuple[str, ...]) -> dict[str, Array]:
        """Return the measures for all of these names; NaN, and 0 cells, for those without known cells."""
        place = {name: k for k, name in enumerate(names)}
        rows, columns = [place[name] for name in self.columns["column"]], {}
        for name, values in self.columns.items():
            if name not in ("column", "kind"):
                columns[name] = np.zeros(len(names), np.int64) if name == "cells" else np.full(len(names), np.nan)
                columns[name][rows] = values
        return columns


def predictability(field: FieldEstimator, X: Any) -> Frame:
    """Return how well each column is predicted from all others, as in a mixed graphical model (mgm).

    Each known value is predicted from all other known values of its row, as if it were missing. Rows that were not
    used in training tell how well new rows are predicted. A warning says if there are exactly as many rows as in
    training, since they then are probably the same, which makes the figures too high.

    Parameters
    ----------
    field : fitted estimator
    X : table, or `Relational` for a field over linked tables
        The table of a `CRFClassifier` has its labels as columns. Of a table with more than ten million cells,
        evenly spaced rows are used. Every row counts once, also if the fit had weights.

    Returns
    -------
    frame
        A row for each column that is predicted and has values: column, kind, cells (the number of values);
        r_squared, the share of the variance of a numeric column that predicted means explain; accuracy of the most
        probable state of other columns, and normalized_accuracy, (accuracy - that of the most frequent state of
        training) / (1 - the latter); gain, the mean log-likelihood (natural log) of a value minus that of the
        frequencies in training, and gain_error, its standard error. R^2, normalized accuracy and gain are about 0
        for predictions that ignore all other columns, and negative for worse ones. predictability is R^2 or
        normalized accuracy, and 0 where that is negative or not defined.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsefield import MarkovField, predictability
    >>> rain, dice = np.random.default_rng(0).integers(0, 2, (2, 500))
    >>> X = np.column_stack([rain, rain, dice])
    >>> found = predictability(MarkovField(l1=5.0).fit(X[:400]), X[400:])
    >>> list(found["accuracy"][:2])
    [1.0, 1.0]
    """
    check_is_fitted(field)
    return make_frame(predict_columns(field, X).columns, field.kind_)


def predict_columns(field: FieldEstimator, X: Any) -> Predictability:
    """Return how well each column of a table is predicted, with a warning if it probably is that of training."""
    scored = score_rows(field, X)
    record = field.field_.record
    if record.is_learned and scored.n_rows == record.n_rows:
        warnings.warn(
            f"The table has {scored.n_rows:,} rows, as many as the field was learned from, so they are probably the "
            "training rows. Predictability then shows how well the field fits these rows, not how well it predicts new "
            "ones: give held-out rows for that.",
            UserWarning,
            stacklevel=3,
        )
    return find_predictability(field.field_, scored)


def find_predictability(field: Field, scored: ScoredRows) -> Predictability:
    """Return how well each column is predicted from all others in some rows."""
    scores = calibration.score_columns(scored.sample, scored.answers, known_shares=field.record.is_learned)
    kinds, (r_squared, accuracy, normalized) = [], np.full((3, len(scores)), np.nan)
    for k, (table, variable, beliefs, _) in enumerate(calibration.known_cells(scored.sample, scored.answers)):
        kinds.append(variable.kind)
        if variable.numeric:
            numbers = scored.numbers[table][variable.name]
            known = numbers[~np.isnan(numbers)]
            errors, total = known - beliefs @ np.array(variable.states, dtype=float), len(known) * known.var()
            r_squared[k] = 1.0 - np.square(errors).sum() / total if total > 0.0 else np.nan
        else:
            accuracy[k], most_frequent = 1.0 - scores[k].error_rate, 1.0 - scores[k].marginal_error_rate
            normalized[k] = (accuracy[k] - most_frequent) / (1.0 - most_frequent) if most_frequent < 1.0 else np.nan
    values = np.where([kind == "numeric" for kind in kinds], r_squared, normalized)
    return Predictability(
        {
            "column": [score.name for score in scores],
            "kind": kinds,
            "cells": np.array([score.cells for score in scores], dtype=np.int64),
            "r_squared": r_squared,
            "accuracy": accuracy,
            "normalized_accuracy": normalized,
            "gain": np.array([score.gain.value for score in scores], dtype=float),
            "gain_error": np.array([score.gain.error for score in scores], dtype=float),
            "predictability": np.clip(np.nan_to_num(values), 0.0, 1.0),
        }
    )
