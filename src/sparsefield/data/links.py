"""Links between rows (foreign keys and offsets), and templates for features over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, get_args

from sparsefield.errors import DataError

Kind = Literal["within", "across", "shared", "swapped", "joined", "mean", "sum", "triangle", "cycle"]

AUTO, BASE = "auto", "base"
"""Stand for templates that a fit chooses by itself, and for those it begins with."""


@dataclass(frozen=True)
class ForeignKey:
    """Declare links from rows of ``table`` to rows of ``to`` by the keys in ``column``; a missing cell is no link."""

    table: str
    column: str
    to: str

    @property
    def columns(self) -> tuple[str]:
        """Columns that define the link, and so are no variables."""
        return (self.column,)


@dataclass(frozen=True)
class OffsetLink:
    """Declare a link from each row to the one ``by`` positions later: one makes a sequence, two make a grid.

    Parameters
    ----------
    table : the table whose rows are linked with each other
    along : column of integers with the position of each row; None takes the order of the rows
    within : columns in which both rows must agree, such as the sentence of a word or the line of a pixel
    by : the offset, a nonzero integer
    """

    table: str
    along: str | None = None
    within: tuple[str, ...] = ()
    by: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "within", as_names(self.within, f"An offset link in table {self.table!r}: within"))
        if isinstance(self.by, bool) or not isinstance(self.by, Integral) or self.by == 0:
            raise DataError(f"An offset link in table {self.table!r} has by={self.by!r}; it must be a nonzero integer.")
        object.__setattr__(self, "by", int(self.by))

    @property
    def to(self) -> str:
        return self.table

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that define the positions of rows, and so are no variables."""
        return self.within if self.along is None else (*self.within, self.along)


Link = ForeignKey | OffsetLink


@dataclass(frozen=True)
class Template:
    """Declare a kind of pair of rows over which features are defined; its pairs share one weight per feature.

    Two rows form at most one pair, even if several rows join them, except over "mean" and "sum". The last two kinds
    connect three rows.

    Parameters
    ----------
    kind : {"within", "across", "shared", "swapped", "joined", "mean", "sum", "triangle", "cycle"}
        * ``within`` a table: each row with itself, so features pair two variables of one row;
        * ``across`` a link: a row and the row to which it is linked;
        * ``shared`` by one or two links: two rows that are linked to the same row, as r(n, m) and r(n, k);
        * ``swapped`` by two links of one table: r(n, m) and r(m, n);
        * ``joined`` by two links of one table: the two rows to which one row of that table is linked;
        * ``mean`` or ``sum`` along links: a row, and those that it reaches by them one after another, in either
          direction, each time that it does; a state counts by its share or number, and a number by its mean or sum;
        * ``triangle`` of two links of one table: r(i, z), s(z, j) and t(i, j), of three different entities;
        * ``cycle`` of two links of one table: r(j, z), s(z, i) and t(i, j).
    names : the table for ``within``, the links for all others
    symmetric : whether both directions share a weight, if both ends are in one table
        ``shared`` by one link and ``swapped`` are always symmetric.
    left, right : variables at either end; None takes all

    Examples
    --------
    >>> as_template("swapped subject object")
    Template(kind='swapped', names=('subject', 'object'), symmetric=True, left=None, right=None)
    >>> Template("across", ("subject",), left=("exports",)).label
    'across subject (left exports)'
    """

    kind: Kind
    names: tuple[str, ...]
    symmetric: bool = False
    left: tuple[str, ...] | None = None
    right: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise DataError(f"A template is of kind {self.kind!r}; the kinds are {', '.join(get_args(Kind))}.")
        for part in ("names", "left", "right"):
            given = getattr(self, part)
            if given is not None or part == "names":
                object.__setattr__(self, part, as_names(given, f"A template of kind {self.kind!r}: {part}"))
        if not isinstance(self.symmetric, bool):
            raise DataError(f"The template {self.label!r}: symmetric is {self.symmetric!r}; it must be True or False.")
        wanted = {"within": (1,), "across": (1,), "shared": (1, 2)}.get(self.kind, (2,))
        if not self.names if self.along_links else len(self.names) not in wanted:
            what = "one table" if self.kind == "within" else f"{' or '.join(map(str, wanted))} link(s)"
            what = "links" if self.along_links else what
            raise DataError(f"The template {self.words!r} needs {what} after its first word.")
        if self.kind in ("swapped", "joined", "triangle", "cycle") and len(set(self.names)) == 1:
            raise DataError(f"The template {self.words!r} needs two different links.")
        plain = not self.symmetric and self.left is None and self.right is None
        if (self.kind == "within" or self.over_paths or (self.along_links and self.symmetric)) and not plain:
            raise DataError(f"The template {self.words!r} takes no further options.")
        if self.kind == "swapped" or (self.kind == "shared" and len(set(self.names)) == 1):
            object.__setattr__(self, "symmetric", True)
        if self.symmetric and self.left != self.right:
            raise DataError(f"The template {self.label!r} is symmetric: left and right variables must be the same.")

    @property
    def along_links(self) -> bool:
        """Whether rows are those at the other end of several links."""
        return self.kind in ("mean", "sum")

    @property
    def over_paths(self) -> bool:
        """Whether features are over three rows: a cell and a path of two others."""
        return self.kind in ("triangle", "cycle")

    @property
    def words(self) -> str:
        """Kind and names, such as ``across subject``."""
        return " ".join((self.kind, *self.names))

    @property
    def label(self) -> str:
        """`words`, with the variables of either end if it does not take all."""
        sides = (("left", self.left), ("right", self.right))
        ends = [f"{side} {', '.join(names) or 'none'}" for side, names in sides if names is not None]
        return f"{self.words} ({'; '.join(ends)})" if ends else self.words

    def as_plain(self) -> dict[str, Any]:
        """Return plain values that `as_template` accepts."""
        return {name: list(part) if isinstance(part, tuple) else part for name, part in vars(self).items()}


