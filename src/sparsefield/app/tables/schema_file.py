"""Schema files: TOML files that name linked tables and their links; kinds of columns as words."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from sparsefield.app.tables.file_format import FileFormat
from sparsefield.app.tables.linked import propose_schema, read_database, read_triples, with_keys_of_one_type
from sparsefield.app.tables.places import system_of
from sparsefield.app.tables.read import SourceTable, list_columns, read_source, read_table
from sparsefield.data.links import ForeignKey, Link, OffsetLink
from sparsefield.data.relational import Relational, resolve_templates
from sparsefield.data.schema import Transform
from sparsefield.errors import DataError, prefix_errors

SCHEMA_NAME = "schema.toml"

Names = list[str]
Templates = list | Literal["auto", "base"]
Pairs = Literal["all", "mentioned"]

# The keys of each section of the file, and the types of their values.
_READING = {"missing": Names, "missing_only": Names, "separator": str, "encoding": str, "decimal": str, "dates": str}
_TOP = {"templates": Templates, **_READING, "database": str, "links": dict, "tables": dict, "triples": dict}
_TABLE = {"key": str, **dict.fromkeys(("observed", "ignore", "numeric", "ordinal", "nominal"), Names)}
_FILE_TABLE = {"file": str, **_TABLE, "header": bool, **_READING, "sheet": str}
_DATABASE_TABLE = {"table": str, "query": str, **_TABLE}
_FOREIGN_KEY = {"table": str, "column": str, "to": str}
_OFFSET_LINK = {"table": str, "along": str, "within": Names, "by": int}
_LINK_KEYS = f"{', '.join(_FOREIGN_KEY)} for a foreign key, or {', '.join(_OFFSET_LINK)} for an offset link"
_TRIPLES = {"file": str, "pairs": Pairs}


@dataclass(frozen=True)
class SchemaFile:
    """A parsed schema file: linked tables, and the information that `Relational` does not hold."""

    data: Relational
    kinds: dict[str, dict[str, str]] = field(default_factory=dict)
    """{table: {column: kind}}, for ``RelationalField(kinds=...)``; empty if the schema file names none."""
    files: dict[str, Path] = field(default_factory=dict)
    """Files of the tables that are not from a database."""
    sources: dict[str, SourceTable] = field(default_factory=dict)
    """What was read from these files."""
    inputs: tuple[Path, ...] = ()
    """All files that were read, including the schema file."""


def read_schema(path: Path | str) -> Relational:
    """Read linked tables as a schema file describes them.

    The file is TOML; paths in it are relative to its folder::

        [tables.nation]
        file = "nations.csv"
        key = "nation"

        [tables.pair]
        file = "relations.csv"

        [links.subject]               # a foreign key: `subject` of `pair` is the key of a nation
        table = "pair"
        column = "subject"
        to = "nation"

    The page on schema files has all keys. Kinds that the file names are for the command line; in Python, pass them to
    ``RelationalField(kinds=...)``.

    Parameters
    ----------
    path : the file, or a folder that contains ``schema.toml``; or all that `read_database` takes

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
    return parse_schema_file(path).data


def parse_schema_file(path: Path | str) -> SchemaFile:
    """Parse a schema file, and read its tables as `read_schema` does."""
    place, path = path, Path(path)
    if system_of(place) or (path.is_dir() and not (path / SCHEMA_NAME).exists()):
        proposal = propose_schema(place)
        where, files, sources = proposal.place, proposal.files, proposal.sources
        content, parsed = {}, SchemaFile(proposal.read(), {}, files, sources, tuple(files.values()))
    else:
        where = path = path / SCHEMA_NAME if path.is_dir() else path
        content = _content(path)
        parsed = _from_triples(content, path) if "triples" in content else _from_tables(content, path)
    data = parsed.data
    with prefix_errors(where):
        if "templates" in content:
            data = data.replace(templates=content["templates"])
            resolve_templates(data)
        for name, link in data.links.items():  # now, so that an error in the keys names the files
            try:
                data.linked_rows(name)
            except DataError as error:
                tables = [table for table in dict.fromkeys((link.table, link.to)) if table in parsed.files]
                where = ", ".join(f"table {table!r} is {parsed.files[table]}" for table in tables)
                raise DataError(f"{error}{f' ({where})' if where else ''}") from None
    return replace(parsed, data=data, inputs=(path, *parsed.inputs))


