"""This module defines the entries of a codebook: columns, their levels, findings about them, and advice."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sparsefield.data.schema import Kind

FindingType = Literal[
    "empty",
    "identifier",
    "free text",
    "long text",
    "dates as text",
    "numbers as text",
    "missing codes",
    "duplicate",
    "constant",
    "nearly constant",
    "all different",
    "many levels",
    "ordered levels",
    "spelling",
    "rare levels",
]
"""What may be found about a column, in the order in which it is shown."""


MOST_CODES = 10
"""Number of suspected values of one column that are named."""

FRACTIONS = "numbers with fractions"
"""Why a column is numeric if it has such numbers."""


@dataclass(frozen=True)
class LevelCount:
    """A level of a column, or a range of numbers, and the number of rows that have it."""

    label: str
    rows: int


@dataclass(frozen=True)
class Finding:
    """Something about a column that deserves a look before a fit."""

    type: FindingType
    text: str
    """What was found, in a few words with the numbers."""
    values: tuple[str, ...] = ()
    """The values that it is about: missing codes, texts that are no numbers or dates, levels in order, or the name of
    an equal column."""
    readable: str = ""
    """How numbers or dates that are kept as text can be read if those values are missing: the decimal mark, "date", or
    "day-first or month-first" if the table does not show which; empty if they cannot."""


@dataclass(frozen=True)
class ColumnEntry:
    """The description of one column.

    Attributes
    ----------
    name : str
    kind : "nominal", "ordinal" or "numeric"
        The kind that a fit gives to the column unless an option names another one.
    reason : str
        Why it has this kind.
    n_rows, n_missing, n_distinct : int
        Numbers of rows, of missing cells, and of distinct values.
    levels : tuple of LevelCount
        The most frequent levels, in their order if the column is ordinal; equally wide ranges if it is numeric.
    low, high, median : str
        The range and the median of numbers and dates; otherwise empty.
    findings : tuple of Finding
    left_out : str
        Why commands that learn leave the column out unless an option names it; empty if they do not.
    """

    name: str
    kind: Kind
    reason: str
    n_rows: int
    n_missing: int
    n_distinct: int
    levels: tuple[LevelCount, ...] = ()
    low: str = ""
    high: str = ""
    median: str = ""
    findings: tuple[Finding, ...] = ()
    left_out: str = ""

    @property
    def missing_share(self) -> float:
        """Share of the cells that are missing."""
        return self.n_missing / self.n_rows if self.n_rows else 0.0

    @property
    def n_values(self) -> int:
        """Number of cells that are not missing."""
        return self.n_rows - self.n_missing

    def finding(self, type: FindingType) -> Finding | None:
        """Return the finding of a type, or None."""
        return next((finding for finding in self.findings if finding.type == type), None)

    @property
    def other_texts(self) -> tuple[str, ...]:
        """Texts such as "k.A." among numbers or dates; as missing values they leave a column of numbers or dates.

        Empty if they do not, or if they are too many, or have a comma, which separates the values of an option.
        """
        found = self.finding("numbers as text") or self.finding("dates as text")
        if found is None or not found.readable or len(found.values) > MOST_CODES:
            return ()
        return () if any("," in text for text in found.values) else found.values

    def describe_values(self) -> str:
        """Return the range of a number, or the levels with their shares."""
        if self.kind == "numeric" and self.n_values:
            return f"{self.low} to {self.high}, median {self.median}"
        rest = self.n_distinct - len(self.levels)
        shown = [f"{level.label} {level.rows / self.n_values:.0%}" for level in self.levels]
        return ", ".join(shown) + (f", {rest:,} more" if rest > 0 else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as values that JSON can express."""
        return asdict(self) | {"missing_share": self.missing_share}


@dataclass(frozen=True)
class Advice:
    """What to do about findings of one type, with the option to give at the command line."""

    text: str
    columns: tuple[str, ...]
    option: str = ""
    """The exact option, quoted for a shell; empty if there is none."""
    is_conditional: bool = False
    """Whether the option is right only under a condition that the table does not show."""

    def __str__(self) -> str:
        return f"{self.text}: {self.option}" if self.option else f"{self.text}."


def list_names(names: Sequence[str], most: int = 5) -> str:
    """Return column names as a short list.

    Examples
    --------
    >>> list_names(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(repr(name) for name in names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown


def column_option(option: str, names: Sequence[str]) -> str:
    """Return an option that names columns, quoted for a shell.

    Examples
    --------
    >>> column_option("--id", ["a", "b", "c, d"])
    "--id a,b --id 'c, d'"
    """
    plain = [name for name in names if "," not in name and name.strip() == name]
    others = [name for name in names if name not in plain]
    words = ([",".join(plain)] if plain else []) + others
    return " ".join(f"{option} {shlex.quote(word)}" for word in words)
