"""Linked tables of databases, of folders, and of triples; their keys and links, declared or guessed from values."""

from __future__ import annotations

import json
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import polars as pl

from sparsefield.app.tables.codebook import inspect
from sparsefield.app.tables.database import Reference, open_database
from sparsefield.app.tables.places import SUFFIXES, system_of
from sparsefield.app.tables.read import SourceTable, read_source
from sparsefield.app.tables.values import as_polars, as_whole
from sparsefield.data.frames import as_source
from sparsefield.data.links import ForeignKey, Link
from sparsefield.data.relational import Relational
from sparsefield.errors import DataError, GuessWarning, list_first

QUERY = re.compile(r"\s*(select|with)\s", re.IGNORECASE)
PARTS = ["subject", "relation", "object"]
ENDS = ["subject", "object"]
"""Columns of a table of pairs that are links to the entities."""

MAX_PAIRS = 1_000_000
"""The largest number of all pairs, that of a thousand entities; most rows of more would be all zeros."""

ENDINGS = ("", "id", "key", "nr", "no", "code")
"""What the name of a key has after that of its table: customer, customer_id, CustomerKey."""

SHORTEST = 3
"""Shortest abbreviation of the name of a table in that of its key."""

FEW_VALUES = 3
"""Smallest number of different texts that tell by themselves which table they link to."""


def read_database(
    place: Path | str,
    tables: Mapping[str, str] | None = None,
    *,
    keys: Mapping[str, str] | None = None,
    links: Mapping[str, Link | Sequence[str]] | None = None,
    **options: Any,
) -> Relational:
    """Read linked tables from a database, which is not changed, or from the files of a folder.

    Parameters
    ----------
    place : SQLite or DuckDB file, ``"postgresql://user@host/database"``, or folder of CSV, Excel or Parquet files
        The password of PostgreSQL may be in the URL, in the variable PGPASSWORD, or in a file .pgpass.
    tables : {name: table, or query that begins with SELECT}
        None takes all tables with rows. Then columns that cannot be learned are ignored, and keys and links are guessed
        from names and values, with a warning, where the database declares no links.
    keys, links : as for `Relational`; by default those that the database declares
    **options : ``observed``, ``ignore`` and ``templates``, as for `Relational`

    Examples
    --------
    >>> read_database("shop.sqlite")  # doctest: +SKIP
    Relational(customers: 60 rows, 1 variable; orders: 150 rows, 1 variable; links customer_id)
    """
    if tables is None:
        given = {"keys": keys, "links": links, **options}
        return propose_schema(place).read().replace(**{name: part for name, part in given.items() if part is not None})
    frames, name_of = {}, {}
    with open_database(place) as opened:
        known = {table.casefold(): table for table in opened.tables}
        if not tables:
            raise DataError(f"{opened.place}: no tables were named: add a section [tables.NAME] for each.")
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
        keys, declared, others = opened.find_keys(name_of, keys)
    if links is None:
        for other in (other for other in others if len(other.columns) == 1):
            link, key = f"{other.table}.{other.columns[0]}", f"{other.to}.{other.to_columns[0]}"
            instead = keys.get(name_of[other.to])
            raise DataError(f"{link} points to {key}, but the key of {other.to!r} is {instead!r}: give keys and links.")
        links = name_links(declared)
    return Relational(frames, keys=keys, links=links, **options)


def name_links(links: Sequence[ForeignKey]) -> dict[str, ForeignKey]:
    """Return {name: link}: the column, or ``table.column`` if several tables have a column of that name."""
    columns = [link.column for link in links]
    names = [link.column if columns.count(link.column) == 1 else f"{link.table}.{link.column}" for link in links]
    return {"_".join(name.split()): link for name, link in zip(names, links, strict=True)}  # without spaces


