"""Databases, read only: tables of SQLite and DuckDB files and of PostgreSQL, and the keys that they declare."""

from __future__ import annotations

import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from sparsefield.app.tables.places import as_url, system_of, without_password
from sparsefield.app.tables.values import read_dates
from sparsefield.data.links import ForeignKey
from sparsefield.errors import DataError

CATALOG = {
    "sqlite": (
        "SELECT m.name, m.type = 'view', p.name, p.type FROM sqlite_master m "
        "LEFT JOIN pragma_table_info(CASE m.type WHEN 'table' THEN m.name END) p "  # a view may name what is gone
        "WHERE m.type IN ('table', 'view') AND substr(m.name, 1, 7) <> 'sqlite_' ORDER BY m.name, p.cid",
        "SELECT m.name, -1, p.name, NULL, NULL FROM sqlite_master m, pragma_table_info(m.name) p "
        "WHERE m.type = 'table' AND p.pk > 0 UNION ALL "
        'SELECT m.name, f.id, f."from", f."table", f."to" FROM sqlite_master m, pragma_foreign_key_list(m.name) f '
        "WHERE m.type = 'table' ORDER BY 1, 2 DESC",
    ),
    "duckdb": (
        "SELECT c.table_name, t.table_type = 'VIEW', c.column_name, c.data_type FROM information_schema.columns c "
        "JOIN information_schema.tables t USING (table_catalog, table_schema, table_name) "
        "WHERE c.table_schema = current_schema() AND c.table_catalog = current_database() "
        "ORDER BY c.table_name, c.ordinal_position",
        "SELECT table_name, constraint_index, unnest(constraint_column_names), referenced_table, "
        "unnest(CASE WHEN referenced_table IS NULL THEN [NULL FOR x IN constraint_column_names] "
        "ELSE referenced_column_names END) FROM duckdb_constraints() WHERE schema_name = current_schema() "
        "AND database_name = current_database() AND constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY') ORDER BY 1, 2",
    ),
    "postgres": (
        "SELECT c.relname, c.relkind IN ('v', 'm'), a.attname, format_type(a.atttypid, NULL) "
        "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        "JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid "
        "WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition AND a.attnum > 0 "
        "AND NOT a.attisdropped AND pg_catalog.pg_table_is_visible(c.oid) "
        "AND n.nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY c.relname, a.attnum",
        "SELECT t.relname, k.oid::bigint, a.attname, u.relname, b.attname FROM pg_catalog.pg_constraint k "
        "CROSS JOIN LATERAL unnest(k.conkey, k.confkey) WITH ORDINALITY AS p(own, other, place) "
        "JOIN pg_catalog.pg_class t ON t.oid = k.conrelid "
        "JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = p.own "
        "LEFT JOIN pg_catalog.pg_class u ON u.oid = k.confrelid AND k.confrelid <> 0 "
        "LEFT JOIN pg_catalog.pg_attribute b ON b.attrelid = k.confrelid AND b.attnum = p.other "
        "WHERE k.contype IN ('p', 'f') AND pg_catalog.pg_table_is_visible(t.oid) ORDER BY 1, 2, p.place",
    ),
}
"""{system: queries for (table, whether it is a view, column, type), and for (table, constraint, column, referenced
table, referenced column), which are null in a primary key}"""

_PLAIN = re.compile(
    r"boolean|(small|big)?int(eger)?|tinyint|real|float|double( precision)?|date|timestamp|text|varchar"
)
_NUMBER = re.compile(r"(numeric|decimal|u?hugeint|ubigint|bignum).*")
_EXTRA = "pip install 'sparsefield[databases]'"


class Reference(NamedTuple):
    """A foreign key, which may have several columns."""

    table: str
    columns: tuple[str, ...]
    to: str
    to_columns: tuple[str, ...]


