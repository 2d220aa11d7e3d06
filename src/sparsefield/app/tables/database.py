"""Tables, queries and declared keys of SQLite files, by the standard library, and of DuckDB files."""

from __future__ import annotations

import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl

from sparsefield.data.links import Link
from sparsefield.data.relational import Relational
from sparsefield.errors import DataError

SHOWN_TABLES = 8
_QUERY = re.compile(r"\s*\(?\s*(select|with|from|values)\s", re.IGNORECASE)
OTHER_FILES = "queries may not read files outside of the database; in Python, other_files=True permits it"


class SQLiteFile:
    """An open SQLite file; ``place`` is its name in messages."""

    def __init__(self, place: str, connection: sqlite3.Connection) -> None:
        self.place, self._connection = place, connection
        query = (
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
        )
        self.tables: list[str] = [name for (name,) in self._rows(f"{query} ORDER BY name")]

    def query(self, query: str, table: str) -> pl.DataFrame:
        """Return the result of one SELECT; ``table`` is the name of the result in messages."""
        try:
            with closing(self._connection.execute(query)) as cursor:
                names = [column[0] for column in cursor.description or ()]
                rows = cursor.fetchall()
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise DataError(f"{self.place}, table {table!r}: {error}.") from None
        _refuse_duplicate_columns(names, self.place, table)
        columns = zip(*rows, strict=True) if rows else ([] for _ in names)
        return pl.DataFrame(self._column(name, cells) for name, cells in zip(names, columns, strict=True))

    def table(self, name: str) -> pl.DataFrame:
        """Return all rows of a table."""
        return self.query(f"SELECT * FROM {_quote(name)}", name)

    def declared_keys(self) -> tuple[dict[str, str], list[tuple[str, str, str, str]]]:
        """Return {table: primary key} and (table, column, other table, its column), of keys of one column."""
        primary, foreign = {}, []
        for table in self.tables:
            keys = self._rows("SELECT name FROM pragma_table_info(?) WHERE pk > 0", table)
            primary |= {table: keys[0][0]} if len(keys) == 1 else {}
        for table in self.tables:
            query = 'SELECT "table", "from", "to" FROM pragma_foreign_key_list(?) GROUP BY id HAVING count(*) = 1'
            for other, column, referred in self._rows(f"{query} ORDER BY id DESC", table):
                named = next((name for name in self.tables if name.casefold() == other.casefold()), "")
                referred = referred or primary.get(named)  # a key without column names references the primary key
                foreign += [(table, column, named, referred)] if named and referred else []
        return primary, foreign

    def _rows(self, query: str, *values: str) -> list[tuple]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise DataError(f"{self.place}: this SQLite file cannot be read ({error}).") from None

    def _column(self, name: str, cells: Sequence[Any]) -> pl.Series:
        """Return cells of SQLite, whose columns may mix types; numbers beside text become text."""
        types = {type(cell) for cell in cells} - {type(None)}
        if bytes in types and len(types) > 1:
            raise DataError(
                f"{self.place}: column {name!r} has binary cells beside others: cast it in a query, or drop it."
            )
        if str in types:
            return pl.Series(name, [None if cell is None else str(cell) for cell in cells], dtype=pl.String)
        return pl.Series(name, cells, dtype=pl.Float64 if types == {int, float} else None, strict=False)


