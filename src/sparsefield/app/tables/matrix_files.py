"""This module reads sparse matrices from ``.npz`` files that scipy wrote; nothing in a file is trusted or run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsefield.data.array_files import damage_of, read_archive
from sparsefield.data.sparse_checks import as_checked_csr
from sparsefield.errors import DataError

INDEX_NAMES = {
    "csr": ("indices", "indptr"),
    "csc": ("indices", "indptr"),
    "bsr": ("indices", "indptr"),
    "coo": ("row", "col"),
    "dia": ("offsets",),
}
"""The index arrays that ``scipy.sparse.save_npz`` writes for each format."""


def is_matrix_file(X: Any) -> bool:
    """Return whether ``X`` is the path of a sparse matrix that scipy saved (``.npz``)."""
    return isinstance(X, (str, os.PathLike)) and Path(X).suffix.lower() == ".npz"


def read_matrix(path: str | os.PathLike[str]) -> Any:
    """Read a sparse matrix that ``scipy.sparse.save_npz`` wrote, as a CSR matrix; no code in the file is run.

    Raises
    ------
    DataError
        If the file is damaged, holds something else, or would not fit into memory.
    """
    if not Path(path).is_file():
        raise DataError(f"{path}: there is no such file.")
    names = {"format", "shape", "data", *(name for group in INDEX_NAMES.values() for name in group)}
    arrays = read_archive(Path(path), names)
    kind, shape = _format_of(arrays), arrays.get("shape")
    if kind not in INDEX_NAMES or not {"shape", "data", *INDEX_NAMES[kind]} <= set(arrays):
        raise DataError(f"{path}: this is not a sparse matrix that scipy.sparse.save_npz wrote.")
    if shape is None or shape.shape != (2,) or shape.dtype.kind not in "iu" or int(shape.min()) < 0:
        raise DataError(f"{path}: the shape of the matrix is damaged: write it again.")
    with damage_of(Path(path)):
        matrix = _build(kind, tuple(shape.tolist()), arrays, str(path))
    return as_checked_csr(matrix, str(path))


def _format_of(arrays: dict[str, np.ndarray]) -> str:
    found = arrays.get("format")
    if found is None or found.ndim != 0 or found.dtype.kind not in "SU":
        return ""
    value = found.item()
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _build(kind: str, shape: tuple[int, ...], arrays: dict[str, np.ndarray], what: str) -> Any:
    data, index = arrays["data"], [arrays[name] for name in INDEX_NAMES[kind]]
    if data.dtype.kind not in "biuf" or any(one.dtype.kind not in "iu" or one.ndim != 1 for one in index):
        raise ValueError("its arrays are not those of a sparse matrix")
    if kind == "coo":
        return sp.coo_matrix((data, (index[0], index[1])), shape=shape)
    if kind == "dia":
        return sp.dia_matrix((data, index[0]), shape=shape)
    maker = {"csr": sp.csr_matrix, "csc": sp.csc_matrix, "bsr": sp.bsr_matrix}[kind]
    if kind == "bsr" and (data.ndim != 3 or 0 in data.shape[1:]):
        raise ValueError("its blocks have no size")
    return maker((data, index[0], index[1]), shape=shape)
