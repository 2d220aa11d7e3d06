"""Data larger than memory, from where they lie: Parquet files and rows of a sparse matrix, block by block."""

from __future__ import annotations

import os
import secrets
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparsefield.data.disk_arrays import CELLS_OF_BLOCK, BinaryCSR, Growing, map_rows
from sparsefield.errors import DataError
from sparsefield.io.files import PARQUET, is_parquet, polars_errors
from sparsefield.io.out_of_core import check_blocks

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "ParquetFiles",
    "check_same_names",
    "is_matrix_file",
    "is_saved_rows",
    "is_stream",
    "open_rows",
    "open_stream",
    "parquet_columns",
    "parquet_files",
    "parquet_rows",
    "read_blocks",
    "read_matrix",
    "save_rows",
]

MIN_BLOCK_ROWS = 1024
"""Of a Parquet file: each look at one has its cost, however few rows it takes."""

FACES_OF_TABLES = (
    "__array__",
    "__array_interface__",
    "__dataframe__",
    "__arrow_c_stream__",
    "__narwhals_dataframe__",
    "__narwhals_lazyframe__",
    "__narwhals_series__",
    "columns",
    "shape",
)
"""What tables have, of which some can be iterated over as well."""


@dataclass(frozen=True)
class ParquetFiles:
    """Parquet files for the workers of a cluster to read."""

    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    """A file, a folder, a pattern with ``*``, or a list; as workers see it."""
    columns: Sequence[str] | None = None
    """Which to read; all when None."""


INDPTR, INDICES, SHAPE = "indptr.npy", "indices.npy", "shape.npy"


def is_matrix_file(X: Any) -> bool:
    """Whether ``X`` is the path of a sparse matrix in a file of scipy's."""
    return isinstance(X, (str, os.PathLike)) and Path(X).suffix.lower() == ".npz"


def read_matrix(path: str | os.PathLike[str]) -> Any:
    """The sparse matrix that ``scipy.sparse.save_npz`` wrote. Nothing in the file is ever run."""
    if not Path(path).is_file():
        raise DataError(f"{path}: there is no such file.")
    try:
        return sp.csr_matrix(sp.load_npz(path))
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: not a sparse matrix as scipy.sparse.save_npz writes it ({error}).") from None


def is_stream(X: Any) -> bool:
    """Whether ``X`` is to be read block by block: paths, an iterator, or something that makes one.

    Examples
    --------
    >>> is_stream("survey.parquet"), is_stream(block for block in [])
    (True, True)
    >>> is_stream([[0, 1], [1, 0]])
    False
    """
    if isinstance(X, (str, os.PathLike, Iterator, BinaryCSR)) or _are_paths(X):
        return True
    if isinstance(X, (list, tuple, Mapping, np.ndarray)) or sp.issparse(X) or isinstance(X, type):
        return False
    if any(hasattr(type(X), face) for face in FACES_OF_TABLES):
        return False
    return callable(X) or isinstance(X, Iterable)


def open_stream(X: Any) -> BinaryCSR | Iterable[Any]:
    """The blocks of a stream; rows that `save_rows` wrote stay where they are."""
    if isinstance(X, BinaryCSR):
        return X
    if isinstance(X, (str, os.PathLike)) and is_saved_rows(Path(X)):
        return open_rows(Path(X))
    if isinstance(X, (str, os.PathLike)) or _are_paths(X):
        return read_blocks(X)
    if isinstance(X, Iterable):
        return X
    made = X()
    if not isinstance(made, Iterable):
        raise DataError(f"X is a function, and returns a {type(made).__name__}: it is to return an iterator of blocks.")
    return made


