"""This module defines the keys that a database declares, and the names of its tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class TableName(NamedTuple):
    """A table is identified by its schema and name."""

    schema: str
    name: str

    def folded(self) -> TableName:
        """Return the case-folded name, because SQL ignores case."""
        return TableName(self.schema.casefold(), self.name.casefold())


class ForeignKeyConstraint(NamedTuple):
    """A foreign key: columns of a table that reference columns of another table."""

    table: TableName
    columns: tuple[str, ...]
    to: TableName
    referred: tuple[str, ...]


@dataclass(frozen=True)
class DeclaredKeys:
    """The primary and foreign keys that a database declares."""

    primary: dict[TableName, tuple[str, ...]]
    foreign: list[ForeignKeyConstraint]