@dataclass(frozen=True)
class SchemaProposal:
    """Linked tables, the content of a schema file for them, and remarks on what was guessed and what was left out."""

    place: str
    data: Relational
    content: dict[str, Any]
    notes: Mapping[tuple[str, str], list[str]]
    """{("tables" or "links", name): remarks}; those about tables that are left out have two empty words."""
    guesses: list[str]
    files: dict[str, Path]
    sources: dict[str, SourceTable]
    """Files of the tables, and what was read from them, unless they are of a database."""

    def read(self) -> Relational:
        """Return the tables, and warn of keys and links that were guessed."""
        if self.guesses:
            how = "Where that is wrong, have the command 'sparsefield schema' write it to a file, and correct that"
            text = f"{self.place}: guessed that {list_first(self.guesses, 30)}. {how}."
            warnings.warn(text, GuessWarning, stacklevel=3)
        return self.data

    def as_toml(self) -> str:
        """Return the content as a schema file with the remarks as comments."""
        lines = [f"# {note}" for note in self.notes.get(("", ""), ())]
        lines += [f"{name} = {_toml(value)}" for name, value in self.content.items() if not isinstance(value, dict)]
        for part in ("tables", "links"):
            for name, section in self.content[part].items():
                lines += ["", *(f"# {note}" for note in self.notes.get((part, name), ()))]
                lines += [f"[{part}.{name if re.fullmatch('[A-Za-z0-9_-]+', name) else _toml(name)}]"]
                lines += [f"{key} = {_toml(value)}" for key, value in section.items()]
        return "\n".join(lines).strip() + "\n"


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def propose_schema(place: Path | str) -> SchemaProposal:
    """Return a schema of the tables of a database, or of the CSV, Excel and Parquet files in a folder.

    Keys and links are those that the database declares. Where it declares no links, they are guessed: a key is unique,
    and named as one or as a column of another table that has its values; a link has the name of a table or of its key,
    or text, and all its values are keys of that table. Columns that cannot be learned are ignored.
    """
    keys: dict[str, str] = {}
    sources, files, links, queries = {}, {}, [], {}
    notes, guesses = defaultdict[tuple[str, str], list[str]](list), list[str]()
    others: list[Reference] = []
    if is_folder := system_of(place) is None and Path(place).is_dir():
        where = str(place)
        for file in (file for file in sorted(Path(place).iterdir()) if file.suffix.lower() in SUFFIXES):
            if file.stem in files:
                raise DataError(f"{where}: {files[file.stem].name} and {file.name} are both a table: move one away.")
            files[file.stem] = file
        sources = {name: read_source(file, may_be_empty=True) for name, file in files.items()}
        read = {name: source.table for name, source in sources.items()}
    else:
        with open_database(place) as database:
            where, read = database.place, {}
            for table in database.tables:
                if table not in database.views:
                    query, binary = database.select(table)
                    read[table] = database.read(table, query)
                    queries |= {table: query} if binary else {}
            keys, links, others = database.find_keys({table: table for table in read if read[table].height})
    frames = {name: frame for name, frame in read.items() if frame.height}
    if not frames:
        raise DataError(f"{where}: there are no tables with rows: give a database, or a folder of CSV files.")
    if empty := [name for name in read if name not in frames]:
        notes["", ""] = [f"left out, since they have no rows: {list_first(empty)}"]
    for name in [name for name in frames if name not in keys and not links]:
        if (key := _guess_key(name, frames)) is not None:
            keys[name] = key
            guesses.append(f"{key} is the key of {name}")
            notes["tables", name].append(f"guessed: {key!r} is the key: it is unique, and named as one")
    if not links:
        reasons = {link: why for name in frames for link, why in _guess_links(name, frames, keys)}
        links = list(reasons)
        guesses += [f"{link.table}.{link.column} links to {link.to}" for link in links]
        notes |= {("links", name): [f"guessed: {reasons[link]}"] for name, link in name_links(links).items()}
    sections: dict[str, dict[str, Any]] = {}
    for name, frame in frames.items():
        sections[name] = {"file": files[name].name} if is_folder else {}
        if name in queries:
            sections[name] = {"query": queries[name]}
            notes["tables", name].append("columns with binary cells, such as pictures, are not read")
        sections[name] |= {"key": keys[name]} if name in keys else {}
        taken = {keys.get(name), *(link.column for link in links if link.table == name)}
        parts = set[str]()
        for other in (other for other in others if other.table == name):
            what = f"the foreign key ({', '.join(other.columns)}) to {other.to}({', '.join(other.to_columns)})"
            notes["tables", name].append(f"{what} is no link: a link is one column to the key; its columns are ignored")
            parts |= {*other.columns} - taken
        rest = [column for column in frame.columns if column not in taken | parts]
        left_out = [entry for entry in inspect(frame.select(rest)).columns if entry.left_out] if rest else []
        if left_out:
            reasons = list_first([f"{entry.name!r} ({entry.left_out})" for entry in left_out])
            notes["tables", name].append(f"ignored, since they cannot be learned: {reasons}")
        if parts or left_out:
            sections[name]["ignore"] = [*sorted(parts), *(entry.name for entry in left_out)]
    is_url = system_of(place) == "postgres"
    content = {} if is_folder else {"database": where if is_url else Path(place).name}
    content |= {"tables": sections, "links": {name: asdict(link) for name, link in name_links(links).items()}}
    ignore = {name: section["ignore"] for name, section in sections.items() if "ignore" in section}
    frames = with_keys_of_one_type(frames, sources, keys, links)
    data = Relational(frames, keys=keys, links=name_links(links), ignore=ignore)
    return SchemaProposal(where, data, content, notes, guesses, files, sources)


