"""A small TOML file that says which tables lie beside it and how their rows are linked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sparsefield.data.links import ForeignKey, Link, Step
from sparsefield.data.relational import Relational, resolve_templates
from sparsefield.errors import DataError
from sparsefield.readers.atoms import read_atoms
from sparsefield.readers.database import read_database
from sparsefield.readers.files import Reading, read_table
from sparsefield.readers.triples import read_triples

__all__ = ["SCHEMA_NAME", "read_schema"]

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
_TABLE = {"key": "a string", "observed": "a list of strings", "ignore": "a list of strings"}
_FILE_TABLE = {"file": "a string", **_TABLE}
_DATABASE_TABLE = {"table": "a string", "query": "a string", **_TABLE}
_FOREIGN_KEY = {"table": "a string", "column": "a string", "to": "a string"}
_STEP = {"table": "a string", "along": "a string", "within": "a list of strings", "by": "a whole number"}
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
    "a whole number": lambda value: isinstance(value, int) and not isinstance(value, bool),
    _WORLD: lambda value: isinstance(value, bool) or value == "mentioned",
}


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
        ignore = ["notes"]            # optional

        [tables.pair]
        file = "relations.csv"

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
    data = {"tables": _from_tables, "triples": _from_triples, "atoms": _from_atoms}[sources[0]](content, path)
    return _with_templates(data, content.get("templates"), path)


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


def _from_tables(content: Mapping[str, Any], path: Path) -> Relational:
    tables, database = content["tables"], content.get("database")
    for name, table in tables.items():
        where = f"{path}, [tables.{name}]"
        if database is None:
            _check(table, _FILE_TABLE, where, ("file",))
        else:
            _check(table, _DATABASE_TABLE, where)
            if "table" in table and "query" in table:
                raise DataError(f"{where}: there are both 'table' and 'query': leave one out.")
    links = {name: _link(given, f"{path}, [links.{name}]") for name, given in content.get("links", {}).items()}
    options: dict[str, Any] = {
        part: {name: table[part] for name, table in tables.items() if part in table} for part in ("observed", "ignore")
    }
    keys = {name: table["key"] for name, table in tables.items() if "key" in table}
    if database is not None:
        asked = {name: table.get("query", table.get("table", name)) for name, table in tables.items()}
        place = database if "://" in database else str(path.parent / database)
        with _errors(path):
            return read_database(place, asked, keys=keys or None, links=links or None, **options)
    reading = Reading(tuple(content.get("missing", ())), separator=content.get("separator"))
    frames = {name: read_table(path.parent / table["file"], reading) for name, table in tables.items()}
    with _errors(path):
        return Relational(frames, keys=keys, links=links, **options)


def _link(given: Any, where: str) -> Link:
    if isinstance(given, dict) and ("column" in given or "to" in given):
        _check(given, _FOREIGN_KEY, where, tuple(_FOREIGN_KEY))
        return ForeignKey(**given)
    _check(given, _STEP, where, ("table",))
    with _errors(where):
        return Step(**given)


def _from_triples(content: Mapping[str, Any], path: Path) -> Relational:
    given = dict(content["triples"])
    _check(given, _TRIPLES, f"{path}, [triples]", ("file",))
    if "entities" in given:
        given["entities"] = path.parent / given["entities"]
    with _errors(path):
        return read_triples(path.parent / given.pop("file"), **given)


def _from_atoms(content: Mapping[str, Any], path: Path) -> Relational:
    given = dict(content["atoms"])
    _check(given, _ATOMS, f"{path}, [atoms]", ("file",))
    if "types" in given:
        given["types"] = path.parent / given["types"]
    with _errors(path):
        return read_atoms(path.parent / given.pop("file"), **given)


def _with_templates(data: Relational, templates: list[Any] | None, path: Path) -> Relational:
    if templates is None:
        return data
    with _errors(path):
        made = Relational(
            data.tables,
            keys=data.keys,
            links=data.links,
            observed=data.observed,
            ignore=data.ignore,
            templates=templates,
        )
        resolve_templates(made)
    return made


@contextmanager
def _errors(where: Path | str) -> Iterator[None]:
    """Errors in the data, with the place that led to them."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
