"""Arrays that lie on disk: files that grow, and rows of 0/1 columns in them."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import scipy.sparse as sp

from sparsefield.data.schema_learning import PIECE, pieces_of_rows
from sparsefield.errors import DataError

__all__ = ["CELLS_OF_BLOCK", "BinaryCSR", "Growing", "map_rows", "temporary_folder"]

CELLS_OF_BLOCK = 2**21
"""Cells that are read together where that is left to us: text takes about 50 MB then."""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for a fit, removed with all that is in it however the fit ends."""
    with tempfile.TemporaryDirectory(prefix="sparsefield-", ignore_cleanup_errors=True) as folder:
        try:
            yield Path(folder)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise DataError(
                f"{tempfile.gettempdir()}, where temporary files go, has no room left for the data: name a folder on a "
                "larger disk in the environment variable TMPDIR."
            ) from error


class Growing:
    """A one-dimensional .npy file that is written piece by piece."""

    def __init__(self, path: Path, dtype: type[np.generic]) -> None:
        self.path, self.dtype, self.length = path, np.dtype(dtype), 0
        self._file: BinaryIO = path.open("wb")
        self._write_header()

    def append(self, values: np.ndarray) -> None:
        self._file.write(np.ascontiguousarray(values, dtype=self.dtype).data)
        self.length += len(values)

    def close(self) -> None:
        """Write how long it has become."""
        if not self._file.closed:
            self._file.seek(0)
            self._write_header()  # NumPy leaves room in it for any length
            self._file.close()

    def map(self) -> np.ndarray:
        """The values, on disk."""
        self.close()
        return mapped(self.path)

    def _write_header(self) -> None:
        description = np.lib.format.dtype_to_descr(self.dtype)
        header = {"descr": description, "fortran_order": False, "shape": (self.length,)}
        np.lib.format.write_array_header_1_0(self._file, header)


def mapped(path: Path) -> np.ndarray:
    """An .npy file as an array that stays on disk: what is written to the array never gets there.

    Kernels are compiled for arrays that can be written to, and would be compiled once more for others.
    """
    array = np.load(path, mmap_mode="c", allow_pickle=False)
    return array.view(np.ndarray) if array.size else np.array(array)


class BinaryCSR(NamedTuple):
    """Rows of 0/1 columns, as the numbers of the columns that are on. May lie on disk."""

    n_columns: int
    offsets: np.ndarray
    """(rows + 1,) int64"""
    columns: np.ndarray
    """int32, ascending within a row"""

    @property
    def n_rows(self) -> int:
        return len(self.offsets) - 1

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"x{k}" for k in range(self.n_columns))

    def blocks(self, rows: int | None = None) -> Iterator[sp.csr_matrix]:
        """Sparse matrices of so many rows each, or fewer; None takes as many as may be dense in memory."""
        rows = rows or max(CELLS_OF_BLOCK // max(self.n_columns, 1), 1)
        for start in range(0, self.n_rows, rows):
            offsets = self.offsets[start : start + rows + 1]
            columns = np.array(self.columns[offsets[0] : offsets[-1]])
            cells = np.ones(len(columns), dtype=np.int8), columns, offsets - offsets[0]
            yield sp.csr_matrix(cells, shape=(len(offsets) - 1, self.n_columns))


def map_rows(n_columns: int, offsets: Path, columns: Path) -> BinaryCSR:
    """Rows in two files, looked at once, since kernels trust what they are handed."""
    rows = BinaryCSR(n_columns, mapped(offsets), mapped(columns))
    right = rows.offsets.dtype == np.int64 and rows.columns.dtype == np.int32
    right = right and rows.offsets.ndim == rows.columns.ndim == 1 and len(rows.offsets) > 0
    right = right and rows.offsets[0] == 0 and rows.offsets[-1] == len(rows.columns)
    if not right or not _ascend(rows):
        raise DataError(f"{offsets.parent}: the files do not hold rows of {n_columns:,} columns: write them anew.")
    return rows


def _ascend(rows: BinaryCSR) -> bool:
    offsets = rows.offsets
    if not all(bool((np.diff(offsets[k : k + PIECE + 1]) >= 0).all()) for k in range(0, rows.n_rows, PIECE)):
        return False
    for start, stop in pieces_of_rows(offsets):
        first = offsets[start]
        columns = rows.columns[first : offsets[stop]]
        if not len(columns):
            continue
        rises = np.diff(columns) > 0
        heads = offsets[start + 1 : stop] - first  # where rows begin, numbers may fall
        rises[heads[(heads > 0) & (heads < len(columns))] - 1] = True
        if columns.min() < 0 or columns.max() >= rows.n_columns or not rises.all():
            return False
    return True
