"""Joint log-likelihood of whole rows, and the log-partition function of a field.

The pseudo-likelihood, which predicts single cells, is in `compiled_rows`.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from sparsefield.compute import Threads
from sparsefield.data import DenseDataset, Table
from sparsefield.errors import EstimateWarning
from sparsefield.inference.log_partition import AIS, LogEstimate
from sparsefield.model import Field
from sparsefield.objectives.log_likelihood import (
    log_likelihood_of_links,
    log_likelihood_of_rows,
    log_partition_of_rows,
)


def estimate_log_likelihood(
    field: Field, dataset: DenseDataset, n_jobs: int | None, ais: AIS | None = None, *, linked: bool = False
) -> LogEstimate[Any]:
    """Return the log-likelihood of the observed targets: (rows,) of one table, or one number of ``linked`` tables."""
    likelihood = log_likelihood_of_links if linked else log_likelihood_of_rows
    with Threads(n_jobs) as engine:
        estimate = likelihood(field, dataset, engine, checked_options(ais))
    # Densities of numbers are per standard deviation, instead of probabilities of levels.
    widths = [log_widths(table) for table in dataset.tables]
    width = sum(float(rows.sum()) for rows in widths) if linked else widths[0]
    return replace(estimate, value=estimate.value - width)


def estimate_log_partition(
    field: Field, dataset: DenseDataset | None, n_jobs: int | None, ais: AIS | None = None
) -> LogEstimate[Any]:
    """Return ln Z: (rows,) given the covariates of a dataset, or one number of a field without covariates."""
    covariates = np.empty((0, 1)) if dataset is None else dataset.tables[0].covariates()
    with Threads(n_jobs) as engine:
        estimate = log_partition_of_rows(field, covariates, engine, checked_options(ais))
    if dataset is not None:
        return estimate
    return LogEstimate(float(estimate.value[0]), float(estimate.standard_error[0]), estimate.method)


def checked_options(ais: AIS | None) -> AIS:
    """Return the options of annealed importance sampling, after their check."""
    options = AIS() if ais is None else ais
    if not isinstance(options, AIS):
        raise ValueError(f"ais must be None or an AIS such as AIS(chains=256), got {options!r}.")
    options.check()
    return options


def warn_if_sampled(estimate: LogEstimate[Any]) -> None:
    """Warn about values that are not exact."""
    if estimate.method == "ais":
        warnings.warn(
            "The field is too wide for an exact partition function, which was estimated by annealed importance "
            f"sampling with a standard error of up to {np.max(estimate.standard_error):.2g}: details=True returns it, "
            "and ais=AIS(chains=..., steps=...) lowers it.",
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
