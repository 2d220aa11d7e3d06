"""Tables in files: reading CSV and Parquet, writing them whole or not at all."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sparsefield.errors import DataError
from sparsefield.io.files import (
    PARQUET,
    ReadOptions,
    is_parquet,
    list_columns,
    polars_errors,
    read_table,
    resolve_separator,
)

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "ReadOptions",
    "check_folder",
    "check_output",
    "find_columns",
    "list_columns",
    "read_table",
    "with_found_types",
    "write_table",
]

TABLES = (".csv", ".tsv", *PARQUET)


def find_columns(asked: Sequence[str] | None, columns: Sequence[str], option: str) -> list[str]:
    """Names given by an option, each one name or several with commas between them."""
    names: list[str] = []
    for word in asked or ():
        names += [word] if word in columns else [part.strip() for part in word.split(",")]
    for name in names:
        if name not in columns:
            raise DataError(f"{option} names the column {name!r}, which is not there; {list_columns(columns)}.")
    return list(dict.fromkeys(names))


def check_output(path: Path, suffixes: Sequence[str] = ()) -> None:
    """Refuse a place that cannot be written to before the long work starts."""
    if suffixes and path.suffix.lower() not in suffixes:
        raise DataError(f"{path}: the name of the output should end in {', '.join(suffixes)}.")
    if not path.parent.is_dir():
        raise DataError(f"{path}: the folder '{path.parent}' does not exist; make it first.")
    if path.is_dir():
        raise DataError(f"{path}: this is a folder; name a file.")
    if not os.access(path.parent, os.W_OK):
        raise DataError(f"{path}: the folder '{path.parent}' cannot be written to.")


def check_folder(path: Path) -> None:
    """Refuse a folder that cannot be made or written to before the long work starts."""
    if path.exists() and not path.is_dir():
        raise DataError(f"{path}: this is a file; name a folder.")
    if not path.is_dir() and not path.parent.is_dir():
        raise DataError(f"{path}: the folder '{path.parent}' does not exist; make it first.")
    there = path if path.is_dir() else path.parent
    if not os.access(there, os.W_OK):
        raise DataError(f"{path}: the folder '{there}' cannot be written to.")


def write_table(table: pl.DataFrame, path: Path, separator: str | None = None, *, header: bool = True) -> None:
    """Write a table as CSV or Parquet, by the suffix; an old file is replaced only by a complete new one."""
    from sparsefield.io.atomic_write import write_atomically

    buffer = io.BytesIO()
    with polars_errors(path):
        if is_parquet(path):
            table.write_parquet(buffer)
        else:
            table.write_csv(buffer, separator=resolve_separator(path, separator), include_header=header)
    write_atomically(path, buffer.getvalue())


def with_found_types(table: pl.DataFrame) -> pl.DataFrame:
    """A table of text with the types that its cells have; text that a number would change, such as 007, stays text."""
    import polars as pl

    text = io.BytesIO(table.write_csv(include_header=False).encode())
    found = pl.read_csv(text, has_header=False, new_columns=table.columns, infer_schema_length=None)
    whole = [name for name, dtype in found.schema.items() if dtype.is_integer()]
    return found.with_columns(
        table[name] for name in whole if not (found[name].cast(pl.String) == table[name].cast(pl.String)).all()
    )
