"""The data of a command: one table, a sparse matrix, or linked tables of a schema file."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.app.cli.console import note
from sparsefield.app.cli.table_checks import check_table, read_weights
from sparsefield.app.cli.table_files import find_columns
from sparsefield.app.tables.column_kinds import find_kinds
from sparsefield.app.tables.read import SourceTable, read_source
from sparsefield.app.tables.read_options import FileFormat, ReadOptions
from sparsefield.errors import DataError
from sparsefield.text import count

if TYPE_CHECKING:
    from sparsefield.app.tables.codebook import Codebook
    from sparsefield.app.tables.schema_file import SchemaFile

CELLS_TO_HOLD_OUT = 10_000_000
"""Largest number of cells of a sparse matrix that is made dense for a hold-out check, which needs missing values."""

LONGEST_PATH = 1000

SCHEMA_FILE_KEYS = {
    "--observed": "observed = [...] under [tables.NAME]",
    "--id": "ignore = [...] under [tables.NAME]",
    "--numeric": "numeric = [...] under [tables.NAME]",
    "--ordinal": "ordinal = [...] under [tables.NAME]",
    "--nominal": "nominal = [...] under [tables.NAME]",
    "--missing": "missing = [...] at the top",
    "--missing-only": "missing_only = [...] at the top",
    "--no-header": "header = false under [tables.NAME]",
    "--separator": "separator = '...' at the top",
    "--encoding": "encoding = '...' at the top",
    "--decimal": "decimal = '...' at the top",
    "--dates": "dates = '...' at the top",
    "--sheet": "sheet = '...' under [tables.NAME]",
    "--table": "table = '...' under [tables.NAME]",
}
"""The keys of a schema file that replace options."""


@dataclass(frozen=True)
class NamedColumns:
    """What the options say about the columns of a table."""

    identifiers: list[str]
    observed: list[str]
    kinds: dict[str, str]
    """{column: kind, scores of a numeric column, or the labels of an ordinal column such as "low<medium<high"}"""
    weight: str | None = None
    """The column with the weights of the rows."""
    group: str | None = None
    """The column whose values say which rows belong together."""

    @property
    def not_learned(self) -> list[str]:
        """Identifiers, and the columns of weights and of groups."""
        return self.identifiers + [name for name in (self.weight, self.group) if name is not None]


@dataclass(frozen=True)
class ColumnOptions:
    """The options about columns; each entry of those that name some is one name, or several separated by commas."""

    observed: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    ordinal: tuple[str, ...] = ()
    nominal: tuple[str, ...] = ()
    top_levels: int | None = None
    """Number of levels of a nominal column of text to keep; None keeps all."""
    strict: bool = False
    """Whether columns that cannot be learned are refused instead of left out."""
    weight: str | None = None
    """The column with the weights of the rows."""
    group: str | None = None
    """The column whose values say which rows belong together."""

    @property
    def for_one_table(self) -> dict[str, bool]:
        """{option: whether it is given} of those that need all rows of one table in memory."""
        return {
            "--top-levels": self.top_levels is not None,
            "--strict": self.strict,
            "--group": self.group is not None,
        }

    @property
    def kinds(self) -> dict[str, tuple[str, ...]]:
        """{kind: entries of its option}"""
        return {"numeric": self.numeric, "ordinal": self.ordinal, "nominal": self.nominal}

    def as_options(self) -> str:
        """Return the options as words of the command line."""
        named = {"--observed": self.observed, "--id": self.identifiers}
        named |= {f"--{kind}": words for kind, words in self.kinds.items()}
        words = [part for option, values in named.items() for value in values for part in (option, value)]
        for option, value in (("top-levels", self.top_levels), ("weight", self.weight), ("group", self.group)):
            words += [] if value is None else [f"--{option}", str(value)]
        return shlex.join([*words, "--strict"] if self.strict else words)

    def find(self, columns: Sequence[str]) -> NamedColumns:
        """Return the roles and kinds of columns, and refuse unknown columns and contradictions."""
        ids = find_columns(self.identifiers, columns, "--id")
        observed = find_columns(self.observed, columns, "--observed")
        kinds = find_kinds({kind: (f"--{kind}", words) for kind, words in self.kinds.items()}, columns)
        weight, group = _one_column(self.weight, columns, "--weight"), _one_column(self.group, columns, "--group")
        roles = {
            "an --id, which is ignored,": ids,
            "the --weight, which is not learned,": [weight],
            "the --group, which is not learned,": [group],
        }
        for role, own in roles.items():
            for what, names in (("be observed", observed), ("have a kind", kinds)):
                both = [name for name in names if name in own]
                if both:
                    raise DataError(f"Column {both[0]!r} is {role} and cannot also {what}: remove one option.")
        return NamedColumns(ids, observed, kinds, weight, group)


def _one_column(word: str | None, columns: Sequence[str], option: str) -> str | None:
    """Return the one column that an option names; None if it is not given."""
    if word is None:
        return None
    names = find_columns([word], columns, option)
    if len(names) > 1:
        raise DataError(f"{option} takes one column, got {', '.join(names)}.")
    return names[0]


@dataclass(frozen=True)
class InputData:
    """The data of a fit and the roles of their columns."""

    X: Any
    """A frame, a `Relational`, or a sparse matrix."""
    linked: bool
    observed: list[str]
    kinds: Any
    """{column: kind} of the columns whose kind is given, for linked tables {table: {column: kind}}, or "auto"."""
    rows: int
    unchecked: str = ""
    """The reason why no cells can be held out to check a field, or empty."""
    inputs: tuple[Path, ...] = ()
    """Files that were read in addition to the named one."""
    weight: Any = None
    """Weights of the rows, (rows,), or None."""
    book: Codebook | None = None
    """The codebook of a table that was read into memory."""
    groups: Any = None
    """Values of the column of --group, or None."""
    names: tuple[str, ...] = ()
    """Names of the columns of a sparse matrix, or none for x0, x1, ..."""
    named: NamedColumns | None = None
    """What the options say about the columns of one table."""
    format: FileFormat = field(default_factory=FileFormat)
    """The format of the file of one table."""

    @property
    def roles(self) -> dict[str, Any]:
        """Keywords of `fit` and `regularization_path`; linked tables declare their observed columns themselves."""
        if self.linked:
            return {}
        given = {"sample_weight": self.weight, "groups": self.groups, "columns": self.names or None}
        return {"observed": self.observed} | {name: value for name, value in given.items() if value is not None}


def is_linked(data: Path) -> bool:
    """Return whether a path names linked tables: a schema file, or a folder with one."""
    return data.suffix.lower() == ".toml" or (data.is_dir() and not is_parquet_folder(data))


def is_parquet_folder(data: Path) -> bool:
    """Return whether a path names a folder of Parquet files, which become a sparse 0/1 matrix."""
    from sparsefield.app.tables.read import is_parquet

    return data.is_dir() and not (data / "schema.toml").exists() and any(map(is_parquet, data.iterdir()))


def linked_inputs(data: Path | None) -> list[Path]:
    """Return the schema file of linked tables and the existing files that it names, without reading tables."""
    if data is None or not is_linked(data):
        return []
    import tomllib

    path = data / "schema.toml" if data.is_dir() else data
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # which reading it will explain
        return [path]
    named = (path.parent / text for text in _texts_in(content) if "\0" not in text and len(text) < LONGEST_PATH)
    return [path, *(file for file in named if file.is_file())]


def _texts_in(content: Any) -> Iterator[str]:
    """Yield all texts in the content of a schema file."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, (dict, list)):
        for inner in content.values() if isinstance(content, dict) else content:
            yield from _texts_in(inner)


