"""This module reads schema files: TOML files that name linked tables and their links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.app.tables.atoms import read_atoms
from sparsefield.app.tables.column_kinds import find_kinds
from sparsefield.app.tables.database import read_database
from sparsefield.app.tables.read import SourceTable, read_source
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.app.tables.source import FileFormat
from sparsefield.app.tables.triples import read_triples
from sparsefield.app.tables.values import is_missing_text
from sparsefield.data.links import ForeignKey, Link, OffsetLink
from sparsefield.data.relational import Relational
from sparsefield.data.templates import resolve_templates
from sparsefield.errors import DataError

if TYPE_CHECKING:
    import polars as pl

SCHEMA_NAME = "schema.toml"

# The keys of each section of the file, and the kinds of their values.
_READING = {
    "missing": "a list of strings",
    "missing_only": "a list of strings",
    "separator": "a string",
    "encoding": "a string",
    "decimal": "a string",
    "dates": "a string",
}
_TOP = {
    "templates": "a list",
    **_READING,
    "database": "a string",
    "tables": "a table",
    "links": "a table",
    "triples": "a table",
    "atoms": "a table",
}
_TABLE = {
    "key": "a string",
    "observed": "a list of strings",
    "ignore": "a list of strings",
    "numeric": "a list of strings",
    "ordinal": "a list of strings",
    "nominal": "a list of strings",
}
_FILE_TABLE = {
    "file": "a string",
    **_TABLE,
    "header": "true or false",
    **_READING,
    "sheet": "a string",
    "table": "a string",
}
_DATABASE_TABLE = {"table": "a string", "query": "a string", **_TABLE}
_FOREIGN_KEY = {"table": "a string", "column": "a string", "to": "a string"}
_OFFSET_LINK = {"table": "a string", "along": "a string", "within": "a list of strings", "by": "an integer"}
_LINK_KEYS = f"{', '.join(_FOREIGN_KEY)} for a foreign key, or {', '.join(_OFFSET_LINK)} for an offset link"
_WORLD = "true, false or 'mentioned'"
_TRIPLES = {
    "file": "a string",
    "entities": "a string",
    "closed_world": _WORLD,
    "entity": "a string",
    "pair": "a string",
}
_ATOMS = {"file": "a string", "types": "a string", "closed_world": _WORLD}
_FITS = {
    "a string": lambda value: isinstance(value, str),
    "a list": lambda value: isinstance(value, list),
    "a list of strings": lambda value: isinstance(value, list) and all(isinstance(word, str) for word in value),
    "a table": lambda value: isinstance(value, dict),
    "true or false": lambda value: isinstance(value, bool),
    "an integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    _WORLD: lambda value: isinstance(value, bool) or value == "mentioned",
}


@dataclass(frozen=True)
class TableFile:
    """The path of a table and the options for reading it."""

    path: Path
    reading: ReadOptions

    def read(self, *, as_text: bool = False) -> pl.DataFrame:
        source = self.source()
        return source.cells if as_text else source.table

    def source(self) -> SourceTable:
        return read_source(self.path, self.reading, may_be_empty=True, strict=False)

    def text(self, column: str) -> pl.Series:
        """Return a column of a text file as text, with nulls for missing values."""
        import polars as pl

        source = self.source()
        cells = source.cells[column].cast(pl.String).str.strip_chars()
        return cells.set(
            cells.to_frame().select(is_missing_text(pl.col(column), source.format.missing)).to_series(), None
        )


@dataclass(frozen=True)
class SchemaFile:
    """A parsed schema file: linked tables, and the information that `Relational` does not hold."""

    data: Relational
    kinds: dict[str, dict[str, str]] = field(default_factory=dict)
    """{table: {column: kind}}, for ``RelationalField(kinds=...)``; empty if the schema file names none."""
    files: dict[str, TableFile] = field(default_factory=dict)
    """Files of the tables that are not from a database."""
    formats: dict[str, FileFormat] = field(default_factory=dict)
    """The formats of these files."""
    inputs: tuple[Path, ...] = ()
    """All files that were read, including the schema file."""


def read_schema(path: Path | str, *, other_files: bool = False) -> Relational:
    """Read linked tables as a schema file describes them.

    The file is TOML; paths in it are relative to its folder::

        templates = ["within nation", "across subject", "swapped subject object"]   # optional
        missing = ["-99"]             # optional, as the four below: words for missing values beside the default ones
        missing_only = ["gone"]       # words for missing values in place of the default ones
        separator = ";"               # separator of text files, which is found out by default
        encoding = "cp1252"           # encoding of text files, which is found out by default
        decimal = ","                 # decimal mark of text files, which is found out by default
        dates = "day-first"           # order of dates such as 01/02/2024, which is found out where columns show it

        [tables.nation]
        file = "nations.csv"          # or any other file that `read_table` reads
        key = "nation"
        observed = ["area"]           # optional
        numeric = ["age", "income=normal-scores"]    # optional, like the two below: kinds of columns
        nominal = ["zip"]
        ordinal = ["age_group", "trust=low<medium<high"]    # sorted labels, or labels in this order
        ignore = ["notes"]            # optional

        [tables.pair]
        file = "relations.csv"
        header = false                # optional: there is no header; columns are x0, x1, ...
        encoding = "utf-8"            # optional: each of the six keys above may differ for a table
        sheet = "2024"                # optional: sheet of a spreadsheet, or `table` of a database file

        [links.subject]               # a foreign key: `subject` of `pair` is the key of a nation
        table = "pair"
        column = "subject"
        to = "nation"

        [links.next]                  # an offset link: from each row to the next one
        table = "token"
        along = "position"            # optional, like the keys below
        within = ["sentence"]
        by = 1

    With ``database = "world.duckdb"``, or another database that `read_database` accepts, a table has ``table`` or
    ``query`` instead of ``file``, or neither if its name is the same there; without keys or links, those that the
    database declares are used. Instead of tables, ``[triples]`` with ``file``, ``entities``, ``closed_world``,
    ``entity`` and ``pair`` passes these to `read_triples`, ``[atoms]`` with ``file``, ``types`` and ``closed_world`` to
    `read_atoms`. A template may also be a table with ``kind``, ``names``, ``symmetric``, ``left`` and ``right``.

    Kinds of other columns are found out as for `MarkovField`. The command line uses the kinds of the file; in Python,
    `parse_schema_file` returns them for ``RelationalField(kinds=...)``.

    Parameters
    ----------
    path : the file, or a folder that contains ``schema.toml``
    other_files : bool
        Whether queries may read files outside of the database, as for `read_database`; the file itself cannot say so.

    Returns
    -------
    Relational

    Raises
    ------
    DataError
        If the file or one of its tables cannot be used.

    Examples
    --------
    >>> read_schema("nations/schema.toml")  # doctest: +SKIP
    Relational(nation: 14 rows, 111 variables; pair: 182 rows, 56 variables; links subject, object)
    """
    return parse_schema_file(path, other_files=other_files).data


def parse_schema_file(path: Path | str, *, other_files: bool = False) -> SchemaFile:
    """Parse a schema file, and read its tables as `read_schema` does."""
    path = Path(path)
    path = path / SCHEMA_NAME if path.is_dir() else path
    content = _read_toml(path)
    _check(content, _TOP, str(path))
    sources = [name for name in ("tables", "triples", "atoms") if name in content]
    if len(sources) != 1:
        raise DataError(
            f"{path}: the file has {' and '.join(sources) or 'no data'}; it must have exactly one of [tables.NAME], "
            "[triples] and [atoms]."
        )
    for name in ("links", "database", *_READING):
        if name in content and (sources != ["tables"] or (name in _READING and "database" in content)):
            what = "a database" if "database" in content and sources == ["tables"] else f"[{sources[0]}]"
            raise DataError(f"{path}: {name!r} cannot be used with {what}: remove it.")
    parsed = (
        _from_tables(content, path, other_files)
        if sources == ["tables"]
        else _from_statements(content, path, sources[0])
    )
    data = parsed.data
    if "templates" in content:
        with _prefix_errors(path):
            data = data.replace(templates=content["templates"])
            resolve_templates(data)
    _check_links(data, parsed.files, path)
    return SchemaFile(data, parsed.kinds, parsed.files, parsed.formats, (path, *parsed.inputs))


def _read_toml(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as text: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path} is not TOML: {' '.join(str(error).split())}.") from None
    except RecursionError:
        raise DataError(
            f"{path}: values are nested too deeply: a schema file has sections of lists and words."
        ) from None


def _check(given: Any, known: Mapping[str, str], where: str, needed: tuple[str, ...] = ()) -> None:
    """Refuse unknown keys and values of the wrong kind."""
    if not isinstance(given, dict):
        raise DataError(f"{where} must be a section with the keys {', '.join(known)}.")
    for key, value in given.items():
        if key not in known:
            raise DataError(f"{where}: unknown key {key!r}; known keys: {', '.join(known)}.")
        if not _FITS[known[key]](value):
            raise DataError(f"{where}: {key} = {value!r} must be {known[key]}.")
    for key in needed:
        if key not in given:
            raise DataError(f"{where}: the key {key!r} is missing.")


def _from_tables(content: Mapping[str, Any], path: Path, other_files: bool) -> SchemaFile:
    tables, database = content["tables"], content.get("database")
    for name, table in tables.items():
        where = f"{path}, [tables.{name}]"
        if database is None:
            _check(table, _FILE_TABLE, where, ("file",))
        else:
            _check(table, _DATABASE_TABLE, where)
            if "table" in table and "query" in table:
                raise DataError(f"{where}: there are both 'table' and 'query': remove one.")
    links = {name: _link(given, f"{path}, [links.{name}]") for name, given in content.get("links", {}).items()}
    options: dict[str, Any] = {
        part: {name: table[part] for name, table in tables.items() if part in table} for part in ("observed", "ignore")
    }
    keys = {name: table["key"] for name, table in tables.items() if "key" in table}
    files: dict[str, TableFile] = {}
    formats: dict[str, FileFormat] = {}
    if database is not None:
        queries = {name: table.get("query", table.get("table", name)) for name, table in tables.items()}
        place = database if "://" in database else str(path.parent / database)
        inputs = () if "://" in database else (Path(place),)
        with _prefix_errors(path):
            data = read_database(
                place, queries, keys=keys or None, links=links or None, **options, other_files=other_files
            )
    else:
        for name, table in tables.items():
            with _prefix_errors(f"{path}, [tables.{name}]"):
                files[name] = TableFile(path.parent / table["file"], _reading(content, table))
        inputs = tuple(file.path for file in files.values())
        sources = {name: file.source() for name, file in files.items()}
        frames, formats = (
            {name: source.table for name, source in sources.items()},
            {name: source.format for name, source in sources.items()},
        )
        texts = {name: files[name] for name, found in formats.items() if found.is_text}
        _read_keys_as_one_type(frames, texts, keys, links)
        with _prefix_errors(path):
            data = Relational(frames, keys=keys, links=links, **options)
    kinds = {name: _kinds(table, data, name, f"{path}, [tables.{name}]") for name, table in tables.items()}
    return SchemaFile(data, {name: own for name, own in kinds.items() if own}, files, formats, inputs)


def _reading(content: Mapping[str, Any], table: Mapping[str, Any]) -> ReadOptions:
    """Return the options for reading a table: its own, else those at the top."""
    given = {key: table.get(key, content.get(key)) for key in _READING}
    given |= {key: table.get(key) for key in ("header", "sheet", "table")}
    words = {key: tuple(given.pop(key) or ()) for key in ("missing", "missing_only")}
    return ReadOptions(**words, **given)


def _read_keys_as_one_type(
    frames: dict[str, pl.DataFrame], files: Mapping[str, TableFile], keys: Mapping[str, str], links: Mapping[str, Link]
) -> None:
    """Read a key and its foreign keys as text if either is text, so that 007 stays distinct from 7 beside x3."""
    import polars as pl

    _read_codes_as_numbers(frames, files, keys, links)
    foreign = [link for link in links.values() if isinstance(link, ForeignKey)]
    for link in foreign * len(foreign):  # repeated, because a column that becomes text may turn others into text
        ends = [(link.table, link.column), (link.to, keys.get(link.to, ""))]
        if any(table not in frames or column not in frames[table].columns for table, column in ends):
            continue  # `Relational` refuses this link
        columns = [frames[table][column] for table, column in ends]
        if any(column.dtype == pl.String and column.null_count() < len(column) for column in columns):
            for (table, name), column in zip(ends, columns, strict=True):
                if column.dtype != pl.String and table in files:
                    frames[table] = frames[table].with_columns(files[table].text(name))


def _read_codes_as_numbers(
    frames: dict[str, pl.DataFrame], files: Mapping[str, TableFile], keys: Mapping[str, str], links: Mapping[str, Link]
) -> None:
    """Read keys and columns of links as integers if they are, also with leading zeros, which make others text."""
    import polars as pl

    ends = {(link.table, column) for link in links.values() for column in link.columns} | set(keys.items())
    for table, name in ends:
        if table in files and name in frames[table].columns:
            column = frames[table][name]
            numbers = column.cast(pl.Int64, strict=False) if column.dtype == pl.String else column
            if len(numbers) and numbers.null_count() == column.null_count() < len(column):
                frames[table] = frames[table].with_columns(numbers)


def _kinds(section: Mapping[str, Any], data: Relational, table: str, where: str) -> dict[str, str]:
    """Return the kinds that a section of the file gives to the columns of a table."""
    entries = {kind: (f"{where}: {kind}", section.get(kind, ())) for kind in ("numeric", "ordinal", "nominal")}
    kinds, variables = find_kinds(entries, data.sources[table].names, commas=False), data.variables(table)
    for column in kinds:
        if column not in variables:
            raise DataError(
                f"{where}: column {column!r} has a kind, but it is a key, a column of a link or ignored, and thus no "
                "variable: remove the one or the other."
            )
    return kinds


def _link(given: Any, where: str) -> Link:
    if not isinstance(given, dict):
        raise DataError(f"{where} must be a section with the keys {_LINK_KEYS}.")
    unknown = [key for key in given if key not in (*_FOREIGN_KEY, *_OFFSET_LINK)]
    if unknown:
        raise DataError(f"{where}: unknown key {unknown[0]!r}; known keys: {_LINK_KEYS}.")
    if "column" in given or "to" in given:
        _check(given, _FOREIGN_KEY, where, tuple(_FOREIGN_KEY))
        return ForeignKey(**given)
    _check(given, _OFFSET_LINK, where, ("table",))
    with _prefix_errors(where):
        return OffsetLink(**given)


def _from_statements(content: Mapping[str, Any], path: Path, section: str) -> SchemaFile:
    """Read the section of triples or of ground atoms; its files are relative to the schema file."""
    read, known, files = {
        "triples": (read_triples, _TRIPLES, ("file", "entities")),
        "atoms": (read_atoms, _ATOMS, ("file", "types")),
    }[section]
    given = dict(content[section])
    _check(given, known, f"{path}, [{section}]", ("file",))
    given |= {name: path.parent / given[name] for name in files if name in given}
    inputs = tuple(given[name] for name in files if name in given)
    with _prefix_errors(path):
        return SchemaFile(read(given.pop("file"), **given), inputs=inputs)


def _check_links(data: Relational, files: Mapping[str, TableFile], path: Path) -> None:
    """Resolve all links, so that an error in the keys is reported immediately with the files concerned."""
    for name, link in data.links.items():
        try:
            data.linked_rows(name)
        except DataError as error:
            tables = [table for table in dict.fromkeys((link.table, link.to)) if table in files]
            where = ", ".join(f"table {table!r} is {files[table].path}" for table in tables)
            raise DataError(f"{path}: {error}" + (f" ({where})" if where else "")) from None


@contextmanager
def _prefix_errors(where: Path | str) -> Iterator[None]:
    """Prefix errors in the data with their place."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
