"""This module checks sparse matrices before use: kernels, and scipy's conversions, trust their index arrays.

An index beyond the columns would read or write foreign memory.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp

from sparsefield.data.memory import refuse_beyond_available
from sparsefield.errors import DataError

MAX_COLUMNS = 2**31 - 1
"""Columns are numbered with 32 bits."""

BYTES_OF_COLUMN = 180
"""Memory of a column of a sparse matrix that may have no 1 at all: its name twice, its count, share and number."""

BYTES_OF_ROW = 24
"""Memory of a row of a sparse matrix that may have no 1 at all: its offset, twice, and its weight."""


def as_checked_csr(X: Any, what: str) -> sp.csr_matrix:
    """Return a sparse matrix of any format in CSR format after checks of its structure; it may share arrays with ``X``.

    Parameters
    ----------
    X : scipy sparse matrix or array
    what : the name of the matrix in error messages
    """
    if X.ndim != 2:
        raise DataError(f"Expected 2D array, got {X.ndim}D array instead for {what}.")
    refuse_many_columns(int(X.shape[1]), what)
    refuse_beyond_available(BYTES_OF_ROW * int(X.shape[0]), f"{what}: a sparse matrix of {X.shape[0]:,} rows")
    if getattr(X, "dtype", np.dtype(object)).kind not in "biufc":
        raise DataError(f"{what} is a sparse matrix of the type {X.dtype}: its values must be 0 and 1.")
    check_indices(X, what)
    try:
        # A new matrix, since what scipy remembers about the order of indices may no longer hold.
        matrix = sp.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape) if X.format == "csr" else sp.csr_matrix(X)
        matrix.prune()
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, RuntimeError) as error:
        _refuse(what, str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__)
    check_indices(matrix, what)
    return matrix


def refuse_many_columns(n_columns: int, what: str) -> None:
    """Raise a DataError if a matrix has more columns than can be numbered, or than the names of which fit memory."""
    if not 0 <= n_columns <= MAX_COLUMNS:
        raise DataError(f"{what} has {n_columns:,} columns, and {MAX_COLUMNS:,} is the most: use fewer columns.")
    refuse_beyond_available(BYTES_OF_COLUMN * n_columns, f"{what}: a sparse matrix of {n_columns:,} columns")


def check_indices(X: Any, what: str) -> None:
    """Raise a DataError if the index arrays of a sparse matrix contradict each other or its shape."""
    try:
        if X.format in ("csr", "csc", "bsr"):
            size = X.blocksize if X.format == "bsr" else (1, 1)
            counts = [n // step for n, step in zip(X.shape, size, strict=True)]
            n_major, n_minor = counts if X.format != "csc" else counts[::-1]
            _check_compressed(X.indptr, X.indices, X.data, int(n_major), int(n_minor))
        elif X.format == "coo":
            for index, count in zip(X.coords, X.shape, strict=True):
                _check_range(index, int(count), "an index")
                _check_length(index, len(X.data))
        elif X.format == "dia":
            _check_length(X.offsets, len(X.data))
            _check_integers(X.offsets)
    except ValueError as error:
        _refuse(what, str(error))


def _check_compressed(indptr: Any, indices: Any, data: Any, n_major: int, n_minor: int) -> None:
    _check_integers(indptr)
    if indptr.shape != (n_major + 1,):
        raise ValueError(f"indptr has {indptr.size:,} entries instead of {n_major + 1:,}")
    if indptr[0] != 0 or not all(
        bool((indptr[k + 1 : k + 2**20 + 1] >= indptr[k : min(k + 2**20, n_major)]).all())
        for k in range(0, n_major, 2**20)
    ):
        raise ValueError("indptr does not rise from 0")
    last = int(indptr[-1])
    if last > min(len(indices), len(data)):
        raise ValueError(f"indptr ends at {last:,}, but there are {min(len(indices), len(data)):,} indices and values")
    _check_range(indices[:last], n_minor, "an index")


def _check_range(index: Any, count: int, what: str) -> None:
    _check_integers(index)
    if len(index) and (int(index.min()) < 0 or int(index.max()) >= count):
        odd = int(index.min()) if int(index.min()) < 0 else int(index.max())
        raise ValueError(f"{what} is {odd:,}, which is outside 0 to {count - 1:,}")


def _check_integers(index: Any) -> None:
    if not isinstance(index, np.ndarray) or index.ndim != 1 or index.dtype.kind not in "iu":
        raise ValueError("an index array does not hold integers")


def _check_length(index: Any, length: int) -> None:
    if len(index) != length:
        raise ValueError(f"there are {len(index):,} indices for {length:,} values")


def _refuse(what: str, reason: str) -> NoReturn:
    raise DataError(f"{what} is a sparse matrix with damaged structure ({reason.rstrip('.')}): build it again.")
