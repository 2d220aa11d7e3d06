"""Which rows touch: links by foreign key and by step, and the templates over which features may be defined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sparsefield.errors import DataError

__all__ = ["ForeignKey", "Link", "Step", "Template", "as_link", "as_names", "as_template"]

Kind = Literal["within", "across", "shared", "swapped", "joined"]


@dataclass(frozen=True)
class ForeignKey:
    """Rows of ``table`` name, in ``column``, the key of a row of the table ``to``. A gap there is no link."""

    table: str
    column: str
    to: str


@dataclass(frozen=True)
class Step:
    """A row is linked to the one that comes ``by`` places later: i to i + 1 makes a sequence, two steps a grid.

    Parameters
    ----------
    table : whose rows are linked with each other
    along : column of whole numbers that says where a row stands; None takes the order of the rows
    within : columns that both rows must have in common, such as the sentence of a word or the line of a pixel
    by : length of the step
    """

    table: str
    along: str | None = None
    within: tuple[str, ...] = ()
    by: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "within", as_names(self.within))
        if isinstance(self.by, bool) or not isinstance(self.by, int) or self.by == 0:
            raise DataError(f"A step in table {self.table!r} is by {self.by!r}; it must be a whole number, not 0.")

    @property
    def to(self) -> str:
        return self.table

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that say where a row stands, and so are no variables."""
        return (*self.within, *([] if self.along is None else [self.along]))


Link = ForeignKey | Step


@dataclass(frozen=True)
class Template:
    """A kind of pair of rows over which features are defined, with one weight for all its pairs.

    Parameters
    ----------
    kind : {"within", "across", "shared", "swapped", "joined"}
        * ``within`` a table: each row with itself, so features pair two variables of one row;
        * ``across`` a link: a row and the row it is linked to;
        * ``shared`` by one or two links: two rows that are linked to the same row, as r(n, m) and r(n, k);
        * ``swapped`` by two links of one table: r(n, m) and r(m, n);
        * ``joined`` by two links of one table: the two rows that one row of that table is linked to.
    names : the table for ``within``, the links for all others
    symmetric : whether both directions count the same, when both ends are in one table
        ``shared`` by one link and ``swapped`` always are.
    left, right : variables that take part at either end; None takes all

    Examples
    --------
    >>> as_template("swapped subject object")
    Template(kind='swapped', names=('subject', 'object'), symmetric=True, left=None, right=None)
    """

    kind: Kind
    names: tuple[str, ...]
    symmetric: bool = False
    left: tuple[str, ...] | None = None
    right: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", as_names(self.names))
        for side in ("left", "right"):
            if getattr(self, side) is not None:
                object.__setattr__(self, side, as_names(getattr(self, side)))
        wanted = {"within": (1,), "across": (1,), "shared": (1, 2), "swapped": (2,), "joined": (2,)}
        if self.kind not in wanted:
            raise DataError(f"A template is of kind {self.kind!r}; the kinds are {', '.join(get_args(Kind))}.")
        if len(self.names) not in wanted[self.kind]:
            what = "one table" if self.kind == "within" else f"{' or '.join(map(str, wanted[self.kind]))} link(s)"
            raise DataError(f"The template {self.label!r} needs {what} after its first word.")
        if self.kind == "within" and (self.symmetric or self.left is not None or self.right is not None):
            raise DataError(f"The template {self.label!r} takes no further options.")
        if self.kind == "swapped" or (self.kind == "shared" and len(set(self.names)) == 1):
            object.__setattr__(self, "symmetric", True)
        if self.symmetric and self.left != self.right:
            raise DataError(f"The template {self.label!r} is symmetric: left and right variables must be the same.")

    @property
    def label(self) -> str:
        return " ".join((self.kind, *self.names))

    def as_plain(self) -> dict[str, Any]:
        """Plain values, as `as_template` takes them."""
        return {
            "kind": self.kind,
            "names": list(self.names),
            "symmetric": self.symmetric,
            "left": None if self.left is None else list(self.left),
            "right": None if self.right is None else list(self.right),
        }


def as_template(given: Template | str | Sequence[str] | Mapping[str, Any]) -> Template:
    """A template from its words (``"across subject"``), a list of them, or a mapping of its parts."""
    if isinstance(given, Template):
        return given
    if isinstance(given, Mapping):
        parts = dict(given)
        try:
            return Template(**parts)
        except TypeError:
            raise DataError(f"A template has the parts kind, names, symmetric, left, right; got {parts}.") from None
    if not isinstance(given, (str, Sequence)):
        raise DataError(f"A template is {given!r}; it must be words such as 'across subject', or a Template.")
    words = given.split() if isinstance(given, str) else [str(word) for word in given]
    if not words:
        raise DataError("A template is empty; an example is 'across subject'.")
    return Template(words[0], tuple(words[1:]))  # pyright: ignore[reportArgumentType]


def as_link(name: str, given: Link | Sequence[str]) -> Link:
    """A link; three names stand for a foreign key: table, column, table that it points to."""
    if isinstance(given, (ForeignKey, Step)):
        return given
    parts = tuple(given) if isinstance(given, Sequence) else ()
    if isinstance(given, str) or len(parts) != 3 or not all(isinstance(part, str) for part in parts):
        raise DataError(
            f"Link {name!r} is {given!r}; it must be (table, column, table that the column points to), a ForeignKey "
            "or a Step."
        )
    return ForeignKey(*parts)


def as_names(given: str | Sequence[str]) -> tuple[str, ...]:
    """Names from one or several of them."""
    return (given,) if isinstance(given, str) else tuple(given)
