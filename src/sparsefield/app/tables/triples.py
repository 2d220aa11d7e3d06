"""Triples (subject, relation, object), read as a table of entities and a table of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from sparsefield.app.tables.read import read_table
from sparsefield.app.tables.values import as_polars, as_whole
from sparsefield.data.frames import as_source
from sparsefield.data.relational import Relational
from sparsefield.errors import DataError

PARTS = ("subject", "relation", "object")
ENDS = ("subject", "object")
"""Columns of a table of pairs that are links to the entities."""

MAX_PAIRS = 1_000_000
"""The largest number of all pairs, that of a thousand entities; most rows of more would be all zeros."""


def read_triples(
    triples: Any,
    *,
    entities: Any = None,
    pairs: Literal["all", "mentioned"] = "all",
    entity: str = "entity",
    pair: str = "pair",
) -> Relational:
    """Read linked tables from triples (subject, relation, object), as in knowledge graphs; what is not stated is false.

    Parameters
    ----------
    triples : frame, sequence of triples, or path of a CSV or Parquet file
        Columns ``subject``, ``relation`` and ``object``; without these names, the first three. A file must have the
        names, because a file without a header would lose its first triple.
    entities : frame or path, optional
        Attributes of the entities: one row for each, with its name in the column ``entity``, or else in the first
        column. By default the entities are those that the triples mention, in sorted order.
    pairs : {"all", "mentioned"}
        Whether each ordered pair of entities is a row, including pairs of an entity with itself, or only pairs that
        some triple mentions.
    entity, pair : names of the two tables; the key of the entities has the name of their table

    Returns
    -------
    Relational
        A table of entities and a table of pairs, with columns ``subject`` and ``object``, which are links to the
        entities, and one 0/1 column for each relation, in sorted order.

    Examples
    --------
    >>> data = read_triples([("ann", "likes", "bob"), ("bob", "knows", "ann")])
    >>> data
    Relational(entity: 2 rows, 0 variables; pair: 4 rows, 2 variables; links subject, object)
    >>> data.tables["pair"]["likes"].to_list()
    [0, 1, 0, 0]
    """
    if pairs not in ("all", "mentioned"):
        raise DataError(f"pairs is {pairs!r}; it must be 'all' or 'mentioned'.")
    if entity == pair:
        raise DataError(f"Both tables have the name {entity!r}: pass different names as entity= and pair=.")
    stated = _parts(_read(triples, "triples"), str(triples) if isinstance(triples, (str, Path)) else "")
    relation = stated["relation"].cast(pl.String)
    relations = relation.unique().sort()
    taken = [name for name in relations if name in ENDS]
    if taken:
        raise DataError(f"A relation has the name {taken[0]!r}, like a column of the table of pairs: rename it.")
    table = _entity_table(entities, stated, entity)
    subject, object_ = (_entity_rows(stated[end], table[entity], entity) for end in ENDS)
    size = table.height
    if pairs == "all" and size**2 > MAX_PAIRS:
        raise DataError(
            f"There are {size**2:,} pairs of {size:,} entities, more than {MAX_PAIRS:,}: pass pairs='mentioned' to use "
            "only those of some triple."
        )
    codes, row = np.unique(subject * size + object_, return_inverse=True)
    if pairs == "all":
        codes, row = np.arange(size**2), codes[row]
    cells = np.zeros((len(relations), len(codes)), dtype=np.int8)
    cells[relation.replace_strict(relations, range(len(relations)), return_dtype=pl.Int64).to_numpy(), row] = 1
    ends = {"subject": table[entity].gather(codes // size), "object": table[entity].gather(codes % size)}
    flags = dict(zip(relations, cells, strict=True))
    links = {name: (pair, name, entity) for name in ENDS}
    return Relational({entity: table, pair: pl.DataFrame(ends | flags)}, keys={entity: entity}, links=links)


def _read(given: Any, what: str) -> pl.DataFrame:
    if isinstance(given, (str, Path)):
        return read_table(given)
    if isinstance(given, Sequence) and not given:
        raise DataError(f"There are no {what}: the list is empty.")
    return as_polars(as_source(given, what=what))


def _parts(table: pl.DataFrame, file: str) -> pl.DataFrame:
    """Return the columns subject, relation and object, without missing cells."""
    names = table.columns
    is_named = set(PARTS) <= set(names)
    if file and not is_named:
        raise DataError(
            f"{file}: the first line must name the columns subject, relation and object; it is "
            f"{', '.join(names[:4])}. Insert the line subject,relation,object, or rename the columns."
        )
    if len(names) != len(PARTS):
        raise DataError(
            f"Triples have the columns subject, relation and object; there are {', '.join(names)}: remove others."
        )
    parts = table.select(PARTS if is_named else names)
    for column in parts.get_columns():
        if column.null_count():
            raise DataError(
                f"Column {column.name!r} of the triples has a missing value in row {_first_null(column)}: fill it in, "
                "or remove the row."
            )
    return pl.DataFrame([as_whole(column).alias(part) for part, column in zip(PARTS, parts, strict=True)])


def _first_null(column: pl.Series) -> int:
    return (column.is_null().arg_max() or 0) + 1


def _entity_table(entities: Any, stated: pl.DataFrame, entity: str) -> pl.DataFrame:
    if entities is None:
        ends = [stated[end] for end in ENDS]
        if ends[0].dtype != ends[1].dtype:  # a column has one type
            ends = [end.cast(pl.String) for end in ends]
        return pl.concat([end.alias(entity) for end in ends]).unique().sort().to_frame()
    table = _read(entities, "entities")
    key = entity if entity in table.columns else table.columns[0]
    names = as_whole(table[key])
    if names.null_count():
        raise DataError(
            f"Column {key!r} of the entities has a missing value in row {_first_null(names)}: name each entity."
        )
    if names.n_unique() < len(names):
        twice = names.filter(names.is_duplicated())[0]
        raise DataError(f"Column {key!r} of the entities has {twice!r} in several rows: keep one row for each entity.")
    return table.with_columns(names).rename({key: entity})


def _entity_rows(cells: pl.Series, names: pl.Series, entity: str) -> np.ndarray:
    """Return the row of the entity in each cell; a number may also be written as text."""
    place = {str(name): row for row, name in enumerate(names)}
    rows = np.array([place.get(str(cell), -1) for cell in cells], dtype=np.int64)
    if (rows < 0).any():
        row = int((rows < 0).argmax())
        raise DataError(
            f"Row {row + 1} of the triples names {cells[row]!r} as {cells.name}, which is no entity: add it to the "
            f"table of entities ({entity!r}), or remove the triple."
        )
    return rows
