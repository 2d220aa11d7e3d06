"""Triples (subject, relation, object), read as a table of entities and a table of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from sparsefield.app.tables.read import read_table
from sparsefield.data.frames import RawColumn, Source, as_source
from sparsefield.data.labels import Label, factorize
from sparsefield.data.relational import Relational
from sparsefield.errors import DataError

if TYPE_CHECKING:
    import polars as pl

PARTS = ("subject", "relation", "object")
VALUES = ("value", "truth")
ENDS = ("subject", "object")
"""Columns of a table of pairs that are links to the entities."""

ClosedWorld = bool | Literal["mentioned"]
"""The meaning of a relation that is not stated for a pair: true makes it false, and a row for each ordered pair;
``"mentioned"`` too, but only pairs that occur in a statement are rows; False makes it missing for these pairs."""

MAX_PAIRS = 1_000_000
"""The largest number of rows in a closed world, that of a thousand entities; most rows of more would be all zeros."""

SHOWN = 3
TRUTH = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}


class Statements(NamedTuple):
    """Statement k: ``relation[k]`` is true (``value[k]`` 1) or false (0) for ``subject[k]`` and ``object[k]``."""

    subject: np.ndarray
    object: np.ndarray
    relation: np.ndarray
    value: np.ndarray


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
        Columns ``subject``, ``relation`` and ``object``, or else the first three. An optional column ``value`` or
        ``truth``, or else the fourth, is 1 for a true triple and 0 for a false one; without it all are true. A file
        must have these column names, because a file without a header would lose its first triple.
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
    source = _source(triples, "triples")
    file = str(triples) if isinstance(triples, (str, Path)) else None
    columns = [_complete_column(source, name) for name in _parts(source, file)]
    relations, relation = _codes(columns[1])
    taken = [name for name in relations if name in ENDS]
    if taken:
        raise DataError(f"A relation has the name {taken[0]!r}, like a column of the table of pairs: rename it.")
    table = _entity_table(entities, columns, entity)
    names = table[entity].to_list()
    subject, object_ = (_entity_rows(column, names, entity) for column in (columns[0], columns[2]))
    value = _truth(columns[3]) if len(columns) > 3 else np.ones(source.n_rows, dtype=np.int8)
    statements = Statements(subject, object_, relation, value)
    _refuse_contradictions(statements, columns, len(names))
    pairs = _pair_table(statements, table[entity], relations, closed_world)
    links = {name: (pair, name, entity) for name in ENDS}
    return Relational({entity: table, pair: pairs}, keys={entity: entity}, links=links)


def _source(given: Any, what: str) -> Source:
    if isinstance(given, (str, Path)):
        return as_source(read_table(given), what=str(given))
    if isinstance(given, Sequence) and not given:
        raise DataError(f"There are no {what}: the list is empty.")
    return as_source(given, what=what)


def _parts(source: Source, file: str | None) -> list[str]:
    """Return the columns of subject, relation, object and, if present, value; a file must name them."""
    names = source.names
    named = all(part in names for part in PARTS)
    if file is not None and not named:
        raise DataError(
            f"{file}: the first line must name the columns subject, relation and object, and optionally value; it "
            f"is {', '.join(names[:4])}. Insert the line subject,relation,object, or rename the columns."
        )
    if len(names) < 3:
        raise DataError(f"Triples need the columns subject, relation and object; there are only {', '.join(names)}.")
    parts = list(PARTS if named else names[:3])
    rest = [name for name in names if name not in parts]
    value = [name for name in rest if name in VALUES][:1] or ([] if named else rest[:1])
    unused = [name for name in rest if name not in value]
    if unused:
        raise DataError(
            f"Triples have the columns subject, relation, object and optionally value, but not {unused[0]!r}: "
            "remove it."
        )
    return parts + value


def _complete_column(source: Source, name: str) -> RawColumn:
    column = source.column(name)
    if not column.present.all():
        row = int(np.flatnonzero(~column.present)[0]) + 1
        raise DataError(
            f"Column {name!r} of the triples has a missing value in row {row}: fill it in, or remove the row."
        )
    return column


def _codes(column: RawColumn) -> tuple[list[str], np.ndarray]:
    """Return the distinct values as sorted text, and the code of each cell."""
    labels, codes = factorize(column)
    names, inverse = np.unique([str(label) for label in labels], return_inverse=True)
    return names.tolist(), inverse[codes]


def _entity_table(entities: Any, columns: Sequence[RawColumn], entity: str) -> pl.DataFrame:
    import polars as pl

    if entities is None:
        labels = {label for column in (columns[0], columns[2]) for label in factorize(column)[0]}
        if len({isinstance(label, str) for label in labels}) > 1:  # a column has one type
            labels = {str(label) for label in labels}
        return pl.DataFrame({entity: sorted(labels)})  # pyright: ignore[reportArgumentType]
    source = _source(entities, "entities")
    key = entity if entity in source.names else source.names[0]
    frame = _as_polars(source)
    names, codes = factorize(source.column(key))
    missing = np.flatnonzero(codes < 0)
    if len(missing):
        raise DataError(
            f"Column {key!r} of the entities has a missing value in row {missing[0] + 1}: name each entity."
        )
    counts = np.bincount(codes)
    if (counts > 1).any():
        twice = names[int(np.argmax(counts > 1))]
        raise DataError(f"Column {key!r} of the entities has {twice!r} in several rows: keep one row for each entity.")
    return frame.with_columns(pl.Series(key, [names[code] for code in codes])).rename({key: entity})


def _as_polars(source: Source) -> pl.DataFrame:
    import polars as pl

    if source.kind == "polars":
        return nw.to_native(source.native)
    made = {}
    for name in source.names:
        column = source.column(name)
        cells = np.full(source.n_rows, None, dtype=object)
        cells[column.present] = column.values
        made[name] = pl.Series(name, cells.tolist(), strict=False)
    return pl.DataFrame(made)


def _entity_rows(column: RawColumn, names: Sequence[Label], entity: str) -> np.ndarray:
    """Return the row of the entity in each cell; a number may also be written as text."""
    labels, codes = factorize(column)
    known = {name: row for row, name in enumerate(names)}
    texts = {str(name): row for row, name in enumerate(names)}
    rows = np.array([known.get(label, texts.get(str(label), -1)) for label in labels], dtype=np.int64)[codes]
    unknown = np.flatnonzero(rows < 0)
    if len(unknown):
        row = int(unknown[0])
        raise DataError(
            f"Row {row + 1} of the triples names {labels[codes[row]]!r} in {column.name!r}, which is not an "
            f"entity: add it to the table of entities ({entity!r}), or remove the triple."
        )
    return rows


def _truth(column: RawColumn) -> np.ndarray:
    labels, codes = factorize(column)
    values = np.array([TRUTH.get(str(label).lower(), -1) for label in labels], dtype=np.int8)[codes]
    wrong = np.flatnonzero(values < 0)
    if len(wrong):
        row = int(wrong[0])
        raise DataError(
            f"Row {row + 1} of the triples has {labels[codes[row]]!r} in {column.name!r}: it must be 1 (true) or "
            "0 (false)."
        )
    return values


def _refuse_contradictions(statements: Statements, columns: Sequence[RawColumn], size: int) -> None:
    pairs = statements.subject * size + statements.object
    order = np.lexsort((statements.value, statements.relation, pairs))
    same = (np.diff(pairs[order]) == 0) & (np.diff(statements.relation[order]) == 0)
    against = np.flatnonzero(same & (np.diff(statements.value[order]) != 0))
    if len(against):
        one, other = sorted((int(order[against[0]]), int(order[against[0] + 1])))
        shown = " ".join(str(column.values[one]) for column in columns[:3])
        raise DataError(
            f"Rows {one + 1} and {other + 1} of the triples contradict each other on {shown!r}: remove one."
        )


def _pair_table(
    statements: Statements, entities: pl.Series, relations: Sequence[str], closed_world: ClosedWorld
) -> pl.DataFrame:
    """Return one row per pair with the columns ``subject``, ``object`` and a 0/1 column for each relation."""
    import polars as pl

    size = len(entities)
    code = statements.subject * size + statements.object
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
    cells[statements.relation, row] = statements.value
    if closed_world is False:
        _require_negatives(relations, cells)
    flags = {name: pl.Series(name, column).replace(-1, None) for name, column in zip(relations, cells, strict=True)}
    return pl.DataFrame({"subject": entities.gather(codes // size), "object": entities.gather(codes % size), **flags})


def _require_negatives(names: Sequence[str], cells: np.ndarray) -> None:
    """Refuse relations that are never false in an open world, because nothing can be learned about them."""
    never = [name for name, column in zip(names, cells, strict=True) if not (column == 0).any()]
    if never:
        shown = ", ".join(repr(name) for name in never[:SHOWN]) + (", ..." if len(never) > SHOWN else "")
        raise DataError(
            f"In an open world (closed_world=False) unstated relations are missing, and no statement says that {shown} "
            f"{'is' if len(never) == 1 else 'are'} false, so the column would be 1 everywhere. Add triples with "
            "value 0, or pass closed_world='mentioned' or True, which makes unstated relations false."
        )