class DuckDBFile:
    """An open DuckDB file; tables of other schemas than main have their schema in the name."""

    def __init__(self, place: str, connection: Any) -> None:
        self.place, self._connection = place, connection
        query = (
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = current_database() "
            "AND table_schema NOT IN ('information_schema', 'pg_catalog') ORDER BY ALL"
        )
        self._names = {self._name(*row): row for row in connection.execute(query).fetchall()}
        self.tables = list(self._names)

    @staticmethod
    def _name(schema: str, table: str) -> str:
        return table if schema == "main" else f"{schema}.{table}"

    def query(self, query: str, table: str) -> pl.DataFrame:
        """Return the result of one SELECT; ``table`` is the name of the result in messages."""
        import duckdb

        with _duckdb_errors(f"{self.place}, table {table!r}"):
            statements = self._connection.extract_statements(query)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise DataError(f"{self.place}: the query for table {table!r} must be a single SELECT.")
            answer = self._connection.sql(query)
            _refuse_duplicate_columns(answer.columns, self.place, table)
            # polars also works without pyarrow, but DuckDB 2.0 then prints at exit that the result is still in use.
            return _with_plain_types(answer.pl() if find_spec("pyarrow") else pl.DataFrame(answer), self.place, table)

    def table(self, name: str) -> pl.DataFrame:
        """Return all rows of a table."""
        return self.query(f"SELECT * FROM {'.'.join(map(_quote, self._names[name]))}", name)

    def declared_keys(self) -> tuple[dict[str, str], list[tuple[str, str, str, str]]]:
        """Return {table: primary key} and (table, column, other table, its column), of keys of one column."""
        query = (
            "SELECT constraint_type, schema_name, table_name, constraint_column_names[1], referenced_table, "
            "referenced_column_names[1] FROM duckdb_constraints() WHERE database_name = current_database() "
            "AND len(constraint_column_names) = 1 ORDER BY table_oid, constraint_index"
        )
        primary, foreign = {}, []
        for kind, schema, name, column, to, referred in self._connection.execute(query).fetchall():
            table = self._name(schema, name)
            if kind == "PRIMARY KEY":
                primary[table] = column
            elif kind == "FOREIGN KEY":
                foreign.append((table, column, self._name(schema, to), referred))
        return primary, foreign


@contextmanager
def connect(path: Path | str, *, place: str = "", other_files: bool = False) -> Iterator[SQLiteFile | DuckDBFile]:
    """Open a database for reading; without ``other_files``, queries and views that read other files are refused."""
    path, place = Path(path), place or str(path)
    if not path.is_file():
        raise DataError(f"{place}: there is no such database; give a SQLite or DuckDB file.")
    with path.open("rb") as file:
        head = file.read(15)
    if head == b"SQLite format 3":
        with closing(_open_sqlite(path)) as connection:
            yield SQLiteFile(place, connection)
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
        if not other_files:
            connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield DuckDBFile(place, connection)


def _open_sqlite(path: Path) -> sqlite3.Connection:
    """Open a SQLite file such that nothing beside it is written; one with a write-ahead log is copied to memory."""
    with path.open("rb") as file:
        uses_log = file.read(20)[18:20] == b"\x02\x02"
    log = path.with_name(f"{path.name}-wal")
    if not uses_log or not log.is_file() or not log.stat().st_size:
        return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' * uses_log}", uri=True)
    memory = sqlite3.connect(":memory:")
    with tempfile.TemporaryDirectory(prefix="sparsefield-") as folder:
        for file in (path, log):
            shutil.copyfile(file, Path(folder) / file.name)
        with closing(sqlite3.connect(Path(folder) / path.name)) as source:
            source.backup(memory)
    return memory


