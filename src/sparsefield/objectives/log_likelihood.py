"""Log-likelihood of rows under a field, with the standard error of what was sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Block, Dataset
from sparsefield.data.splits import Piece
from sparsefield.inference.gibbs import AIS
from sparsefield.inference.missing_sums import (
    LogEstimate,
    RowGroup,
    Value,
    cut_rows,
    free_rows,
    incomplete_rows,
    largest_table,
    sum_components,
    without_missing,
)
from sparsefield.model import Field
from sparsefield.objectives.likelihood_evaluator import log_base_measure, observed_features, observed_parts

Array = np.ndarray


class _RowSums(NamedTuple):
    """Log-partition functions of rows, and their variances."""

    value: Array
    variance: Array

    @property
    def method(self) -> Literal["exact", "ais"]:
        return "ais" if self.variance.any() else "exact"


def log_partition_of_rows(field: Field, covariates: Array, engine: Engine, options: AIS) -> LogEstimate[Array]:
    """Return ln Z of a field over one table given the covariates (observed columns, rows) of some rows."""
    codes = np.full((len(field.schema.targets), covariates.shape[1]), -1, dtype=np.int32)
    found = _sum_rows(field, codes, covariates, engine, options)
    return LogEstimate(found.value, np.sqrt(found.variance), found.method)


def log_likelihood_of_rows(field: Field, sample: Dataset, engine: Engine, options: AIS) -> LogEstimate[Array]:
    """Return the log-likelihood of the observed targets of each row of a plain table, given its covariates."""
    (table,) = sample.tables
    free = log_partition_of_rows(field, table.covariates(), engine, options)
    return difference_of(log_potential_of_rows(field, sample, engine, options), free)


def log_potential_of_rows(field: Field, sample: Dataset, engine: Engine, options: AIS) -> LogEstimate[Array]:
    """Return the log-likelihood of the observed targets of each row of a plain table plus ln Z of the row.

    In the difference between rows with more and with fewer observed cells, ln Z cancels: only missing cells are summed.
    """
    (table,) = sample.tables
    given = _sum_rows(field, table.codes(), table.covariates(), engine, options)
    own = np.concatenate([_observed_potential(field, block) for block in table.blocks])
    return LogEstimate(own + given.value, np.sqrt(given.variance), given.method)


def log_likelihood_of_links(field: Field, sample: Dataset, engine: Engine, options: AIS) -> LogEstimate[float]:
    """Return the log-likelihood of all observed targets of linked tables, given their covariates."""
    free = _sum_links(field, sample, free_rows(sample), engine, options)
    return difference_of(log_potential_of_links(field, sample, engine, options), free)


def log_potential_of_links(field: Field, sample: Dataset, engine: Engine, options: AIS) -> LogEstimate[float]:
    """Return the log-likelihood of all observed targets of linked tables plus ln Z; see `log_potential_of_rows`."""
    incomplete, layout = incomplete_rows(sample), field.layout
    given = _sum_links(field, sample, incomplete, engine, options)
    own = observed_features(layout, layout.arcs(field.features), field.graphs, observed_parts(sample, incomplete))
    base = sum(float(log_base_measure(layout, *one).sum()) for one in sample.blocks())
    return LogEstimate(given.value + float(own @ field.theta) + base, given.standard_error, given.method)


def difference_of(first: LogEstimate[Value], second: LogEstimate[Value]) -> LogEstimate[Value]:
    """Return the difference of two independent estimates."""
    error = np.hypot(first.standard_error, second.standard_error)
    method = "exact" if first.method == second.method == "exact" else "ais"
    return LogEstimate(first.value - second.value, error, method)


def _sum_links(
    field: Field, sample: Dataset, groups: Sequence[RowGroup], engine: Engine, options: AIS
) -> LogEstimate[float]:
    """Return ln Z over the missing cells of linked rows."""
    limit = largest_table(int(sample.components.max(initial=0)) + 1)
    found = [sum_components(field, group, engine, options, limit) for group in groups]
    value = sum(float(one.value.sum()) for one in found)
    variance = sum(float(one.variance.sum()) for one in found)
    return LogEstimate(value, float(np.sqrt(variance)), "ais" if variance > 0.0 else "exact")


def _sum_rows(field: Field, codes: Array, covariates: Array, engine: Engine, options: AIS) -> _RowSums:
    """Return ln Z over the missing cells of each row, given its other cells; equal rows are summed once."""
    rows = np.flatnonzero((codes < 0).any(axis=0))
    first, owner = _distinct_columns(np.concatenate([codes, covariates])[:, rows])
    piece = Piece(codes[:, rows[first]], covariates[:, rows[first]], np.ones(len(first)))
    values: list[Array] = [np.empty(0)]
    variances: list[Array] = [np.empty(0)]
    for group in cut_rows(field.layout, piece):
        found, n_rows = sum_components(field, group, engine, options, largest_table(len(first))), _count_rows(group)
        values.append(np.bincount(found.row, found.value, n_rows))
        variances.append(np.bincount(found.row, found.variance, n_rows))
    total = _RowSums(np.zeros(codes.shape[1]), np.zeros(codes.shape[1]))
    total.value[rows], total.variance[rows] = np.concatenate(values)[owner], np.concatenate(variances)[owner]
    return total


def _distinct_columns(values: Array) -> tuple[Array, Array]:
    """Return the first of each set of equal columns, and which of these each column equals."""
    varying = values[(values != values[:, :1]).any(axis=1)]
    if not len(varying):
        return np.arange(min(values.shape[1], 1)), np.zeros(values.shape[1], dtype=np.int64)
    _, first, owner = np.unique(varying.T, axis=0, return_index=True, return_inverse=True)
    return first, owner.reshape(-1)


def _count_rows(group: RowGroup) -> int:
    return sum(block.n_rows for _, block in group.members)


def _observed_potential(field: Field, block: Block) -> Array:
    """Return what features of observed cells alone, and base measures, add to the log-potential of each row."""
    values, n = without_missing(block, field.schema).beliefs, len(field.biases)
    total = log_base_measure(field.layout, 0, block) / np.where(block.weight > 0.0, block.weight, 1.0)
    total += field.biases @ values[:n]
    for feature, weight in zip(field.features, field.theta[n:], strict=True):
        total += weight * values[feature[feature >= 0]].prod(axis=0)
    return total
