"""What a command learns from or asks about: one table, or linked tables that a schema file describes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.cli.console import note
from sparsefield.cli.tables import Reading, find_columns, read_table
from sparsefield.errors import DataError

if TYPE_CHECKING:
    from sparsefield.data import Relational

__all__ = ["Given", "is_linked", "read_data", "read_linked"]

MANY_STATES = 10


@dataclass(frozen=True)
class Given:
    """Data for a fit."""

    X: Any
    """A frame, or a `Relational`."""
    linked: bool
    observed: list[str]
    numeric: Any
    """Observed columns that are numbers, or "auto"."""
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
        return Given(linked, True, [], "auto", sum(source.n_rows for source in linked.sources.values()))
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
) -> Relational:
    """Linked tables; options that speak of one table's columns have their place in the schema file."""
    from sparsefield.readers import read_schema

    asked = {
        "--observed": observed,
        "--id": identifiers,
        "--numeric": numeric,
        "--missing": reading.missing,
        "--no-header": not reading.header,
        "--separator": reading.separator,
    }
    for option, value in asked.items():
        if value:
            raise DataError(f"{data}: {option} is for one table; the schema file says this of linked ones.")
    return read_schema(data)


def _note_identifiers(names: list[str], table: Any) -> None:
    for name in names:
        seen = table[name].drop_nulls()
        if len(seen) > MANY_STATES and seen.n_unique() == len(seen):
            note(f"Column {name!r} has {len(seen):,} values, all different: is it an --id?")
