"""This module opens partitioned tables: Dask arrays and frames, and Parquet files that cluster workers read."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsefield.app.tables.out_of_core import check_same_columns
from sparsefield.app.tables.row_blocks import (
    MIN_BLOCK_ROWS,
    ParquetFiles,
    check_same_names,
    is_saved_rows,
    parquet_columns,
    parquet_files,
    parquet_rows,
    read_parquet_rows,
)
from sparsefield.data.frames import Source, as_source, is_dask_collection
from sparsefield.data.shards import runs_of_rows
from sparsefield.errors import DataError

if TYPE_CHECKING:
    from distributed import Future

CELLS_PER_TASK = 2**24
"""The most cells of a Parquet file that one task reads; larger files are read by several tasks."""

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class PartitionedTable:
    """A table whose partitions are on the workers of a cluster."""

    source: Source
    """Column names, kind and total number of rows, without the rows."""
    futures: list[Future]
    """Futures of the nonempty partitions in order: arrays or frames."""
    counts: list[int]
    """(partitions,): numbers of rows."""
    numbers: list[int]
    """(partitions,): indices for error messages, which also count empty partitions."""


def is_parquet_source(X: Any) -> bool:
    """Return whether ``X`` names Parquet files for workers to read."""
    if isinstance(X, (str, os.PathLike)):
        return not is_saved_rows(Path(X))
    paths = isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(path, (str, os.PathLike)) for path in X)
    return isinstance(X, ParquetFiles) or paths


def open_partitions(client: Any, X: Any) -> PartitionedTable:
    """Open the partitions of a Dask array or frame, or of Parquet files: a folder, a glob pattern, or a list.

    The files must be readable by the workers, but not by the client.
    """
    futures = _collection(client, X) if is_dask_collection(X) else _files(client, X)
    found: Any = client.gather(client.map(_read_metadata, futures, range(len(futures)), pure=False))
    for number, source in enumerate(found):
        check_same_columns(source, found[0], f"Partition {number} of X (counted from 0)", "partition")
    numbers = [number for number, source in enumerate(found) if source.n_rows]
    if not numbers:
        raise DataError("X has no rows: 0 sample(s) in all partitions while a minimum of 1 is required.")
    counts = [found[number].n_rows for number in numbers]
    if found[0].kind == "sparse":
        raise DataError("The partitions of X are sparse matrices, which cannot be fitted on a cluster: fit in memory.")
    source, nonempty = replace(found[0], n_rows=sum(counts)), [futures[number] for number in numbers]
    return PartitionedTable(source, nonempty, counts, numbers)


def read_partition(part: Any, number: int) -> Source:
    return as_source(part, what=f"partition {number} of X (counted from 0)", may_be_empty=True)


def _read_metadata(part: Any, number: int) -> Source:
    return replace(read_partition(part, number), native=None)


def _collection(client: Any, X: Any) -> list[Future]:
    if not hasattr(X, "to_delayed"):
        raise DataError(f"X is a Dask {type(X).__name__}: pass a Dask array or a Dask frame.")
    if hasattr(X, "rechunk"):
        if X.ndim != 2:
            raise DataError(f"Expected 2D array, got {X.ndim}D array instead for X.")
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    futures: Any = client.compute(np.ravel(np.array(X.to_delayed(), dtype=object)).tolist())
    return futures


def _files(client: Any, X: Paths | ParquetFiles) -> list[Future]:
    wanted = X if isinstance(X, ParquetFiles) else ParquetFiles(X)
    (files,) = client.gather([client.submit(_find_files, wanted.path, pure=False)])
    if not files:
        raise DataError("X is an empty list of files: 0 sample(s) while a minimum of 1 is required.")
    found: Any = client.gather(client.map(_read_file_metadata, files, pure=False))
    names = found[0][0]
    chosen = names if wanted.columns is None else list(wanted.columns)
    for file, (others, _) in zip(files, found, strict=True):
        check_same_names(file, others, files[0], names)
    rows = max(CELLS_PER_TASK // max(len(chosen), 1), MIN_BLOCK_ROWS)
    # An empty file has a partition too, so that its column names are checked.
    runs = [
        (file, run)
        for file, (_, height) in zip(files, found, strict=True)
        for run in runs_of_rows(height, rows) or [(0, 0)]
    ]
    return client.map(_read_run, *zip(*runs, strict=True), names=chosen, pure=False)


def _find_files(X: Paths) -> list[Path]:
    if isinstance(X, (str, os.PathLike)) and glob.has_magic(os.fspath(X)) and not Path(X).exists():
        found = sorted(glob.glob(os.fspath(X), recursive=True))
        if not found:
            raise DataError(f"{os.fspath(X)}: no file on the workers matches this pattern.")
        return parquet_files(found)
    return parquet_files(X)


def _read_file_metadata(file: Path) -> tuple[list[str], int]:
    return parquet_columns([file]), parquet_rows([file])


def _read_run(file: Path, run: tuple[int, int], names: list[str]) -> Any:
    return read_parquet_rows(file, names, run[0], run[1] - run[0])
