"""Schema files: TOML files that name linked tables and their links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

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

Names = list[str]
World = bool | Literal["mentioned"]
WORDS: dict[Any, str] = {
    str: "a string",
    bool: "true or false",
    int: "an integer",
    list: "a list",
    dict: "a table",
    Names: "a list of strings",
    World: "true, false or 'mentioned'",
}
"""The types of values, for messages."""

# The keys of each section of the file, and the types of their values.
_READING = {
    "missing": Names,
    "missing_only": Names,
    **dict.fromkeys(("separator", "encoding", "decimal", "dates"), str),
}
_DATA = {"tables": dict, "triples": dict}
_TOP = {"templates": list, **_READING, "database": str, "links": dict, **_DATA}
_TABLE = {"key": str, **dict.fromkeys(("observed", "ignore", "numeric", "ordinal", "nominal"), Names)}
_FILE_TABLE = {"file": str, **_TABLE, "header": bool, **_READING, "sheet": str, "table": str}
_DATABASE_TABLE = {"table": str, "query": str, **_TABLE}
_FOREIGN_KEY = {"table": str, "column": str, "to": str}
_OFFSET_LINK = {"table": str, "along": str, "within": Names, "by": int}
_LINK_KEYS = f"{', '.join(_FOREIGN_KEY)} for a foreign key, or {', '.join(_OFFSET_LINK)} for an offset link"
_TRIPLES = {"file": str, "entities": str, "closed_world": World, "entity": str, "pair": str}


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

        templates = ["within nation", "across subject"]    # optional
        missing = ["-99"]             # optional: words for missing values beside the default ones

        [tables.nation]
        file = "nations.csv"          # or any other file that `read_table` reads
        key = "nation"
        observed = ["area"]           # optional, as are kinds of columns and columns to ignore
        ordinal = ["trust=low<medium<high"]

        [tables.pair]
        file = "relations.csv"

        [links.subject]               # a foreign key: `subject` of `pair` is the key of a nation
        table = "pair"
        column = "subject"
        to = "nation"

    The page "Schema files and databases" has all keys: how files are read, offset links, databases and triples. Kinds
    of columns that no key names are found out as for `MarkovField`. The command line uses the kinds of the file; in
    Python, `parse_schema_file` returns them for ``RelationalField(kinds=...)``.

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
    _raise(_problems(content, _TOP, str(path)))
    sources = [name for name in _DATA if name in content]
    if len(sources) != 1:
        raise DataError(
            f"{path}: the file has {' and '.join(sources) or 'no data'}; it must have either [tables.NAME] or "
            "[triples]."
        )
    refused = ("links", "database", *_READING) if sources != ["tables"] else _READING if "database" in content else ()
    what = f"[{sources[0]}]" if sources != ["tables"] else "a database"
    _raise([f"{path}: {name!r} cannot be used with {what}: remove it." for name in refused if name in content])
    parsed = _from_tables(content, path, other_files) if sources == ["tables"] else _from_triples(content, path)
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


def _problems(section: Any, known: Mapping[str, Any], where: str, *needed: str, keys: str = "") -> list[str]:
    """Return a sentence for each key of a section that is unknown or missing, or has a value of another type."""
    keys = keys or ", ".join(known)
    if not isinstance(section, dict):
        return [f"{where} must be a section with the keys {keys}."]
    problems = [f"{where}: unknown key {key!r}; known keys: {keys}." for key in section if key not in known]
    for key, value in section.items():
        try:
            msgspec.convert(value, known.get(key, Any))
        except msgspec.ValidationError:
            problems.append(f"{where}: {key} = {value!r} must be {WORDS[known[key]]}.")
    return problems + [f"{where}: the key {key!r} is missing." for key in needed if key not in section]


def _raise(problems: Sequence[str]) -> None:
    if problems:
        raise DataError(" ".join(problems))


def _from_tables(content: Mapping[str, Any], path: Path, other_files: bool) -> SchemaFile:
    tables, database, links = content["tables"], content.get("database"), content.get("links", {})
    problems: list[str] = []
    for name, table in tables.items():
        where = f"{path}, [tables.{name}]"
        if database is None:
            problems += _problems(table, _FILE_TABLE, where, "file")
        else:
            problems += _problems(table, _DATABASE_TABLE, where)
            if isinstance(table, dict) and "table" in table and "query" in table:
                problems.append(f"{where}: there are both 'table' and 'query': remove one.")
    for name, link in links.items():
        known, needed = (_FOREIGN_KEY, tuple(_FOREIGN_KEY)) if _is_foreign(link) else (_OFFSET_LINK, ("table",))
        problems += _problems(link, known, f"{path}, [links.{name}]", *needed, keys=_LINK_KEYS)
    _raise(problems)
    links = {name: _link(link, f"{path}, [links.{name}]") for name, link in links.items()}
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
        frames = {name: source.table for name, source in sources.items()}
        formats = {name: source.format for name, source in sources.items()}
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


def _is_foreign(link: Any) -> bool:
    return isinstance(link, dict) and ("column" in link or "to" in link)


def _link(given: Mapping[str, Any], where: str) -> Link:
    with _prefix_errors(where):
        return ForeignKey(**given) if _is_foreign(given) else OffsetLink(**given)


def _from_triples(content: Mapping[str, Any], path: Path) -> SchemaFile:
    """Read the section of triples; its files are relative to the schema file."""
    given = dict(content["triples"])
    _raise(_problems(given, _TRIPLES, f"{path}, [triples]", "file"))
    given |= {name: path.parent / given[name] for name in ("file", "entities") if name in given}
    inputs = tuple(given[name] for name in ("file", "entities") if name in given)
    with _prefix_errors(path):
        return SchemaFile(read_triples(given.pop("file"), **given), inputs=inputs)


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
