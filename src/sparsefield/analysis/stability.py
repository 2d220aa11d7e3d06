"""Stability selection, and selection along the regularization path."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from typing import Any

import msgspec
import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from sparsefield.data.frame_building import Frame, make_frame
from sparsefield.errors import DataError
from sparsefield.estimators import FieldEstimator
from sparsefield.estimators.compiled_rows import compile_rows
from sparsefield.estimators.field_estimator import as_seed
from sparsefield.estimators.training import fit_engine, follow_path, make_path, training_options
from sparsefield.induction import FixedGraph
from sparsefield.model import StabilityRecord, pad_features
from sparsefield.model.feature_tables import feature_names, path_table
from sparsefield.solver.path import Selections, count_selections, halved_by
from sparsefield.solver.working_set import make_field

FEWEST_ROWS = 4


def regularization_path(estimator: FieldEstimator, X: Any, y: Any = None, **options: Any) -> Frame:
    """Learn fields along the whole regularization path, and return their scores; the estimator is not changed.

    Parameters
    ----------
    estimator : fitted or not
    X, y, **options
        As for `fit`. The estimator's ``selection`` is the criterion, and its ``l1`` is ignored.

    Returns
    -------
    frame
        A row for each value of l1, the largest first: l1; features, the number of those of two columns and more;
        score, of which larger is better (the log-likelihood of held-out cells, or minus EBIC); error, the standard
        error of the score ("heldout" only); selected, which is true for the l1 that a fit with ``l1="auto"``
        selects; and criterion, the one that was used: "ebic" also where too few cells could be held out. That fit
        tries only some of these values; this path ends after eight in a row without a better score.

    Examples
    --------
    >>> from sparsefield import MarkovField, regularization_path
    >>> from sparsefield.app.datasets import make_markov_field
    >>> X = make_markov_field(8, 300, burn_in=100, thin=10, seed=0).samples
    >>> path = regularization_path(MarkovField(), X)
    >>> list(path.columns), len(path) > 8
    (['l1', 'features', 'score', 'error', 'selected', 'criterion'], True)
    """
    searching: Any = clone(estimator)
    searching.set_params(l1="auto", solver__checkpoint=None)
    selection, kind = follow_path(searching, X, y, **options)
    return path_table(selection.rows(), selection.criterion, kind)


def stability(
    field: FieldEstimator,
    X: Any,
    resamples: int = 50,
    *,
    y: Any = None,
    sample_weight: Any = None,
    random_state: int | np.random.RandomState | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Frame:
    """Return how often each feature is selected from random halves of the rows (stability selection).

    Halves are drawn in pairs that share no row. Each fit has the parameters of the estimator, and the l1 of the
    field times the square root of 1/2, because the noise in a gradient grows with the square root of the number of
    rows. Linked tables are halved by connected components of linked rows; if nearly all rows are in one component,
    the rows themselves are halved, and those of the other half remain as neighbors.

    The field keeps the frequencies of its features: `save` writes them, and reports show them.

    Parameters
    ----------
    field : fitted estimator
    X : the rows that the field was learned from, or others with the same columns
    resamples : int
        Number of halves; an even number.
    y : labels, for a `CRFClassifier`
    sample_weight : (rows,) weights, if the fit had some
    random_state : seed, or a RandomState to draw one from; None takes the estimator's
    progress : function that is called with the number of resamples that are done and their total number

    Returns
    -------
    frame
        Features of two columns and more that are in the field or that some resample selected, most frequent first:
        columns as in ``features_``, with weight 0 for features outside the field, and frequency.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsefield import MarkovField, stability
    >>> rain, dice = np.random.default_rng(0).integers(0, 2, (2, 400))
    >>> X = np.column_stack([rain, rain, dice])
    >>> X[::9, 1] = 1 - X[::9, 1]
    >>> frequencies = stability(MarkovField(l1=10.0).fit(X), X, resamples=10)
    >>> frequencies["variable_a"][0], frequencies["variable_b"][0], frequencies["frequency"][0]
    ('x0', 'x1', 1.0)
    """
    check_is_fitted(field)
    if not isinstance(resamples, Integral) or resamples < 2 or resamples % 2:
        raise ValueError(f"resamples must be an even number from 2, because halves come in pairs; got {resamples}.")
    learned = field.field_
    if not learned.record.is_learned:
        raise DataError("The field was given, not learned: there are no parameters to learn from halves with.")
    if learned.layout.has_latent:
        raise DataError("The states of latent variables differ from fit to fit: fit without latent=.")
    if not field.l1_ > 0.0:
        raise DataError("The field was learned with l1 = 0, which selects every candidate: fit with a larger l1.")
    dataset = compile_rows(field, X, y, sample_weight=sample_weight)
    if dataset.n_rows < FEWEST_ROWS:
        raise DataError(f"Stability selection needs at least {FEWEST_ROWS} rows; there are {dataset.n_rows}.")
    seed = as_seed(field.random_state if random_state is None else random_state) or 0
    l1 = field.l1_ * float(np.sqrt(0.5 * dataset.n_rows / field.field_.record.n_rows))
    options = training_options(field, l1)
    with fit_engine(field, dataset) as engine:
        selections = count_selections(
            dataset,
            lambda half: make_path(field, half, options, engine),
            pairs=int(resamples) // 2,
            seed=seed,
            width=options.max_order,
            progress=progress,
        )
    if selections.unconverged:
        warnings.warn(
            f"{selections.unconverged:,} of {resamples:,} fits to halves of the rows stopped before they converged.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return _store_stability(field, selections, seed=seed, l1=l1, halved=halved_by(dataset))


def _store_stability(estimator: FieldEstimator, selections: Selections, **how: Any) -> Frame:
    """Store the frequencies of the field's features in the field, and return those of all features as a frame."""
    field, width = estimator.field_, selections.features.shape[1]
    own = field.layout.keys(pad_features(field.features, width))
    frequencies, all_frequencies = selections.frequencies_of(own), selections.times / selections.resamples
    others = np.flatnonzero(~np.isin(selections.keys, own))
    stability = StabilityRecord(
        frequencies=tuple(frequencies.tolist()),
        resamples=selections.resamples,
        mean_pairs=selections.mean_pairs,
        given_graph=isinstance(estimator.induction, FixedGraph),
        **how,
    )
    estimator.field_ = replace(field, record=msgspec.structs.replace(field.record, stability=stability))
    features = np.concatenate([pad_features(field.features, width), selections.features[others]])
    weights = np.concatenate([field.weights, field.conjunction_weights, np.zeros(len(others))])
    shares = np.concatenate([frequencies, all_frequencies[others]])
    pairs_first = np.argsort((features >= 0).sum(axis=1) > 2, kind="stable")  # as in a field
    order = np.lexsort((-np.abs(weights[pairs_first]), -shares[pairs_first]))
    named = make_field(field.layout, field.biases, features, weights)
    columns = {"weight": weights[pairs_first][order], "frequency": shares[pairs_first][order]}
    return make_frame({**feature_names(named, order, estimator.kind_), **columns}, estimator.kind_)
