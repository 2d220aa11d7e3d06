"""What a command learns from or asks about: one table, or linked tables that a schema file describes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.cli.console import note
from sparsefield.cli.tables import Reading, find_columns, read_table
from sparsefield.errors import DataError

if TYPE_CHECKING:
    from sparsefield.readers.schema_file import Described

__all__ = ["Given", "is_linked", "read_data", "read_linked"]

MANY_STATES = 10

IN_SCHEMA = {
    "--observed": "observed = [...] under [tables.NAME]",
    "--id": "ignore = [...] under [tables.NAME]",
    "--numeric": "numeric = [...] under [tables.NAME]",
    "--missing": "missing = [...] at the top",
    "--no-header": "header = false under [tables.NAME]",
    "--separator": "separator = '...' at the top",
}
"""What a schema file says in place of an option."""


@dataclass(frozen=True)
class Given:
    """Data for a fit."""

    X: Any
    """A frame, or a `Relational`."""
    linked: bool
    observed: list[str]
    numeric: Any
    """Observed columns that are numbers, for linked tables those of each, or "auto"."""
    rows: int

    def fit(self, field: Any) -> None:
        if self.linked:
            field.fit(self.X)
        else:
            field.fit(self.X, observed=self.observed)


def is_linked(data: Path) -> bool:
    """Whether a path names linked tables: a schema file, or a folder with one."""
    return data.is_dir() or data.suffix.lower() == ".toml"


def read_data(
    data: Path,
    reading: Reading,
    observed: list[str] | None,
    identifiers: list[str] | None,
    numeric: list[str] | None,
) -> Given:
    """Read what ``data`` names: a table without its ids, or linked tables."""
    if is_linked(data):
        linked = read_linked(data, reading, observed, identifiers, numeric)
        rows = sum(source.n_rows for source in linked.data.sources.values())
        return Given(linked.data, True, [], linked.numeric or "auto", rows)
    table = read_table(data, reading)
    ids = find_columns(identifiers, table.columns, "--id")
    numbers = find_columns(numeric, table.columns, "--numeric")
    given = [*find_columns(observed, table.columns, "--observed"), *numbers]
    both = [name for name in given if name in ids]
    if both:
        raise DataError(f"Column {both[0]!r} is an --id, which is left out: it cannot be observed as well.")
    table = table.drop(ids)
    _note_identifiers([name for name in table.columns if name not in given], table)
    return Given(table, False, list(dict.fromkeys(given)), numbers or "auto", table.height)


def read_linked(
    data: Path,
    reading: Reading,
    observed: list[str] | None = None,
    identifiers: list[str] | None = None,
    numeric: list[str] | None = None,
) -> Described:
    """Linked tables; options that speak of one table's columns have their place in the schema file."""
    from sparsefield.readers import describe

    asked = (observed, identifiers, numeric, reading.missing, not reading.header, reading.separator)
    for (option, words), value in zip(IN_SCHEMA.items(), asked, strict=True):
        if value:
            raise DataError(f"{data}: {option} is for one table; of linked ones the schema file says it: {words}.")
    return describe(data)


def _note_identifiers(names: list[str], table: Any) -> None:
    for name in names:
        seen = table[name].drop_nulls()
        if len(seen) > MANY_STATES and seen.n_unique() == len(seen):
            note(f"Column {name!r} has {len(seen):,} values, all different: is it an --id?")
