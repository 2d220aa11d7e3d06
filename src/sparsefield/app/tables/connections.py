"""This module gives DuckDB, SQLite, PostgreSQL and Parquet files one interface: tables, queries and declared keys."""

from __future__ import annotations

import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from sparsefield.app.tables.declared_keys import DeclaredKeys, ForeignKeyConstraint, TableName
from sparsefield.app.tables.file_kinds import PARQUET
from sparsefield.app.tables.sqlite_files import open_sqlite, sqlite_column, uses_log
from sparsefield.errors import DataError

if TYPE_CHECKING:
    import polars as pl

CATALOG = "source"
CONNECT_SECONDS = 10
SHOWN_TABLES = 8
TEXT = (".csv", ".tsv", ".txt")
_POSTGRES = ("postgresql://", "postgres://")
_QUERY = re.compile(r"\s*\(?\s*(select|with|from|values)\s", re.IGNORECASE)
_GLOB_MARK = re.compile(r"([\[*?])")
_HOME_SCHEMAS = ("main", "public")


class Connection(ABC):
    """An open database; ``place`` is its name in error messages."""

    def __init__(self, place: str) -> None:
        self.place = place

    @property
    @abstractmethod
    def tables(self) -> list[TableName]:
        """Tables and views."""

    @abstractmethod
    def query(self, name: str, query: str) -> pl.DataFrame:
        """Return the result of one SELECT; ``name`` is the name of the resulting table in error messages."""

    @abstractmethod
    def declared_keys(self) -> DeclaredKeys:
        """Return the declared primary and foreign keys."""

    def table(self, table: TableName) -> pl.DataFrame:
        """Return all rows of a table."""
        return self.query(table.name, f"SELECT * FROM {quote_identifier(table.schema)}.{quote_identifier(table.name)}")

    def find(self, table_or_query: str) -> TableName | None:
        """Return the table with the given name, with or without its schema, or None if the text is a query."""
        for spell in (str, str.casefold):
            fits = [t for t in self.tables if spell(table_or_query) in (spell(t.name), spell(f"{t.schema}.{t.name}"))]
            fits = fits if len(fits) < 2 else [t for t in fits if t.schema in _HOME_SCHEMAS] or fits
            if len(fits) == 1:
                return fits[0]
            if fits:
                several = ", ".join(f"{t.schema}.{t.name}" for t in fits)
                raise DataError(
                    f"{self.place}: {table_or_query!r} is ambiguous ({several}): add the schema to the name."
                )
        if _QUERY.match(table_or_query):
            return None
        names = [t.name for t in self.tables]
        shown = ", ".join(names[:SHOWN_TABLES]) or "none"
        more = f" and {len(names) - SHOWN_TABLES} more" if len(names) > SHOWN_TABLES else ""
        raise DataError(
            f"{self.place}: there is no table {table_or_query!r}; tables: {shown}{more}. A query must begin with "
            "SELECT."
        )


