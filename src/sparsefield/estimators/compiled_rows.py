"""Rows compiled with the schemas of a fitted estimator, and their inference with its options.

These functions are for code outside of the estimators, which has no use for their private methods.
"""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from sparsefield.data import DenseDataset, LocalDataset, Source, as_source
from sparsefield.inference import CellProbabilities, Marginals, infer_marginals


def compile_rows(estimator: Any, X: Any, y: Any = None, *, sample_weight: Any = None) -> LocalDataset:
    """Return tables compiled with the schemas of a fitted estimator, as its `fit` compiles them."""
    check_is_fitted(estimator)
    return estimator._compile_with_schema(X, y, sample_weight)


def compile_densely(estimator: Any, X: Any) -> DenseDataset:
    """Return tables compiled with the schemas of a fitted estimator, whose missing cells are to be inferred."""
    check_is_fitted(estimator)
    compiled = estimator._compile(X)
    return compiled if isinstance(compiled, DenseDataset) else DenseDataset.single(compiled[1])


def learned_source(estimator: Any, X: Any, what: str = "X") -> Source:
    """Return a table as a source; an array or a sparse matrix has the names that its columns had in the fit."""
    check_is_fitted(estimator)
    return estimator._with_learned_names(as_source(X, what=what))


def infer_cells(estimator: Any, dataset: DenseDataset) -> CellProbabilities:
    """Return the distribution of each cell: a missing one given the observed ones, an observed one given all others."""
    return estimator._infer(dataset)


def infer_missing(estimator: Any, dataset: DenseDataset) -> Marginals:
    """Return the marginals of missing cells alone, which takes far less time than `infer_cells`."""
    with estimator._engine(dataset) as engine:
        marginals = infer_marginals(estimator.field_, dataset, estimator._resolve("inference"), engine)
    estimator._warn_not_inferred(marginals.unconverged, dataset)
    return marginals
