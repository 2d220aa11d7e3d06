"""Equal rows merged into one with the sum of their weights, since learning needs only sums over rows."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sparsefield.data.dataset import Dataset
from sparsefield.data.table import Table, cut_into_blocks

MAX_DISTINCT_SHARE = 0.8
"""With a larger share of distinct rows, merging would hardly save any work."""


class Piece(NamedTuple):
    """Consecutive rows of a table, encoded by a schema."""

    codes: np.ndarray
    """(targets, rows) int32"""
    covariates: np.ndarray
    """(observed columns, rows)"""
    weight: np.ndarray
    """(rows,)"""

    @property
    def n_rows(self) -> int:
        return len(self.weight)


def deduplicate_rows(dataset: Dataset) -> Dataset:
    """Merge equal rows of a dataset, in the order of their first occurrence; return it unchanged if little is gained.

    Rows with links or missing cells are never merged, since each has its own samples and beliefs. Latent variables do
    not count as missing, since they are summed over.
    """
    if not dataset.is_dense or not dataset.is_single or dataset.n_rows < 2 or dataset.has_missing:
        return dataset
    (table,) = dataset.tables
    schema, rows = table.schema, Piece(table.codes(), table.covariates(), table.weight())
    merged = merge_equal_rows(rows)
    if merged is rows:
        return dataset
    blocks = cut_into_blocks(schema, *merged, schema.n_columns)
    return replace(dataset, tables=(Table(schema, tuple(blocks), merged.n_rows),))


def merge_equal_rows(rows: Piece) -> Piece:
    """Return the distinct rows with their summed weights; the rows themselves if little is gained."""
    _, first, owner = np.unique(hash_rows(rows.codes, rows.covariates), return_index=True, return_inverse=True)
    if len(first) > MAX_DISTINCT_SHARE * rows.n_rows:
        return rows
    leader = first[owner]
    # Different rows hardly ever have the same hash: such rows are returned unchanged.
    if (rows.codes != rows.codes[:, leader]).any() or (rows.covariates != rows.covariates[:, leader]).any():
        return rows
    distinct = np.sort(first)
    weight = np.bincount(leader, weights=rows.weight, minlength=rows.n_rows)[distinct]
    return Piece(np.ascontiguousarray(rows.codes[:, distinct]), rows.covariates[:, distinct], weight)


def hash_rows(codes: np.ndarray, covariates: np.ndarray) -> np.ndarray:
    """Return a hash of each row, a sum of odd multiples modulo 2^64, (rows,)."""
    factors = np.random.default_rng(0).integers(0, 2**63, len(codes) + len(covariates), dtype=np.uint64) * 2 + 1
    hashes = np.zeros(codes.shape[1], dtype=np.uint64)
    for factor, column in zip(factors, codes, strict=False):
        hashes += factor * column.astype(np.uint64)
    for factor, column in zip(factors[len(codes) :], covariates, strict=True):
        # Both signs of zero are equal and need the same hash. Round numbers have their bits at the upper end, where a
        # product would lose them.
        bits = (column + 0.0).view(np.uint64)
        hashes += factor * (bits ^ (bits >> np.uint64(33)) ^ (bits >> np.uint64(51)))
    return hashes
