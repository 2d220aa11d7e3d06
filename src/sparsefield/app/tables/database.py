"""Tables, queries and declared keys of SQLite files, by the standard library, and of DuckDB files."""

from __future__ import annotations

import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl

from sparsefield.data.links import Link
from sparsefield.data.relational import Relational
from sparsefield.errors import DataError

SHOWN_TABLES = 8
_QUERY = re.compile(r"\s*\(?\s*(select|with|from|values)\s", re.IGNORECASE)


@dataclass(frozen=True)
class Database:
    """An open database file."""

    place: str
    """The name of the file in messages."""
    tables: Mapping[str, str]
    """{table or view: its quoted name}; DuckDB's tables of other schemas than main have the schema in their name."""
    primary: Mapping[str, str]
    """{table: primary key}, of keys of one column."""
    foreign: Sequence[tuple[str, str, str, str]]
    """(table, column, other table, its column) of foreign keys of one column."""
    query: Callable[[str, str], pl.DataFrame]
    """Returns the result of one SELECT; the second argument is its name in messages."""

    def table(self, name: str) -> pl.DataFrame:
        """Return all rows of a table."""
        return self.query(f"SELECT * FROM {self.tables[name]}", name)


@contextmanager
def connect(path: Path | str, *, place: str = "") -> Iterator[Database]:
    """Open a database for reading; queries and views that read other files are refused."""
    path, place = Path(path), place or str(path)
    if not path.is_file():
        raise DataError(f"{place}: there is no such database; give a SQLite or DuckDB file.")
    with path.open("rb") as file:
        head = file.read(20)
    if head.startswith(b"SQLite format 3"):
        with tempfile.TemporaryDirectory(prefix="sparsefield-") as folder:
            log = path.with_name(f"{path.name}-wal")
            if log.is_file() and log.stat().st_size:  # which SQLite would merge into the file
                log, path = (Path(shutil.copy(file, folder)) for file in (log, path))
                address = str(path)
            else:  # SQLite would create a log beside a file that uses logs
                address = f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' * (head[18:20] == bytes([2, 2]))}"
            with closing(sqlite3.connect(address, uri=address != str(path))) as connection:
                yield _open_sqlite(place, connection)
        return
    if head[8:12] != b"DUCK":
        raise DataError(
            f"{place}: this is no SQLite or DuckDB file; a file with one table is read by read_table, and in a schema "
            "file it is named under [tables.NAME] without 'database'."
        )
    try:
        import duckdb
    except ImportError:
        raise DataError(
            f"{place}: this is read by DuckDB, which is not installed: pip install 'sparsefield[sql]'."
        ) from None
    # A query must not resolve to a Python variable when a table does not exist.
    config: dict[str, Any] = {"autoinstall_known_extensions": "false", "python_enable_replacements": "false"}
    with _duckdb_errors(place):
        connection = duckdb.connect(str(path), read_only=True, config=config)
    with closing(connection):
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield _open_duckdb(place, connection)


def _open_sqlite(place: str, connection: sqlite3.Connection) -> Database:
    def rows(query: str, *values: str) -> list[tuple]:
        try:
            return connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise DataError(f"{place}: this SQLite file cannot be read ({error}).") from None

    def select(query: str, table: str) -> pl.DataFrame:
        try:
            with closing(connection.execute(query)) as cursor:
                names = [column[0] for column in cursor.description or ()]
                cells = cursor.fetchall()
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise DataError(f"{place}, table {table!r}: {error}.") from None
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"{place}: table {table!r} has several columns {twice!r}: rename them with AS in a query.")
        columns = zip(*cells, strict=True) if cells else ([] for _ in names)
        return pl.DataFrame(_sqlite_column(name, own, place) for name, own in zip(names, columns, strict=True))

    query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
    tables = {name: _quote(name) for (name,) in rows(f"{query} ORDER BY name")}
    primary, foreign = {}, []
    for table in tables:
        keys = rows("SELECT name FROM pragma_table_info(?) WHERE pk > 0", table)
        primary |= {table: keys[0][0]} if len(keys) == 1 else {}
    for table in tables:
        query = 'SELECT "table", "from", "to" FROM pragma_foreign_key_list(?) GROUP BY id HAVING count(*) = 1'
        for other, column, referred in rows(f"{query} ORDER BY id DESC", table):
            to = next((name for name in tables if name.casefold() == other.casefold()), "")
            referred = referred or primary.get(to)  # a key without column names references the primary key
            foreign += [(table, column, to, referred)] if to and referred else []
    return Database(place, tables, primary, foreign, select)


def _sqlite_column(name: str, cells: Sequence[Any], place: str) -> pl.Series:
    """Return cells of SQLite, whose columns may mix types; numbers beside text become text."""
    types = {type(cell) for cell in cells} - {type(None)}
    if bytes in types and len(types) > 1:
        raise DataError(f"{place}: column {name!r} has binary cells beside others: cast it in a query, or drop it.")
    if str in types:
        return pl.Series(name, [None if cell is None else str(cell) for cell in cells], dtype=pl.String)
    return pl.Series(name, cells, dtype=pl.Float64 if types == {int, float} else None, strict=False)


