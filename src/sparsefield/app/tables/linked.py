"""Linked tables of SQLite files, of folders, and of triples; their keys and links, declared or guessed from values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import polars as pl

from sparsefield.app.tables.codebook import inspect
from sparsefield.app.tables.file_format import list_first
from sparsefield.app.tables.read import read_table
from sparsefield.app.tables.sqlite_file import open_database
from sparsefield.app.tables.values import as_polars, as_whole
from sparsefield.data.frames import as_source
from sparsefield.data.links import ForeignKey, Link
from sparsefield.data.relational import Relational
from sparsefield.errors import DataError

QUERY = re.compile(r"\s*(select|with)\s", re.IGNORECASE)
PARTS = ["subject", "relation", "object"]
ENDS = ["subject", "object"]
"""Columns of a table of pairs that are links to the entities."""

MAX_PAIRS = 1_000_000
"""The largest number of all pairs, that of a thousand entities; most rows of more would be all zeros."""

SUFFIXES = (".csv", ".tsv", ".parquet", ".pq", ".xlsx")
"""Files of a folder that are taken for tables."""

ENDINGS = ("", "id", "key", "nr", "no", "code")
"""What the name of a key has after that of its table: customer, customer_id, CustomerKey."""

FEW_VALUES = 3
"""Smallest number of different texts that tell by themselves which table they link to."""


def read_database(
    database: Path | str,
    tables: Mapping[str, str],
    *,
    keys: Mapping[str, str] | None = None,
    links: Mapping[str, Link | Sequence[str]] | None = None,
    **options: Any,
) -> Relational:
    """Read linked tables from a SQLite file, which is not changed.

    ``tables`` are {name: table, or query that begins with SELECT}. Keys and links are those that the database declares
    unless they are given. ``options`` are ``observed``, ``ignore`` and ``templates``, as for `Relational`.
    """
    if not tables:
        raise DataError(f"{database}: no tables were named: add a section [tables.NAME] for each.")
    frames, name_of = {}, {}
    with open_database(database) as opened:
        known = {table.casefold(): table for table in opened.tables}
        for name, text in tables.items():
            table = known.get(text.casefold().removeprefix("main."))
            if table is None and not QUERY.match(text):
                listed = list_first(opened.tables, 8) or "none"
                raise DataError(f"{opened.place}: {text!r} is no table and no SELECT; the tables are {listed}.")
            frames[name] = opened.read(name, text) if table is None else opened.read(table)
            if frames[name].height == 0:
                raise DataError(f"{opened.place}: table {name!r} has no rows.")
            if table is not None:
                name_of.setdefault(table, name)
        declared, foreign = opened.find_keys(name_of)
    keys = declared if keys is None else keys
    if links is None:
        for key, link in foreign:
            if keys.get(link.to) != key:
                where = f"{link.table}.{link.column} references {link.to}.{key}"
                raise DataError(f"{where}, but the key of {link.to!r} is {keys.get(link.to)!r}: give keys and links.")
        links = name_links([link for _, link in foreign])
    return Relational(frames, keys=keys, links=links, **options)


def name_links(links: Sequence[ForeignKey]) -> dict[str, ForeignKey]:
    """Return {name: link}: the column, or ``table.column`` if several tables have a column of that name."""
    columns = [link.column for link in links]
    names = [link.column if columns.count(link.column) == 1 else f"{link.table}.{link.column}" for link in links]
    return {"_".join(name.split()): link for name, link in zip(names, links, strict=True)}  # without spaces


@dataclass(frozen=True)
class SchemaProposal:
    """The content of a schema file, and remarks on what was guessed."""

    content: dict[str, Any]
    notes: dict[tuple[str, str], list[str]]
    """{("tables" or "links", name): remarks}"""

    def as_toml(self) -> str:
        """Return the content as a schema file with the remarks as comments."""
        lines = [f"{name} = {_toml(value)}" for name, value in self.content.items() if not isinstance(value, dict)]
        for part in ("tables", "links"):
            for name, section in self.content[part].items():
                lines += ["", *(f"# {note}" for note in self.notes.get((part, name), ()))]
                lines += [f"[{part}.{name if re.fullmatch('[A-Za-z0-9_-]+', name) else _toml(name)}]"]
                lines += [f"{key} = {_toml(value)}" for key, value in section.items()]
        return "\n".join(lines).strip() + "\n"


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def propose_schema(path: Path | str) -> SchemaProposal:
    """Return a schema of the tables of a SQLite file, or of the CSV, Excel and Parquet files in a folder.

    Keys and links are those that the database declares. Where it declares no links, they are guessed: a key is unique
    and named as one; a link has the name of a table or of its key, or text, and all its values are keys of that table.
    Columns that cannot be learned are ignored.
    """
    path, keys, links, queries = Path(path), {}, [], {}
    notes: dict[tuple[str, str], list[str]] = {}
    if path.is_dir():
        files = {file.stem: file for file in sorted(path.iterdir()) if file.suffix.lower() in SUFFIXES}
        frames = {name: read_table(file) for name, file in files.items()}
    else:
        with open_database(path) as database:
            names = [name for name in database.tables if name not in database.views]
            queries = {name: database.query_without_bytes(name) for name in names}
            frames = {name: frame for name in names if (frame := database.read(name, queries[name])).height}
            keys, declared = database.find_keys({name: name for name in frames})
            links = [link for key, link in declared if key == keys[link.to]]
    if not frames:
        raise DataError(f"{path}: there are no tables with rows: give a SQLite file, or a folder of CSV files.")
    for name, frame in frames.items():
        key = None if name in keys else _guess_key(name, frame)
        if key is not None:
            keys[name] = key
            notes["tables", name] = [f"guessed: {key!r} is the key, since it is unique and named as one"]
    if not links:
        reasons = {link: why for name in frames for link, why in _guess_links(name, frames, keys)}
        links = list(reasons)
        notes |= {("links", name): [f"guessed: {reasons[link]}"] for name, link in name_links(links).items()}
    sections: dict[str, dict[str, Any]] = {}
    for name, frame in frames.items():
        sections[name] = {"file": files[name].name} if path.is_dir() else {}
        if queries.get(name):
            sections[name] = {"query": queries[name]}
            notes.setdefault(("tables", name), []).append("columns with binary cells, such as pictures, are not read")
        sections[name] |= {"key": keys[name]} if name in keys else {}
        taken = {keys.get(name), *(link.column for link in links if link.table == name)}
        rest = [column for column in frame.columns if column not in taken]
        left_out = [entry for entry in inspect(frame.select(rest)).columns if entry.left_out] if rest else []
        if left_out:
            sections[name]["ignore"] = [entry.name for entry in left_out]
            reasons = list_first([f"{entry.name!r} ({entry.left_out})" for entry in left_out])
            notes.setdefault(("tables", name), []).append(f"ignored, since they cannot be learned: {reasons}")
    content = {} if path.is_dir() else {"database": path.name}
    content |= {"tables": sections, "links": {name: asdict(link) for name, link in name_links(links).items()}}
    return SchemaProposal(content, notes)


def _guess_key(name: str, frame: pl.DataFrame) -> str | None:
    """Return the first column that is unique, without gaps, and named as the key of a table is."""
    names = _key_names(name) | {"id", "key"}
    for column in frame.get_columns():
        if _bare(column.name) in names and _may_be_key(column) and not column.null_count() and column.is_unique().all():
            return column.name
    return None


def _guess_links(
    name: str, frames: Mapping[str, pl.DataFrame], keys: Mapping[str, str]
) -> Iterator[tuple[ForeignKey, str]]:
    """Yield links of a table to keys that have all values of a column, with the reason for each."""
    for column in frames[name].get_columns():
        texts = column.drop_nulls().unique().cast(pl.String, strict=False)
        if column.name == keys.get(name) or not len(texts) or not _may_be_key(column):
            continue
        words = [word.lower() for word in re.findall(r"[^\W\d_][^\W\d_A-Z]*|\d+", column.name)]
        ends = {"".join(words[k:]) for k in range(len(words))} | {_bare(column.name)}
        named = {to: max((len(end) for end in ends & _key_names(to)), default=0) for to in keys}
        having = [
            to
            for to in sorted(keys, key=lambda to: -named[to])
            if (named[to] or (column.dtype == pl.String and len(texts) >= FEW_VALUES))
            and texts.is_in(frames[to][keys[to]].cast(pl.String).to_list()).all()
        ]
        if having and (named[having[0]] or len(having) == 1):
            why = f"all values of {column.name!r} are keys of {having[0]!r}"
            yield ForeignKey(name, column.name, having[0]), why + (", whose name it has" if named[having[0]] else "")


def _may_be_key(column: pl.Series) -> bool:
    return column.dtype.is_integer() or column.dtype == pl.String


def _bare(name: str) -> str:
    """Return a name without case and marks: that of customer_id and CustomerID is customerid."""
    return re.sub(r"[\W_]+", "", name).lower()


def _key_names(table: str) -> set[str]:
    """Return bare names of a key of a table, also in the singular: customer and customerid of customers."""
    bare = _bare(table)
    bases = {bare, bare.removesuffix("s"), bare.removesuffix("es"), re.sub("ies$", "y", bare)} - {""}
    return {base + ending for base in bases for ending in ENDINGS}


def read_triples(triples: Any, *, pairs: Literal["all", "mentioned"] = "all") -> Relational:
    """Read linked tables from triples (subject, relation, object), as in knowledge graphs; what is not stated is false.

    Parameters
    ----------
    triples : frame with the columns ``subject``, ``relation`` and ``object``, or sequence of triples
    pairs : {"all", "mentioned"}
        Whether each ordered pair of entities is a row, including pairs of an entity with itself, or only pairs that
        some triple mentions.

    Returns
    -------
    Relational
        A table ``entity`` of the entities that triples mention, whose key is the column ``entity``, and a table
        ``pair``, with columns ``subject`` and ``object``, which are links to the entities, and one 0/1 column for each
        relation, in sorted order. For attributes of entities, use ``with_tables({"entity": frame})``.

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
    if isinstance(triples, Sequence) and not triples:
        raise DataError("There are no triples: the list is empty.")
    stated = as_polars(as_source(triples, what="triples"))
    if set(PARTS) <= set(stated.columns):
        stated = stated.select(PARTS)
    elif stated.columns != ["x0", "x1", "x2"]:  # which those of a sequence are
        found = ", ".join(stated.columns[:4])
        raise DataError(f"Triples have the columns subject, relation, object in the header; these are {found}.")
    stated.columns = PARTS
    for column in stated.get_columns():
        if column.null_count():
            row = (column.is_null().arg_max() or 0) + 1
            raise DataError(f"The {column.name} of the triple in row {row} is missing: fill it in.")
    stated = stated.with_columns(pl.col("relation").cast(pl.String), *(as_whole(stated[end]) for end in ENDS))
    if stated["relation"].is_in(ENDS).any():
        raise DataError("A relation has the name of a column of the table of pairs, subject or object: rename it.")
    if stated["subject"].dtype != stated["object"].dtype:  # a column has one type
        stated = stated.with_columns(pl.col(ENDS).cast(pl.String))
    table = pl.concat([stated[end].alias("entity") for end in ENDS]).unique().sort().to_frame()
    rows = stated.select(ENDS).unique().sort(ENDS)
    if pairs == "all":
        if table.height**2 > MAX_PAIRS:
            size = f"{table.height**2:,} pairs of {table.height:,} entities, more than {MAX_PAIRS:,}"
            raise DataError(f"There are {size}: pairs='mentioned' uses only those of triples.")
        rows = table.select(subject="entity").join(table.select(object="entity"), how="cross")
    wide = stated.unique().with_columns(stated=pl.lit(1, pl.Int8)).pivot("relation", index=ENDS, values="stated")
    flags = rows.join(wide, on=ENDS, how="left", maintain_order="left").with_columns(pl.exclude(ENDS).fill_null(0))
    links = {name: ("pair", name, "entity") for name in ENDS}
    frames = {"entity": table, "pair": flags.select(*ENDS, *sorted(stated["relation"].unique()))}
    return Relational(frames, keys={"entity": "entity"}, links=links)
