"""Predictability of each column from all others: explained variance, accuracy, gain and calibration in some rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsefield.analysis.metrics import CellPredictions, ColumnEvaluation, calibration_sums, evaluate_states
from sparsefield.data import Dataset, JoinedColumns, Relational, Source, Variable, compile_table
from sparsefield.data.frame_building import Frame, make_frame
from sparsefield.data.labels import as_numbers
from sparsefield.errors import DataError
from sparsefield.estimators import FieldEstimator, RelationalField
from sparsefield.estimators.compiled_rows import compile_densely, infer_cells, learned_source
from sparsefield.inference import CellProbabilities, state_probabilities

MOST_CELLS = 10_000_000
"""Largest number of cells that are scored; of a larger table there are evenly spaced rows."""

QUARTERS = 4
"""Groups of the levels of a number in a calibration curve."""


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
    return make_frame(predict_columns(field, X), field.kind_)


def predict_columns(field: FieldEstimator, X: Any) -> dict[str, Any]:
    """Return the columns of `predictability`, with a warning if the rows probably are those of training."""
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
    return find_predictability(scored)


def find_predictability(scored: ScoredRows) -> dict[str, Any]:
    """Return the columns of `predictability` of some rows."""
    scores = scored.scores
    r_squared, accuracy, normalized = np.full((3, len(scores)), np.nan)
    for k, (table, variable, beliefs, _) in enumerate(scored.known_cells()):
        if variable.numeric:
            known = as_numbers(scored.sources[table].column(variable.name))
            errors, total = known - beliefs @ np.array(variable.states, dtype=float), len(known) * known.var()
            r_squared[k] = 1.0 - np.square(errors).sum() / total if total > 0.0 else np.nan
        else:
            accuracy[k], most_frequent = 1.0 - scores[k].error, 1.0 - scores[k].baseline_error
            normalized[k] = (accuracy[k] - most_frequent) / (1.0 - most_frequent) if most_frequent < 1.0 else np.nan
    kinds = [score.kind for score in scores]
    values = np.where([kind == "numeric" for kind in kinds], r_squared, normalized)
    return {
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


@dataclass(frozen=True)
class ScoredRows:
    """Rows that are compared with a field."""

    sample: Dataset
    """The compiled rows."""
    answers: CellProbabilities
    """The posterior of each cell given all others."""
    n_rows: int
    """Number of rows of the data, over all tables; of very large tables only a part is compiled."""
    sources: Mapping[str, Source | JoinedColumns]
    """{table: the rows that are compiled}."""
    known_shares: bool = True
    """Whether the field has frequencies of training, with which its predictions are compared."""

    @cached_property
    def scores(self) -> list[ColumnEvaluation]:
        """Scores of each target column that has known cells, whose errors are shares of wrong states or levels.

        The baseline takes the frequencies of training, or without ``known_shares`` those of the rows themselves.
        """
        scores = []
        for table, variable, beliefs, truth in self.known_cells():
            if self.known_shares:
                shares = np.asarray(variable.frequencies, dtype=float)
            else:
                shares = np.bincount(truth, minlength=len(variable.states)) / len(truth)
            ones, both = np.ones(len(truth)), (beliefs, np.broadcast_to(shares, beliefs.shape))
            parts = [CellPredictions(part, truth, ones) for part in both]
            curve = calibration_sums(*_quarters(variable, beliefs, truth), ones)
            name = f"{table}.{variable.name}" if table else variable.name
            scores.append(replace(evaluate_states(name, "nominal", *parts), kind=variable.kind, calibration=curve))
        return scores

    @cached_property
    def has_value(self) -> dict[str, np.ndarray]:
        """{column or "table.column": (rows,) bool}, without those of a sparse matrix, which has no missing values."""
        return {
            f"{table}.{name}" if table else name: np.asarray(source.column(name).present)
            for (table, source), schema in zip(self.sources.items(), self.sample.layout.schemas, strict=True)
            for name in source.names
            if name in schema.index_of_name and (isinstance(source, JoinedColumns) or source.kind != "sparse")
        }

    def known_cells(self) -> Iterator[tuple[str, Variable, np.ndarray, np.ndarray]]:
        """Yield table, column, beliefs (cells, states) and true states of the known cells of each target column."""
        for t, table in enumerate(self.sample.tables):
            codes = table.codes()
            for v, variable in enumerate(table.schema.targets):
                rows = np.flatnonzero(codes[v] >= 0)
                if len(rows):
                    beliefs = state_probabilities(table.schema, v, self.answers.conditionals[t])[rows]
                    yield self.sample.layout.tables[t], variable, beliefs, variable.position_of_code[codes[v, rows]]


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


def score_rows(estimator: FieldEstimator, data: Any) -> ScoredRows:
    """Return rows with their posterior under the field; evenly spaced rows of a large table.

    ``data`` is a table, or `Relational` for a field over linked tables; that of a `CRFClassifier` includes its labels.
    """
    check_is_fitted(estimator)
    schemas, sources = estimator.field_.layout.schemas, {}
    if isinstance(estimator, RelationalField):
        sample = compile_densely(estimator, data)
        sources = {name: data.select_variables(name) for name in sample.layout.tables}
        n_rows = sample.n_rows
    elif isinstance(data, Relational):
        raise DataError(f"The data are linked tables, but a {type(estimator).__name__} is over one table.")
    elif schemas[0].has_sparse_covariates:
        raise DataError("The field was learned from a sparse matrix, which has no label columns: leave the table out.")
    else:
        source = learned_source(estimator, data, "data")
        n_rows, most = source.n_rows, max(1, MOST_CELLS // max(schemas[0].n_columns, 1))
        if n_rows > most:
            rows = np.unique(np.linspace(0, n_rows - 1, most).astype(np.int64))
            source = replace(source, native=source.native[rows], n_rows=len(rows))
        sample, sources = Dataset.single(compile_table(source, schemas[0])), {"": source}
    return ScoredRows(sample, infer_cells(estimator, sample), n_rows, sources, estimator.field_.record.is_learned)
