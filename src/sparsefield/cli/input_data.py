"""What a command learns from or asks about: one table, or linked tables that a schema file describes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.cli.console import note
from sparsefield.cli.table_files import ReadOptions, find_columns, read_table
from sparsefield.errors import DataError

if TYPE_CHECKING:
    from sparsefield.io.schema_file import SchemaFile

__all__ = [
    "InputData",
    "is_linked",
    "is_matrix",
    "stream_data",
    "distribute_data",
    "read_data",
    "read_linked",
    "workers_can_read",
]

MANY_STATES = 10

CELLS_TO_HIDE = 10_000_000
"""Of a sparse matrix: up to so many cells it is made dense for a check, since a sparse one has no gaps."""

IN_SCHEMA = {
    "--observed": "observed = [...] under [tables.NAME]",
    "--id": "ignore = [...] under [tables.NAME]",
    "--numeric": "numeric = [...] under [tables.NAME]",
    "--missing": "missing = [...] at the top",
    "--no-header": "header = false under [tables.NAME]",
    "--separator": "separator = '...' at the top",
}
"""What a schema file says in place of an option."""


@dataclass(frozen=True)
class InputData:
    """Data for a fit."""

    X: Any
    """A frame, a `Relational`, a sparse matrix, or blocks of rows."""
    linked: bool
    observed: list[str]
    numeric: Any
    """Observed columns that are numbers, for linked tables those of each, or "auto"."""
    rows: int
    unchecked: str = ""
    """Why no cells can be hidden to check a field, if they cannot."""
    inputs: tuple[Path, ...] = ()
    """Further files that were read, beside the one that was named."""

    def fit(self, field: Any) -> None:
        if self.linked:
            field.fit(self.X)
        else:
            field.fit(self.X, observed=self.observed)


def is_linked(data: Path) -> bool:
    """Whether a path names linked tables: a schema file, or a folder with one."""
    return data.is_dir() or data.suffix.lower() == ".toml"


def read_data(
    data: Path,
    reading: ReadOptions,
    observed: list[str] | None,
    identifiers: list[str] | None,
    numeric: list[str] | None,
) -> InputData:
    """Read what ``data`` names: a table without its ids, or linked tables."""
    if is_linked(data):
        linked = read_linked(data, reading, observed, identifiers, numeric)
        rows = sum(source.n_rows for source in linked.data.sources.values())
        return InputData(linked.data, True, [], linked.numeric or "auto", rows, inputs=linked.inputs)
    if is_matrix(data):
        return _read_matrix(data, observed, identifiers, numeric)
    table = read_table(data, reading)
    ids, given, numbers = _roles(table.columns, observed, identifiers, numeric)
    table = table.drop(ids)
    _note_identifiers([name for name in table.columns if name not in given], table)
    return InputData(table, False, given, numbers or "auto", table.height)


def stream_data(
    data: Path,
    reading: ReadOptions,
    observed: list[str] | None,
    identifiers: list[str] | None,
    numeric: list[str] | None,
) -> InputData:
    """What ``data`` names, to be read block by block: Parquet files, or rows of a sparse matrix."""
    from sparsefield.io import row_blocks

    if reading.missing:
        raise DataError(f"{data}: --missing has no place with --stream, where data have no gaps: fill them first.")
    why = "with --stream no cells are hidden, since gaps would have to be learned with all rows in memory."
    if row_blocks.is_saved_rows(data):
        rows = row_blocks.open_rows(data)
        ids, given, numbers = _roles(rows.names, observed, identifiers, numeric)
        if ids:
            raise DataError(f"{data}: rows of a sparse matrix are read with all their columns: --id has no place here.")
        return InputData(rows, False, given, numbers or "auto", rows.n_rows, why)
    found = _parquet(data, observed, identifiers, numeric)
    return replace(found, X=row_blocks.read_blocks(found.X.path, columns=found.X.columns), unchecked=why)


def workers_can_read(data: Path) -> bool:
    """Whether the workers of a cluster can read what a path names: Parquet, one file or a folder of such."""
    from sparsefield.io.files import is_parquet
    from sparsefield.io.row_blocks import is_saved_rows

    if data.is_dir():
        return not (data / "schema.toml").exists() and not is_saved_rows(data)
    return is_parquet(data)


def distribute_data(
    data: Path,
    reading: ReadOptions,
    observed: list[str] | None,
    identifiers: list[str] | None,
    numeric: list[str] | None,
) -> InputData:
    """Parquet that the workers of a cluster read; they, and this process, see it under the same path."""
    if reading.missing:
        raise DataError(f"{data}: --missing has no place where workers read Parquet, which has nulls for gaps.")
    found = _parquet(data, observed, identifiers, numeric)
    return replace(found, unchecked="with rows on a cluster no cells are hidden.")


def _parquet(
    data: Path, observed: list[str] | None, identifiers: list[str] | None, numeric: list[str] | None
) -> InputData:
    """Parquet files without their ids, not read yet."""
    from sparsefield.io import row_blocks

    files = [file.resolve() for file in row_blocks.parquet_files(data)]
    columns = row_blocks.parquet_columns(files)
    ids, given, numbers = _roles(columns, observed, identifiers, numeric)
    X = row_blocks.ParquetFiles(files, [name for name in columns if name not in ids])
    return InputData(X, False, given, numbers or "auto", row_blocks.parquet_rows(files))


def is_matrix(data: Path) -> bool:
    """Whether a path names a sparse matrix in a file of scipy's."""
    return data.suffix.lower() == ".npz"