def _content(path: Path) -> dict[str, Any]:
    """Return the content of a schema file, whose sections fit together."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as text: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path} is not TOML: {' '.join(str(error).split())}.") from None
    except RecursionError:
        raise DataError(f"{path}: values are nested too deeply: write sections of lists and words.") from None
    problems = _problems(content, _TOP, str(path))
    parts = [name for name in ("tables", "triples") if name in content]
    if len(parts) != 1 and not problems:
        has = " and ".join(parts) or "no data"
        problems = [f"{path}: the file has {has}; it must have either [tables.NAME] or [triples]."]
    refused = ("links", "database", *_READING) if parts == ["triples"] else _READING if "database" in content else ()
    what = "[triples]" if parts == ["triples"] else "a database"
    problems += [f"{path}: {name!r} cannot be used with {what}: remove it." for name in refused if name in content]
    _raise(problems)
    return content


def _problems(section: Any, known: Mapping[str, Any], where: str, *needed: str, keys: str = "") -> list[str]:
    """Return a sentence for each key of a section that is unknown or missing, or has a value of another type."""
    keys = keys or ", ".join(known)
    if not isinstance(section, dict):
        return [f"{where} must be a section with the keys {keys}."]
    problems = [f"{where}: unknown key {key!r}; known keys: {keys}." for key in section if key not in known]
    for key, value in section.items():
        try:
            msgspec.convert(value, known.get(key, Any))
        except msgspec.ValidationError as error:
            problems.append(f"{where}: {key} = {value!r}: {error}.")
    return problems + [f"{where}: the key {key!r} is missing." for key in needed if key not in section]


def _raise(problems: Sequence[str]) -> None:
    if problems:
        raise DataError(" ".join(problems))


def _from_triples(content: Mapping[str, Any], path: Path) -> SchemaFile:
    options = content["triples"]
    _raise(_problems(options, _TRIPLES, f"{path}, [triples]", "file"))
    place = path.parent / options["file"]
    with prefix_errors(path):
        return SchemaFile(read_triples(read_table(place), pairs=options.get("pairs", "all")), inputs=(place,))


def _from_tables(content: Mapping[str, Any], path: Path) -> SchemaFile:
    tables, database = content["tables"], content.get("database")
    problems: list[str] = []
    for name, table in tables.items():
        where = f"{path}, [tables.{name}]"
        if database is None:
            problems += _problems(table, _FILE_TABLE, where, "file")
        else:
            problems += _problems(table, _DATABASE_TABLE, where)
            if isinstance(table, dict) and "table" in table and "query" in table:
                problems.append(f"{where}: there are both 'table' and 'query': remove one.")
    links: dict[str, Link] = {}
    for name, link in content.get("links", {}).items():
        is_foreign, where = isinstance(link, dict) and ("column" in link or "to" in link), f"{path}, [links.{name}]"
        known, needed = (_FOREIGN_KEY, tuple(_FOREIGN_KEY)) if is_foreign else (_OFFSET_LINK, ("table",))
        wrong = _problems(link, known, where, *needed, keys=_LINK_KEYS)
        problems += wrong
        if not wrong:
            with prefix_errors(where):
                links[name] = ForeignKey(**link) if is_foreign else OffsetLink(**link)
    _raise(problems)
    options: dict[str, Any] = {
        part: {name: table[part] for name, table in tables.items() if part in table} for part in ("observed", "ignore")
    }
    keys = {name: table["key"] for name, table in tables.items() if "key" in table}
    files: dict[str, Path] = {}
    sources: dict[str, SourceTable] = {}
    if database is not None:
        queries = {name: table.get("query", table.get("table", name)) for name, table in tables.items()}
        is_file = system_of(database) != "postgres"
        inputs: tuple[Path, ...] = (path.parent / database,) if is_file else ()
        with prefix_errors(path):
            data = read_database(
                path.parent / database if is_file else database,
                queries,
                keys=keys or None,
                links=links or None,
                **options,
            )
    else:
        for name, table in tables.items():
            with prefix_errors(f"{path}, [tables.{name}]"):
                reading = {key: table.get(key, content.get(key)) for key in _READING}
                words = {key: tuple(reading.pop(key) or ()) for key in ("missing", "missing_only")}
                form = FileFormat(**words, **reading, header=table.get("header"), sheet=table.get("sheet"))
            files[name] = path.parent / table["file"]
            sources[name] = read_source(files[name], form, may_be_empty=True, strict=False)
        inputs = tuple(files.values())
        read = {name: source.table for name, source in sources.items()}
        frames = with_keys_of_one_type(read, sources, keys, list(links.values()))
        with prefix_errors(path):
            data = Relational(frames, keys=keys, links=links, **options)
    kinds = {name: _kinds(table, data, name, f"{path}, [tables.{name}]") for name, table in tables.items()}
    return SchemaFile(data, {name: own for name, own in kinds.items() if own}, files, sources, inputs)


def _kinds(section: Mapping[str, Any], data: Relational, table: str, where: str) -> dict[str, str]:
    """Return the kinds that a section of the file gives to the columns of a table."""
    entries = {kind: (f"{where}: {kind}", section.get(kind, ())) for kind in ("numeric", "ordinal", "nominal")}
    kinds, variables = find_kinds(entries, data.sources[table].names, commas=False), data.variables(table)
    for column in kinds:
        if column not in variables:
            what = "has a kind, but it is a key, a column of a link or ignored"
            raise DataError(f"{where}: column {column!r} {what}: remove one of the two.")
    return kinds


def find_kinds(
    given: Mapping[str, tuple[str, Sequence[str]]], columns: Sequence[str], *, commas: bool = True
) -> dict[str, str]:
    """Return {column: kind}, the scores of a numeric column, or the labels of an ordinal one: ``"low<medium<high"``.

    ``given`` are {kind: (name of its option, entries)}. An entry is a column; of an ordinal one also
    ``column=low<medium<high``, of a numeric one also ``column=linear-scores`` or ``column=normal-scores``; columns that
    share this are ``one=another=low<high``. With ``commas``, an entry may name several columns.
    """
    kinds: dict[str, str] = {}
    source: dict[str, str] = {}
    for kind, (option, entries) in given.items():
        for part in [part for entry in entries for part in (_parts(entry, columns) if commas else [entry])]:
            names, detail = ([part], "") if part in columns else _find_detail(part, columns)
            if not names or (kind == "nominal" and detail):
                raise DataError(f"{option} names the column {part!r}, which does not exist; {list_columns(columns)}.")
            labels = detail.split("<")
            if kind == "ordinal" and detail and (len(labels) < 2 or not all(label.strip() for label in labels)):
                example = f"{names[0]}=low<medium<high"
                raise DataError(f"{option} has {part!r}: give all labels in ascending order, such as {example}.")
            if kind == "numeric" and detail and detail not in get_args(Transform):
                known = " or ".join(f"{names[0]}={transform}" for transform in get_args(Transform))
                raise DataError(f"{option} has {part!r}: write {known}, or only its name to let its values decide.")
            for name in names:
                if kinds.setdefault(name, detail or kind) != (detail or kind):
                    options = " and ".join(dict.fromkeys((source[name], option)))
                    raise DataError(f"{options} say two things about column {name!r}: remove one.")
                source[name] = option
    return kinds


def _parts(entry: str, columns: Sequence[str]) -> list[str]:
    """Return the parts between commas; those of ``age, in years=low<high`` belong to names of columns."""
    names, detail = _find_detail(entry, columns)
    if entry in columns or (any("," in name for name in names) and "," not in detail):
        return [entry]
    return [part.strip() for part in entry.split(",")]


def _find_detail(text: str, columns: Sequence[str]) -> tuple[list[str], str]:
    """Return the columns of ``column=detail`` or ``one=another=detail``, and the detail; nothing if there is no column.

    Names may contain an equals sign.
    """
    names, name, rest = [], "", text
    while "=" in rest:
        part, _, rest = rest.partition("=")
        name = f"{name}={part}" if name else part.strip()
        if name in columns:
            names, name = [*names, name], ""
    return names, (f"{name}={rest}" if name else rest).strip() if names else ""