def read_data(data: Path, reading: ReadOptions, columns: ColumnOptions) -> InputData:
    """Read a table without its identifiers, a sparse matrix, or linked tables."""
    if is_linked(data):
        linked = read_linked(data, reading, columns)
        rows = sum(source.n_rows for source in linked.data.sources.values())
        return InputData(linked.data, True, [], linked.kinds or "auto", rows, inputs=linked.inputs)
    if is_matrix(data) or is_parquet_folder(data):
        return _read_matrix(data, columns)
    source, roles = with_column_options(read_noted(data, reading), columns)
    table = source.table
    weight = None if roles.weight is None else read_weights(table, roles.weight)
    found = check_table(
        table.drop(dict.fromkeys(roles.not_learned)),
        roles.observed,
        roles.kinds,
        strict=columns.strict,
        top_levels=columns.top_levels,
        decimal=source.format.decimal,
    )
    kinds = roles.kinds or "auto"
    groups = None if roles.group is None else table[roles.group]
    given = InputData(found.table, False, roles.observed, kinds, table.height, book=found.book, named=roles)
    return replace(given, weight=weight, groups=groups, format=source.format)


def with_column_options(source: SourceTable, columns: ColumnOptions) -> tuple[SourceTable, NamedColumns]:
    """Return a table whose columns have the types that options give them, and what the options say about them."""
    roles = columns.find(source.table.columns)
    return _with_given_numbers(source, roles.kinds), roles