def as_template(given: Template | str | Sequence[str] | Mapping[str, Any]) -> Template:
    """Return a template from its words (``"across subject"``), a list of words, or a mapping of its parameters."""
    if isinstance(given, Template):
        return given
    if isinstance(given, Mapping):
        try:
            return Template(**given)
        except TypeError:
            keys = "kind, names, symmetric, left, right"
            raise DataError(f"A template has the keys {keys}; got {dict(given)}.") from None
    if not isinstance(given, (str, Sequence)):
        raise DataError(f"A template is {given!r}; it must be words such as 'across subject', or a Template.")
    words = given.split() if isinstance(given, str) else list(given)
    if not words:
        raise DataError("A template is empty; an example is 'across subject'.")
    return Template(words[0], tuple(words[1:]))  # pyright: ignore[reportArgumentType]


def as_templates(given: Any) -> tuple[Template, ...] | str | None:
    """Return templates from a list, or a single one in any form; "auto" and "base", also in a list, and None stay."""
    if given is None:
        return None
    parts = [given] if isinstance(given, (str, Mapping, Template)) else given
    if not isinstance(parts, Iterable):
        raise DataError(f"templates is {given!r}; it must be a list such as ['within person', 'across employer'].")
    parts = list(parts)
    words = [str(part) for part in parts if part in (AUTO, BASE)]
    if words and len(parts) > 1:
        raise DataError(f"templates has {words[0]!r} and more; it must be {words[0]!r} alone, or a list of templates.")
    return words[0] if words else tuple(map(as_template, parts))


def as_link(name: str, given: Link | Sequence[str]) -> Link:
    """Return a link; three names are a foreign key: table, column, table to which it points."""
    if isinstance(given, (ForeignKey, OffsetLink)):
        return given
    parts = tuple(given) if isinstance(given, Sequence) else ()
    if isinstance(given, str) or len(parts) != 3 or not all(isinstance(part, str) for part in parts):
        raise DataError(f"Link {name!r} is {given!r}; it must be (table, column, table), a ForeignKey or OffsetLink.")
    return ForeignKey(*parts)


def as_names(given: Any, what: str = "names") -> tuple[str, ...]:
    """Return a tuple of names from one or several; ``what`` describes them in errors."""
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (given,)
    if isinstance(given, Mapping) or not all(isinstance(name, str) for name in names):
        raise DataError(f"{what} is {given!r}; it must be a name or a list of names.")
    return names