class Database:
    """An open database: its tables and views, their columns, and the keys that they declare."""

    def __init__(self, connection: Any, system: str, place: str, errors: tuple[type[Exception], ...]) -> None:
        self.connection, self.system, self.place, self._errors = connection, system, place, errors
        (_, columns), (_, keys) = (self._execute(query, "the catalog") for query in CATALOG[system])
        self.columns: dict[str, dict[str, str]] = {}
        for table, _, column, type in columns:
            self.columns.setdefault(table, {}).update({column: type.lower()} if column else {})
        self.tables, self.views = list(self.columns), {table for table, is_view, *_ in columns if is_view}
        self._constraints: dict[tuple[str, int], list[tuple[str, str | None, str | None]]] = {}
        for table, number, *key in keys:
            self._constraints.setdefault((table, number), []).append(tuple(key))

    def _execute(self, query: str, what: str) -> tuple[list[str], list[tuple]]:
        """Return the names of the columns of a result, and its rows."""
        try:
            # A query that is prepared is a single one.
            result = self.connection.execute(query, **({"prepare": True} if self.system == "postgres" else {}))
            return [column[0] for column in result.description or ()], result.fetchall()
        except (UnicodeDecodeError, *self._errors) as error:  # the former for names in a damaged SQLite file
            raise DataError(f"{self.place}, {what}: {_one_line(error)}.") from None

    def primary_key(self, table: str) -> tuple[str, ...]:
        """Return the columns of the primary key of a table; none if it has none."""
        keys = [key for (name, _), key in self._constraints.items() if name == table and key[0][1] is None]
        return tuple(column for column, *_ in keys[0]) if keys else ()

    def references(self, table: str) -> list[Reference]:
        """Return the foreign keys of a table to tables that exist."""
        known, found = {name.casefold(): name for name in self.tables}, []
        for (name, _), key in self._constraints.items():
            to = known.get((key[0][1] or "").casefold())
            if name == table and to is not None:
                named = tuple(column for _, _, column in key if column is not None)
                found.append(Reference(table, tuple(column for column, *_ in key), to, named or self.primary_key(to)))
        return found

    def find_keys(
        self, names: Mapping[str, str], keys: Mapping[str, str] | None = None
    ) -> tuple[dict[str, str], list[ForeignKey], list[Reference]]:
        """Return {table: key}, the declared links to keys, and foreign keys of several columns or to other columns.

        ``names`` are {table: the name that it gets}. Without a primary key, the key is a column that others reference;
        ``keys`` may be given.
        """
        references = [own for table in names for own in self.references(table) if own.to in names]
        single = [own for own in references if len(own.columns) == len(own.to_columns) == 1]
        if keys is None:
            primary = {name: key[0] for table, name in names.items() if len(key := self.primary_key(table)) == 1}
            keys = {names[own.to]: own.to_columns[0] for own in reversed(single)} | primary
        links = [own for own in single if own.to_columns[0] == keys.get(names[own.to])]
        named = [ForeignKey(names[own.table], own.columns[0], names[own.to]) for own in links]
        return dict(keys), named, [own for own in references if own not in links]

    def select(self, table: str) -> tuple[str, list[str]]:
        """Return a SELECT of the columns of a table, as types that are learned, and the binary columns that it lacks.

        In SQLite, any cell may be binary whatever the type of its column says.
        """
        parts, binary = [], []
        for column, type in self.columns[table].items():
            name = _quoted(column)
            if self.system == "sqlite":
                of_bytes = f"SELECT 1 FROM {_quoted(table)} WHERE typeof({name}) = 'blob' LIMIT 1"
                is_binary, cast = bool(self._execute(of_bytes, f"table {table!r}")[1]), ""
            else:
                is_binary = type in ("blob", "bytea")
                cast = "" if _PLAIN.fullmatch(type) else "float8" if _NUMBER.fullmatch(type) else "text"
                if type == "date" or type.startswith("timestamp"):  # which may be infinite
                    cast = type.split()[0]
                    name = f"CASE WHEN isfinite({name}) THEN {name} END"
            if is_binary:
                binary.append(column)
            else:
                parts.append(f"CAST({name} AS {cast}) AS {_quoted(column)}" if cast else name)
        return f"SELECT {', '.join(parts) or '*'} FROM {_quoted(table)}", binary

    def read(self, table: str, query: str = "") -> pl.DataFrame:
        """Return all rows of a table, or the result of one SELECT, to which the table gives its name in messages."""
        query, binary = (query, []) if query else self.select(table)
        names, cells = ([], []) if binary else self._execute(query, f"table {table!r}")
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"{self.place}: table {table!r} has several columns {twice!r}: rename them with AS.")
        columns = []
        for name, values in zip(names, zip(*cells, strict=True) if cells else [()] * len(names), strict=True):
            types = set(map(type, values))  # which may be mixed in SQLite; numbers beside text become text
            binary += [name] if types & {bytes, memoryview} else []
            dtype = pl.String if str in types else pl.Float64 if types & {float, Decimal} else None
            texts = [None if cell is None else str(cell) for cell in values] if str in types else values
            columns.append(pl.Series(name, texts if name not in binary else [], dtype=dtype, strict=False))
        if binary:
            raise DataError(f"{self.place}: column {binary[0]!r} has binary cells: cast it in a query, or drop it.")
        return read_dates(pl.DataFrame(columns))[0]  # SQLite has no type for dates


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