def _with_given_numbers(source: SourceTable, kinds: Mapping[str, str]) -> SourceTable:
    """Return a table whose columns of text that an option calls numeric are numbers, as the file writes numbers."""
    import polars as pl

    from sparsefield.app.tables.values import numbers_of
    from sparsefield.data.kinds import given_kinds

    table, found = source.table, []
    for name, given in given_kinds(kinds, table.columns).items():
        column = table[name]
        if given.kind != "numeric" or column.dtype != pl.String:
            continue
        numbers = numbers_of(column.str.strip_chars(), source.format.decimal, known=True)
        odd = column.filter(numbers.is_null() & column.is_not_null())
        if len(odd):
            raise DataError(
                f"Column {name!r} has {count(len(odd), 'cell')} that are not numbers, such as {odd[0]!r}: correct "
                f"them, give words for missing values with --missing, or drop --numeric {name}."
            )
        found.append(numbers)
    return replace(source, table=table.with_columns(found))


def read_noted(data: Path, reading: ReadOptions) -> SourceTable:
    """Read a table, and print a note about the format of its file if it is not the usual one."""
    source = read_source(data, reading)
    note_format(data, source.format)
    return source


def note_format(data: Path, found: FileFormat) -> None:
    """Print a note about the format of a file if it is not the usual one."""
    if not found.is_plain:
        note(f"{data} is read as {found.describe()}.")


def is_matrix(data: Path) -> bool:
    """Return whether a path names a sparse matrix that scipy saved (``.npz``)."""
    return data.suffix.lower() == ".npz"


def _read_matrix(data: Path, columns: ColumnOptions) -> InputData:
    from sparsefield.app.tables.matrix_files import parquet_columns, parquet_files, read_matrix, read_sparse
    from sparsefield.data import as_source

    matrix: Any
    if data.is_dir():
        known = parquet_columns(parquet_files(data))
        roles = columns.find(known)
        refuse_roles_of_matrix(data, replace(roles, identifiers=[]))
        matrix, names = read_sparse(data, columns=[name for name in known if name not in roles.identifiers])
        # By position, since a check on held-out cells works on an array without names.
        observed: list[Any] = [names.index(name) for name in roles.observed]
    else:
        matrix, names = read_matrix(data), ()
        roles = columns.find([f"x{k}" for k in range(matrix.shape[1])])
        refuse_roles_of_matrix(data, roles)
        observed = roles.observed
    source = as_source(matrix, what=str(data))
    dense = source.n_rows * len(source.names) > CELLS_TO_HOLD_OUT
    why = "held-out cells need a dense table, and this matrix is too large for one." if dense else ""
    return InputData(source.native, False, observed, "auto", source.n_rows, why, names=names, named=roles)


def refuse_roles_of_matrix(data: Path, roles: NamedColumns) -> None:
    """Refuse options that a matrix of 0/1 columns does not have."""
    if roles.not_learned or roles.kinds:
        raise DataError(
            f"{data}: a sparse matrix is read with all its columns, which are 0/1: remove --id, --weight, --group, "
            "--numeric, --ordinal and --nominal."
        )


def read_linked(data: Path, reading: ReadOptions, columns: ColumnOptions | None = None) -> SchemaFile:
    """Read linked tables, and refuse options for one table, which a schema file replaces."""
    from sparsefield.app.tables.schema_file import parse_schema_file

    columns = columns or ColumnOptions()
    roles = (columns.observed, columns.identifiers, *columns.kinds.values())
    values = (
        *roles,
        reading.missing,
        reading.missing_only,
        reading.header is False,
        reading.separator,
        reading.encoding,
        reading.decimal,
        reading.dates,
        reading.sheet,
        reading.table,
    )
    for (option, key), value in zip(SCHEMA_FILE_KEYS.items(), values, strict=True):
        if value:
            raise DataError(f"{data}: {option} is for one table; for linked tables, write {key} in the schema file.")
    for option, given in (columns.for_one_table | {"--weight": columns.weight is not None}).items():
        if given:
            raise DataError(f"{data}: {option} is for one table, and {data} describes linked tables: remove it.")
    parsed = parse_schema_file(data)
    for name, found in parsed.formats.items():
        note_format(parsed.files[name].path, found)
    return parsed
