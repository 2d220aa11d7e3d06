"""Tables of a SQLite file by the standard library, and the keys that it declares."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import polars as pl

from sparsefield.app.tables.values import read_dates
from sparsefield.data.links import ForeignKey
from sparsefield.errors import DataError


class Database:
    """An open SQLite file: its tables and views, and the keys that it declares."""

    def __init__(self, connection: sqlite3.Connection, place: str) -> None:
        self.connection, self.place = connection, place
        listed = "FROM sqlite_master WHERE type IN ('table', 'view') AND substr(name, 1, 7) <> 'sqlite_'"
        types = dict(self._rows(f"SELECT name, type {listed} ORDER BY name"))
        self.tables, self.views = list(types), {name for name, type in types.items() if type == "view"}

    def _rows(self, query: str, *values: str) -> list[tuple]:
        try:
            return self.connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise DataError(f"{self.place}: this SQLite file cannot be read ({error}).") from None

    def primary_key(self, table: str) -> str | None:
        """Return the primary key of a table; None if it has none, or one of several columns."""
        keys = self._rows("SELECT name FROM pragma_table_info(?) WHERE pk > 0", table)
        return keys[0][0] if len(keys) == 1 else None

    def foreign_keys(self, table: str) -> list[tuple[str, str, str | None]]:
        """Return (column, other table, its column) of the foreign keys of one column."""
        query = 'SELECT "from", "table", "to" FROM pragma_foreign_key_list(?) GROUP BY id HAVING count(*) = 1'
        rows = self._rows(f"{query} ORDER BY id DESC", table)
        known = {name.casefold(): name for name in self.tables}
        rows = [(column, known[to.casefold()], key) for column, to, key in rows if to.casefold() in known]
        return [(column, to, key or self.primary_key(to)) for column, to, key in rows]

    def find_keys(self, names: Mapping[str, str]) -> tuple[dict[str, str], list[tuple[str, ForeignKey]]]:
        """Return {table: key}, and the declared links with the columns that they reference.

        ``names`` are {table: the name that it gets}. Without a primary key, the key is a column that others reference.
        """
        foreign = [(name, *key) for table, name in names.items() for key in self.foreign_keys(table)]
        links = [(key, ForeignKey(name, column, names[to])) for name, column, to, key in foreign if key and to in names]
        primary = {name: key for table, name in names.items() if (key := self.primary_key(table))}
        return {link.to: key for key, link in reversed(links)} | primary, links

    def query_without_bytes(self, table: str) -> str:
        """Return a SELECT of the columns without binary cells; empty if it has all columns."""
        names = [name for (name,) in self._rows("SELECT name FROM pragma_table_info(?)", table)]
        bytes_in = "SELECT 1 FROM {} WHERE typeof({}) = 'blob' LIMIT 1"
        known = [name for name in names if not self._rows(bytes_in.format(_quoted(table), _quoted(name)))]
        return "" if known == names else f"SELECT {', '.join(map(_quoted, known))} FROM {_quoted(table)}"

    def read(self, table: str, query: str = "") -> pl.DataFrame:
        """Return all rows of a table, or the result of one SELECT, to which the table gives its name in messages."""
        query = query or f"SELECT * FROM {_quoted(table)}"
        try:
            with closing(self.connection.execute(query)) as cursor:
                names, cells = [column[0] for column in cursor.description or ()], cursor.fetchall()
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise DataError(f"{self.place}, table {table!r}: {error}.") from None
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"{self.place}: table {table!r} has several columns {twice!r}: rename them with AS.")
        columns = []
        for name, values in zip(names, zip(*cells, strict=True) if cells else [()] * len(names), strict=True):
            types = set(map(type, values))  # which may be mixed in SQLite; numbers beside text become text
            if bytes in types:
                raise DataError(f"{self.place}: column {name!r} has binary cells: cast it in a query, or drop it.")
            dtype = pl.String if str in types else pl.Float64 if float in types else None
            texts = [None if cell is None else str(cell) for cell in values] if str in types else values
            columns.append(pl.Series(name, texts, dtype=dtype, strict=False))
        return read_dates(pl.DataFrame(columns))[0]  # SQLite has no type for dates


def is_database(path: Path) -> bool:
    """Return whether a file is one of SQLite."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(16).startswith(b"SQLite format 3")


def _quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


@contextmanager
def open_database(path: Path | str, place: str = "") -> Iterator[Database]:
    """Open a copy of a SQLite file and of its log, since SQLite would merge the log, or make one beside the file."""
    path, place = Path(path), place or str(path)
    if not path.is_file():
        raise DataError(f"{place}: there is no such database; give a SQLite file.")
    if not is_database(path):
        raise DataError(f"{place}: this is no SQLite file: name a file with one table under [tables.NAME].")
    with tempfile.TemporaryDirectory(prefix="sparsefield-") as folder:
        copy, log = Path(folder) / "database", path.with_name(f"{path.name}-wal")
        shutil.copyfile(path, copy)
        if log.is_file():
            shutil.copyfile(log, copy.with_name("database-wal"))
        with closing(sqlite3.connect(copy)) as connection:
            connection.execute("PRAGMA query_only = 1")
            yield Database(connection, place)
