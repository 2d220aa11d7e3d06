"""Linked tables: entities with attributes, relations between them, and which rows touch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparsefield.data.frames import Source, read
from sparsefield.data.labels import Label, factorize
from sparsefield.data.links import ForeignKey, Link, OffsetLink, as_link, as_names, as_templates
from sparsefield.errors import DataError

__all__ = ["Relational", "Selected"]

SHOWN_OFFENDERS = 3


@dataclass(frozen=True)
class Selected:
    """Some columns of a table: those that are variables."""

    source: Source
    names: tuple[str, ...]

    @property
    def n_rows(self) -> int:
        return self.source.n_rows

    def column(self, name: str) -> Any:
        return self.source.column(name)


class Relational:
    """Several tables whose rows are linked: the data of one mega-sample.

    Parameters
    ----------
    tables : {name: frame}
        Frames of any kind that `MarkovField` takes.
    keys : {table: column}
        Which column names the rows of a table. Needed for tables that links point to.
    links : {name: (table, column, table)}
        ``("pair", "subject", "nation")``: the column ``subject`` of ``pair`` holds keys of ``nation``. Also a
        `ForeignKey`, or a `OffsetLink` for sequences and grids.
    observed : {table: columns}
        Columns that are conditioned on and never predicted.
    ignore : {table: columns}
        Columns that are left out. Keys, and columns of links, are no variables anyway.
    templates : list of templates, such as ``"across subject"`` or a `Template`
        Over which kinds of pairs of rows features may be defined. None takes the default: within each table, and
        across each link; rows that a table without variables joins are linked through it; and pairs of entities
        without variables, r(n, m), are linked with r(m, n).

    Examples
    --------
    >>> import polars as pl
    >>> people = pl.DataFrame({"id": ["ann", "bob", "cy"], "smokes": [1, 1, 0]})
    >>> friends = pl.DataFrame({"who": ["ann", "bob"], "whom": ["bob", "cy"]})
    >>> data = Relational({"person": people, "friend": friends}, keys={"person": "id"},
    ...                   links={"who": ("friend", "who", "person"), "whom": ("friend", "whom", "person")})
    >>> data
    Relational(person: 3 rows, 1 variable; friend: 2 rows, 0 variables; links who, whom)
    """

    def __init__(
        self,
        tables: Mapping[str, Any],
        *,
        keys: Mapping[str, str] | None = None,
        links: Mapping[str, Link | Sequence[str]] | None = None,
        observed: Mapping[str, Sequence[str]] | None = None,
        ignore: Mapping[str, Sequence[str]] | None = None,
        templates: Any = None,
    ) -> None:
        self.tables = _mapping(tables, "tables", "{name: frame}")
        if not self.tables:
            raise DataError("There are no tables: Relational(tables={name: frame}, ...).")
        self.keys = _mapping(keys, "keys", "{table: column}")
        given_links = _mapping(links, "links", "{name: (table, column, table)}")
        self.links = {name: as_link(name, given) for name, given in given_links.items()}
        self.observed = _columns_by_table(observed, "observed")
        self.ignore = _columns_by_table(ignore, "ignore")
        self.templates = None if templates is None else as_templates(templates)
        self._check()

    def __repr__(self) -> str:
        parts = [
            f"{name}: {_count(source.n_rows, 'row')}, {_count(len(self.variables(name)), 'variable')}"
            for name, source in self.sources.items()
        ]
        if self.links:
            parts.append("links " + ", ".join(self.links))
        return f"Relational({'; '.join(parts)})"

    @cached_property
    def sources(self) -> dict[str, Source]:
        return {name: read(frame, what=f"table {name!r}", may_be_empty=True) for name, frame in self.tables.items()}

    def variables(self, table: str) -> tuple[str, ...]:
        """Columns of a table that are variables: all but its key, its links' columns, and ignored ones."""
        taken = set(self.ignore.get(table, ()))
        taken |= {self.keys[table]} if table in self.keys else set()
        for link in self.links.values():
            if link.table == table:
                taken |= {link.column} if isinstance(link, ForeignKey) else set(link.columns)
        return tuple(name for name in self.sources[table].names if name not in taken)

    def selected(self, table: str) -> Selected:
        return Selected(self.sources[table], self.variables(table))

    def replace(self, **parts: Any) -> Relational:
        """The same with some parts, called as in the constructor, replaced."""
        names = ("tables", "keys", "links", "observed", "ignore", "templates")
        return Relational(**{**{name: getattr(self, name) for name in names}, **parts})

    def with_tables(self, tables: Mapping[str, Any]) -> Relational:
        """The same links over other frames."""
        return self.replace(tables={**self.tables, **tables})

    def linked_rows(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Rows (i, j) of the two ends of a link, each i at most once."""
        if name not in self.links:
            raise DataError(f"There is no link {name!r}; links: {', '.join(self.links) or 'none'}.")
        if name not in self._pairs:
            link = self.links[name]
            found = self._by_key(name, link) if isinstance(link, ForeignKey) else self._by_step(name, link)
            self._pairs[name] = found
        return self._pairs[name]

    @cached_property
    def _pairs(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        return {}

    # -- checks --------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        for table in self.tables:
            if not isinstance(table, str) or not table:
                raise DataError(f"A table is called {table!r}; the name of a table is text, and not empty.")
        for what, mapping in (("keys", self.keys), ("observed", self.observed), ("ignore", self.ignore)):
            for table in mapping:
                self.need_table(table, f"{what}=")
        for table, column in self.keys.items():
            self._need_column(table, column, "keys=")
        for what, mapping in (("observed", self.observed), ("ignore", self.ignore)):
            for table, columns in mapping.items():
                for column in columns:
                    self._need_column(table, column, f"{what}=")
        for name, link in self.links.items():
            if not isinstance(name, str) or not name or any(mark.isspace() for mark in name):
                raise DataError(f"Link {name!r}: the name of a link is one word.")
            self.need_table(link.table, f"link {name!r}")
            self.need_table(link.to, f"link {name!r}")
            for column in [link.column] if isinstance(link, ForeignKey) else link.columns:
                self._need_column(link.table, column, f"link {name!r}")
            if isinstance(link, ForeignKey) and link.to not in self.keys:
                raise DataError(
                    f"Link {name!r} points to table {link.to!r}, which has no key: say which column names its rows, "
                    f"keys={{{link.to!r}: ...}}."
                )
        for table, columns in self.observed.items():
            for column in columns:
                if column not in self.variables(table):
                    raise DataError(f"Column {column!r} of table {table!r} is observed, but also a key or left out.")

    def need_table(self, table: str, where: str) -> None:
        """Refuse what is not the name of a table; ``where`` it stands."""
        if table not in list(self.tables):
            raise DataError(f"{where} names the table {table!r}, which is not there; tables: {', '.join(self.tables)}.")

    def _need_column(self, table: str, column: str, where: str) -> None:
        names = self.sources[table].names
        if column not in names:
            more = f" and {len(names) - 8} more" if len(names) > 8 else ""
            raise DataError(
                f"{where} names the column {column!r} of table {table!r}, which is not there; "
                f"columns: {', '.join(names[:8])}{more}."
            )

    # -- links to rows -------------------------------------------------------------------------------------------

    def _factorized(self, table: str, column: str) -> tuple[list[Label], np.ndarray]:
        try:
            return factorize(self.sources[table].column(column))
        except DataError as error:
            raise DataError(f"Table {table!r}: {error}") from None

    @cached_property
    def _row_of_key(self) -> dict[str, dict[Label, int]]:
        return {}

    def _rows_by_key(self, table: str) -> dict[Label, int]:
        if table in self._row_of_key:
            return self._row_of_key[table]
        labels, codes = self._factorized(table, self.keys[table])
        if (codes < 0).any():
            shown = _shown(np.flatnonzero(codes < 0) + 1)
            raise DataError(f"Table {table!r} has rows without a key in {self.keys[table]!r}: row {shown}.")
        counts = np.bincount(codes, minlength=len(labels))
        if (counts > 1).any():
            shown = _shown(labels[k] for k in np.flatnonzero(counts > 1))
            raise DataError(
                f"Table {table!r} has several rows with the same key in {self.keys[table]!r}: {shown}. A key names one "
                "row."
            )
        rows = np.empty(len(labels), dtype=np.int64)
        rows[codes] = np.arange(len(codes))
        self._row_of_key[table] = dict(zip(labels, rows.tolist(), strict=True))
        return self._row_of_key[table]

    def _by_key(self, name: str, link: ForeignKey) -> tuple[np.ndarray, np.ndarray]:
        known = self._rows_by_key(link.to)
        labels, codes = self._factorized(link.table, link.column)
        found = np.array([*_rows_named(labels, known), -1], dtype=np.int64)
        dangling = np.flatnonzero((found[codes] < 0) & (codes >= 0))
        if len(dangling):
            shown = _shown(f"{labels[codes[row]]!r} in row {row + 1}" for row in dangling)
            raise DataError(
                f"Link {name!r}: {_count(len(dangling), 'value')} of column {link.column!r} of table {link.table!r} "
                f"{'is' if len(dangling) == 1 else 'are'} no key of table {link.to!r}: {shown}. Add the missing rows, "
                "or make the cells gaps." + self._hint(link, labels)
            )
        rows = np.flatnonzero(codes >= 0)
        return rows, found[codes[rows]]

    def _hint(self, link: ForeignKey, labels: Sequence[Label]) -> str:
        """Another table that the values fit, when there is one."""
        for other in self.keys:
            if other == link.to:
                continue
            # Not `_rows_by_key`, since a fault in the keys of another table is not what has to be said here.
            try:
                keys = factorize(self.sources[other].column(self.keys[other]))[0]
            except DataError:
                continue
            if -1 not in _rows_named(labels, dict.fromkeys(keys, 0)):
                return f" They are all keys of table {other!r}: is that the one meant?"
        return ""

    def _by_step(self, name: str, link: OffsetLink) -> tuple[np.ndarray, np.ndarray]:
        source = self.sources[link.table]
        group = np.zeros(source.n_rows, dtype=np.int64)
        for within in link.within:
            labels, codes = self._factorized(link.table, within)
            if (codes < 0).any():
                raise DataError(f"Link {name!r}: column {within!r} of table {link.table!r} has gaps: fill them in.")
            _, group = np.unique(group * len(labels) + codes, return_inverse=True)
        place = _counted(group) if link.along is None else self._places(name, link, link.along)
        # Places are numbered by rank, so that a key fits into 64 bits however far apart the places are.
        places, rank = np.unique(place, return_inverse=True)
        key = group * len(places) + rank
        order = np.argsort(key, kind="stable")
        ranked = key[order]
        twice = np.flatnonzero(ranked[1:] == ranked[:-1])
        if len(twice):
            shown = _shown(order[twice + 1] + 1)
            raise DataError(f"Link {name!r}: rows of {link.table!r} stand at the same place: row {shown}. Move one.")
        next_rank = np.minimum(np.searchsorted(places, place + link.by), len(places) - 1)
        ahead = np.where(places[next_rank] == place + link.by, group * len(places) + next_rank, -1)
        at = np.minimum(np.searchsorted(ranked, ahead), len(ranked) - 1)
        hit = np.flatnonzero(ranked[at] == ahead)
        return hit, order[at[hit]]

    def _places(self, name: str, link: OffsetLink, along: str) -> np.ndarray:
        labels, codes = self._factorized(link.table, along)
        # Half of the range of 64 bits, so that a step never leaves it.
        whole = all(isinstance(v, int) and not isinstance(v, bool) and abs(v) < 2**62 for v in labels)
        if (codes < 0).any() or not whole:
            raise DataError(f"Link {name!r}: column {along!r} of {link.table!r} must be whole numbers, no gaps.")
        return np.array(labels, dtype=np.int64)[codes]


def _mapping(given: Any, what: str, form: str) -> dict[Any, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise DataError(f"{what} is a {type(given).__name__}; it must be {form}.")
    return dict(given or {})


def _columns_by_table(given: Any, what: str) -> dict[str, list[str]]:
    mapping = _mapping(given, what, "{table: columns}")
    return {table: list(as_names(columns, f"{what}= of table {table!r}")) for table, columns in mapping.items()}


def _rows_named(labels: Sequence[Label], known: Mapping[Label, int]) -> list[int]:
    """The row of each label, -1 for one that names none.

    Where one side is text and the other numbers, as happens when a key such as "x3" makes text of a whole column,
    numbers are compared by their text.
    """
    sides = [{isinstance(label, str) for label in side} for side in (labels, known)]
    if sides in ([{True}, {False}], [{False}, {True}]):
        known = {str(label): row for label, row in known.items()}
        labels = [str(label) for label in labels]
    return [known.get(label, -1) for label in labels]


def _counted(group: np.ndarray) -> np.ndarray:
    """The number of each row within its group, in the order of the rows."""
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(group.max(initial=-1) + 1))
    return np.argsort(order) - starts[group]


def _shown(offenders: Iterable[Any]) -> str:
    shown = []
    for offender in offenders:
        if len(shown) == SHOWN_OFFENDERS:
            return ", ".join(shown) + ", ..."
        shown.append(str(offender))
    return ", ".join(shown)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
