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

ClosedWorld = bool | Literal["mentioned"]
"""The meaning of a relation that is not stated for a pair: true makes it false, and a row for each ordered pair;
``"mentioned"`` too, but only pairs that occur in a statement are rows; False makes it missing for these pairs."""

MAX_PAIRS = 1_000_000
"""The largest number of rows in a closed world, that of a thousand entities; most rows of more would be all zeros."""

TRUTH = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}


def read_triples(
    triples: Any,
    *,
    entities: Any = None,
    closed_world: ClosedWorld = True,
    entity: str = "entity",
    pair: str = "pair",
) -> Relational:
    """Read linked tables from triples (subject, relation, object), as in knowledge graphs.

    Parameters
    ----------
    triples : frame, sequence of triples, or path of a CSV or Parquet file
        Columns ``subject``, ``relation`` and ``object``, or else the first three. An optional column ``value``, or else
        the fourth, is 1 for a true triple and 0 for a false one; without it all are true. A file must have these
        column names, because a file without a header would lose its first triple.
    entities : frame or path, optional
        Attributes of the entities: one row for each, with its name in the column ``entity``, or else in the first
        column. By default the entities are those that the triples mention, in sorted order.
    closed_world : {True, "mentioned", False}
        The meaning of a relation that is not stated for a pair. True: it is false, and each ordered pair of entities
        is a row, including pairs of an entity with itself. ``"mentioned"``: it is false, but only pairs that some
        triple mentions are rows. False: it is missing.
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
    if not isinstance(closed_world, bool) and closed_world != "mentioned":
        raise DataError(f"closed_world is {closed_world!r}; it must be True, False or 'mentioned'.")
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
    code = relation.replace_strict(relations, range(len(relations)), return_dtype=pl.Int64).to_numpy()
    pairs = _pair_table(subject, object_, code, _truth(stated), table[entity], relations.to_list(), closed_world)
    links = {name: (pair, name, entity) for name in ENDS}
    return Relational({entity: table, pair: pairs}, keys={entity: entity}, links=links)


def _read(given: Any, what: str) -> pl.DataFrame:
    if isinstance(given, (str, Path)):
        return read_table(given)
    if isinstance(given, Sequence) and not given:
        raise DataError(f"There are no {what}: the list is empty.")
    return as_polars(as_source(given, what=what))


def _parts(table: pl.DataFrame, file: str) -> pl.DataFrame:
    """Return the columns subject, relation, object and, if present, value, without missing cells."""
    names = table.columns
    is_named = all(part in names for part in PARTS)
    if file and not is_named:
        raise DataError(
            f"{file}: the first line must name the columns subject, relation and object, and optionally value; it "
            f"is {', '.join(names[:4])}. Insert the line subject,relation,object, or rename the columns."
        )
    if len(names) < 3:
        raise DataError(f"Triples need the columns subject, relation and object; there are only {', '.join(names)}.")
    parts = list(PARTS if is_named else names[:3])
    rest = [name for name in names if name not in parts]
    value = [name for name in rest if name in ("value", "truth")][:1] or ([] if is_named else rest[:1])
    unused = [name for name in rest if name not in value]
    if unused:
        raise DataError(
            f"Triples have the columns subject, relation, object and optionally value, but not {unused[0]!r}: "
            "remove it."
        )
    for name in parts + value:
        if table[name].null_count():
            raise DataError(
                f"Column {name!r} of the triples has a missing value in row {table[name].is_null().arg_max() + 1}: "
                "fill it in, or remove the row."
            )
    columns = zip((*PARTS, "value"), parts + value, strict=False)
    return pl.DataFrame([as_whole(table[name]).alias(part) for part, name in columns])


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
            f"Column {key!r} of the entities has a missing value in row {names.is_null().arg_max() + 1}: name each "
            "entity."
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


def _truth(stated: pl.DataFrame) -> np.ndarray:
    if "value" not in stated.columns:
        return np.ones(stated.height, dtype=np.int8)
    values = np.array([TRUTH.get(str(cell).lower(), -1) for cell in stated["value"]], dtype=np.int8)
    if (values < 0).any():
        row = int((values < 0).argmax())
        raise DataError(
            f"Row {row + 1} of the triples has the value {stated['value'][row]!r}: it must be 1 (true) or 0 (false)."
        )
    return values


def _pair_table(
    subject: np.ndarray,
    object_: np.ndarray,
    relation: np.ndarray,
    value: np.ndarray,
    entities: pl.Series,
    relations: Sequence[str],
    closed_world: ClosedWorld,
) -> pl.DataFrame:
    """Return one row per pair with the columns ``subject``, ``object`` and a 0/1 column for each relation."""
    size = len(entities)
    code = subject * size + object_
    if closed_world is True:
        if size**2 > MAX_PAIRS:
            raise DataError(
                f"A closed world would have {size**2:,} rows for pairs of {size:,} entities, more than {MAX_PAIRS:,}. "
                "Pass closed_world='mentioned' to use only pairs that are mentioned; unstated relations are then false."
            )
        codes, row = np.arange(size**2), code
    else:
        codes, row = np.unique(code, return_inverse=True)
    cells = np.full((len(relations), len(codes)), -1 if closed_world is False else 0, dtype=np.int8)
    cells[relation, row] = value
    against = np.flatnonzero(cells[relation, row] != value)
    if len(against):
        first = int(against[0])
        other = int(np.flatnonzero((code == code[first]) & (relation == relation[first]) & (value != value[first]))[0])
        words = f"{entities[int(subject[first])]} {relations[relation[first]]} {entities[int(object_[first])]}"
        raise DataError(
            f"Rows {min(first, other) + 1} and {max(first, other) + 1} of the triples contradict each other on "
            f"{words!r}: remove one."
        )
    never = [repr(name) for name, column in zip(relations, cells, strict=True) if not (column == 0).any()]
    if closed_world is False and never:
        raise DataError(
            "In an open world (closed_world=False) unstated relations are missing, and no statement says that "
            f"{', '.join(never[:3])}{', ...' * (len(never) > 3)} {'is' if len(never) == 1 else 'are'} false, so the "
            "column would be 1 everywhere. Add triples with value 0, or pass closed_world='mentioned' or True, which "
            "makes unstated relations false."
        )
    flags = {name: pl.Series(name, column).replace(-1, None) for name, column in zip(relations, cells, strict=True)}
    return pl.DataFrame({"subject": entities.gather(codes // size), "object": entities.gather(codes % size), **flags})