def _read_matrix(
    data: Path, observed: list[str] | None, identifiers: list[str] | None, numeric: list[str] | None
) -> InputData:
    from sparsefield.data import read
    from sparsefield.io.row_blocks import read_matrix

    matrix = read_matrix(data)
    source = read(matrix, what=str(data))
    ids, given, numbers = _roles(source.names, observed, identifiers, numeric)
    if ids or numbers:
        raise DataError(f"{data}: all columns of a sparse matrix are 0/1: --id and --numeric have no place here.")
    dense = source.n_rows * len(source.names) > CELLS_TO_HIDE
    why = "hidden cells need a dense table, and this matrix is too large for one." if dense else ""
    return InputData(source.native, False, given, "auto", source.n_rows, why)


def _roles(
    columns: Sequence[str], observed: list[str] | None, identifiers: list[str] | None, numeric: list[str] | None
) -> tuple[list[str], list[str], list[str]]:
    """Columns that are ids, that are observed (numbers included), and that are numbers."""
    ids = find_columns(identifiers, columns, "--id")
    numbers = find_columns(numeric, columns, "--numeric")
    given = [*find_columns(observed, columns, "--observed"), *numbers]
    both = [name for name in given if name in ids]
    if both:
        raise DataError(f"Column {both[0]!r} is an --id, which is left out: it cannot be observed as well.")
    return ids, list(dict.fromkeys(given)), numbers


def read_linked(
    data: Path,
    reading: ReadOptions,
    observed: list[str] | None = None,
    identifiers: list[str] | None = None,
    numeric: list[str] | None = None,
) -> SchemaFile:
    """Linked tables; options that speak of one table's columns have their place in the schema file."""
    from sparsefield.io import parse_schema_file

    asked = (observed, identifiers, numeric, reading.missing, not reading.header, reading.separator)
    for (option, words), value in zip(IN_SCHEMA.items(), asked, strict=True):
        if value:
            raise DataError(f"{data}: {option} is for one table; of linked ones the schema file says it: {words}.")
    return parse_schema_file(data)


def _note_identifiers(names: list[str], table: Any) -> None:
    for name in names:
        seen = table[name].drop_nulls()
        if len(seen) > MANY_STATES and seen.n_unique() == len(seen):
            note(f"Column {name!r} has {len(seen):,} values, all different: is it an --id?")
