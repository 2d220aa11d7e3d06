"""Sparse matrices: checks of their structure, and matrices by row and by column for sums over their entries."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from sparsefield import config
from sparsefield.errors import DataError

MAX_COLUMNS = 2**31 - 1
"""Columns are numbered with 32 bits."""

BYTES_OF_COLUMN = 180
"""Memory of a column of a sparse matrix that may have no 1 at all: its name twice, its count, share and number."""

BYTES_OF_ROW = 24
"""Memory of a row of a sparse matrix that may have no 1 at all: its offset, twice, and its weight."""

LARGEST_VALUE = 1e60
"""Larger covariates are refused: sums of their squares over rows would overflow."""

FEW_PAIRS = 2**16
"""Room for the pairs of a block of columns that are found; where there are more, the search is repeated."""

MOST_BLOCKS = 32
LEAST_BLOCK = 256
"""Rows, or entries, that are worth a block."""


def as_checked_csr(X: Any, what: str) -> sp.csr_matrix:
    """Return a sparse matrix of any format in CSR format after checks of its structure; it may share arrays with ``X``.

    Kernels, and conversions of scipy, trust index arrays: an index beyond the columns would write foreign memory.
    """
    if X.ndim != 2:
        raise DataError(f"Expected 2D array, got {X.ndim}D array instead for {what}.")
    n_rows, n_columns = map(int, X.shape)
    if n_columns > MAX_COLUMNS:
        raise DataError(f"{what} has {n_columns:,} columns, and {MAX_COLUMNS:,} is the most: use fewer columns.")
    config.refuse_beyond_available(BYTES_OF_COLUMN * n_columns, f"{what}: a sparse matrix of {n_columns:,} columns")
    config.refuse_beyond_available(BYTES_OF_ROW * n_rows, f"{what}: a sparse matrix of {n_rows:,} rows")
    if getattr(X, "dtype", np.dtype(object)).kind not in "biufc":
        raise DataError(f"{what} is a sparse matrix of the type {X.dtype}: its values must be 0 and 1.")
    try:
        # A new matrix, since what scipy remembers about the order of indices may no longer hold.
        if X.format in ("csr", "csc", "bsr"):
            if X.indices.dtype.kind not in "iu" or X.indptr.dtype.kind not in "iu":
                raise ValueError("an index array does not hold integers")
            if (X.indptr[1:] < X.indptr[:-1]).any():  # which scipy does not look for where the last one is 0
                raise ValueError("an offset is smaller than the one before it")
            X = type(X)((X.data, X.indices, X.indptr), shape=X.shape)
            X.check_format(full_check=True)
        elif X.format == "coo":
            X = sp.coo_matrix((X.data, X.coords), shape=X.shape)
        elif X.format == "dia":
            X = sp.dia_matrix((X.data, X.offsets), shape=X.shape)
        matrix = sp.csr_matrix(X)
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        raise DataError(f"{what} is a sparse matrix with damaged structure ({reason}): build it again.") from None
    return matrix


class CovariateWeights(NamedTuple):
    """Weights of pairs of a covariate and a target state, by covariate."""

    offsets: np.ndarray
    """(covariates + 1,): covariate c has the pairs from offsets[c] to offsets[c + 1]."""
    states: np.ndarray
    """(pairs,) int32: target states."""
    values: np.ndarray
    """(pairs,)"""


@dataclass(frozen=True)
class SparseMatrix:
    """A sparse matrix by row (CSR) and by column, without duplicate entries; its rows may form sequences.

    Blocks depend on the matrix only, so that results are the same for any number of threads.
    """

    offsets: np.ndarray
    """(rows + 1,) int64: row r has the entries from offsets[r] to offsets[r + 1]."""
    columns: np.ndarray
    """(entries,) int32"""
    values: np.ndarray
    """(entries,), or empty where all values are 1."""
    n_columns: int
    sequences: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    """(sequences + 1,): sequence s has the rows from sequences[s] to sequences[s + 1]."""

    @classmethod
    def of(cls, matrix: Any) -> SparseMatrix:
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
        """The matrix as one of scipy."""
        values = self.values if len(self.values) else np.ones(self.n_entries)
        return sp.csr_array((values, self.columns, self.offsets), shape=(self.n_rows, self.n_columns))

    @cached_property
    def by_column(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Offsets of columns (columns + 1,), and the rows and values of their entries (CSC)."""
        by_column = self.matrix.tocsc()
        values = by_column.data if len(self.values) else np.empty(0)
        return by_column.indptr.astype(np.int64), by_column.indices.astype(np.int32), values

    @cached_property
    def column_blocks(self) -> list[tuple[int, int]]:
        """Runs of columns with about the same number of entries."""
        return even_blocks(self.by_column[0])

    def column(self, number: int) -> np.ndarray:
        """Return a column, (rows,)."""
        offsets, rows, values = self.by_column
        own, cells = slice(offsets[number], offsets[number + 1]), np.zeros(self.n_rows)
        cells[rows[own]] = values[own] if len(values) else 1.0
        return cells

    def take(self, rows: np.ndarray) -> SparseMatrix:
        """Return some rows, without their sequences."""
        lengths = np.diff(self.offsets)[rows]
        entries = expand(self.offsets[rows], lengths)
        values = self.values[entries] if len(self.values) else self.values
        return SparseMatrix(cumulate(lengths), self.columns[entries], values, self.n_columns)

    @property
    def n_sequences(self) -> int:
        return len(self.sequences) - 1

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """What the kernels of chains take."""
        return self.sequences, self.offsets, self.columns, self.values

    @cached_property
    def sequence_blocks(self) -> list[tuple[int, int]]:
        """Runs of sequences with about the same number of rows."""
        return even_blocks(self.sequences)

    def split(self, values: np.ndarray) -> list[np.ndarray]:
        """Return an array with an item per row as one array per sequence."""
        return np.split(values, self.sequences[1:-1]) if self.n_sequences else []

    def select_sequences(self, chosen: np.ndarray) -> tuple[SparseMatrix, np.ndarray]:
        """Return some sequences, and the numbers of their rows in this matrix."""
        lengths = np.diff(self.sequences)[chosen]
        rows = expand(self.sequences[chosen], lengths)
        return replace(self.take(rows), sequences=cumulate(lengths)), rows

    def digest(self) -> bytes:
        """Return a digest of the entries."""
        return digest_arrays(self.offsets, self.columns, self.values)

    def moments(self, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and the variance of each column over weighted rows, (columns,) each."""
        total = max(float(weight.sum()), np.finfo(float).tiny)
        mean = self.matrix.T @ weight / total
        square = self.matrix.power(2).T @ weight / total
        return mean, np.maximum(square - mean**2, 0.0)

    def logits(self, weights: CovariateWeights, n_states: int, first: int, last: int) -> np.ndarray:
        """Return the sums of covariate x weight of the rows from ``first`` to ``last``, (states, rows)."""
        from sparsefield.kernels import chain_scores  # numba is not needed to read a model

        width = chain_scores.padded_width(n_states)
        sums = np.empty((last - first, width))
        table = self.offsets, self.offsets, self.columns, self.values
        chain_scores.state_scores(table, (*weights, np.empty(0)), np.zeros(width), first, last, sums.ravel())
        return np.ascontiguousarray(sums[:, :n_states].T)

    def large_sums(
        self, errors: np.ndarray, n_states: int, threshold: float, block: tuple[int, int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return column x n_states + state of all pairs whose sum is beyond a threshold, and these sums."""
        from sparsefield.kernels import chain_scores  # numba is not needed to read a model

        room = FEW_PAIRS
        while True:
            keys, sums = np.empty(room, dtype=np.int64), np.empty(room)
            count = chain_scores.large_sums(self.by_column, errors.ravel(), n_states, threshold, *block, keys, sums)
            if count <= room:
                return keys[:count].copy(), sums[:count].copy()
            room = count


def cumulate(lengths: np.ndarray) -> np.ndarray:
    """Return the offsets of runs of given lengths, (runs + 1,)."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def expand(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the numbers start, ..., start + length - 1 of all runs."""
    return np.repeat(starts - cumulate(lengths)[:-1], lengths) + np.arange(lengths.sum())


def even_blocks(offsets: np.ndarray) -> list[tuple[int, int]]:
    """Cut runs into blocks of about equal size, by the offsets of the runs."""
    total, n = int(offsets[-1]), len(offsets) - 1
    count = int(np.clip(total // LEAST_BLOCK, 1, MOST_BLOCKS))
    ends = np.searchsorted(offsets, np.linspace(0, total, count + 1)[1:-1])
    edges = np.unique(np.concatenate([[0], ends, [n]]))
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def digest_arrays(*arrays: np.ndarray) -> bytes:
    """Return a digest of the data of arrays."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()
