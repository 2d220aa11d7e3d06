"""Rows compiled with the schemas of a fitted estimator, and their inference with its options.

These functions are for code outside of the estimators, which has no use for their private methods.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from sparsefield import config
from sparsefield.compute import Engine, Threads
from sparsefield.data import Dataset, Source, Table, as_source
from sparsefield.data.frames import is_dask_collection
from sparsefield.errors import DataError, EstimateWarning
from sparsefield.estimators.field_estimator import FieldEstimator
from sparsefield.inference import CellProbabilities, Marginals, infer, infer_marginals, predict_observed
from sparsefield.inference.gibbs import AIS
from sparsefield.model import Field
from sparsefield.objectives import PseudoLikelihood
from sparsefield.objectives.log_likelihood import log_likelihood_of_links, log_likelihood_of_rows

EstimatorT = TypeVar("EstimatorT", bound=FieldEstimator)


def compile_rows(estimator: FieldEstimator, X: Any, y: Any = None, *, sample_weight: Any = None) -> Dataset:
    """Return tables compiled with the schemas of a fitted estimator, as its `fit` compiles them: sparse ones sparsely.

    A frame may have further columns, and another order of columns; a `CRFClassifier` also needs the labels ``y``.
    """
    check_is_fitted(estimator)
    return estimator._compile_fitted(X, y, sample_weight)


def compile_densely(estimator: FieldEstimator, X: Any) -> Dataset:
    """Return tables compiled with the schemas of a fitted estimator, whose missing cells are to be inferred.

    The table of a `CRFClassifier` has its labels as columns.
    """
    check_is_fitted(estimator)
    return estimator._compile_densely(X)


def learned_source(estimator: FieldEstimator, X: Any, what: str = "X") -> Source:
    """Return a table as a source; an array or a sparse matrix has the names that its columns had in the fit."""
    check_is_fitted(estimator)
    return estimator._with_learned_names(as_source(X, what=what))


def read_by_name(estimator: FieldEstimator, X: Any) -> Source:
    """Return the columns that the field was learned from: of a frame by name, in any order and beside others."""
    check_is_fitted(estimator)
    learned = getattr(estimator, "feature_names_in_", None)
    if learned is None or is_dask_collection(X):
        return estimator._read(X)
    source = as_source(X)
    if source.kind in ("array", "sparse"):
        return estimator._read(X)
    place = {name: k for k, name in enumerate(source.names)}
    absent = [repr(name) for name in learned if name not in place]
    if absent:
        raise DataError(f"The table lacks columns that the field was learned from: {', '.join(absent)}.")
    return replace(source, names=tuple(learned), native=source.native[:, [place[name] for name in learned]], keys=())


def threads_for(estimator: FieldEstimator, dataset: Dataset) -> Engine:
    """Return the threads of an estimator for a dataset; the result is the same with any number of them."""
    small = dataset.n_cells < config.CELLS_FOR_THREADS
    return Threads(1 if small and estimator.n_jobs != 0 else estimator.n_jobs)


def infer_cells(estimator: FieldEstimator, dataset: Dataset) -> CellProbabilities:
    """Return the distribution of each cell: a missing one given the observed ones, an observed one given all others."""
    return _infer(infer, estimator, dataset, estimator.field_)


def infer_missing(estimator: FieldEstimator, dataset: Dataset, field: Field | None = None) -> Marginals:
    """Return the marginals of missing cells alone, which takes far less time than `infer_cells`.

    ``field`` is that of the dataset where it is not the estimator's own.
    """
    return _infer(infer_marginals, estimator, dataset, estimator.field_ if field is None else field)


def _infer(infer: Callable[..., Any], estimator: FieldEstimator, dataset: Dataset, field: Field) -> Any:
    """Return the result of a function of inference, with a warning of rows in which it did not converge."""
    method = estimator.resolve("inference")
    with threads_for(estimator, dataset) as engine:
        result = infer(field, dataset, method, engine)
    if result.unconverged:
        warnings.warn(
            f"Inference did not converge in {result.unconverged:,} of {dataset.n_rows:,} rows, whose beliefs may be "
            f"inaccurate. {method.advice}.",
            ConvergenceWarning,
            stacklevel=4,
        )
    return result


def pseudo_log_likelihood(estimator: FieldEstimator, dataset: Dataset) -> float:
    """Return the sum over rows and observed values of ln p(value | all other observed values).

    For a number with more values than levels, p is a density per standard deviation.
    """
    field = estimator.field_
    with threads_for(estimator, dataset) as engine:
        if dataset.is_dense:
            observed = predict_observed(field, dataset, engine)
        else:
            evaluator = PseudoLikelihood().make_problem(dataset, engine)
            return -evaluator.evaluate(evaluator.compile(field.layout.arcs(field.pairs)), field.theta)[0]
    return observed.log_likelihood - sum(float(_log_widths(table) @ table.weight()) for table in dataset.tables)


def joint_log_likelihood(
    estimator: FieldEstimator, field: Field, dataset: Dataset, ais: AIS | None, *, linked: bool = False
) -> Any:
    """Return the log-likelihood of the observed targets: (rows,) of one table, or one number of ``linked`` tables.

    Partition functions of wide fields are estimated by annealed importance sampling, with a warning.
    """
    options = AIS() if ais is None else ais
    if not isinstance(options, AIS):
        raise ValueError(f"ais must be None or an AIS such as AIS(chains=256), got {options!r}.")
    options.check()
    with Threads(estimator.n_jobs) as engine:
        estimate = (log_likelihood_of_links if linked else log_likelihood_of_rows)(field, dataset, engine, options)
    if estimate.method == "ais":
        warnings.warn(
            "The field is too wide for an exact partition function, which was estimated by annealed importance "
            f"sampling with a standard error of up to {np.max(estimate.standard_error):.2g}: "
            "ais=AIS(chains=..., steps=...) lowers it.",
            EstimateWarning,
            stacklevel=3,
        )
    # Densities of numbers are per standard deviation, instead of probabilities of levels.
    widths = [_log_widths(table) for table in dataset.tables]
    return estimate.value - (sum(float(rows.sum()) for rows in widths) if linked else widths[0])


def _log_widths(table: Table) -> np.ndarray:
    """Return the sums over observed cells of the logarithms of the widths of their levels, (rows,)."""
    total = np.zeros(table.n_rows)
    for variable, codes in zip(table.schema.targets, table.codes(), strict=True):
        if variable.limits:
            total += np.where(codes >= 0, variable.log_widths[np.maximum(codes, 0)], 0.0)
    return total


def copy_with_field(estimator: EstimatorT, field: Field, **params: Any) -> EstimatorT:
    """Return a fitted copy of a fitted estimator that has another field over the same columns, and other parameters."""
    copy: Any = clone(estimator)
    copy.set_params(**params)
    named = hasattr(estimator, "feature_names_in_")
    copy._restore(field, {"kind": estimator.kind_, "named": named, **estimator._extra()})
    return copy
