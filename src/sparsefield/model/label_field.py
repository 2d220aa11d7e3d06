"""A field conditioned on sparse covariates: what remains is a field of labels with a logit per row.

The covariates of a row enter the field only through the sum of covariate x weight for each label state. So inference
needs no more than a dense table of the labels with one covariate per label state, which has this sum and the weight 1.
"""

from __future__ import annotations

import numpy as np

from sparsefield.data import CovariateWeights, Dataset, Layout, Schema, SparseMatrix, Table, Variable
from sparsefield.data.table import cut_into_blocks
from sparsefield.model.field import Field


def condition_on_covariates(field: Field, covariates: SparseMatrix, labels: Table) -> tuple[Field, Dataset]:
    """Return a field of labels alone, and the dataset on which it is the given field.

    Parameters
    ----------
    field : of labels given sparse covariates
    covariates : (rows, covariates)
    labels : rows of the labels, compiled with the schema of the labels; missing cells are those to infer
    """
    schema = field.schema
    n = schema.n_target_columns
    among = field.pairs[:, 1] < n
    logits = covariates.logits(covariate_weights(field), n, 0, covariates.n_rows)
    stem = "covariates"
    while any(name.startswith(stem) for name in schema.labels.order):
        stem += "'"
    variables = (*schema.targets, *(Variable(f"{stem} {k}", "observed", kind="numeric") for k in range(n)))
    reduced = Schema(variables, tuple(variable.name for variable in variables))
    states = np.arange(n)
    pairs = np.concatenate([field.pairs[among], np.column_stack([states, n + states])])
    weights = np.concatenate([field.weights[among], np.ones(n)])
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    conditioned = Field(Layout.single(reduced), field.biases, pairs[order], weights[order])
    blocks = cut_into_blocks(reduced, labels.codes(), logits, labels.weight(), reduced.n_columns)
    table = Table(reduced, tuple(blocks), labels.n_rows, labels.unknown_rows)
    return conditioned, Dataset.single(table)


def covariate_weights(field: Field) -> CovariateWeights:
    """Return the weights of pairs of a label state and a covariate, by covariate."""
    n, n_covariates = field.schema.n_target_columns, field.schema.n_columns - field.schema.n_target_columns
    outside = np.flatnonzero(field.pairs[:, 1] >= n)
    state, covariate = field.pairs[outside, 0], field.pairs[outside, 1] - n
    order = np.lexsort((state, covariate))
    offsets = np.searchsorted(covariate[order], np.arange(n_covariates + 1))
    return CovariateWeights(offsets, state[order].astype(np.int32), field.weights[outside[order]])
