"""This module holds sparse real covariates by row and by column, and multiplies them with weights and with errors."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsefield.data.frames import Source, default_names, refuse_empty
from sparsefield.data.sparse_checks import as_checked_csr
from sparsefield.data.token_table import even_blocks
from sparsefield.errors import DataError
from sparsefield.kernels.chain_scores import feature_sums, large_sums, padded_width, state_scores

LARGEST_VALUE = 1e60
"""Larger values are refused: sums of their squares over rows would overflow."""

FEW_PAIRS = 2**16
"""Room for the pairs of a block of columns that are found; where there are more, the search is repeated."""


@dataclass(frozen=True)
class CovariateWeights:
    """Weights of pairs of a covariate and a target state, by covariate."""

    offsets: np.ndarray
    """(covariates + 1,): covariate c has the pairs from offsets[c] to offsets[c + 1]."""
    states: np.ndarray
    """(pairs,) int32: target states."""
    values: np.ndarray
    """(pairs,)"""


@dataclass(frozen=True)
class CovariateMatrix:
    """A sparse matrix of covariates (rows, covariates) in CSR format, without duplicate entries."""

    offsets: np.ndarray
    """(rows + 1,) int64"""
    columns: np.ndarray
    """(entries,) int32"""
    values: np.ndarray
    """(entries,), or empty where all values are 1."""
    n_columns: int

    @classmethod
    def of(cls, matrix: Any) -> CovariateMatrix:
        """Return a matrix in CSR format, whose structure has been checked."""
        values = matrix.data.astype(np.float64, copy=False)
        values = np.empty(0) if (values == 1.0).all() else values
        return cls(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), values, matrix.shape[1])

    @property
    def n_rows(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_entries(self) -> int:
        return len(self.columns)

    @cached_property
    def matrix(self) -> sp.csr_array:
        """The matrix as one of scipy, (rows, covariates)."""
        values = self.values if len(self.values) else np.ones(self.n_entries)
        return sp.csr_array((values, self.columns, self.offsets), shape=(self.n_rows, self.n_columns))

    @cached_property
    def by_column(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Offsets of columns (covariates + 1,), and the rows and values of their entries (CSC)."""
        found = self.matrix.tocsc()
        values = found.data if len(self.values) else np.empty(0)
        return found.indptr.astype(np.int64), found.indices.astype(np.int32), values

    @cached_property
    def column_blocks(self) -> list[tuple[int, int]]:
        """Runs of columns with about the same number of entries; they depend on the matrix only."""
        return even_blocks(self.by_column[0])

    def column(self, number: int) -> np.ndarray:
        """Return one covariate, (rows,)."""
        offsets, rows, values = self.by_column
        mine, found = slice(offsets[number], offsets[number + 1]), np.zeros(self.n_rows)
        found[rows[mine]] = values[mine] if len(values) else 1.0
        return found

    def take(self, rows: np.ndarray) -> CovariateMatrix:
        """Return some rows."""
        return CovariateMatrix.of(self.matrix[rows])

    def digest(self) -> bytes:
        """Return a digest of the entries."""
        return digest_arrays(self.offsets, self.columns, self.values)

    def moments(self, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and the variance of each covariate over weighted rows, (covariates,) each."""
        total = max(float(weight.sum()), np.finfo(float).tiny)
        mean = self.matrix.T @ weight / total
        square = self.matrix.power(2).T @ weight / total
        return mean, np.maximum(square - mean**2, 0.0)

    def logits(self, weights: CovariateWeights, n_states: int, first: int, last: int) -> np.ndarray:
        """Return the sums of covariate x weight of the rows from ``first`` to ``last``, (states, rows)."""
        width = padded_width(n_states)
        found = np.empty((last - first, width))
        table = self.offsets, self.offsets, self.columns, self.values
        by_covariate = weights.offsets, weights.states, weights.values, np.empty(0)
        state_scores(table, by_covariate, np.zeros(width), first, last, found.ravel())
        return np.ascontiguousarray(found[:, :n_states].T)

    def pair_sums(
        self, offsets: np.ndarray, states: np.ndarray, errors: np.ndarray, block: tuple[int, int], out: np.ndarray
    ) -> None:
        """Set ``out`` (pairs,) to the sums over rows of covariate x error, for the covariates of a column block.

        ``offsets`` and ``states`` are those of `CovariateWeights`; ``errors`` has a padded row of states per row.
        """
        feature_sums(self.by_column, offsets, states, errors.ravel(), errors.shape[1], *block, out)

    def large_sums(
        self, errors: np.ndarray, n_states: int, threshold: float, block: tuple[int, int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return covariate x n_states + state of all pairs whose sum is beyond a threshold, and these sums."""
        room = FEW_PAIRS
        while True:
            keys, sums = np.empty(room, dtype=np.int64), np.empty(room)
            count = large_sums(self.by_column, errors.ravel(), n_states, threshold, *block, keys, sums)
            if count <= room:
                return keys[:count].copy(), sums[:count].copy()
            room = count


def read_covariates(X: Any, what: str = "X", names: tuple[str, ...] = ()) -> Source:
    """Return a sparse matrix of real numbers as a source, after checks of its structure and of its values.

    ``names`` are those of its columns; x0, x1, ... where their number is another one.
    """
    if X.dtype.kind == "c":
        raise DataError(f"Complex data not supported: {what} holds complex numbers.")
    matrix = as_checked_csr(X, what)
    refuse_empty(X.shape, what)
    matrix = sp.csr_matrix((matrix.data.astype(np.float64), matrix.indices.copy(), matrix.indptr.copy()), matrix.shape)
    _refuse_values(matrix, what)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    names = names if len(names) == X.shape[1] else default_names(X.shape[1])
    return Source(names, X.shape[0], "sparse", matrix)


def _refuse_values(matrix: sp.csr_matrix, what: str) -> None:
    """Refuse values that are not finite, or too large, with the place of the first."""
    odd = np.flatnonzero(~(np.abs(matrix.data) <= LARGEST_VALUE))
    if len(odd):
        row = int(np.searchsorted(matrix.indptr, odd[0], side="right")) - 1
        raise DataError(
            f"{what} is a sparse matrix with {len(odd):,} value(s) that are missing, infinite or beyond "
            f"{LARGEST_VALUE:g}, first {matrix.data[odd[0]]} in row {row}, column {int(matrix.indices[odd[0]])}: "
            "replace them."
        )


def digest_arrays(*arrays: np.ndarray) -> bytes:
    """Return a digest of the data of arrays."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()
