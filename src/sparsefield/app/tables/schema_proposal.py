"""Schemas of databases and of folders of tables: keys and links that are declared, or guessed from names and values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from sparsefield.app.tables.codebook import inspect
from sparsefield.app.tables.file_format import list_first
from sparsefield.app.tables.linked import name_links, open_database
from sparsefield.app.tables.read import read_table
from sparsefield.data.links import ForeignKey
from sparsefield.errors import DataError

SUFFIXES = (".csv", ".tsv", ".parquet", ".pq", ".xlsx")
"""Files of a folder that are taken for tables."""

ENDINGS = ("", "id", "key", "nr", "no", "code")
"""What the name of a key has after that of its table: customer, customer_id, CustomerKey."""

FEW_VALUES = 3
"""Smallest number of different texts that tell by themselves which table they link to."""


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
    path, keys, links = Path(path), {}, []
    notes: dict[tuple[str, str], list[str]] = {}
    if path.is_dir():
        files = {file.stem: file for file in sorted(path.iterdir()) if file.suffix.lower() in SUFFIXES}
        frames = {name: read_table(file) for name, file in files.items()}
    else:
        with open_database(path) as database:
            names = [name for name in database.tables if name not in database.views]
            frames = {name: frame for name in names if (frame := database.read(name)).height}
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
        values = column.drop_nulls().unique()
        if (
            column.name == keys.get(name)
            or not len(values)
            or not (values.dtype.is_integer() or values.dtype == pl.String)
        ):
            continue
        texts, bare = values.cast(pl.String), _bare(column.name)
        having = [to for to, key in keys.items() if texts.is_in(frames[to][key].cast(pl.String).to_list()).all()]
        names = {to: [end for end in _key_names(to) if bare.endswith(end)] for to in having}
        named = sorted(having, key=lambda to: -max(map(len, names[to]), default=0))
        if having and names[named[0]]:
            why = f"the name of {column.name!r} is that of a key of {named[0]!r}, which has all its values"
            yield ForeignKey(name, column.name, named[0]), why
        elif len(having) == 1 and values.dtype == pl.String and len(values) >= FEW_VALUES:
            yield (
                ForeignKey(name, column.name, having[0]),
                f"all texts of {column.name!r} are keys of {having[0]!r} only",
            )


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
