"""This module compiles the rows to which the features of a field are fitted again, and refuses others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparsefield.analysis.interval_warnings import describe_missing_refusal, warn_of_other_table
from sparsefield.analysis.refit_problem import RefitProblem, densify
from sparsefield.data import DenseDataset, LocalDataset, SparseDataset, Table
from sparsefield.errors import DataError
from sparsefield.estimators.training import MIN_REFIT_L2
from sparsefield.model import Field

MAX_PARAMETERS = 8000
"""Largest number of biases and weights whose joint covariance is computed: a matrix of half a gigabyte."""

FEWEST_ROWS = 4


class RefitRows:
    """Methods that turn a table into the refit of the selected features, without L1."""

    field_: Field

    @property
    def _refit_l2(self) -> float:
        estimator: Any = self
        return max(float(estimator.l2), MIN_REFIT_L2)

    def _refit_problem(
        self, X: Any, y: Any, sample_weight: Any, drop_incomplete: bool = False, *, intervals: bool = False
    ) -> tuple[DenseDataset, RefitProblem, int]:
        """Return the rows, the refit of the features to them, and the number of incomplete rows that were left out.

        What has no uncertainty is refused; ``intervals`` is whether that of weights is wanted, not that of centrality.
        """
        sample = self._rows_without_missing(X, y, sample_weight, drop_incomplete, intervals=intervals)
        n_given = sample.n_rows
        warn_of_other_table(self.field_, sample.tables[0])
        if sample.tables[0].has_missing:
            sample = sample.subset(np.flatnonzero((sample.tables[0].codes() >= 0).all(axis=0)))
        (table,) = sample.tables
        return sample, self._problem_of(table), n_given - table.n_rows

    def _rows_without_missing(
        self, X: Any, y: Any, sample_weight: Any, drop_incomplete: bool, *, intervals: bool
    ) -> DenseDataset:
        """Return the compiled rows, and refuse missing cells unless their rows are dropped."""
        sample = self._dense_rows(X, y, sample_weight)
        if sample.tables[0].has_missing and not drop_incomplete:
            raise DataError(
                describe_missing_refusal(sample.tables[0], intervals=intervals, imputes=hasattr(self, "impute"))
            )
        return sample

    def _problem_of(self, table: Table) -> RefitProblem:
        """Return the refit of the features to complete rows; too few are refused."""
        estimator: Any = self
        if table.n_rows < FEWEST_ROWS:
            raise DataError(f"The weights need at least {FEWEST_ROWS} complete rows; there are {table.n_rows}.")
        return RefitProblem.of(self.field_, table, self._refit_l2, penalize_biases=estimator.penalize_biases)

    def _dense_rows(self, X: Any, y: Any, sample_weight: Any) -> DenseDataset:
        """Return the compiled rows; what the intervals are not valid for is refused."""
        estimator: Any = self
        problems = list(self._uncertainty_refusals())
        if problems:
            raise DataError(" ".join(problems))
        sample: LocalDataset = estimator._compile_with_schema(X, y, sample_weight)
        if isinstance(sample, SparseDataset):
            sample = DenseDataset.single(densify(sample))
        if not isinstance(sample, DenseDataset):
            raise DataError("The covariates are a sparse matrix of numbers: pass them as a table or an array.")
        return sample

    def _uncertainty_refusals(self) -> Iterator[str]:
        """Yield a sentence for each reason why the field has no intervals."""
        estimator: Any = self
        size = len(self.field_.theta)
        if not self.field_.record.is_learned:
            yield "The field was given, not learned: fit it to the table."
        if self.field_.layout.has_latent:
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