def _quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


@contextmanager
def open_database(place: Path | str, name: str = "") -> Iterator[Database]:
    """Open a database, which is not changed, and in which no query reaches anything else.

    Of a SQLite file and its log a copy is opened, since SQLite would merge the log, or make one beside the file.
    ``name`` stands for the place in messages.
    """
    system, name = system_of(place), name or str(place)
    if system == "postgres":
        with _open_postgres(as_url(place)) as database:
            yield database
        return
    path = Path(place)
    if not path.is_file():
        raise DataError(f"{name}: there is no such database; give a SQLite or DuckDB file, or a postgresql:// URL.")
    if system is None:
        raise DataError(f"{name}: this is no SQLite or DuckDB file: name a file with one table under [tables.NAME].")
    if system == "duckdb":
        try:
            import duckdb  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise DataError(f"{name}: this is a DuckDB file: {_EXTRA} to read it.") from None
        safe = ("enable_external_access", "autoload_known_extensions", "python_enable_replacements")
        try:
            options = dict.fromkeys(safe, "false") | {"lock_configuration": "true"}
            connection = duckdb.connect(str(path), read_only=True, config=options)
        except duckdb.Error as error:
            raise DataError(f"{name}: {_one_line(error)}.") from None
        with closing(connection):
            yield Database(connection, system, name, (duckdb.Error,))
        return
    with tempfile.TemporaryDirectory(prefix="sparsefield-") as folder:
        copy, log = Path(folder) / "database", path.with_name(f"{path.name}-wal")
        shutil.copyfile(path, copy)
        if log.is_file():
            shutil.copyfile(log, copy.with_name("database-wal"))
        with closing(sqlite3.connect(copy)) as connection:
            connection.execute("PRAGMA query_only = 1")
            yield Database(connection, system, name, (sqlite3.Error, sqlite3.Warning))


@contextmanager
def _open_postgres(address: str) -> Iterator[Database]:
    """Connect to PostgreSQL, and read all tables as they are at one moment."""
    url, password = without_password(address)
    try:
        import psycopg  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise DataError(f"{url}: {_EXTRA} to read tables of PostgreSQL.") from None
    try:
        connection = psycopg.connect(url, **({"password": password} if password else {}), connect_timeout=10)
    except psycopg.Error as error:
        text = _one_line(error).replace(password or "\0", "***")
        how = "write postgresql://USER@HOST:PORT/DATABASE, and the password into the variable PGPASSWORD"
        raise DataError(f"{url}: there is no connection ({text}): {how}.") from None
    with closing(connection):
        connection.read_only, connection.isolation_level = True, psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SET LOCAL TIME ZONE 'UTC'")
        yield Database(connection, "postgres", url, (psycopg.Error,))
