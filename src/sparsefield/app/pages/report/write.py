"""The report on a fitted field, as a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from sparsefield.analysis.centrality import find_centrality
from sparsefield.analysis.confidence_intervals import ConfidenceIntervals
from sparsefield.analysis.network import Network
from sparsefield.analysis.predictability import find_predictability
from sparsefield.analysis.scored_rows import score_rows
from sparsefield.app.pages.network_view import ExtraColumns
from sparsefield.app.pages.report.feature_sections import WeightIntervals
from sparsefield.app.pages.report.repeat_fit import describe_fit
from sparsefield.app.pages.report.report_page import make_report
from sparsefield.estimators import FieldEstimator
from sparsefield.model.atomic_write import write_atomically

MOST_WITH_PATHS = 500
"""Largest number of columns for which a report has closeness and betweenness; more take seconds."""


def write_report(
    field: FieldEstimator,
    X: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    data_name: str | None = None,
    extra: ExtraColumns | None = None,
    intervals: ConfidenceIntervals | WeightIntervals | None = None,
) -> None:
    """Write one HTML file about the field, which works offline.

    Parameters
    ----------
    field : fitted estimator
    X : table, or `Relational` for a field over linked tables
        Rows to compare with the field, for unexpected features, quality by column, calibration and missing values.
        The table of a `CRFClassifier` has its labels as columns. None writes a report without these sections.
    path : where to write it
    title : str
    data_name : str
        Name of the training file in the lines that repeat the fit.
    extra : {title: {name of a feature: value}}
        Further columns of the tables of features, such as selection frequencies. A feature has a name such as
        ``"rain=1 & wet=1"``; `sparsefield.analysis.feature_sentences.list_features` lists all names.
    intervals : `ConfidenceIntervals`, or {name of a feature: (lower end, upper end)}
        Intervals of weights, which are drawn as whiskers.
    """
    check_is_fitted(field)
    scored = None if X is None else score_rows(field, X)
    network = Network(field.field_)
    page = make_report(
        describe_fit(field, data_name, () if scored is None else scored.unknown_columns),
        title=title or f"What this {type(field).__name__} has learned",
        scored=scored,
        extra=extra,
        intervals=intervals.by_feature if isinstance(intervals, ConfidenceIntervals) else intervals,
        centrality=find_centrality(network, "auto", paths=network.n_variables <= MOST_WITH_PATHS),
        predictability=None if scored is None else find_predictability(field.field_, scored),
    )
    write_atomically(Path(path), page.encode())
