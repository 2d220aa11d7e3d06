"""This module estimates the uncertainty of weights and edges: confidence intervals and tests of differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsefield.analysis.confidence_intervals import ConfidenceIntervals, Method
from sparsefield.analysis.godambe import minimize, sandwich
from sparsefield.analysis.refit_problem import RefitProblem
from sparsefield.data import DenseDataset, LocalDataset
from sparsefield.errors import DataError
from sparsefield.estimators.training import MIN_REFIT_L2
from sparsefield.model import Field

MAX_PARAMETERS = 8000
"""Largest number of biases and weights whose joint covariance is computed: a matrix of half a gigabyte."""


class UncertaintyMethods:
    """Methods that say how well the rows determine the weights of the field."""

    field_: Field
    kind_: str

    def confidence_intervals(
        self, X: Any, y: Any = None, *, method: Method = "godambe", level: float = 0.95, sample_weight: Any = None
    ) -> ConfidenceIntervals:
        check_is_fitted(self)
        if method not in get_args(Method):
            raise ValueError(f"method must be 'godambe' or 'bootstrap', got {method!r}.")
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be between 0 and 1, got {level}.")
        problem = self._refit_problem(X, y, sample_weight)
        estimate = minimize(problem, self.field_.theta, problem.block.weight)
        covariance = sandwich(problem, estimate, problem.block.weight)
        features = slice(problem.n_biases, None)
        return ConfidenceIntervals(
            self.field_, method, level, estimate.theta[features], covariance[features, features], kind=self.kind_
        )

    def _refit_problem(self, X: Any, y: Any, sample_weight: Any) -> RefitProblem:
        """Return the refit of the features to the rows; refuse fields and rows that it has no theory for."""
        estimator: Any = self
        problems = list(self._uncertainty_refusals())
        if problems:
            raise DataError(" ".join(problems))
        sample: LocalDataset = estimator._compile_with_schema(X, y, sample_weight)
        if not isinstance(sample, DenseDataset):
            raise DataError("sparse")
        (table,) = sample.tables
        if table.has_missing:
            raise DataError("missing")
        l2 = max(estimator.l2, MIN_REFIT_L2)
        return RefitProblem.of(self.field_, table, l2, penalize_biases=estimator.penalize_biases)

    def _uncertainty_refusals(self) -> Iterator[str]:
        """Yield a sentence for each reason why the field has no intervals."""
        estimator: Any = self
        size = len(self.field_.theta)
        if not self.field_.record.is_learned:
            yield "The field was given, not learned: fit it to the table."
        if self.field_.layout.has_latent:
            yield "The field has latent variables, whose uncertainty is not known: fit without latent=."
        if self.field_.layout.tables != ("",):
            yield "Rows of linked tables depend on each other: intervals are for fields over one table."
        if estimator.objective != "pl" or estimator.refit == "ml":
            yield (
                "Intervals are those of the pseudo-likelihood, but the weights were estimated otherwise: fit with "
                "objective='pl', and refit=True or False."
            )
        if size > MAX_PARAMETERS:
            yield f"The field has {size:,} parameters; the covariance of at most {MAX_PARAMETERS:,} is computed."
