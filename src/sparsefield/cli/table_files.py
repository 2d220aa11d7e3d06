"""This module validates output paths and writes tables as CSV or Parquet files atomically."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sparsefield.errors import DataError
from sparsefield.io.files import PARQUET, is_parquet, list_columns, polars_errors, resolve_separator

if TYPE_CHECKING:
    import polars as pl


TABLES = (".csv", ".tsv", *PARQUET)


def find_columns(given: Sequence[str], columns: Sequence[str], option: str) -> list[str]:
    """Return the column names of an option, each of which is one name or several separated by commas."""
    names: list[str] = []
    for word in given:
        names += [word] if word in columns else [part.strip() for part in word.split(",")]
    for name in names:
        if name not in columns:
            raise DataError(f"{option} names the column {name!r}, which does not exist; {list_columns(columns)}.")
    return list(dict.fromkeys(names))


def check_output(path: Path, suffixes: Sequence[str] = ()) -> None:
    """Refuse an output file that cannot be written, before any long computation."""
    if suffixes and path.suffix.lower() not in suffixes:
        raise DataError(f"{path}: the name of the output should end in {', '.join(suffixes)}.")
    if path.is_dir():
        raise DataError(f"{path}: this is a folder: give a file.")
    _check_writable(path.parent, path)


def refuse_overwriting_inputs(outputs: Iterable[Path], inputs: Iterable[Path]) -> None:
    """Refuse outputs that are also inputs."""
    existing = [path for path in inputs if path.is_file()]
    for path in outputs:
        if path.is_file() and any(path.samefile(read) for read in existing):
            raise DataError(f"{path}: this is one of the files that are read: write to another file.")


def check_folder(path: Path) -> None:
    """Refuse an output folder that cannot be created or written, before any long computation."""
    if path.exists() and not path.is_dir():
        raise DataError(f"{path}: this is a file: give a folder.")
    _check_writable(path if path.is_dir() else path.parent, path)


def _check_writable(folder: Path, path: Path) -> None:
    if not folder.is_dir():
        raise DataError(f"{path}: the folder '{folder}' does not exist; create it first.")
    if not os.access(folder, os.W_OK):
        raise DataError(f"{path}: the folder '{folder}' is not writable.")


def write_table(table: pl.DataFrame, path: Path, separator: str | None = None, *, header: bool = True) -> None:
    """Write a table as CSV or Parquet, by the suffix; an existing file is replaced atomically."""
    import polars.selectors as cs

    from sparsefield.io.atomic_write import write_atomically

    buffer = io.BytesIO()
    with polars_errors(path):
        if is_parquet(path):
            table.write_parquet(buffer)
        else:
            table = table.with_columns(cs.duration().dt.to_string())
            table.write_csv(buffer, separator=resolve_separator(path, separator), include_header=header)
    write_atomically(path, buffer.getvalue())


def infer_types(table: pl.DataFrame) -> pl.DataFrame:
    """Infer the types of a table of text; text that would not survive as a number, such as 007, stays text."""
    import polars as pl

    text = io.BytesIO(table.write_csv(include_header=False).encode())
    found = pl.read_csv(text, has_header=False, new_columns=table.columns, infer_schema_length=None)
    whole = [name for name, dtype in found.schema.items() if dtype.is_integer()]
    return found.with_columns(
        table[name] for name in whole if not (found[name].cast(pl.String) == table[name].cast(pl.String)).all()
    )
