"""Rows to which the features of a fitted estimator are fitted again without L1; others are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparsefield.analysis.interval_warnings import describe_missing_refusal, warn_of_other_table
from sparsefield.analysis.refit_problem import RefitProblem, densify
from sparsefield.data import DenseDataset, SparseDataset, Table
from sparsefield.errors import DataError
from sparsefield.estimators import FieldEstimator, MarkovField
from sparsefield.estimators.compiled_rows import compile_rows
from sparsefield.estimators.training import refit_l2

MAX_PARAMETERS = 8000
"""Largest number of biases and weights whose joint covariance is computed: a matrix of half a gigabyte."""

FEWEST_ROWS = 4


def compile_refit(
    estimator: FieldEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    drop_incomplete: bool = False,
    *,
    intervals: bool = False,
) -> tuple[DenseDataset, RefitProblem, int]:
    """Return the rows, the refit of the features to them, and the number of incomplete rows that were left out.

    What has no uncertainty is refused; ``intervals`` is whether that of weights is wanted, not that of centrality.
    """
    rows = rows_without_missing(estimator, X, y, sample_weight, drop_incomplete, intervals=intervals)
    n_given = rows.n_rows
    warn_of_other_table(estimator.field_, rows.tables[0])
    if rows.tables[0].has_missing:
        rows = rows.subset(np.flatnonzero((rows.tables[0].codes() >= 0).all(axis=0)))
    (table,) = rows.tables
    return rows, refit_problem(estimator, table), n_given - table.n_rows


def rows_without_missing(
    estimator: FieldEstimator, X: Any, y: Any, sample_weight: Any, drop_incomplete: bool, *, intervals: bool
) -> DenseDataset:
    """Return the compiled rows, and refuse missing cells unless their rows are dropped."""
    rows = dense_rows(estimator, X, y, sample_weight)
    if rows.tables[0].has_missing and not drop_incomplete:
        imputes = isinstance(estimator, MarkovField)
        raise DataError(describe_missing_refusal(rows.tables[0], intervals=intervals, imputes=imputes))
    return rows


def refit_problem(estimator: FieldEstimator, table: Table) -> RefitProblem:
    """Return the refit of the features to complete rows; too few are refused."""
    if table.n_rows < FEWEST_ROWS:
        raise DataError(f"The weights need at least {FEWEST_ROWS} complete rows; there are {table.n_rows}.")
    biases = estimator.resolve("features").penalize_biases
    return RefitProblem.of(estimator.field_, table, refit_l2(estimator), penalize_biases=biases)


def dense_rows(estimator: FieldEstimator, X: Any, y: Any, sample_weight: Any) -> DenseDataset:
    """Return the compiled rows; what the intervals are not valid for is refused."""
    problems = list(_refusals(estimator))
    if problems:
        raise DataError(" ".join(problems))
    rows = compile_rows(estimator, X, y, sample_weight=sample_weight)
    if isinstance(rows, SparseDataset):
        rows = DenseDataset.single(densify(rows))
    if not isinstance(rows, DenseDataset):
        raise DataError("The covariates are a sparse matrix of numbers: pass them as a table or an array.")
    return rows


def _refusals(estimator: FieldEstimator) -> Iterator[str]:
    """Yield a sentence for each reason why the field has no intervals."""
    field = estimator.field_
    size = len(field.theta)
    if not field.record.is_learned:
        yield "The field was given, not learned: fit it to the table."
    if field.layout.has_latent:
        yield "The field has latent variables, whose uncertainty is not known: fit without latent=."
    if estimator.objective != "pl" or estimator.refit == "ml":
        yield (
            "Intervals are those of the pseudo-likelihood, but the weights were estimated otherwise: fit with "
            "objective='pl', and refit=True or False."
        )
    if size > MAX_PARAMETERS:
        yield (
            f"The field has {size:,} parameters, and the joint covariance of at most {MAX_PARAMETERS:,} is "
            "computed: use fewer columns, or a larger l1."
        )
