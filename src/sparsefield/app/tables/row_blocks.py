"""This module reads data larger than memory, Parquet files or saved sparse rows, block by block."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparsefield.app.tables.formats import polars_errors
from sparsefield.app.tables.out_of_core import check_blocks
from sparsefield.app.tables.read import PARQUET, is_parquet
from sparsefield.data.array_files import load_array
from sparsefield.data.disk_arrays import CELLS_OF_BLOCK, BinaryCSR, CSRWriter, map_rows
from sparsefield.data.sparse_checks import refuse_many_columns
from sparsefield.errors import DataError

if TYPE_CHECKING:
    import polars as pl

MIN_BLOCK_ROWS = 1024
"""The fewest rows per block of a Parquet file, because each read has a fixed cost."""

TABLE_ATTRIBUTES = (
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
"""Attributes that mark an object as a table, even if it is iterable."""


@dataclass(frozen=True)
class ParquetFiles:
    """Parquet files that the workers of a cluster read."""

    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    """A file, a folder, a glob pattern, or a list, as paths on the workers."""
    columns: Sequence[str] | None = None
    """The columns to read; None reads all."""


INDPTR, INDICES, SHAPE = "indptr.npy", "indices.npy", "shape.npy"


def is_stream(X: Any) -> bool:
    """Return whether ``X`` is read block by block: paths, an iterator, or a function that returns one.

    Examples
    --------
    >>> is_stream("survey.parquet"), is_stream(block for block in [])
    (True, True)
    >>> is_stream([[0, 1], [1, 0]])
    False
    """
    if isinstance(X, (str, os.PathLike, Iterator, BinaryCSR)) or _is_path_list(X):
        return True
    if isinstance(X, (list, tuple, Mapping, np.ndarray)) or sp.issparse(X) or isinstance(X, type):
        return False
    if any(hasattr(type(X), name) for name in TABLE_ATTRIBUTES):
        return False
    return callable(X) or isinstance(X, Iterable)


def open_stream(X: Any) -> BinaryCSR | Iterable[Any]:
    """Return the blocks of a stream; rows that `save_rows` wrote are memory-mapped."""
    if isinstance(X, BinaryCSR):
        return X
    if isinstance(X, (str, os.PathLike)) and is_saved_rows(Path(X)):
        return open_rows(Path(X))
    if isinstance(X, (str, os.PathLike)) or _is_path_list(X):
        return read_blocks(X)
    if isinstance(X, Iterable):
        return X
    made = X()
    if not isinstance(made, Iterable):
        raise DataError(f"X is a function that returns a {type(made).__name__}: it must return an iterator of blocks.")
    return made


def read_blocks(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    columns: Sequence[str] | None = None,
    rows: int | None = None,
) -> Iterator[pl.DataFrame | sp.csr_matrix]:
    """Yield blocks of rows from disk, for ``fit``, ``transform`` or ``predict_proba``.

    Parameters
    ----------
    path : Parquet file, folder or list of Parquet files with the same columns, or folder that `save_rows` wrote
    columns : names of the columns to read from Parquet files; None reads all
    rows : rows per block; None takes about two million cells

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
            raise DataError(f"{path}: saved rows of a sparse matrix are read with all columns: leave columns out.")
        return open_rows(Path(path)).blocks(rows)
    files = parquet_files(path)
    names = list(columns) if columns is not None else parquet_columns(files)
    rows = rows or max(CELLS_OF_BLOCK // max(len(names), 1), MIN_BLOCK_ROWS)
    return _parquet_blocks(files, names, rows)


def parquet_files(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return the Parquet files of a path, a folder or a list; those of a folder are sorted by name."""
    if isinstance(path, (str, os.PathLike)):
        folder = Path(path)
        if not folder.is_dir():
            files = [folder]
        else:
            files = sorted(file for file in folder.iterdir() if is_parquet(file) and file.is_file())
            if not files:
                raise DataError(f"{folder}: this folder holds neither Parquet files nor rows that save_rows wrote.")
    else:
        files = [Path(file) for file in path]
    for file in files:
        if not file.is_file():
            raise DataError(f"{file}: there is no such file.")
        if not is_parquet(file):
            raise DataError(
                f"{file}: only Parquet ({', '.join(PARQUET)}) is read block by block. To convert a CSV that exceeds "
                "memory, use polars.scan_csv(...).sink_parquet(...)."
            )
    return files


def parquet_columns(files: Sequence[Path]) -> list[str]:
    """Return the column names, which must be the same in all files; their order may differ."""
    names = _names(files[0])
    for file in files[1:]:
        check_same_names(file, _names(file), files[0], names)
    return names


def check_same_names(file: Path, names: Sequence[str], first: Path, those: Sequence[str]) -> None:
    """Raise DataError if a file has other columns than the first; their order may differ."""
    odd = sorted(set(names) ^ set(those))
    if odd:
        where = file if odd[0] in names else first
        raise DataError(f"{file}: the columns differ from those of {first}: only {where} has {odd[0]!r}.")


def parquet_rows(files: Sequence[Path]) -> int:
    """Return the number of rows of all files."""
    import polars as pl

    total = 0
    for file in files:
        with polars_errors(file):
            total += pl.scan_parquet(file, glob=False).select(pl.len()).collect().item()
    return total


def save_rows(X: Any, folder: str | os.PathLike[str]) -> Path:
    """Write sparse 0/1 matrices to a folder that later fits memory-map instead of reading.

    The folder holds three NumPy files: ``indptr.npy`` and ``indices.npy``, as in a CSR matrix but without its values,
    and ``shape.npy``. It appears only when it is complete.

    Parameters
    ----------
    X : sparse 0/1 matrix, iterator of such matrices with the same columns, or a function that returns one
    folder : path of a folder that does not exist yet

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
        raise DataError(f"{folder} already exists: choose another folder, or remove it first.")
    if not folder.parent.is_dir():
        raise DataError(f"{folder}: the folder '{folder.parent}' does not exist; create it first.")
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
    n_columns = 0
    with closing(CSRWriter(folder / INDPTR, folder / INDICES)) as rows:
        for _, source in check_blocks(blocks.blocks() if isinstance(blocks, BinaryCSR) else blocks):
            if source.kind != "sparse":
                raise DataError("save_rows writes sparse 0/1 matrices; write frames to Parquet files instead.")
            n_columns = len(source.names)
            rows.append(np.diff(source.native.indptr), source.native.indices)
        if rows.offsets.length == 1:
            raise DataError("X has no rows: 0 sample(s) in all blocks while a minimum of 1 is required.")
        np.save(folder / SHAPE, np.array([rows.offsets.length - 1, n_columns], dtype=np.int64))


def is_saved_rows(folder: Path) -> bool:
    """Return whether `save_rows` wrote this folder."""
    return folder.is_dir() and all((folder / name).is_file() for name in (INDPTR, INDICES, SHAPE))


def open_rows(folder: Path) -> BinaryCSR:
    """Memory-map the rows in a folder that `save_rows` wrote."""
    shape = load_array(folder / SHAPE)
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or int(shape.min()) < 0:
        raise DataError(f"{folder / SHAPE}: the shape of the rows is damaged: write them again.")
    n_rows, n_columns = shape.tolist()
    refuse_many_columns(n_columns, str(folder))
    rows = map_rows(n_columns, folder / INDPTR, folder / INDICES)
    if rows.n_rows != n_rows:
        raise DataError(f"{folder}: there are {rows.n_rows:,} rows, but {SHAPE} says {n_rows:,}: write them again.")
    return rows


def _is_path_list(X: Any) -> bool:
    """Return whether ``X`` is a list of Parquet paths; a list of other text is a malformed table."""
    if not isinstance(X, (list, tuple)) or not X:
        return False
    return all(isinstance(x, os.PathLike) or (isinstance(x, str) and is_parquet(Path(x))) for x in X)


def _parquet_blocks(files: Sequence[Path], names: list[str], rows: int) -> Iterator[pl.DataFrame]:
    for file in files:
        for start in range(0, parquet_rows([file]), rows):
            yield read_parquet_rows(file, names, start, rows)


def read_parquet_rows(file: Path, names: Sequence[str], start: int, count: int) -> pl.DataFrame:
    """Read some columns of consecutive rows."""
    import polars as pl

    with polars_errors(file):
        return pl.scan_parquet(file, glob=False).select(names).slice(start, count).collect()


def _names(file: Path) -> list[str]:
    import polars as pl

    with polars_errors(file):
        return pl.scan_parquet(file, glob=False).collect_schema().names()