def quote_identifier(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def _quote_literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


class DuckDBConnection(Connection):
    """A database that DuckDB has attached as its current catalog."""

    def __init__(
        self, place: str, connection: Any, catalog: str, *, secrets: Sequence[str] = (), files: Sequence[str] = ()
    ) -> None:
        super().__init__(place)
        self._connection = connection
        self._catalog = catalog
        self._secrets = secrets
        self.files = files
        """Files that views of this connection read."""

    def forbid_other_files(self, allowed: Sequence[str] = ()) -> None:
        """Refuse queries and views of the database that read other files or addresses than the allowed ones."""
        if allowed:
            self._connection.execute(f"SET allowed_paths = [{', '.join(map(_quote_literal, allowed))}]")
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    @cached_property
    def tables(self) -> list[TableName]:
        query = (
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = ? "
            "AND table_schema NOT IN ('information_schema', 'pg_catalog') ORDER BY ALL"
        )
        with duckdb_errors(self.place, self._secrets):
            return [TableName(*row) for row in self._connection.execute(query, [self._catalog]).fetchall()]

    def query(self, name: str, query: str) -> pl.DataFrame:
        import duckdb
        import polars as pl

        with duckdb_errors(f"{self.place}, table {name!r}", self._secrets):
            statements = self._connection.extract_statements(query)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise DataError(f"{self.place}: the query for table {name!r} must be a single SELECT.")
            answer = self._connection.sql(query)
            _refuse_duplicate_columns(answer.columns, self.place, name)
            # polars also works without pyarrow, but DuckDB 2.0 then prints at exit that the result is still in use.
            return answer.pl() if find_spec("pyarrow") else pl.DataFrame(answer)

    def declared_keys(self) -> DeclaredKeys:
        query = (
            "SELECT constraint_type, schema_name, table_name, constraint_column_names, referenced_table, "
            "referenced_column_names FROM duckdb_constraints() WHERE database_name = ? ORDER BY table_oid, "
            "constraint_index"
        )
        with duckdb_errors(self.place, self._secrets):
            rows = self._connection.execute(query, [self._catalog]).fetchall()
        keys = DeclaredKeys({}, [])
        for kind, schema, name, columns, to, referred in rows:
            table = TableName(schema, name)
            if kind == "PRIMARY KEY":
                keys.primary[table] = tuple(columns)
            elif kind == "FOREIGN KEY":
                target = TableName(schema, to)
                keys.foreign.append(ForeignKeyConstraint(table, tuple(columns), target, tuple(referred)))
        return keys


class SQLiteConnection(Connection):
    """A SQLite file, read through Python's ``sqlite3``."""

    def __init__(self, place: str, connection: sqlite3.Connection) -> None:
        super().__init__(place)
        self._connection = connection

    @cached_property
    def tables(self) -> list[TableName]:
        query = (
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite!_%' ESCAPE '!' "
            "ORDER BY name"
        )
        return [TableName("main", name) for (name,) in self._rows(query)]

    def query(self, name: str, query: str) -> pl.DataFrame:
        import polars as pl

        try:
            with closing(self._connection.execute(query)) as cursor:
                names = [column[0] for column in cursor.description or ()]
                rows = cursor.fetchall()
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise DataError(f"{self.place}, table {name!r}: {error}.") from None
        _refuse_duplicate_columns(names, self.place, name)
        columns = zip(*rows, strict=True) if rows else ([] for _ in names)
        return pl.DataFrame(
            [sqlite_column(name, cells, self.place) for name, cells in zip(names, columns, strict=True)]
        )

    def declared_keys(self) -> DeclaredKeys:
        primary: dict[TableName, tuple[str, ...]] = {}
        for table in self.tables:
            rows = self._rows("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", table.name)
            if rows:
                primary[table] = tuple(name for (name,) in rows)
        folded = {table.folded(): columns for table, columns in primary.items()}
        foreign: list[ForeignKeyConstraint] = []
        for table in self.tables:
            query = 'SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?) ORDER BY id DESC, seq'
            parts: dict[int, list[tuple]] = {}
            for number, *part in self._rows(query, table.name):
                parts.setdefault(number, []).append(tuple(part))
            for several in parts.values():
                to = TableName("main", several[0][0])
                # A foreign key without column names references the primary key.
                named = tuple(column for _, _, column in several if column is not None)
                referred = named or folded.get(to.folded(), ())
                if len(referred) == len(several):
                    foreign.append(ForeignKeyConstraint(table, tuple(column for _, column, _ in several), to, referred))
        return DeclaredKeys(primary, foreign)

    def _rows(self, query: str, *values: str) -> list[tuple]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise DataError(f"{self.place}: {error}.") from None


class _SQLiteViaDuckDB(DuckDBConnection):
    """A SQLite file, read through DuckDB; its declared keys, which DuckDB does not expose, come from ``sqlite3``."""

    def __init__(self, place: str, connection: Any, path: Path) -> None:
        super().__init__(place, connection, CATALOG)
        self._path = path

    def declared_keys(self) -> DeclaredKeys:
        with closing(open_sqlite(self._path)) as connection:
            return SQLiteConnection(self.place, connection).declared_keys()


@contextmanager
def connect(database: Path | str, *, other_files: bool) -> Iterator[Connection]:
    """Open a database for reading: a file, a folder or glob pattern of Parquet files, or an address.

    Without ``other_files``, queries and views that read other files or addresses are refused.
    """
    with _open(database) as connection:
        if isinstance(connection, DuckDBConnection) and not other_files:
            connection.forbid_other_files(connection.files)
        yield connection


@contextmanager
def _open(database: Path | str) -> Iterator[Connection]:
    address, path = str(database), Path(database)
    if address.startswith(_POSTGRES):
        with _open_duckdb() as connection:
            yield _postgres(connection, address)
    elif path.is_dir() or (not path.exists() and any(mark in address for mark in "*?[")):
        with _open_duckdb() as connection:
            yield _parquet(connection, address, path)
    elif not path.is_file():
        raise DataError(
            f"{address}: there is no such database; give a file, a folder of Parquet files or postgresql://..."
        )
    elif path.suffix.lower() in (*TEXT, *PARQUET):
        remedy = "give its folder" if path.suffix.lower() in PARQUET else "read it with read_table"
        raise DataError(
            f"{address}: this file holds one table, not a database: {remedy}, or in a schema file remove 'database' "
            "and name the file under [tables.NAME]."
        )
    elif _is_sqlite(path):
        with _sqlite(path) as opened:
            yield opened
    else:
        with _open_duckdb() as connection, duckdb_errors(address):
            _attach(connection, address)
            yield DuckDBConnection(address, connection, CATALOG)


OTHER_FILES_REMEDY = (
    "queries may not read files or addresses outside of the database; in Python, other_files=True of read_database and "
    "read_schema permits it"
)


@contextmanager
def duckdb_errors(place: str, secrets: Sequence[str] = ()) -> Iterator[None]:
    """Raise DuckDB's errors as one-line `DataError` with the name of the database and without passwords."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        line = str(error).strip().splitlines()[0].rstrip(".")
        for secret in secrets:
            line = line.replace(secret, "***")
        remedy = f": {OTHER_FILES_REMEDY}" if isinstance(error, duckdb.PermissionException) else ""
        raise DataError(f"{place}: {line}{remedy}.") from None


@contextmanager
def _open_duckdb() -> Iterator[Any]:
    try:
        import duckdb
    except ImportError:
        raise DataError(
            "Databases are read through DuckDB, which is not installed: pip install 'sparsefield[sql]'."
        ) from None
    with closing(duckdb.connect()) as connection:
        connection.execute("SET autoinstall_known_extensions = false")
        # A query must not resolve to a Python variable when a table does not exist.
        connection.execute("SET python_enable_replacements = false")
        yield connection


def _refuse_duplicate_columns(names: Sequence[str], place: str, table: str) -> None:
    twice = next((name for name in names if list(names).count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{place}: table {table!r} has several columns {twice!r}: rename them with AS in a query.")


def _load(connection: Any, extension: str, *, fetch: bool) -> None:
    """Load an installed extension of DuckDB; with ``fetch``, install it if needed."""
    import duckdb

    try:
        connection.execute(f"LOAD {extension}")
    except duckdb.Error:
        if not fetch:
            raise
        connection.execute(f"INSTALL {extension}")
        connection.execute(f"LOAD {extension}")


def _attach(connection: Any, address: str, options: str = "") -> None:
    connection.execute(f"ATTACH {_quote_literal(address)} AS {CATALOG} ({options}READ_ONLY)")
    connection.execute(f"USE {CATALOG}")


def _is_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(15) == b"SQLite format 3"


@contextmanager
def _sqlite(path: Path) -> Iterator[Connection]:
    try:
        import duckdb
    except ImportError:
        duckdb = None
    if duckdb is not None and not uses_log(path):  # DuckDB writes files beside one with a log
        with _open_duckdb() as connection:
            try:
                _load(connection, "sqlite", fetch=False)
            except duckdb.Error:
                pass
            else:
                with duckdb_errors(str(path)):
                    _attach(connection, str(path), "TYPE sqlite, ")
                yield _SQLiteViaDuckDB(str(path), connection, path)
                return
    with closing(open_sqlite(path)) as plain:
        yield SQLiteConnection(str(path), plain)


def _parquet(connection: Any, address: str, path: Path) -> Connection:
    """Create a view for each Parquet file, named after the file."""
    import glob

    found = sorted(str(file) for file in path.iterdir()) if path.is_dir() else sorted(glob.glob(address))
    files = [Path(file) for file in found if Path(file).suffix.lower() in PARQUET]
    if not files:
        raise DataError(f"{address}: no Parquet files were found.")
    known: dict[str, Path] = {}
    for file in files:
        before = known.setdefault(file.stem.casefold(), file)
        if before != file:
            raise DataError(f"{address}: {before} and {file} would both be the table {file.stem!r}: rename one.")
        # DuckDB takes names such as a[b] for patterns, which cannot be permitted one by one: these are read at once.
        escaped = _GLOB_MARK.sub(r"[\1]", str(file))
        what = "VIEW" if escaped == str(file) else "TABLE"
        with duckdb_errors(str(file)):
            connection.execute(
                f"CREATE {what} {quote_identifier(file.stem)} AS SELECT * FROM read_parquet({_quote_literal(escaped)})"
            )
    return DuckDBConnection(address, connection, "memory", files=[str(file) for file in files])


def _postgres(connection: Any, address: str) -> Connection:
    import duckdb

    parts = urlsplit(address)
    given = [parts.password or "", *parse_qs(parts.query).get("password", ())]
    secrets = [secret for word in given if word for secret in (word, unquote(word))]
    place = address
    for secret in secrets:
        place = place.replace(secret, "***")
    try:
        _load(connection, "postgres", fetch=True)
    except duckdb.Error:
        raise DataError(
            f"{place}: DuckDB's extension for PostgreSQL is not installed and could not be downloaded: run INSTALL "
            "postgres in DuckDB while online, or export the tables to Parquet."
        ) from None
    if "connect_timeout" not in parse_qs(parts.query):
        address += ("&" if parts.query else "?") + f"connect_timeout={CONNECT_SECONDS}"
    with duckdb_errors(place, secrets):
        _attach(connection, address, "TYPE postgres, ")
    return DuckDBConnection(place, connection, CATALOG, secrets=secrets)
