"""Sparse 0/1 matrices in files: ``.npz`` files that scipy wrote, and Parquet files of 0/1 columns."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import scipy.sparse as sp

from sparsefield import config
from sparsefield.app.tables.read import parquet_columns, parquet_files, polars_errors
from sparsefield.data.sparse_matrix import as_checked_csr
from sparsefield.errors import DataError, list_first

CELLS_OF_BLOCK, MIN_BLOCK_ROWS = 2**21, 1024
"""Cells of a Parquet file that are dense in memory at a time, and the fewest rows, since each read has a cost."""

REMEDY = "Leave them out (columns=, at the command line --id), or read the file as a table."


def read_matrix(path: str | os.PathLike[str]) -> sp.csr_matrix:
    """Read a sparse matrix that ``scipy.sparse.save_npz`` wrote, as a CSR matrix; no code in the file is run.

    Raises
    ------
    DataError
        If the file is damaged, holds something else, or would not fit into memory.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: there is no such file.")
    try:
        with zipfile.ZipFile(path) as archive:
            content = sum(entry.file_size for entry in archive.infolist())
        config.refuse_beyond_available(2.0 * content, f"{path}: the matrix")
        matrix = sp.load_npz(path)  # which never unpickles
    except DataError:
        raise
    except Exception as error:  # NumPy, scipy and zipfile raise a dozen types for damaged files
        why = " ".join(str(error).split())
        raise DataError(f"{path}: the file is damaged, or not a sparse matrix of scipy's save_npz ({why}).") from None
    return as_checked_csr(matrix, str(path))


def read_sparse(
    path: str | os.PathLike[str], *, columns: Sequence[str] | None = None
) -> tuple[sp.csr_matrix, tuple[str, ...]]:
    """Read Parquet files of 0/1 columns as a sparse matrix; the dense table is never in memory.

    Parameters
    ----------
    path : Parquet file, or folder of Parquet files with the same columns, which are read in the order of their names
    columns : names of the columns to read; None reads all

    Returns
    -------
    matrix : (rows, columns) scipy.sparse.csr_matrix
    names : names of its columns, for ``fit(matrix, columns=names)``

    Raises
    ------
    DataError
        If a cell is missing, or is not 0, 1, False or True.

    Examples
    --------
    >>> import tempfile
    >>> import polars as pl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pl.DataFrame({"bread": [0, 1, 1], "milk": [0, 0, 1]}).write_parquet(f"{folder}/part1.parquet")
    ...     pl.DataFrame({"bread": [1], "milk": [0]}).write_parquet(f"{folder}/part2.parquet")
    ...     matrix, names = read_sparse(folder)
    >>> matrix.shape, matrix.nnz, names
    ((4, 2), 4, ('bread', 'milk'))
    """
    files = parquet_files(path)
    names = tuple(parquet_columns(files) if columns is None else columns)
    rows = max(CELLS_OF_BLOCK // max(len(names), 1), MIN_BLOCK_ROWS)
    counts, indices = [np.zeros(1, dtype=np.int64)], [np.empty(0, dtype=np.int32)]
    for file in files:
        with polars_errors(file):
            table = pl.scan_parquet(file, glob=False).select(names)
            types = table.collect_schema().items()
            other = [f"{name!r} ({dtype})" for name, dtype in types if dtype != pl.Boolean and not dtype.is_numeric()]
            if other:
                what = f"a sparse matrix has columns of 0 and 1, and these are others: {list_first(other)}"
                raise DataError(f"{file}: {what}. {REMEDY}")
            n_rows = table.select(pl.len()).collect().item()
            for start in range(0, n_rows, rows):
                cells = table.slice(start, rows).collect().to_numpy()
                valid = (cells == 0) | (cells == 1)
                if not valid.all():
                    wrong = [(k, int(np.argmin(valid[:, k]))) for k in np.flatnonzero(~valid.all(axis=0))]
                    places = [f"column {names[k]!r} has {cells[row, k]} in row {start + row:,}" for k, row in wrong]
                    what = "a sparse matrix has cells of 0 and 1 only, none of them missing"
                    raise DataError(f"{file}: {what}: {list_first(places)} (counted from 0). {REMEDY}")
                counts.append(np.count_nonzero(cells, axis=1))
                indices.append(np.nonzero(cells)[1].astype(np.int32))
    offsets, numbers = np.cumsum(np.concatenate(counts)), np.concatenate(indices)
    ones = np.ones(len(numbers), dtype=np.int8)
    return sp.csr_matrix((ones, numbers, offsets), shape=(len(offsets) - 1, len(names))), names