@contextmanager
def _duckdb_errors(place: str) -> Iterator[None]:
    """Raise DuckDB's errors as one-line `DataError` with the name of the database."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        line = str(error).strip().splitlines()[0].rstrip(".")
        remedy = f": {OTHER_FILES}" if isinstance(error, duckdb.PermissionException) else ""
        raise DataError(f"{place}: {line}{remedy}.") from None


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _refuse_duplicate_columns(names: Sequence[str], place: str, table: str) -> None:
    twice = next((name for name in names if list(names).count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{place}: table {table!r} has several columns {twice!r}: rename them with AS in a query.")


def _with_plain_types(frame: pl.DataFrame, place: str, table: str) -> pl.DataFrame:
    """Cast decimals, which SQL sums return, to integers or floats, and enumerations to text."""
    plain: dict[str, Any] = {}
    for name, dtype in frame.schema.items():
        if isinstance(dtype, pl.Decimal):
            plain[name] = pl.Int64 if dtype.scale == 0 else pl.Float64
        elif isinstance(dtype, (pl.Categorical, pl.Enum)):
            plain[name] = pl.String
        elif dtype == pl.Int128:
            plain[name] = pl.Int64
    try:
        return frame.with_columns(pl.col(name).cast(dtype) for name, dtype in plain.items())
    except pl.exceptions.InvalidOperationError:
        raise DataError(f"{place}: table {table!r} has integers of more than 64 bits: cast them in a query.") from None


def read_database(
    database: Path | str,
    tables: Mapping[str, str],
    *,
    keys: Mapping[str, str] | None = None,
    links: Mapping[str, Link | Sequence[str]] | None = None,
    observed: Mapping[str, Sequence[str]] | None = None,
    ignore: Mapping[str, Sequence[str]] | None = None,
    templates: Sequence[Any] | None = None,
    other_files: bool = False,
) -> Relational:
    """Read linked tables from a SQLite or DuckDB file, which is opened read-only.

    DuckDB files need DuckDB: ``pip install 'sparsefield[sql]'``, which also exports tables of other databases.

    Parameters
    ----------
    database : path
    tables : {name: table or query}
        ``{"nation": "nations"}`` reads a table, ``{"nation": "SELECT name, area FROM nations"}`` the result of a query.
        The order of rows is not defined, so an `OffsetLink` needs its column ``along``.
    keys : {table: column}
        The key column of each table. None takes the primary keys that the database declares.
    links : {name: (table, column, table)}
        As for `Relational`. None takes the foreign keys that the database declares between these tables; a link has the
        name of its column, or ``table.column`` if several tables have a column of that name.
    observed, ignore, templates : as for `Relational`
    other_files : bool
        Whether queries, and views of the database, may read other files, as DuckDB's ``read_csv`` does. They then read
        whatever this process can read: permit it only for queries that you trust.

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
    frames, named = {}, {}
    with connect(database, other_files=other_files) as opened:
        for name, text in tables.items():
            table = _find_table(opened, text)
            frames[name] = opened.query(text, name) if table is None else opened.table(table)
            if frames[name].height == 0:
                raise DataError(f"{opened.place}: table {name!r} has no rows.")
            if table is not None:
                named.setdefault(table, name)
        primary, declared = opened.declared_keys()
    foreign = [(named[a], column, named[b], key) for a, column, b, key in declared if a in named and b in named]
    if keys is None:
        keys = {named[table]: column for table, column in primary.items() if table in named}
        for _, _, to, referred in foreign:  # a table without a primary key has the column that foreign keys reference
            keys.setdefault(to, referred)
    links = _declared_links(foreign, keys) if links is None else links
    return Relational(frames, keys=keys, links=links, observed=observed, ignore=ignore, templates=templates)


def _find_table(database: SQLiteFile | DuckDBFile, text: str) -> str | None:
    """Return the table with a name, with or without its schema and in any case; None if the text is a query."""
    wanted = text.casefold().removeprefix("main.")
    fits = [table for table in database.tables if wanted == table.casefold()]
    fits = fits or [table for table in database.tables if wanted == table.casefold().partition(".")[2]]
    fits = [table for table in fits if table == text] or fits
    if len(fits) == 1:
        return fits[0]
    if fits:
        raise DataError(f"{database.place}: {text!r} is ambiguous ({', '.join(fits)}): add the schema to the name.")
    if _QUERY.match(text):
        return None
    rest = len(database.tables) - SHOWN_TABLES
    shown = ", ".join(database.tables[:SHOWN_TABLES]) or "none"
    raise DataError(
        f"{database.place}: there is no table {text!r}; tables: {shown}{f' and {rest} more' if rest > 0 else ''}. A "
        "query must begin with SELECT."
    )


def _declared_links(
    foreign: Sequence[tuple[str, str, str, str]], keys: Mapping[str, str]
) -> dict[str, tuple[str, str, str]]:
    links: dict[str, tuple[str, str, str]] = {}
    columns = [column for _, column, _, _ in foreign]
    for table, column, to, referred in foreign:
        if keys.get(to) != referred:
            raise DataError(
                f"Column {column!r} of table {table!r} is declared to reference {referred!r} of table {to!r}, "
                f"whose key is {keys.get(to)!r}: pass keys= and links= explicitly."
            )
        name = column if columns.count(column) == 1 else f"{table}.{column}"
        name = name if "_".join(name.split()) not in links else f"{name}.{to}"
        links["_".join(name.split())] = (table, column, to)  # the name of a link has no spaces
    return links
