"""This module reads the data of a command: one table, a sparse matrix, or linked tables of a schema file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.cli.console import note
from sparsefield.cli.table_files import find_columns
from sparsefield.errors import DataError
from sparsefield.io.files import ReadOptions, read_table

if TYPE_CHECKING:
    from sparsefield.io.schema_file import SchemaFile


MANY_STATES = 10

CELLS_TO_HOLD_OUT = 10_000_000
"""Largest number of cells of a sparse matrix that is made dense for a hold-out check, which needs missing values."""

SCHEMA_FILE_KEYS = {
    "--observed": "observed = [...] under [tables.NAME]",
    "--id": "ignore = [...] under [tables.NAME]",
    "--numeric": "numeric = [...] under [tables.NAME]",
    "--missing": "missing = [...] at the top",
    "--no-header": "header = false under [tables.NAME]",
    "--separator": "separator = '...' at the top",
}
"""The keys of a schema file that replace options."""


@dataclass(frozen=True)
class ColumnOptions:
    """The options that name columns: each entry is one name, or several separated by commas."""

    observed: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()

    def find(self, columns: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
        """Return the identifiers, the observed columns (including numeric ones), and the numeric columns."""
        ids = find_columns(self.identifiers, columns, "--id")
        numbers = find_columns(self.numeric, columns, "--numeric")
        given = [*find_columns(self.observed, columns, "--observed"), *numbers]
        both = [name for name in given if name in ids]
        if both:
            raise DataError(
                f"Column {both[0]!r} is an --id, which is ignored, and cannot also be observed: remove one option."
            )
        return ids, list(dict.fromkeys(given)), numbers


@dataclass(frozen=True)
class InputData:
    """The data of a fit and the roles of their columns."""

    X: Any
    """A frame, a `Relational`, a sparse matrix, or blocks of rows."""
    linked: bool
    observed: list[str]
    numeric: Any
    """Numeric observed columns, for linked tables by table, or "auto"."""
    rows: int
    unchecked: str = ""
    """The reason why no cells can be held out to check a field, or empty."""
    inputs: tuple[Path, ...] = ()
    """Files that were read in addition to the named one."""

    @property
    def roles(self) -> dict[str, Any]:
        """Keywords of `fit` and `regularization_path`; linked tables declare their observed columns themselves."""
        return {} if self.linked else {"observed": self.observed}


def is_linked(data: Path) -> bool:
    """Return whether a path names linked tables: a schema file, or a folder with one."""
    return data.is_dir() or data.suffix.lower() == ".toml"


def read_data(data: Path, reading: ReadOptions, columns: ColumnOptions) -> InputData:
    """Read a table without its identifiers, a sparse matrix, or linked tables."""
    if is_linked(data):
        linked = read_linked(data, reading, columns)
        rows = sum(source.n_rows for source in linked.data.sources.values())
        return InputData(linked.data, True, [], linked.numeric or "auto", rows, inputs=linked.inputs)
    if is_matrix(data):
        return _read_matrix(data, columns)
    table = read_table(data, reading)
    ids, given, numbers = columns.find(table.columns)
    table = table.drop(ids)
    _note_identifiers([name for name in table.columns if name not in given], table)
    return InputData(table, False, given, numbers or "auto", table.height)


def stream_data(data: Path, reading: ReadOptions, columns: ColumnOptions) -> InputData:
    """Open Parquet files or saved rows of a sparse matrix for reading block by block."""
    from sparsefield.io import row_blocks

    if reading.missing:
        raise DataError(
            f"{data}: --missing cannot be used with --stream, which does not support missing values: impute them first."
        )
    why = "with --stream no cells are held out, because missing values need all rows in memory."
    if row_blocks.is_saved_rows(data):
        rows = row_blocks.open_rows(data)
        ids, given, numbers = columns.find(rows.names)
        if ids:
            raise DataError(f"{data}: saved rows of a sparse matrix are read with all columns: remove --id.")
        return InputData(rows, False, given, numbers or "auto", rows.n_rows, why)
    found = _parquet(data, columns)
    return replace(found, X=row_blocks.read_blocks(found.X.path, columns=found.X.columns), unchecked=why)


def workers_can_read(data: Path) -> bool:
    """Return whether a path names Parquet, one file or a folder, which the workers of a cluster can read."""
    from sparsefield.io.files import is_parquet
    from sparsefield.io.row_blocks import is_saved_rows

    if data.is_dir():
        return not (data / "schema.toml").exists() and not is_saved_rows(data)
    return is_parquet(data)


def distribute_data(data: Path, reading: ReadOptions, columns: ColumnOptions) -> InputData:
    """Open Parquet files for the workers of a cluster, which must see them under the same path as this process."""
    if reading.missing:
        raise DataError(
            f"{data}: --missing cannot be used when workers read Parquet, whose missing values are nulls: remove it."
        )
    found = _parquet(data, columns)
    return replace(found, unchecked="cells cannot be held out when rows are on a cluster.")


def _parquet(data: Path, columns: ColumnOptions) -> InputData:
    """Describe Parquet files without their identifiers and without reading rows."""
    from sparsefield.io import row_blocks

    files = [file.resolve() for file in row_blocks.parquet_files(data)]
    names = row_blocks.parquet_columns(files)
    ids, given, numbers = columns.find(names)
    X = row_blocks.ParquetFiles(files, [name for name in names if name not in ids])
    return InputData(X, False, given, numbers or "auto", row_blocks.parquet_rows(files))


def is_matrix(data: Path) -> bool:
    """Return whether a path names a sparse matrix that scipy saved (``.npz``)."""
    return data.suffix.lower() == ".npz"


def _read_matrix(data: Path, columns: ColumnOptions) -> InputData:
    from sparsefield.data import as_source
    from sparsefield.io.row_blocks import read_matrix

    matrix = read_matrix(data)
    source = as_source(matrix, what=str(data))
    ids, given, numbers = columns.find(source.names)
    if ids or numbers:
        raise DataError(f"{data}: all columns of a sparse matrix are 0/1: remove --id and --numeric.")
    dense = source.n_rows * len(source.names) > CELLS_TO_HOLD_OUT
    why = "held-out cells need a dense table, and this matrix is too large for one." if dense else ""
    return InputData(source.native, False, given, "auto", source.n_rows, why)


def read_linked(data: Path, reading: ReadOptions, columns: ColumnOptions | None = None) -> SchemaFile:
    """Read linked tables, and refuse options for one table, which a schema file replaces."""
    from sparsefield.io import parse_schema_file

    columns = columns or ColumnOptions()
    roles = (columns.observed, columns.identifiers, columns.numeric)
    values = (*roles, reading.missing, not reading.header, reading.separator)
    for (option, key), value in zip(SCHEMA_FILE_KEYS.items(), values, strict=True):
        if value:
            raise DataError(f"{data}: {option} is for one table; for linked tables, write {key} in the schema file.")
    return parse_schema_file(data)


def _note_identifiers(names: list[str], table: Any) -> None:
    for name in names:
        seen = table[name].drop_nulls()
        if len(seen) > MANY_STATES and seen.n_unique() == len(seen):
            note(f"Column {name!r} has {len(seen):,} values, all different: is it an --id?")
