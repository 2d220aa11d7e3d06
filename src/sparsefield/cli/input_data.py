"""This module reads the data of a command: one table, a sparse matrix, or linked tables of a schema file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.cli.console import note
from sparsefield.cli.table_files import find_columns
from sparsefield.errors import DataError
from sparsefield.io.column_kinds import find_kinds
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
    "--ordinal": "ordinal = [...] under [tables.NAME]",
    "--nominal": "nominal = [...] under [tables.NAME]",
    "--missing": "missing = [...] at the top",
    "--no-header": "header = false under [tables.NAME]",
    "--separator": "separator = '...' at the top",
}
"""The keys of a schema file that replace options."""


@dataclass(frozen=True)
class NamedColumns:
    """What the options say about the columns of a table."""

    identifiers: list[str]
    observed: list[str]
    kinds: dict[str, str]
    """{column: kind, scores of a numeric column, or the labels of an ordinal column such as "low<medium<high"}"""


@dataclass(frozen=True)
class ColumnOptions:
    """The options that name columns: each entry is one name, or several separated by commas."""

    observed: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    ordinal: tuple[str, ...] = ()
    nominal: tuple[str, ...] = ()

    @property
    def kinds(self) -> dict[str, tuple[str, ...]]:
        """{kind: entries of its option}"""
        return {"numeric": self.numeric, "ordinal": self.ordinal, "nominal": self.nominal}

    def find(self, columns: Sequence[str]) -> NamedColumns:
        """Return the roles and kinds of columns, and refuse unknown columns and contradictions."""
        ids = find_columns(self.identifiers, columns, "--id")
        observed = find_columns(self.observed, columns, "--observed")
        kinds = find_kinds({kind: (f"--{kind}", words) for kind, words in self.kinds.items()}, columns)
        for what, names in (("be observed", observed), ("have a kind", kinds)):
            both = [name for name in names if name in ids]
            if both:
                raise DataError(
                    f"Column {both[0]!r} is an --id, which is ignored, and cannot also {what}: remove one option."
                )
        return NamedColumns(ids, observed, kinds)


@dataclass(frozen=True)
class InputData:
    """The data of a fit and the roles of their columns."""

    X: Any
    """A frame, a `Relational`, a sparse matrix, or blocks of rows."""
    linked: bool
    observed: list[str]
    kinds: Any
    """{column: kind} of the columns whose kind is given, for linked tables {table: {column: kind}}, or "auto"."""
    rows: int
    unchecked: str = ""
    """The reason why no cells can be held out to check a field, or empty."""
    inputs: tuple[Path, ...] = ()
    """Files that were read in addition to the named one."""
    names: tuple[str, ...] = ()
    """Names of the columns of a sparse matrix, or none for x0, x1, ..."""

    @property
    def roles(self) -> dict[str, Any]:
        """Keywords of `fit` and `regularization_path`; linked tables declare their observed columns themselves."""
        if self.linked:
            return {}
        return {"observed": self.observed} | ({"columns": self.names} if self.names else {})


def is_linked(data: Path) -> bool:
    """Return whether a path names linked tables: a schema file, or a folder with one."""
    return data.is_dir() or data.suffix.lower() == ".toml"


def read_data(data: Path, reading: ReadOptions, columns: ColumnOptions) -> InputData:
    """Read a table without its identifiers, a sparse matrix, or linked tables."""
    if is_linked(data):
        linked = read_linked(data, reading, columns)
        rows = sum(source.n_rows for source in linked.data.sources.values())
        return InputData(linked.data, True, [], linked.kinds or "auto", rows, inputs=linked.inputs)
    if is_matrix(data):
        return _read_matrix(data, columns)
    table = read_table(data, reading)
    roles = columns.find(table.columns)
    table = table.drop(roles.identifiers)
    declared = {*roles.observed, *roles.kinds}
    _note_identifiers([name for name in table.columns if name not in declared], table)
    return InputData(table, False, roles.observed, roles.kinds or "auto", table.height)


def stream_data(data: Path, reading: ReadOptions, columns: ColumnOptions) -> InputData:
    """Open Parquet files or saved rows of a sparse matrix for reading block by block."""
    from sparsefield.io import row_blocks

    if reading.missing:
        raise DataError(f"{data}: --missing cannot be used with --stream, where missing values are nulls: remove it.")
    why = "with --stream no cells are held out, because that needs all rows in memory."
    if row_blocks.is_saved_rows(data):
        rows = row_blocks.open_rows(data)
        roles = columns.find(rows.names)
        refuse_roles_of_matrix(data, roles)
        return InputData(rows, False, roles.observed, "auto", rows.n_rows, why)
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
    roles = columns.find(names)
    X = row_blocks.ParquetFiles(files, [name for name in names if name not in roles.identifiers])
    return InputData(X, False, roles.observed, roles.kinds or "auto", row_blocks.parquet_rows(files))


def is_matrix(data: Path) -> bool:
    """Return whether a path names a sparse matrix that scipy saved (``.npz``)."""
    return data.suffix.lower() == ".npz"


def _read_matrix(data: Path, columns: ColumnOptions) -> InputData:
    from sparsefield.data import as_source
    from sparsefield.io.row_blocks import read_matrix

    matrix = read_matrix(data)
    source = as_source(matrix, what=str(data))
    roles = columns.find(source.names)
    refuse_roles_of_matrix(data, roles)
    dense = source.n_rows * len(source.names) > CELLS_TO_HOLD_OUT
    why = "held-out cells need a dense table, and this matrix is too large for one." if dense else ""
    return InputData(source.native, False, roles.observed, "auto", source.n_rows, why)


def refuse_roles_of_matrix(data: Path, roles: NamedColumns) -> None:
    """Refuse options that a matrix of 0/1 columns does not have."""
    if roles.identifiers or roles.kinds:
        raise DataError(
            f"{data}: a sparse matrix is read with all its columns, which are 0/1: remove --id, --numeric, --ordinal "
            "and --nominal."
        )


def read_linked(data: Path, reading: ReadOptions, columns: ColumnOptions | None = None) -> SchemaFile:
    """Read linked tables, and refuse options for one table, which a schema file replaces."""
    from sparsefield.io import parse_schema_file

    columns = columns or ColumnOptions()
    roles = (columns.observed, columns.identifiers, *columns.kinds.values())
    values = (*roles, reading.missing, not reading.header, reading.separator)
    for (option, key), value in zip(SCHEMA_FILE_KEYS.items(), values, strict=True):
        if value:
            raise DataError(f"{data}: {option} is for one table; for linked tables, write {key} in the schema file.")
    return parse_schema_file(data)


def _note_identifiers(names: list[str], table: Any) -> None:
    for name in names:
        seen = table[name].drop_nulls()
        if seen.dtype.is_float():  # measurements are often all different
            continue
        if len(seen) > MANY_STATES and seen.n_unique() == len(seen):
            note(f"Column {name!r} has {len(seen):,} values, all different: is it an --id?")
