"""A small TOML file that says which tables lie beside it and how their rows are linked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.data.links import ForeignKey, Link, OffsetLink
from sparsefield.data.relational import Relational
from sparsefield.data.templates import resolve_templates
from sparsefield.errors import DataError
from sparsefield.io.atoms import read_atoms
from sparsefield.io.database import read_database
from sparsefield.io.files import ReadOptions, is_parquet, list_columns, read_table
from sparsefield.io.triples import read_triples

if TYPE_CHECKING:
    import polars as pl

__all__ = ["SCHEMA_NAME", "SchemaFile", "TableFile", "parse_schema_file", "read_schema"]

SCHEMA_NAME = "schema.toml"

# The keys that each part of the file may have, and what stands there.
_TOP = {
    "templates": "a list",
    "missing": "a list of strings",
    "separator": "a string",
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
}
_FILE_TABLE = {"file": "a string", **_TABLE, "header": "true or false"}
_DATABASE_TABLE = {"table": "a string", "query": "a string", **_TABLE}
_FOREIGN_KEY = {"table": "a string", "column": "a string", "to": "a string"}
_STEP = {"table": "a string", "along": "a string", "within": "a list of strings", "by": "a whole number"}
_LINK_KEYS = f"{', '.join(_FOREIGN_KEY)} for a foreign key, or {', '.join(_STEP)} for a step"
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
    "a whole number": lambda value: isinstance(value, int) and not isinstance(value, bool),
    _WORLD: lambda value: isinstance(value, bool) or value == "mentioned",
}


@dataclass(frozen=True)
class TableFile:
    """Where a table lies, and how it is read."""

    path: Path
    reading: ReadOptions

    def read(self, *, as_text: bool = False) -> pl.DataFrame:
        return read_table(self.path, self.reading, as_text=as_text, may_be_empty=True)

    def text(self, column: str) -> pl.Series:
        """A column of a CSV as the text that it is, with nulls for gaps."""
        cells = self.read(as_text=True)[column]
        return cells.set(cells.is_in(self.reading.markers(self.path)), None)


@dataclass(frozen=True)
class SchemaFile:
    """Linked tables, and what their schema file says of them beside."""

    data: Relational
    numeric: dict[str, list[str]] = field(default_factory=dict)
    """Observed columns that are numbers, for ``RelationalField(numeric=...)``; empty if the file names none."""
    files: dict[str, TableFile] = field(default_factory=dict)
    """Of the tables that lie in a file each."""
    inputs: tuple[Path, ...] = ()
    """All files that were read, the schema file among them."""


def read_schema(path: Path | str) -> Relational:
    """Linked tables as a schema file describes them.

    The file is TOML; files that it names lie beside it, or are found from there::

        templates = ["within nation", "across subject", "swapped subject object"]   # optional
        missing = ["NA"]              # optional: words that stand for a gap
        separator = ";"               # optional: what stands between the cells of a CSV

        [tables.nation]
        file = "nations.csv"          # or .parquet
        key = "nation"
        observed = ["area"]           # optional
        numeric = ["income"]          # optional: observed columns that are numbers, see below
        ignore = ["notes"]            # optional

        [tables.pair]
        file = "relations.csv"
        header = false                # optional: the CSV has no names; columns are x0, x1, ...

        [links.subject]               # the column `subject` of `pair` names a nation
        table = "pair"
        column = "subject"
        to = "nation"

        [links.next]                  # a step instead: from each row to the next one
        table = "token"
        along = "position"            # optional, and so are the others
        within = ["sentence"]
        by = 1

    With ``database = "world.duckdb"``, or what else `read_database` takes, a table has ``table`` or ``query`` in place
    of ``file``, or neither if it is called the same there; if the file has no keys or no links, they are those that the
    database declares. In place of tables, ``[triples]`` with ``file``, ``entities``, ``closed_world``, ``entity`` and
    ``pair``, or ``[atoms]`` with ``file``, ``types`` and ``closed_world``, take what `read_triples` and `read_atoms`
    take.
    A template may also be a table with ``kind``, ``names``, ``symmetric``, ``left`` and ``right``.

    Columns that are ``numeric`` are observed as well. If any table names some, all other observed columns, of all
    tables, are categories; if none does, columns with fractions or many whole numbers are numbers. The command line
    hands this on; in Python, `parse_schema_file` tells it for ``RelationalField(numeric=...)``.

    Parameters
    ----------
    path : the file, or a folder with a file ``schema.toml``

    Returns
    -------
    Relational

    Raises
    ------
    DataError
        When the file, or a table that it names, cannot be used.

    Examples
    --------
    >>> read_schema("nations/schema.toml")  # doctest: +SKIP
    Relational(nation: 14 rows, 111 variables; pair: 182 rows, 56 variables; links subject, object)
    """
    return parse_schema_file(path).data


def parse_schema_file(path: Path | str) -> SchemaFile:
    """What `read_schema` reads, with the files that it comes from and the columns that are numbers."""
    path = Path(path)
    path = path / SCHEMA_NAME if path.is_dir() else path
    content = _parsed(path)
    _check(content, _TOP, str(path))
    sources = [name for name in ("tables", "triples", "atoms") if name in content]
    if len(sources) != 1:
        raise DataError(
            f"{path}: the data are given by {' and '.join(sources) or 'nothing'}; it must be one of [tables.NAME], "
            "[triples] and [atoms]."
        )
    for name in ("links", "database", "missing", "separator"):
        if name in content and (sources != ["tables"] or (name in ("missing", "separator") and "database" in content)):
            what = "a database" if "database" in content and sources == ["tables"] else f"[{sources[0]}]"
            raise DataError(f"{path}: {name!r} does not go with {what}: leave it out.")
    read = {"tables": _from_tables, "triples": _from_triples, "atoms": _from_atoms}[sources[0]]
    parsed = read(content, path)
    data = _with_templates(parsed.data, content.get("templates"), path)
    _check_links(data, parsed.files, path)
    return SchemaFile(data, parsed.numeric, parsed.files, (path, *parsed.inputs))


def _parsed(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as text: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path} is not TOML: {' '.join(str(error).split())}.") from None


def _check(given: Any, known: Mapping[str, str], where: str, needed: tuple[str, ...] = ()) -> None:
    """Refuse keys that are not known, and values of another kind."""
    if not isinstance(given, dict):
        raise DataError(f"{where} must have keys of its own: {', '.join(known)}.")
    for key, value in given.items():
        if key not in known:
            raise DataError(f"{where}: the key {key!r} is not known; known ones: {', '.join(known)}.")
        if not _FITS[known[key]](value):
            raise DataError(f"{where}: {key} = {value!r} must be {known[key]}.")
    for key in needed:
        if key not in given:
            raise DataError(f"{where}: the key {key!r} is missing.")


def _from_tables(content: Mapping[str, Any], path: Path) -> SchemaFile:
    tables, database = content["tables"], content.get("database")
    _check_tables(tables, database, path)
    links = {name: _link(given, f"{path}, [links.{name}]") for name, given in content.get("links", {}).items()}
    options: dict[str, Any] = {
        part: {name: table[part] for name, table in tables.items() if part in table} for part in ("observed", "ignore")
    }
    keys = {name: table["key"] for name, table in tables.items() if "key" in table}
    numeric = {name: table["numeric"] for name, table in tables.items() if table.get("numeric")}
    files: dict[str, TableFile] = {}
    if database is not None:
        asked = {name: table.get("query", table.get("table", name)) for name, table in tables.items()}
        place = database if "://" in database else str(path.parent / database)
        inputs = () if "://" in database else (Path(place),)
        with _errors(path):
            data = read_database(place, asked, keys=keys or None, links=links or None, **options)
    else:
        files = {name: _table_file(table, content, path) for name, table in tables.items()}
        inputs = tuple(file.path for file in files.values())
        frames = {name: file.read() for name, file in files.items()}
        _read_keys_alike(frames, files, keys, links)
        with _errors(path):
            data = Relational(frames, keys=keys, links=links, **options)
    return SchemaFile(_with_numbers(data, numeric, path), numeric, files, inputs)


def _check_tables(tables: Mapping[str, Any], database: str | None, path: Path) -> None:
    for name, table in tables.items():
        where = f"{path}, [tables.{name}]"
        if database is None:
            _check(table, _FILE_TABLE, where, ("file",))
        else:
            _check(table, _DATABASE_TABLE, where)
            if "table" in table and "query" in table:
                raise DataError(f"{where}: there are both 'table' and 'query': leave one out.")


def _table_file(table: Mapping[str, Any], content: Mapping[str, Any], path: Path) -> TableFile:
    missing, separator = tuple(content.get("missing", ())), content.get("separator")
    return TableFile(path.parent / table["file"], ReadOptions(missing, table.get("header", True), separator))


def _read_keys_alike(
    frames: dict[str, pl.DataFrame], files: Mapping[str, TableFile], keys: Mapping[str, str], links: Mapping[str, Link]
) -> None:
    """Read keys, and the columns that hold them, as text where either is: 007 in a file is no 7 if there is an x3."""
    import polars as pl

    foreign = [link for link in links.values() if isinstance(link, ForeignKey)]
    for link in foreign * len(foreign):  # as often as that, since what becomes text may make text of others
        ends = [(link.table, link.column), (link.to, keys.get(link.to, ""))]
        if any(table not in frames or column not in frames[table].columns for table, column in ends):
            continue  # this is refused with the links
        columns = [frames[table][column] for table, column in ends]
        if any(column.dtype == pl.String and column.null_count() < len(column) for column in columns):
            for (table, name), column in zip(ends, columns, strict=True):
                if column.dtype != pl.String and not is_parquet(files[table].path):
                    frames[table] = frames[table].with_columns(files[table].text(name))


def _with_numbers(data: Relational, numeric: Mapping[str, list[str]], path: Path) -> Relational:
    """The same with numeric columns among the observed ones."""
    observed = dict(data.observed)
    for table, columns in numeric.items():
        for column in columns:
            if column not in data.sources[table].names:
                raise DataError(
                    f"{path}, [tables.{table}]: numeric names the column {column!r}, which is not there; "
                    f"{list_columns(data.sources[table].names)}."
                )
        observed[table] = list(dict.fromkeys([*observed.get(table, ()), *columns]))
    with _errors(path):
        return data.replace(observed=observed) if numeric else data


def _link(given: Any, where: str) -> Link:
    if not isinstance(given, dict):
        raise DataError(f"{where} must have keys of its own: {_LINK_KEYS}.")
    strange = [key for key in given if key not in (*_FOREIGN_KEY, *_STEP)]
    if strange:
        raise DataError(f"{where}: the key {strange[0]!r} is not known; known ones: {_LINK_KEYS}.")
    if "column" in given or "to" in given:
        _check(given, _FOREIGN_KEY, where, tuple(_FOREIGN_KEY))
        return ForeignKey(**given)
    _check(given, _STEP, where, ("table",))
    with _errors(where):
        return OffsetLink(**given)


def _from_triples(content: Mapping[str, Any], path: Path) -> SchemaFile:
    given = dict(content["triples"])
    _check(given, _TRIPLES, f"{path}, [triples]", ("file",))
    inputs = _beside(path, given, "file", "entities")
    with _errors(path):
        return SchemaFile(read_triples(given.pop("file"), **given), inputs=inputs)


def _from_atoms(content: Mapping[str, Any], path: Path) -> SchemaFile:
    given = dict(content["atoms"])
    _check(given, _ATOMS, f"{path}, [atoms]", ("file",))
    inputs = _beside(path, given, "file", "types")
    with _errors(path):
        return SchemaFile(read_atoms(given.pop("file"), **given), inputs=inputs)


def _beside(path: Path, given: dict[str, Any], *names: str) -> tuple[Path, ...]:
    """Files that are named, found from the folder of the schema file; put into ``given`` so."""
    given.update({name: path.parent / given[name] for name in names if name in given})
    return tuple(given[name] for name in names if name in given)


def _with_templates(data: Relational, templates: list[Any] | None, path: Path) -> Relational:
    if templates is None:
        return data
    with _errors(path):
        made = data.replace(templates=templates)
        resolve_templates(made)
    return made


def _check_links(data: Relational, files: Mapping[str, TableFile], path: Path) -> None:
    """Find the rows that are linked, so that a fault in the keys is told at once, with the files that it lies in."""
    for name, link in data.links.items():
        try:
            data.linked_rows(name)
        except DataError as error:
            tables = [table for table in dict.fromkeys((link.table, link.to)) if table in files]
            where = ", ".join(f"table {table!r} is {files[table].path}" for table in tables)
            raise DataError(f"{path}: {error}" + (f" ({where})" if where else "")) from None


@contextmanager
def _errors(where: Path | str) -> Iterator[None]:
    """Errors in the data, with the place that led to them."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
