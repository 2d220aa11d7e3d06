"""This module defines the dataset of labels given sparse covariates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from sparsefield.data.covariate_matrix import CovariateMatrix
from sparsefield.data.layout import Layout
from sparsefield.data.schema import Schema
from sparsefield.data.table import Table, combine_digests, rebuild_table


@dataclass(frozen=True)
class CovariateDataset:
    """Labels without missing cells, and a sparse matrix of covariates with the same rows."""

    kind: Literal["sparse"] = field(default="sparse", init=False, repr=False)
    is_local: bool = field(default=True, init=False, repr=False)
    is_plain: bool = field(default=True, init=False, repr=False)
    has_missing: bool = field(default=False, init=False, repr=False)

    layout: Layout
    """Of a schema with sparse covariates."""
    labels: Table
    """The labels alone."""
    covariates: CovariateMatrix

    @classmethod
    def of(cls, schema: Schema, labels: Table, covariates: CovariateMatrix) -> CovariateDataset:
        """Return the dataset of labels, compiled with ``schema.labels``, and covariates."""
        return cls(Layout.single(schema), labels, covariates)

    @cached_property
    def label_layout(self) -> Layout:
        """The layout of the labels alone, whose columns are the first of ``layout``."""
        return replace(Layout.single(self.labels.schema), target_factor=self.layout.target_factor)

    @property
    def tables(self) -> tuple[Table]:
        """The labels, as the tables of other datasets."""
        return (self.labels,)

    @property
    def n_rows(self) -> int:
        return self.labels.n_rows

    @property
    def n_cells(self) -> int:
        return self.covariates.n_entries + self.n_rows * self.labels.schema.n_columns

    @property
    def total_weights(self) -> list[float]:
        return [self.labels.total_weight]

    @property
    def row_weights(self) -> np.ndarray:
        """(rows,)"""
        return self.labels.weight()

    def local(self) -> CovariateDataset:
        return self

    def if_linked(self) -> None:
        return None

    def hold_blocks(self, engine: Any, convert: Callable[..., tuple[Any, None]] | None = None) -> Any:
        """Return the block collection of the labels."""
        return engine.distribute([block if convert is None else convert(block, 0)[0] for block in self.labels.blocks])

    def update_digest(self, digest: Any) -> None:
        digest.update(combine_digests(block.digest() for block in self.labels.blocks).encode())
        digest.update(self.covariates.digest())

    def subset(self, rows: np.ndarray) -> CovariateDataset:
        """Return some rows, in the order of their numbers ``rows``."""
        labels = rebuild_table(self.labels, self.labels.codes()[:, rows], rows, self.labels.schema.n_columns)
        return CovariateDataset(self.layout, labels, self.covariates.take(rows))

    def has_unique_states(self, rows: np.ndarray) -> np.ndarray:
        """Return which of some rows have a label state that no row outside ``rows`` has, (rows,)."""
        return self.labels.has_unique_states(rows)