def read_blocks(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    columns: Sequence[str] | None = None,
    rows: int | None = None,
) -> Iterator[Any]:
    """Blocks of rows of data on disk, for ``fit``, or to go through them with ``transform`` and ``predict_proba``.

    Parameters
    ----------
    path : Parquet file, folder or list of Parquet files with the same columns, or folder that `save_rows` wrote
    columns : which to read of Parquet files, by name; all when None
    rows : how many make a block; None takes about two million cells

    Yields
    ------
    polars.DataFrame, or scipy.sparse.csr_matrix from a folder of `save_rows`

    Examples
    --------
    >>> import tempfile
    >>> import polars as pl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pl.DataFrame({"rain": [0, 1, 1]}).write_parquet(f"{folder}/days.parquet")
    ...     [len(block) for block in read_blocks(f"{folder}/days.parquet", rows=2)]
    [2, 1]
    """
    if isinstance(path, (str, os.PathLike)) and is_saved_rows(Path(path)):
        if columns is not None:
            raise DataError(f"{path}: rows of a sparse matrix are read with all their columns.")
        found = open_rows(Path(path))
        return found.blocks(rows)
    files = parquet_files(path)
    names = list(columns) if columns is not None else parquet_columns(files)
    rows = rows or max(CELLS_OF_BLOCK // max(len(names), 1), MIN_BLOCK_ROWS)
    return _parquet_blocks(files, names, rows)


def parquet_files(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """The files that a path, a folder or a list stands for; those of a folder in the order of their names."""
    if isinstance(path, (str, os.PathLike)):
        folder = Path(path)
        if not folder.is_dir():
            files = [folder]
        else:
            files = sorted(file for file in folder.iterdir() if is_parquet(file) and file.is_file())
            if not files:
                raise DataError(f"{folder}: there are no Parquet files in this folder, and no rows of save_rows.")
    else:
        files = [Path(file) for file in path]
    for file in files:
        if not file.is_file():
            raise DataError(f"{file}: there is no such file.")
        if not is_parquet(file):
            raise DataError(
                f"{file}: block by block Parquet is read ({', '.join(PARQUET)}). A CSV becomes one without being read "
                "whole by polars.scan_csv(...).sink_parquet(...)."
            )
    return files


def parquet_columns(files: Sequence[Path]) -> list[str]:
    """Names of the columns, which must be the same in all files; their order may differ."""
    names = _names(files[0])
    for file in files[1:]:
        check_same_names(file, _names(file), files[0], names)
    return names


def check_same_names(file: Path, names: Sequence[str], first: Path, those: Sequence[str]) -> None:
    """DataError where a file has other columns than the first; their order may differ."""
    odd = sorted(set(names) ^ set(those))
    if odd:
        where = file if odd[0] in names else first
        raise DataError(f"{file}: the columns are not those of {first}: only {where} has {odd[0]!r}.")


def parquet_rows(files: Sequence[Path]) -> int:
    """Rows of all files."""
    return sum(_height(file) for file in files)


def save_rows(X: Any, folder: str | os.PathLike[str]) -> Path:
    """Write sparse 0/1 matrices to a folder that later fits map into memory instead of reading it.

    The folder has three files of NumPy's: ``indptr.npy`` and ``indices.npy``, as in a CSR matrix but without its
    values, and ``shape.npy``. It appears when all is written, or not at all.

    Parameters
    ----------
    X : sparse 0/1 matrix, or iterator of such with the same columns, or a function that returns one
    folder : path of a folder that is not there yet

    Returns
    -------
    Path of the folder

    Examples
    --------
    >>> import tempfile
    >>> import scipy.sparse as sp
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = save_rows((sp.random(5, 8, 0.3, data_rvs=np.ones) for _ in range(3)), f"{place}/rows")
    ...     [block.shape for block in read_blocks(folder)]
    [(15, 8)]
    """
    folder = Path(folder)
    if folder.exists():
        raise DataError(f"{folder} is there already: name another folder, or remove it first.")
    if not folder.parent.is_dir():
        raise DataError(f"{folder}: the folder '{folder.parent}' does not exist; make it first.")
    unfinished = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
    unfinished.mkdir()
    try:
        _write_rows([X] if sp.issparse(X) else open_stream(X) if is_stream(X) else X, unfinished)
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return folder


def _write_rows(blocks: Any, folder: Path) -> None:
    offsets, columns = Growing(folder / INDPTR, np.int64), Growing(folder / INDICES, np.int32)
    try:
        n_columns = 0
        offsets.append(np.zeros(1))
        for _, source in check_blocks(blocks.blocks() if isinstance(blocks, BinaryCSR) else blocks):
            if source.kind != "sparse":
                raise DataError("save_rows writes sparse 0/1 matrices; frames are best written to Parquet files.")
            matrix, n_columns = source.native, len(source.names)
            offsets.append(columns.length + matrix.indptr[1:].astype(np.int64))
            columns.append(matrix.indices)
        if offsets.length == 1:
            raise DataError("X has no rows: 0 sample(s) in all blocks while a minimum of 1 is required.")
        np.save(folder / SHAPE, np.array([offsets.length - 1, n_columns], dtype=np.int64))
    finally:
        offsets.close()
        columns.close()


def is_saved_rows(folder: Path) -> bool:
    """Whether a folder is one that `save_rows` wrote."""
    return folder.is_dir() and all((folder / name).is_file() for name in (INDPTR, INDICES, SHAPE))


def open_rows(folder: Path) -> BinaryCSR:
    """The rows in a folder that `save_rows` wrote, on disk."""
    try:
        shape = np.load(folder / SHAPE, allow_pickle=False)
        rows = map_rows(int(shape[1]), folder / INDPTR, folder / INDICES)
    except DataError:
        raise
    except (ValueError, IndexError, OSError, EOFError) as error:
        raise DataError(f"{folder}: the files are not as save_rows writes them ({error}).") from None
    if rows.n_rows != shape[0]:
        raise DataError(f"{folder}: there are {rows.n_rows:,} rows, and {SHAPE} says {shape[0]:,}: write them anew.")
    return rows


def _are_paths(X: Any) -> bool:
    """Whether ``X`` is a list of files; a list of other words is a table that has gone wrong."""
    if not isinstance(X, (list, tuple)) or not X:
        return False
    return all(isinstance(x, os.PathLike) or (isinstance(x, str) and is_parquet(Path(x))) for x in X)


def _parquet_blocks(files: Sequence[Path], names: list[str], rows: int) -> Iterator[pl.DataFrame]:
    import polars as pl

    for file in files:
        for start in range(0, _height(file), rows):
            with polars_errors(file):
                yield pl.scan_parquet(file, glob=False).select(names).slice(start, rows).collect()


def _names(file: Path) -> list[str]:
    import polars as pl

    with polars_errors(file):
        return pl.scan_parquet(file, glob=False).collect_schema().names()


def _height(file: Path) -> int:
    import polars as pl

    with polars_errors(file):
        return pl.scan_parquet(file, glob=False).select(pl.len()).collect().item()