def _guess_key(name: str, frames: Mapping[str, pl.DataFrame]) -> str | None:
    """Return the first column that is unique, without gaps, and named as a key, or has all of another table's values.

    In the latter case the other table has a column of the same name, which is text or ends as the name of a key.
    """
    columns = [
        column
        for column in frames[name].get_columns()
        if _may_be_key(column) and not column.null_count() and column.is_unique().all()
    ]
    bases = {base.removesuffix(ending) for base in _key_names(name) for ending in ENDINGS}
    for column in columns:
        bare = _bare(column.name)
        starts = [bare.removesuffix(ending) for ending in ENDINGS[1:] if bare.endswith(ending)]
        short = any(len(start) >= SHORTEST and base.startswith(start) for start in starts for base in bases)
        if bare in _key_names(name) | {"id", "key"} or short:  # as cust_id of customers
            return column.name
    for column in columns:
        bare = _bare(column.name)
        if bare.endswith(ENDINGS[1:]) or (column.dtype == pl.String and len(column) >= FEW_VALUES):
            keys, others = column.cast(pl.String).to_list(), [frames[table] for table in frames if table != name]
            twins = [twin for other in others for twin in other.get_columns() if _bare(twin.name) == bare]
            texts = [twin.drop_nulls().unique().cast(pl.String) for twin in twins if _may_be_key(twin)]
            if any(own.is_in(keys).all() for own in texts):
                return column.name
    return None


def _guess_links(
    name: str, frames: Mapping[str, pl.DataFrame], keys: Mapping[str, str]
) -> Iterator[tuple[ForeignKey, str]]:
    """Yield links of a table to keys that have all values of a column, with the reason for each."""
    for column in frames[name].get_columns():
        texts = column.drop_nulls().unique().cast(pl.String, strict=False)
        if not len(texts) or not _may_be_key(column):
            continue
        words = [word.lower() for word in re.findall(r"[^\W\d_][^\W\d_A-Z]*|\d+", column.name)]
        ends = {"".join(words[k:]) for k in range(len(words))} | {_bare(column.name)}
        is_key = column.name == keys.get(name)  # which links where another table has its name
        named = {}
        for to, key in keys.items():
            names = _key_names(to) | (set() if is_key else {_bare(key)} - set(ENDINGS))
            named[to] = max((len(end) for end in ends & names), default=0)
        having = [
            to
            for to in sorted(keys, key=lambda to: -named[to])
            if not (is_key and (to == name or not named[to]))
            and (named[to] or (column.dtype == pl.String and len(texts) >= FEW_VALUES))
            and texts.is_in(frames[to][keys[to]].cast(pl.String).to_list()).all()
        ]
        if having and (named[having[0]] or len(having) == 1):
            why = f"all values of {column.name!r} are keys of {having[0]!r}"
            yield ForeignKey(name, column.name, having[0]), why + (", whose name it has" if named[having[0]] else "")


def with_keys_of_one_type(
    frames: Mapping[str, pl.DataFrame],
    sources: Mapping[str, SourceTable],
    keys: Mapping[str, str],
    links: Sequence[Link],
) -> dict[str, pl.DataFrame]:
    """Return the tables, with a key and its foreign keys in text files as integers if all are, else as text."""
    frames, foreign = dict(frames), [link for link in links if isinstance(link, ForeignKey)]
    for to, key in list(keys.items()) * max(len(foreign), 1):  # a key that becomes text may be a foreign key itself
        ends = dict.fromkeys([(to, key), *((link.table, link.column) for link in foreign if link.to == to)])
        cells = {end: frames[end[0]][end[1]] for end in ends if end[0] in sources and end[1] in frames[end[0]].columns}
        if any(column.dtype == pl.String and column.null_count() < len(column) for column in cells.values()):
            # 007 is 7 unless a key is x3; other files than text say themselves what a key is.
            are_text = all(sources[table].format.is_text for table, _ in cells)
            numbers = {end: column.cast(pl.Int64, strict=False) for end, column in cells.items()}
            whole = are_text and all(numbers[end].null_count() == cells[end].null_count() for end in cells)
            for (table, _), column in (numbers if whole else cells).items():
                if sources[table].format.is_text:
                    frames[table] = frames[table].with_columns(column if whole else column.cast(pl.String))
    return frames


def _may_be_key(column: pl.Series) -> bool:
    return column.dtype.is_integer() or column.dtype == pl.String


def _bare(name: str) -> str:
    """Return a name without case and marks: that of customer_id and CustomerID is customerid."""
    return re.sub(r"[\W_]+", "", name).lower()


def _key_names(table: str) -> set[str]:
    """Return bare names of a key of a table, also in the singular: customer and customerid of customers."""
    bare = _bare(table)
    bare = re.sub("^(tbl|dim|fact)(?=..)", "", bare)
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
