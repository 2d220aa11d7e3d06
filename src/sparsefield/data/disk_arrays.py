"""This module stores arrays on disk: growing files, and sparse rows of 0/1 columns in them."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import scipy.sparse as sp

from sparsefield.data.array_files import map_array
from sparsefield.data.schema_learning import PIECE, pieces_of_rows
from sparsefield.errors import DataError

CELLS_OF_BLOCK = 2**21
"""Default number of cells per block of rows; text takes about 50 MB then."""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Create a temporary folder for a fit, which is removed however the fit ends."""
    with tempfile.TemporaryDirectory(prefix="sparsefield-", ignore_cleanup_errors=True) as folder:
        try:
            yield Path(folder)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise DataError(
                f"The folder of temporary files, {tempfile.gettempdir()}, has no space left for the data: set the "
                "environment variable TMPDIR to a folder on a larger disk."
            ) from error


class GrowingArray:
    """A one-dimensional .npy file to which values are appended."""

    def __init__(self, path: Path, dtype: type[np.generic]) -> None:
        self.path, self.dtype, self.length = path, np.dtype(dtype), 0
        self._file: BinaryIO = path.open("wb")
        self._write_header()

    def append(self, values: np.ndarray) -> None:
        self._file.write(np.ascontiguousarray(values, dtype=self.dtype).data)
        self.length += len(values)

    def close(self) -> None:
        """Write the final length to the header."""
        if not self._file.closed:
            self._file.seek(0)
            self._write_header()  # NumPy reserves space in it for any length
            self._file.close()

    def map(self) -> np.ndarray:
        """Return the values as a memory-mapped array."""
        self.close()
        return map_array(self.path)

    def _write_header(self) -> None:
        description = np.lib.format.dtype_to_descr(self.dtype)
        header = {"descr": description, "fortran_order": False, "shape": (self.length,)}
        np.lib.format.write_array_header_1_0(self._file, header)


class BinaryCSR(NamedTuple):
    """Sparse rows of 0/1 columns, as the numbers of the columns that are 1; they may be on disk."""

    n_columns: int
    offsets: np.ndarray
    """(rows + 1,) int64"""
    columns: np.ndarray
    """Column numbers, ascending within a row, int32."""

    @property
    def n_rows(self) -> int:
        return len(self.offsets) - 1

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"x{k}" for k in range(self.n_columns))

    def blocks(self, rows: int | None = None) -> Iterator[sp.csr_matrix]:
        """Yield sparse matrices of at most ``rows`` rows; None takes as many as fit densely into memory."""
        rows = rows or max(CELLS_OF_BLOCK // max(self.n_columns, 1), 1)
        for start in range(0, self.n_rows, rows):
            offsets = self.offsets[start : start + rows + 1]
            columns = np.array(self.columns[offsets[0] : offsets[-1]])
            cells = np.ones(len(columns), dtype=np.int8), columns, offsets - offsets[0]
            yield sp.csr_matrix(cells, shape=(len(offsets) - 1, self.n_columns))


class CSRWriter:
    """Two growing files with the rows of a 0/1 matrix: a CSR matrix without its values."""

    def __init__(self, offsets: Path, columns: Path) -> None:
        self.offsets, self.columns = GrowingArray(offsets, np.int64), GrowingArray(columns, np.int32)
        self.offsets.append(np.zeros(1))

    def append(self, counts: np.ndarray, columns: np.ndarray) -> None:
        """Append rows, given the number of active columns of each, and their numbers."""
        self.offsets.append(self.columns.length + np.cumsum(counts, dtype=np.int64))
        self.columns.append(columns)

    def map(self) -> tuple[np.ndarray, np.ndarray]:
        """Return offsets and columns as memory-mapped arrays."""
        return self.offsets.map(), self.columns.map()

    def close(self) -> None:
        self.offsets.close()
        self.columns.close()


def map_rows(n_columns: int, offsets: Path, columns: Path) -> BinaryCSR:
    """Map rows from two files, and check them once, since kernels assume valid input."""
    rows = BinaryCSR(n_columns, map_array(offsets), map_array(columns))
    valid = rows.offsets.dtype == np.int64 and rows.columns.dtype == np.int32
    valid = valid and rows.offsets.ndim == rows.columns.ndim == 1 and len(rows.offsets) > 0
    valid = valid and rows.offsets[0] == 0 and rows.offsets[-1] == len(rows.columns)
    if not valid or not _is_ascending(rows):
        raise DataError(f"{offsets.parent}: the files do not hold rows of {n_columns:,} columns: write them again.")
    return rows


def _is_ascending(rows: BinaryCSR) -> bool:
    offsets = rows.offsets
    if not all(bool((np.diff(offsets[k : k + PIECE + 1]) >= 0).all()) for k in range(0, rows.n_rows, PIECE)):
        return False
    for start, stop in pieces_of_rows(offsets):
        first = offsets[start]
        columns = rows.columns[first : offsets[stop]]
        if not len(columns):
            continue
        rises = np.diff(columns) > 0
        heads = offsets[start + 1 : stop] - first  # where rows start, numbers may decrease
        rises[heads[(heads > 0) & (heads < len(columns))] - 1] = True
        if columns.min() < 0 or columns.max() >= rows.n_columns or not rises.all():
            return False
    return True
