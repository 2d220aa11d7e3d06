"""This module holds what a codebook says about a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sparsefield.app.tables.codebook_advice import give_advice, join_options
from sparsefield.app.tables.column_entries import Advice, ColumnEntry


@dataclass(frozen=True)
class CodebookContents:
    """What a codebook says about a table, without the ways to show it."""

    columns: tuple[ColumnEntry, ...]
    n_rows: int
    duplicate_rows: int = 0
    """Number of rows that are equal to an earlier one."""
    source: str = ""
    """A sentence on how the table was read."""
    decimal: str = "."
    """The decimal mark with which the table was read."""
    code_values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """{missing code of some columns: other columns of which it is a value like others}"""

    @cached_property
    def _by_name(self) -> dict[str, ColumnEntry]:
        return {entry.name: entry for entry in self.columns}

    def __getitem__(self, name: str) -> ColumnEntry:
        return self._by_name[name]

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def missing_share(self) -> float:
        """Share of all cells that are missing."""
        cells = self.n_rows * len(self.columns)
        return sum(entry.n_missing for entry in self.columns) / cells if cells else 0.0

    @property
    def kinds(self) -> dict[str, int]:
        """Number of columns of each kind, without those that are left out."""
        found = Counter(entry.kind for entry in self.columns if not entry.left_out)
        return {kind: found[kind] for kind in ("nominal", "ordinal", "numeric") if found[kind]}

    @property
    def left_out(self) -> tuple[str, ...]:
        """Columns that commands leave out of a fit unless an option names them."""
        return tuple(entry.name for entry in self.columns if entry.left_out)

    @property
    def with_findings(self) -> tuple[ColumnEntry, ...]:
        """The entries that have findings."""
        return tuple(entry for entry in self.columns if entry.findings)

    @cached_property
    def advice(self) -> list[Advice]:
        """What to do about the findings, with the options to give at the command line."""
        return list(give_advice(self.columns, self.decimal, self.code_values))

    @property
    def options(self) -> str:
        """The options of all advice for one command."""
        return join_options(self.advice)

    def to_dict(self) -> dict[str, Any]:
        """Return the codebook as values that JSON can express."""
        return {
            "source": self.source,
            "rows": self.n_rows,
            "duplicate_rows": self.duplicate_rows,
            "missing_share": self.missing_share,
            "columns": [entry.to_dict() for entry in self.columns],
            "advice": [{"text": one.text, "columns": list(one.columns), "option": one.option} for one in self.advice],
            "options": self.options,
        }


def columns_in_order(book: CodebookContents) -> Sequence[ColumnEntry]:
    """Return the entries with those that have findings first."""
    return sorted(book.columns, key=lambda entry: not entry.findings)
