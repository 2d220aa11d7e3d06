"""This module gives estimators the log-likelihood of rows and the log-partition function of the field."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Literal, overload

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsefield.compute import Threads
from sparsefield.data import DenseDataset, Table
from sparsefield.errors import DataError, EstimateWarning
from sparsefield.inference.log_partition import AIS, LogEstimate
from sparsefield.model import Field
from sparsefield.objectives.log_likelihood import (
    difference_of,
    log_likelihood_of_rows,
    log_partition_of_rows,
    log_potential_of_rows,
)


class LikelihoodMethods:
    """Methods about joint probabilities of whole rows, beside the pseudo-likelihood of single cells."""

    field_: Field
    n_jobs: int | None

    @overload
    def log_likelihood(
        self, X: Any, y: Any = None, *, ais: AIS | None = None, details: Literal[False] = False
    ) -> np.ndarray: ...

    @overload
    def log_likelihood(
        self, X: Any, y: Any = None, *, ais: AIS | None = None, details: Literal[True]
    ) -> LogEstimate[np.ndarray]: ...

    def log_likelihood(
        self, X: Any, y: Any = None, *, ais: AIS | None = None, details: bool = False
    ) -> np.ndarray | LogEstimate[np.ndarray]:
        """Return the log-likelihood (natural log) of each row: of all its observed targets together.

        Missing cells are summed out, and covariates are conditioned on. Unlike `score`, which predicts each cell from
        all others, this is the logarithm of one joint probability. It is exact where connected components of columns
        are narrow; elsewhere partition functions are estimated by annealed importance sampling, with a warning. A
        number with more values than levels has a density per standard deviation.

        Parameters
        ----------
        X : rows
        y : labels, for a `CRFClassifier`
        ais : AIS, optional
            Options of annealed importance sampling, such as ``AIS(chains=256, steps=5000)``.
        details : bool
            Whether standard errors are returned, too.

        Returns
        -------
        (rows,) array, or a `LogEstimate` of such arrays if ``details``

        Examples
        --------
        >>> import numpy as np
        >>> from sparsefield import MarkovField
        >>> X = np.array([[0, 0], [0, 0], [1, 1], [1, 0]] * 50)
        >>> found = MarkovField(l1=0.1).fit(X).log_likelihood(X[:4], details=True)
        >>> found.method, np.exp(found.value).round(1).tolist()
        ('exact', [0.5, 0.5, 0.2, 0.3])
        """
        check_is_fitted(self)
        field, sample = self._compile_for_likelihood(X, y)
        with Threads(self.n_jobs) as engine:
            found = log_likelihood_of_rows(field, sample, engine, checked_options(ais))
        value = found.value - log_widths(sample.tables[0])
        if details:
            return LogEstimate(value, found.standard_error, found.method)
        warn_if_sampled(found)
        return value

    def log_partition(self, X: Any = None, *, ais: AIS | None = None) -> LogEstimate[Any]:
        """Return the log-partition function ln Z of the field, with its standard error and method.

        Parameters
        ----------
        X : rows, optional
            Needed if the field has covariates, on which ln Z depends; other columns are ignored.
        ais : AIS, optional
            Options of annealed importance sampling, which is used where the field is too wide.

        Returns
        -------
        LogEstimate
            Of numbers, or of arrays (rows,) if ``X`` is given.
        """
        check_is_fitted(self)
        field = self.field_
        if X is None and len(field.schema.observed):
            raise DataError(
                f"ln Z depends on the observed column {field.schema.observed[0].name!r}: pass rows, as in "
                "log_partition(X)."
            )
        covariates = np.empty((0, 1))
        if X is not None:
            field, sample = self._compile_for_likelihood(X, None, absent=True)
            covariates = sample.tables[0].covariates()
        with Threads(self.n_jobs) as engine:
            found = log_partition_of_rows(field, covariates, engine, checked_options(ais))
        if X is not None:
            return found
        return LogEstimate(float(found.value[0]), float(found.standard_error[0]), found.method)

    def _log_potential(self, X: Any) -> LogEstimate[Any]:
        """Return the log-likelihood of rows plus ln Z, which cancels in differences."""
        field, sample = self._compile_for_likelihood(X, None)
        with Threads(self.n_jobs) as engine:
            found = log_potential_of_rows(field, sample, engine, AIS())
        return replace(found, value=found.value - log_widths(sample.tables[0]))

    def _compile_for_likelihood(self, X: Any, y: Any, *, absent: bool = False) -> tuple[Field, DenseDataset]:
        """Compile rows densely, and return them with their field; with ``absent``, they need not have targets."""
        raise NotImplementedError


def log_likelihood_of_hidden(field: LikelihoodMethods, whole: Any, visible: Any) -> LogEstimate[Any]:
    """Return ln p(hidden cells | visible cells), of each row or of all linked rows together.

    Parameters
    ----------
    field : fitted estimator
    whole : the tables
    visible : the same tables with further cells missing, the hidden ones
    """
    return difference_of(field._log_potential(whole), field._log_potential(visible))


def checked_options(ais: AIS | None) -> AIS:
    """Return the options of annealed importance sampling, after their check."""
    options = AIS() if ais is None else ais
    if not isinstance(options, AIS):
        raise ValueError(f"ais must be None or an AIS such as AIS(chains=256), got {options!r}.")
    options.check()
    return options


def warn_if_sampled(found: LogEstimate[Any]) -> None:
    """Warn about values that are not exact."""
    if found.method == "ais":
        warnings.warn(
            "The field is too wide for an exact partition function, which was estimated by annealed importance "
            f"sampling with a standard error of up to {np.max(found.standard_error):.2g}: details=True returns it, and "
            "ais=AIS(chains=..., steps=...) lowers it.",
            EstimateWarning,
            stacklevel=3,
        )


def log_widths(table: Table) -> np.ndarray:
    """Return the sums over observed cells of the logarithms of the widths of their levels, (rows,)."""
    total = np.zeros(table.n_rows)
    for variable, codes in zip(table.schema.targets, table.codes(), strict=True):
        if variable.limits:
            total += np.where(codes >= 0, variable.log_widths[np.maximum(codes, 0)], 0.0)
    return total
