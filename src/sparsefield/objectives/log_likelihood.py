"""Log-likelihood of rows under a field, with the standard error of what was sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Block, Dataset
from sparsefield.data.dataset import Piece
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


def log_partition_of_rows(field: Field, covariates: Array, engine: Engine, options: AIS) -> LogEstimate[Array]:
    """Return ln Z of a field over one table given the covariates (observed columns, rows) of some rows."""
    codes = np.full((len(field.schema.targets), covariates.shape[1]), -1, dtype=np.int32)
    return _sum_rows(field, codes, covariates, engine, options)


def log_likelihood_of_rows(field: Field, sample: Dataset, engine: Engine, options: AIS) -> LogEstimate[Array]:
    """Return the log-likelihood of the observed targets of each row of a plain table, given its covariates."""
    (table,) = sample.tables
    sums = _sum_rows(field, table.codes(), table.covariates(), engine, options)
    observed = np.concatenate([_observed_potential(field, block) for block in table.blocks])
    free = log_partition_of_rows(field, table.covariates(), engine, options)
    return difference_of(replace(sums, value=sums.value + observed), free)


def log_likelihood_of_links(field: Field, sample: Dataset, engine: Engine, options: AIS) -> LogEstimate[float]:
    """Return the log-likelihood of all observed targets of linked tables, given their covariates."""
    free = _sum_links(field, sample, free_rows(sample), engine, options)
    incomplete, layout = incomplete_rows(sample), field.layout
    sums = _sum_links(field, sample, incomplete, engine, options)
    own = observed_features(layout, layout.arcs(field.features), field.graphs, observed_parts(sample, incomplete))
    base = sum(float(log_base_measure(layout, *block).sum()) for block in sample.blocks())
    return difference_of(replace(sums, value=sums.value + float(own @ field.theta) + base), free)


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
    sums = [sum_components(field, group, engine, options, limit) for group in groups]
    value = sum(float(part.value.sum()) for part in sums)
    variance = sum(float(part.variance.sum()) for part in sums)
    return LogEstimate(value, float(np.sqrt(variance)), "ais" if variance > 0.0 else "exact")


def _sum_rows(field: Field, codes: Array, covariates: Array, engine: Engine, options: AIS) -> LogEstimate[Array]:
    """Return ln Z over the missing cells of each row, given its other cells; equal rows are summed once."""
    rows, total = np.flatnonzero((codes < 0).any(axis=0)), np.zeros((2, codes.shape[1]))
    first, owner = _distinct_columns(np.concatenate([codes, covariates])[:, rows])
    piece, sums = Piece(codes[:, rows[first]], covariates[:, rows[first]], np.ones(len(first))), [np.empty((2, 0))]
    for group in cut_rows(field.layout, piece):
        components = sum_components(field, group, engine, options, largest_table(len(first)))
        n_rows = sum(block.n_rows for _, block in group.members)
        parts = components.value, components.variance
        sums.append(np.array([np.bincount(components.row, part, n_rows).astype(float) for part in parts]))
    total[:, rows] = np.concatenate(sums, axis=1)[:, owner]
    return LogEstimate(total[0], np.sqrt(total[1]), "ais" if total[1].any() else "exact")


def _distinct_columns(values: Array) -> tuple[Array, Array]:
    """Return the first of each set of equal columns, and which of these each column equals."""
    varying = values[(values != values[:, :1]).any(axis=1)]
    if not len(varying):
        return np.arange(min(values.shape[1], 1)), np.zeros(values.shape[1], dtype=np.int64)
    _, first, owner = np.unique(varying.T, axis=0, return_index=True, return_inverse=True)
    return first, owner.reshape(-1)


def _observed_potential(field: Field, block: Block) -> Array:
    """Return what features of observed cells alone, and base measures, add to the log-potential of each row."""
    values, n = without_missing(block, field.schema).beliefs, len(field.biases)
    total = log_base_measure(field.layout, 0, block) / np.where(block.weight > 0.0, block.weight, 1.0)
    total += field.biases @ values[:n]
    for feature, weight in zip(field.features, field.theta[n:], strict=True):
        total += weight * values[feature[feature >= 0]].prod(axis=0)
    return total