def _open_duckdb(place: str, connection: Any) -> Database:
    import duckdb

    def full_name(schema: str, table: str) -> str:
        return table if schema == "main" else f"{schema}.{table}"

    def select(query: str, table: str) -> pl.DataFrame:
        with _duckdb_errors(f"{place}, table {table!r}"):
            statements = connection.extract_statements(query)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise DataError(f"{place}: the query for table {table!r} must be a single SELECT.")
            answer = connection.sql(query)
            # polars also works without pyarrow, but DuckDB 2.0 then prints at exit that the result is still in use.
            frame = answer.pl() if find_spec("pyarrow") else pl.DataFrame(answer)
        plain: dict[Any, Any] = {}
        for column, dtype in frame.schema.items():  # SQL sums are decimals
            if isinstance(dtype, pl.Decimal) or dtype == pl.Int128:
                plain[column] = pl.Float64 if getattr(dtype, "scale", 0) else pl.Int64
            elif isinstance(dtype, (pl.Categorical, pl.Enum)):
                plain[column] = pl.String
        try:
            return frame.cast(plain)
        except pl.exceptions.InvalidOperationError:
            raise DataError(
                f"{place}: table {table!r} has integers of more than 64 bits: cast them in a query."
            ) from None

    query = (
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = current_database() "
        "AND table_schema NOT IN ('information_schema', 'pg_catalog') ORDER BY ALL"
    )
    tables = {full_name(*row): ".".join(map(_quote, row)) for row in connection.execute(query).fetchall()}
    query = (
        "SELECT constraint_type, schema_name, table_name, constraint_column_names[1], referenced_table, "
        "referenced_column_names[1] FROM duckdb_constraints() WHERE database_name = current_database() "
        "AND len(constraint_column_names) = 1 ORDER BY table_oid, constraint_index"
    )
    primary, foreign = {}, []
    for kind, schema, table, column, to, referred in connection.execute(query).fetchall():
        if kind == "PRIMARY KEY":
            primary[full_name(schema, table)] = column
        elif kind == "FOREIGN KEY":
            foreign.append((full_name(schema, table), column, full_name(schema, to), referred))
    return Database(place, tables, primary, foreign, select)


@contextmanager
def _duckdb_errors(place: str) -> Iterator[None]:
    """Raise DuckDB's errors as one-line `DataError` with the name of the database."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        remedy = ": queries read nothing but the database" * isinstance(error, duckdb.PermissionException)
        raise DataError(f"{place}: {str(error).strip().splitlines()[0].rstrip('.')}{remedy}.") from None


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def read_database(
    database: Path | str,
    tables: Mapping[str, str],
    *,
    keys: Mapping[str, str] | None = None,
    links: Mapping[str, Link | Sequence[str]] | None = None,
    observed: Mapping[str, Sequence[str]] | None = None,
    ignore: Mapping[str, Sequence[str]] | None = None,
    templates: Sequence[Any] | None = None,
) -> Relational:
    """Read linked tables from a SQLite or DuckDB file, which is opened read-only.

    DuckDB files need DuckDB: ``pip install 'sparsefield[sql]'``, which also exports tables of other databases.

    Parameters
    ----------
    database : path
    tables : {name: table or query}
        ``{"nation": "nations"}`` reads a table, ``{"nation": "SELECT name, area FROM nations"}`` the result of a query,
        which reads nothing but the database. The order of rows is not defined, so an `OffsetLink` needs its column
        ``along``.
    keys : {table: column}
        The key column of each table. None takes the primary keys that the database declares.
    links : {name: (table, column, table)}
        As for `Relational`. None takes the foreign keys that the database declares between these tables; a link has the
        name of its column, or ``table.column`` if several tables have a column of that name.
    observed, ignore, templates : as for `Relational`

    Returns
    -------
    Relational

    Raises
    ------
    DataError
        If the database cannot be opened or does not have a table.

    Examples
    --------
    >>> read_database("world.duckdb", {"nation": "nations"})  # doctest: +SKIP
    Relational(nation: 14 rows, 111 variables)
    """
    if not tables:
        raise DataError("No tables were given: pass tables={name: table or query, ...}.")
    frames, name_of = {}, {}
    with connect(database) as opened:
        for name, text in tables.items():
            wanted = text.casefold().removeprefix("main.")
            table = next((table for table in opened.tables if table.casefold() == wanted), None)
            if table is None and not _QUERY.match(text):
                rest = len(opened.tables) - SHOWN_TABLES
                shown = ", ".join(list(opened.tables)[:SHOWN_TABLES]) or "none"
                raise DataError(
                    f"{opened.place}: there is no table {text!r}; tables: {shown}"
                    f"{f' and {rest} more' if rest > 0 else ''}. A query must begin with SELECT."
                )
            frames[name] = opened.query(text, name) if table is None else opened.table(table)
            if frames[name].height == 0:
                raise DataError(f"{opened.place}: table {name!r} has no rows.")
            if table is not None:
                name_of.setdefault(table, name)
    foreign = [(name_of[a], c, name_of[b], key) for a, c, b, key in opened.foreign if {a, b} <= name_of.keys()]
    if keys is None:
        keys = {name_of[table]: column for table, column in opened.primary.items() if table in name_of}
        for _, _, to, referred in foreign:  # a table without a primary key has the column that foreign keys reference
            keys.setdefault(to, referred)
    if links is None:
        links, columns = {}, [column for _, column, _, _ in foreign]
        for table, column, to, referred in foreign:
            if keys.get(to) != referred:
                raise DataError(
                    f"Column {column!r} of table {table!r} is declared to reference {referred!r} of table {to!r}, "
                    f"whose key is {keys.get(to)!r}: pass keys= and links= explicitly."
                )
            name = column if columns.count(column) == 1 else f"{table}.{column}"
            name = name if "_".join(name.split()) not in links else f"{name}.{to}"
            links["_".join(name.split())] = (table, column, to)  # the name of a link has no spaces
    return Relational(frames, keys=keys, links=links, observed=observed, ignore=ignore, templates=templates)
