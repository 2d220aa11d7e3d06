"""The data of a command: one table, a sparse matrix, or linked tables of a schema file."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.app.cli.console import note
from sparsefield.app.cli.table_checks import check_table, read_weights
from sparsefield.app.tables.column_kinds import find_kinds
from sparsefield.app.tables.file_format import OPTIONS, PLAIN, FileFormat
from sparsefield.app.tables.read import SourceTable, list_columns, read_source
from sparsefield.errors import DataError, count

if TYPE_CHECKING:
    from sparsefield.app.tables.codebook import Codebook
    from sparsefield.app.tables.schema_file import SchemaFile

CELLS_TO_HOLD_OUT = 10_000_000
"""Largest number of cells of a sparse matrix that is made dense for a hold-out check, which needs missing values."""

LONGEST_PATH = 1000
KINDS = ("numeric", "ordinal", "nominal")
OF_A_TABLE = ("header", "sheet")
"""Options for reading that a schema file has for each table; the others are at its top."""


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

    observed: Sequence[str] | None = None
    identifiers: Sequence[str] | None = None
    numeric: Sequence[str] | None = None
    ordinal: Sequence[str] | None = None
    nominal: Sequence[str] | None = None
    top_levels: int | None = None
    """Number of levels of a nominal column of text to keep; None keeps all."""
    strict: bool = False
    """Whether columns that cannot be learned are refused instead of left out."""
    weight: str | None = None
    group: str | None = None

    def as_options(self) -> str:
        """Return the options as words of the command line."""
        named = {"--observed": self.observed, "--id": self.identifiers}
        named |= {f"--{kind}": getattr(self, kind) for kind in KINDS}
        words = [part for option, values in named.items() for value in values or () for part in (option, value)]
        for option, value in (("top-levels", self.top_levels), ("weight", self.weight), ("group", self.group)):
            words += [] if value is None else [f"--{option}", str(value)]
        return shlex.join([*words, "--strict"] if self.strict else words)

    def find(self, columns: Sequence[str]) -> NamedColumns:
        """Return the roles and kinds of columns, and refuse unknown columns and contradictions."""
        ids = find_columns(self.identifiers or (), columns, "--id")
        observed = find_columns(self.observed or (), columns, "--observed")
        kinds = find_kinds({kind: (f"--{kind}", getattr(self, kind) or ()) for kind in KINDS}, columns)
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


def find_columns(words: Sequence[str], columns: Sequence[str], option: str) -> list[str]:
    """Return the column names of an option, each of which is one name or several separated by commas."""
    names: list[str] = []
    for word in words:
        names += [word] if word in columns else [part.strip() for part in word.split(",")]
    for name in names:
        if name not in columns:
            raise DataError(f"{option} names the column {name!r}, which does not exist; {list_columns(columns)}.")
    return list(dict.fromkeys(names))


def _one_column(word: str | None, columns: Sequence[str], option: str) -> str | None:
    """Return the one column that an option names; None if it is not given."""
    names = [] if word is None else find_columns([word], columns, option)
    if len(names) > 1:
        raise DataError(f"{option} takes one column, got {', '.join(names)}.")
    return names[0] if names else None


@dataclass(frozen=True)
class InputData:
    """The data of a fit and the roles of their columns."""

    X: Any
    """A frame, a `Relational`, or a sparse matrix."""
    linked: bool
    observed: list[Any]
    kinds: Any
    """{column: kind} of the columns whose kind is given, for linked tables {table: {column: kind}}, or "auto"."""
    rows: int
    unchecked: str = ""
    """The reason why no cells can be held out to check a field, or empty."""
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
    format: FileFormat = PLAIN
    """The format of the file of one table."""

    @property
    def roles(self) -> dict[str, Any]:
        """Keywords of `fit`; linked tables declare their observed columns themselves."""
        if self.linked:
            return {}
        more = {"sample_weight": self.weight, "groups": self.groups, "columns": self.names or None}
        return {"observed": self.observed} | {name: value for name, value in more.items() if value is not None}


def is_matrix(data: Path) -> bool:
    """Return whether a path names a sparse matrix that scipy saved (``.npz``)."""
    return data.suffix.lower() == ".npz"


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


def read_data(data: Path, reading: FileFormat, columns: ColumnOptions, column_names: Path | None = None) -> InputData:
    """Read a table without its identifiers, a sparse matrix, or linked tables."""
    if column_names is not None and not is_matrix(data):
        raise DataError(f"{data}: --columns has names for the columns of an .npz matrix: remove it.")
    if is_linked(data):
        linked = read_linked(data, reading, columns)
        rows = sum(source.n_rows for source in linked.data.sources.values())
        return InputData(linked.data, True, [], linked.kinds or "auto", rows)
    if is_matrix(data) or is_parquet_folder(data):
        return _read_matrix(data, columns, column_names)
    source = read_source(data, reading)
    note_format(data, source.format)
    source, roles = with_column_options(source, columns)
    table = source.table
    weight = None if roles.weight is None else read_weights(table, roles.weight)
    learned, book = check_table(
        table.drop(dict.fromkeys(roles.not_learned)),
        roles.observed,
        roles.kinds,
        strict=columns.strict,
        top_levels=columns.top_levels,
        decimal=source.format.decimal or ".",
    )
    return InputData(
        learned,
        False,
        roles.observed,
        roles.kinds or "auto",
        table.height,
        weight=weight,
        book=book,
        groups=None if roles.group is None else table[roles.group],
        named=roles,
        format=source.format,
    )


def with_column_options(source: SourceTable, columns: ColumnOptions) -> tuple[SourceTable, NamedColumns]:
    """Return a table whose columns have the types that options give them, and what the options say about them."""
    roles = columns.find(source.table.columns)
    return _with_given_numbers(source, roles.kinds), roles


def _with_given_numbers(source: SourceTable, kinds: Mapping[str, str]) -> SourceTable:
    """Return a table whose columns of text that an option calls numeric are numbers, as the file writes numbers."""
    import polars as pl

    from sparsefield.app.tables.values import numbers_of
    from sparsefield.data.schema_learning import given_kinds

    table, converted = source.table, []
    for name, kind in given_kinds(kinds, table.columns).items():
        column = table[name]
        if kind.kind != "numeric" or column.dtype != pl.String:
            continue
        numbers = numbers_of(column.str.strip_chars(), source.format.decimal or ".", known=True)
        others = column.filter(numbers.is_null() & column.is_not_null())
        if len(others):
            raise DataError(
                f"Column {name!r} has {count(len(others), 'cell')} that are not numbers, such as {others[0]!r}: "
                f"correct them, give words for missing values with --missing, or drop --numeric {name}."
            )
        converted.append(numbers)
    return replace(source, table=table.with_columns(converted))


def note_format(data: Path, file_format: FileFormat) -> None:
    """Print a note about the format of a file if it is not the usual one."""
    if not file_format.is_plain:
        note(f"{data} is read as {file_format.describe()}.")


def _read_matrix(data: Path, columns: ColumnOptions, column_names: Path | None) -> InputData:
    from sparsefield.app.tables.matrix_files import parquet_columns, parquet_files, read_matrix, read_sparse
    from sparsefield.data import as_source

    matrix: Any
    names: tuple[str, ...] = ()
    if data.is_dir():
        known = parquet_columns(parquet_files(data))
        roles = columns.find(known)
        not_of_matrix = replace(roles, identifiers=[])
        matrix, names = read_sparse(data, columns=[name for name in known if name not in roles.identifiers])
    else:
        names = () if column_names is None else _read_names(column_names)
        matrix = read_matrix(data)
        if names and len(names) != matrix.shape[1]:
            names_of = f"{count(len(names), 'name')}, but {data} has {count(matrix.shape[1], 'column')}"
            raise DataError(f"{column_names}: there are {names_of}.")
        not_of_matrix = roles = columns.find(names or [f"x{k}" for k in range(matrix.shape[1])])
    if not_of_matrix.not_learned or roles.kinds:
        raise DataError(
            f"{data}: a sparse matrix is read with all its columns, which are 0/1: remove --id, --weight, --group, "
            "--numeric, --ordinal and --nominal."
        )
    source = as_source(matrix, what=str(data))
    large = source.n_rows * len(source.names) > CELLS_TO_HOLD_OUT
    why = "held-out cells need a dense table, and this matrix is too large for one." if large else ""
    # By position, since a check on held-out cells works on an array without names.
    position = {name: k for k, name in enumerate(names)}
    observed = [position.get(name, name) for name in roles.observed]
    return InputData(source.native, False, observed, "auto", source.n_rows, why, names=names, named=roles)


def _read_names(path: Path) -> tuple[str, ...]:
    """Return the lines of a file with the names of columns."""
    if not path.is_file():
        raise DataError(f"{path}: there is no such file.")
    try:
        names = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except UnicodeDecodeError:
        raise DataError(f"{path}: --columns needs a text file in UTF-8, with one name per line.") from None
    if "" in names:
        raise DataError(f"{path}: line {names.index('') + 1:,} is empty, but each line is the name of a column.")
    return tuple(names)


def read_linked(data: Path, reading: FileFormat, columns: ColumnOptions | None = None) -> SchemaFile:
    """Read linked tables, and refuse options for one table, which a schema file replaces."""
    from sparsefield.app.tables.schema_file import parse_schema_file

    columns = columns or ColumnOptions()
    keys = {"observed": "--observed", "identifiers": "--id"} | {kind: f"--{kind}" for kind in KINDS}
    for name, option in keys.items():
        if getattr(columns, name):
            key = "ignore" if name == "identifiers" else name
            _refuse_for_linked(data, option, f"{key} = [...] under [tables.NAME]")
    for name in OPTIONS:
        if getattr(reading, name) not in (None, ()):
            value = {"missing": "[...]", "missing_only": "[...]", "header": "false"}.get(name, "'...'")
            place = "under [tables.NAME]" if name in OF_A_TABLE else "at the top"
            flag = "--missing" if name == "missing" else f"--set read.{name}"
            _refuse_for_linked(data, flag, f"{name} = {value} {place}")
    for option, value in vars(columns).items():
        if option in ("top_levels", "strict", "group", "weight") and value not in (None, False):
            flag = f"--{option.replace('_', '-')}"
            raise DataError(f"{data}: {flag} is for one table, and {data} describes linked tables: remove it.")
    parsed = parse_schema_file(data)
    for name, file_format in parsed.formats.items():
        note_format(parsed.files[name].path, file_format)
    return parsed


def _refuse_for_linked(data: Path, option: str, key: str) -> None:
    raise DataError(f"{data}: {option} is for one table; for linked tables, write {key} in the schema file.")
