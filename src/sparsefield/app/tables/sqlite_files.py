"""This module opens SQLite files without writing anything beside them, and reads columns that mix types."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.errors import DataError

if TYPE_CHECKING:
    import polars as pl


def sqlite_column(name: str, cells: Sequence[Any], place: str) -> pl.Series:
    """Return cells of SQLite, whose columns may mix types; numbers beside text become text."""
    import polars as pl

    types = {type(cell) for cell in cells} - {type(None)}
    if bytes in types and len(types) > 1:
        raise DataError(f"{place}: column {name!r} has binary cells beside others: cast it in a query, or drop it.")
    if str in types:
        return pl.Series(name, [None if cell is None else str(cell) for cell in cells], dtype=pl.String)
    return pl.Series(name, cells, dtype=pl.Float64 if types == {int, float} else None, strict=False)


def _has_log(path: Path) -> bool:
    """Return whether a SQLite file has a write-ahead log, which is part of its content."""
    log = path.with_name(f"{path.name}-wal")
    return log.is_file() and log.stat().st_size > 0


def uses_log(path: Path) -> bool:
    """Return whether a SQLite file is written through a write-ahead log."""
    with path.open("rb") as file:
        return file.read(20)[18:20] == b"\x02\x02"


def open_sqlite(path: Path) -> sqlite3.Connection:
    """Open a SQLite file such that nothing beside it is written; one with a write-ahead log is copied to memory."""
    if not uses_log(path):
        return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    if not _has_log(path):
        return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    memory = sqlite3.connect(":memory:")
    with tempfile.TemporaryDirectory(prefix="sparsefield-") as folder:
        copy = Path(folder) / path.name
        for name in (path.name, f"{path.name}-wal"):
            shutil.copyfile(path.with_name(name), Path(folder) / name)
        with closing(sqlite3.connect(copy)) as source:
            source.backup(memory)
    return memory
