"""This module reads linked tables from DuckDB, SQLite, PostgreSQL, or a folder of Parquet files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.app.tables.connections import Connection, connect
from sparsefield.app.tables.declared_keys import DeclaredKeys, TableName
from sparsefield.data.links import Link
from sparsefield.data.relational import Relational
from sparsefield.errors import DataError

if TYPE_CHECKING:
    import polars as pl


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
    """Read linked tables from a database, which is opened read-only.

    This needs DuckDB: ``pip install 'sparsefield[sql]'``. A SQLite file is read through DuckDB's extension ``sqlite``
    if that is installed, and through Python's ``sqlite3`` otherwise, so queries should use SQL that both understand.
    PostgreSQL needs DuckDB's extension ``postgres``, which DuckDB downloads on first use.

    Parameters
    ----------
    database : path or address
        A DuckDB or SQLite file; a folder of Parquet files or a pattern such as ``"data/*.parquet"``, where each
        file is a table with its name; or ``"postgresql://user@host/name"``.
    tables : {name: table or query}
        ``{"nation": "nations"}`` reads a table, ``{"nation": "SELECT name, area FROM nations"}`` the result of a query.
        The order of rows is not defined, so an `OffsetLink` needs its column ``along``.
    keys : {table: column}
        The key column of each table. None takes the primary keys that the database declares.
    links : {name: (table, column, table)}
        As for `Relational`. None takes the foreign keys that the database declares between these tables; a link has the
        name of its column, or ``table.column`` if several tables have a column of that name. Declared keys are read
        from DuckDB and SQLite files, not from PostgreSQL.
    observed, ignore, templates : as for `Relational`
    other_files : bool
        Whether queries, and views of the database, may read other files and addresses, as DuckDB's ``read_csv`` does.
        They then read whatever this process can read: permit it only for queries that you trust.

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
    with connect(database, other_files=other_files) as connection:
        found = {name: connection.find(text) for name, text in tables.items()}
        frames = {name: _read(connection, name, text, found[name]) for name, text in tables.items()}
        declared = connection.declared_keys() if keys is None or links is None else DeclaredKeys({}, [])
    primary, foreign = _keys_between(declared, found, frames)
    if keys is None:
        keys = dict(primary)
        for _, _, to, referred in foreign:  # a table without a primary key has the column that foreign keys reference
            keys.setdefault(to, referred)
    links = _declared_links(foreign, keys) if links is None else links
    return Relational(frames, keys=keys, links=links, observed=observed, ignore=ignore, templates=templates)


def _read(connection: Connection, name: str, query: str, found: TableName | None) -> pl.DataFrame:
    frame = connection.table(found) if found is not None else connection.query(name, query)
    if frame.height == 0:
        raise DataError(f"{connection.place}: table {name!r} has no rows.")
    return with_plain_types(frame, connection.place, name)


def with_plain_types(frame: pl.DataFrame, place: str, table: str) -> pl.DataFrame:
    """Cast decimals, which SQL sums return, to integers or floats, and enumerations to text."""
    import polars as pl

    def plain(kind: Any) -> Any:
        if isinstance(kind, pl.Decimal):
            return pl.Int64 if kind.scale == 0 else pl.Float64
        if isinstance(kind, (pl.Categorical, pl.Enum)):
            return pl.String
        return pl.Int64 if kind == pl.Int128 else kind

    wanted = {name: plain(kind) for name, kind in frame.schema.items()}
    try:
        return frame.cast({name: kind for name, kind in wanted.items() if kind != frame.schema[name]})
    except pl.exceptions.InvalidOperationError:
        raise DataError(f"{place}: table {table!r} has integers of more than 64 bits: cast them in a query.") from None


def _keys_between(
    declared: DeclaredKeys, found: Mapping[str, TableName | None], frames: Mapping[str, pl.DataFrame]
) -> tuple[dict[str, str], list[tuple[str, str, str, str]]]:
    """Return the single-column keys of the tables that were read, under their new names.

    Primary keys are {table: column}, foreign keys (table, column, table that it references, column there).
    """
    names: dict[TableName, str] = {}
    for name, place in found.items():
        if place is not None:
            names.setdefault(place.folded(), name)
    spelled = {name: {column.casefold(): column for column in frame.columns} for name, frame in frames.items()}
    primary, foreign = {}, []
    for table, columns in declared.primary.items():
        name = names.get(table.folded())
        if name is not None and len(columns) == 1:
            primary[name] = spelled[name][columns[0].casefold()]
    for key in declared.foreign:
        name, to = names.get(key.table.folded()), names.get(key.to.folded())
        if name is not None and to is not None and len(key.columns) == 1:
            column, referred = spelled[name][key.columns[0].casefold()], spelled[to][key.referred[0].casefold()]
            foreign.append((name, column, to, referred))
    return primary, foreign


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
        # The name of a link has no spaces.
        links["_".join(name.split())] = (table, column, to)
    return links
