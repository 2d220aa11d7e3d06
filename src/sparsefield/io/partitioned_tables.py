"""Tables that come in partitions: Dask's arrays and frames, and Parquet files that the workers of a cluster read."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsefield.data.frames import Source, read
from sparsefield.data.shards import runs_of_rows
from sparsefield.errors import DataError
from sparsefield.io.files import polars_errors
from sparsefield.io.out_of_core import check_same_columns
from sparsefield.io.row_blocks import (
    MIN_BLOCK_ROWS,
    ParquetFiles,
    check_same_names,
    is_saved_rows,
    parquet_columns,
    parquet_files,
    parquet_rows,
)

if TYPE_CHECKING:
    from distributed import Future

__all__ = ["PartitionedTable", "is_dask_collection", "is_parquet_source", "open_partitions", "read_partition"]

CELLS_PER_TASK = 2**24
"""Cells of a Parquet file that a task reads; larger files are read by several."""

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class PartitionedTable:
    """A table in partitions on the workers of a cluster."""

    source: Source
    """Names, kind and number of all rows, without the rows themselves."""
    futures: list[Future]
    """Of the partitions that have rows, in order: arrays or frames."""
    counts: list[int]
    """(partitions,): their rows."""
    numbers: list[int]
    """(partitions,): what errors call them, counted from 0 with those that have no rows."""


def is_dask_collection(X: Any) -> bool:
    """Whether ``X`` is an array or a frame of Dask."""
    return any(kind.__module__.split(".")[0] in ("dask", "dask_expr") for kind in type(X).__mro__)


def is_parquet_source(X: Any) -> bool:
    """Whether ``X`` names Parquet files, for workers to read."""
    if isinstance(X, (str, os.PathLike)):
        return not is_saved_rows(Path(X))
    paths = isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(path, (str, os.PathLike)) for path in X)
    return isinstance(X, ParquetFiles) or paths


def open_partitions(client: Any, X: Any) -> PartitionedTable:
    """The partitions of an array or frame of Dask, or of Parquet files: a folder, a pattern with ``*``, or a list.

    Workers must be able to read the files; the client need not.
    """
    futures = _collection(client, X) if is_dask_collection(X) else _files(client, X)
    looks: Any = client.gather(client.map(_look, futures, range(len(futures)), pure=False))
    for number, source in enumerate(looks):
        check_same_columns(source, looks[0], f"Partition {number} of X (counted from 0)", "partition")
    numbers = [number for number, source in enumerate(looks) if source.n_rows]
    if not numbers:
        raise DataError("X has no rows: 0 sample(s) in all partitions while a minimum of 1 is required.")
    counts = [looks[number].n_rows for number in numbers]
    if looks[0].kind == "sparse":
        raise DataError("The partitions of X are sparse matrices, which a cluster does not learn from: fit in memory.")
    return PartitionedTable(
        replace(looks[0], n_rows=sum(counts)), [futures[number] for number in numbers], counts, numbers
    )


def read_partition(part: Any, number: int) -> Source:
    return read(part, what=f"partition {number} of X (counted from 0)", may_be_empty=True)


def _look(part: Any, number: int) -> Source:
    return replace(read_partition(part, number), native=None)


def _collection(client: Any, X: Any) -> list[Future]:
    if not hasattr(X, "to_delayed"):
        raise DataError(f"X is a {type(X).__name__} of Dask; pass a Dask array or a Dask frame.")
    if hasattr(X, "rechunk"):
        if X.ndim != 2:
            raise DataError(f"Expected 2D array, got {X.ndim}D array instead for X.")
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    futures: Any = client.compute(np.ravel(np.array(X.to_delayed(), dtype=object)).tolist())
    return futures


# -- files ----------------------------------------------------------------------------------------------------------


def _files(client: Any, X: Paths | ParquetFiles) -> list[Future]:
    wanted = X if isinstance(X, ParquetFiles) else ParquetFiles(X)
    (files,) = client.gather([client.submit(_find_files, wanted.path, pure=False)])
    if not files:
        raise DataError("X is a list of no files: 0 sample(s) while a minimum of 1 is required.")
    looks: Any = client.gather(client.map(_look_at_file, files, pure=False))
    names = looks[0][0]
    chosen = names if wanted.columns is None else list(wanted.columns)
    for file, (others, _) in zip(files, looks, strict=True):
        check_same_names(file, others, files[0], names)
    rows = max(CELLS_PER_TASK // max(len(chosen), 1), MIN_BLOCK_ROWS)
    # A file without rows has a part too, so that there is one to tell the names.
    runs = [
        (file, run)
        for file, (_, height) in zip(files, looks, strict=True)
        for run in runs_of_rows(height, rows) or [(0, 0)]
    ]
    return client.map(_read_run, *zip(*runs, strict=True), names=chosen, pure=False)


def _find_files(X: Paths) -> list[Path]:
    if isinstance(X, (str, os.PathLike)) and glob.has_magic(os.fspath(X)) and not Path(X).exists():
        found = sorted(glob.glob(os.fspath(X), recursive=True))
        if not found:
            raise DataError(f"{os.fspath(X)}: there is no file of such a name where the workers look.")
        return parquet_files(found)
    return parquet_files(X)


def _look_at_file(file: Path) -> tuple[list[str], int]:
    return parquet_columns([file]), parquet_rows([file])


def _read_run(file: Path, run: tuple[int, int], names: list[str]) -> Any:
    import polars as pl

    start, stop = run
    with polars_errors(file):
        return pl.scan_parquet(file, glob=False).select(names).slice(start, stop - start).collect()
