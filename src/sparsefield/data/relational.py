"""Linked tables: entities with attributes, relations between them, and the pairs of rows of templates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp

from sparsefield.data.frames import JoinedColumns, Source, as_source
from sparsefield.data.labels import Label, factorize
from sparsefield.data.link_products import LinkProduct
from sparsefield.data.links import ForeignKey, Link, OffsetLink, Template, as_link, as_names, as_templates
from sparsefield.data.sparse_matrix import expand
from sparsefield.errors import DataError, count, list_first, prefix_errors

MAX_PAIRS = 200_000_000
"""Largest number of pairs of rows of a template. Compilation takes about 45 bytes per pair, so this is some 9 GB."""

MAX_LISTED = 100_000
"""Largest number of pairs of rows with a shared neighbor that are listed where they need not be: sums over more of them
are those over the neighbor's rows less the own part, and inference takes these as expected."""

Rows = tuple[np.ndarray, np.ndarray]


class Relational:
    """Declare tables and the links between their rows.

    Parameters
    ----------
    tables : {name: frame}
        Frames of any kind that `MarkovField` accepts.
    keys : {table: column}
        The column that identifies the rows of a table; required for tables to which links point.
    links : {name: (table, column, table)}
        ``("pair", "subject", "nation")``: the column ``subject`` of ``pair`` holds keys of ``nation``. A
        `ForeignKey` is accepted too, or an `OffsetLink` for sequences and grids.
    observed : {table: columns}
        Columns that are conditioned on and never predicted.
    ignore : {table: columns}
        Columns that are left out. Keys and columns of links are no variables in any case.
    templates : list of templates, such as ``"across subject"`` or a `Template`
        The kinds of pairs of rows over which features are defined. "base" stands for those within each table and
        across each link; rows that are joined by a table without variables are linked through it; and pairs r(n, m) of
        entities without variables are linked with r(m, n). "auto" and None: a fit chooses, see `RelationalField`.

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
        self.templates = as_templates(templates)
        self._pairs: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._row_of_key: dict[str, dict[Label, int]] = {}
        self._check()

    def __repr__(self) -> str:
        parts = [
            f"{name}: {count(source.n_rows, 'row')}, {count(len(self.variables(name)), 'variable')}"
            for name, source in self.sources.items()
        ]
        if self.links:
            parts.append("links " + ", ".join(self.links))
        return f"Relational({'; '.join(parts)})"

    @classmethod
    def from_database(cls, place: Any, tables: Mapping[str, str] | None = None, **options: Any) -> Relational:
        """Read linked tables from a database, or from the files of a folder: see `sparsefield.read_database`."""
        from sparsefield import read_database  # it makes a `Relational`

        return read_database(place, tables, **options)

    @cached_property
    def sources(self) -> dict[str, Source]:
        return {name: as_source(frame, f"table {name!r}", may_be_empty=True) for name, frame in self.tables.items()}

    def variables(self, table: str) -> tuple[str, ...]:
        """Return the columns of a table that are variables: all but its key, columns of links, and ignored ones."""
        taken = {self.keys.get(table), *self.ignore.get(table, ())}
        taken.update(column for link in self.links.values() if link.table == table for column in link.columns)
        return tuple(name for name in self.sources[table].names if name not in taken)

    def select_variables(self, table: str) -> JoinedColumns:
        """Return the variables of a table."""
        return JoinedColumns((self.sources[table],), self.variables(table))

    def replace(self, **parts: Any) -> Relational:
        """Return a copy with some constructor parameters replaced."""
        names = ("tables", "keys", "links", "observed", "ignore", "templates")
        return Relational(**{**{name: getattr(self, name) for name in names}, **parts})

    def with_tables(self, tables: Mapping[str, Any]) -> Relational:
        """Return a copy with some frames replaced."""
        return self.replace(tables={**self.tables, **tables})

    def linked_rows(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows (i, j) of the two ends of a link, each i at most once."""
        if name not in self.links:
            raise DataError(f"There is no link {name!r}; links: {', '.join(self.links) or 'none'}.")
        if name not in self._pairs:
            link = self.links[name]
            follow = self._link_by_key if isinstance(link, ForeignKey) else self._link_by_offset
            self._pairs[name] = follow(name, link)  # pyright: ignore[reportArgumentType]
        return self._pairs[name]

    def link_matrix(self, name: str, ahead: bool) -> sp.csr_array:
        """Return ones for rows of the table of a link and those to which they are linked, transposed if not ahead."""
        ends, link = self.linked_rows(name), self.links[name]
        shape = self.sources[link.table].n_rows, self.sources[link.to].n_rows
        matrix = sp.csr_array((np.ones(len(ends[0])), ends), shape=shape)
        return matrix if ahead else sp.csr_array(matrix.T)

    def _check(self) -> None:
        for table in self.tables:
            if not isinstance(table, str) or not table:
                raise DataError(f"A table is called {table!r}; the name of a table must be a nonempty string.")
        keys = {table: [column] for table, column in self.keys.items()}
        for what, mapping in (("keys=", keys), ("observed=", self.observed), ("ignore=", self.ignore)):
            for table, columns in mapping.items():
                self.require_table(table, what)
                for column in columns:
                    self._require_column(table, column, what)
        for name, link in self.links.items():
            if not isinstance(name, str) or not name or any(mark.isspace() for mark in name):
                raise DataError(f"Link {name!r}: the name of a link must be one word.")
            self.require_table(link.table, f"link {name!r}")
            self.require_table(link.to, f"link {name!r}")
            for column in link.columns:
                self._require_column(link.table, column, f"link {name!r}")
            if isinstance(link, ForeignKey) and link.to not in self.keys:
                raise DataError(
                    f"Link {name!r} points to table {link.to!r}, which has no key: name the column that "
                    f"identifies its rows, keys={{{link.to!r}: ...}}."
                )
        for table, columns in self.observed.items():
            for column in columns:
                if column not in self.variables(table):
                    raise DataError(f"Column {column!r} of {table!r} is observed, but a key, in a link, or ignored.")

    def require_table(self, table: str, where: str) -> None:
        """Refuse a name that is no table; ``where`` is the place of the name in the input."""
        if table not in list(self.tables):
            raise DataError(f"{where} names the table {table!r}, which is not there; tables: {', '.join(self.tables)}.")

    def _require_column(self, table: str, column: str, where: str) -> None:
        names = self.sources[table].names
        if column not in names:
            where = f"{where} names the column {column!r} of table {table!r}, which is not there"
            raise DataError(f"{where}; columns: {list_first(names, 8)}.")

    def _factorized(self, table: str, column: str) -> tuple[list[Label], np.ndarray]:
        with prefix_errors(f"Table {table!r}"):
            cells = self.sources[table].column(column)
            if cells.in_days:
                raise DataError(
                    f"Column {column!r} holds dates or times, which cannot be keys, groups or positions of links: "
                    "convert it first, for instance with astype(str)."
                )
            return factorize(cells)

    def _rows_by_key(self, table: str) -> dict[Label, int]:
        if table in self._row_of_key:
            return self._row_of_key[table]
        labels, codes = self._factorized(table, self.keys[table])
        if (codes < 0).any():
            shown = list_first((np.flatnonzero(codes < 0) + 1).tolist(), 3)
            raise DataError(f"Table {table!r} has rows without a key in {self.keys[table]!r}: row {shown}.")
        counts = np.bincount(codes, minlength=len(labels))
        if (counts > 1).any():
            shown = list_first([labels[k] for k in np.flatnonzero(counts > 1)], 3)
            raise DataError(f"Table {table!r} has repeated keys in {self.keys[table]!r}: {shown}. Keep one each.")
        rows = np.empty(len(labels), dtype=np.int64)
        rows[codes] = np.arange(len(codes))
        self._row_of_key[table] = dict(zip(labels, rows.tolist(), strict=True))
        return self._row_of_key[table]

    def _link_by_key(self, name: str, link: ForeignKey) -> tuple[np.ndarray, np.ndarray]:
        known = self._rows_by_key(link.to)
        labels, codes = self._factorized(link.table, link.column)
        row_of_label = np.array([*_rows_named(labels, known), -1], dtype=np.int64)
        dangling = np.flatnonzero((row_of_label[codes] < 0) & (codes >= 0))
        if len(dangling):
            shown = list_first(dangling.tolist(), 3, lambda row: f"{labels[codes[row]]!r} in row {row + 1}")
            keys = {table: dict.fromkeys(self._factorized(table, key)[0], 0) for table, key in self.keys.items()}
            others = [table for table in keys if table != link.to and -1 not in _rows_named(labels, keys[table])]
            raise DataError(
                f"Link {name!r}: {count(len(dangling), 'value')} of column {link.column!r} of table {link.table!r} "
                f"{'is' if len(dangling) == 1 else 'are'} no key of table {link.to!r}: {shown}. Add the missing rows, "
                "or empty the cells."
                + (f" They are all keys of table {others[0]!r}: did you mean that table?" if others else "")
            )
        rows = np.flatnonzero(codes >= 0)
        return rows, row_of_label[codes[rows]]

    def _link_by_offset(self, name: str, link: OffsetLink) -> tuple[np.ndarray, np.ndarray]:
        source = self.sources[link.table]
        group = np.zeros(source.n_rows, dtype=np.int64)
        for within in link.within:
            labels, codes = self._factorized(link.table, within)
            if (codes < 0).any():
                raise DataError(f"Link {name!r}: column {within!r} of {link.table!r} has missing values: fill them in.")
            _, group = np.unique(group * len(labels) + codes, return_inverse=True)
        if link.along is None:  # the order of the rows of a group
            order = np.argsort(group, kind="stable")
            position = np.argsort(order) - np.searchsorted(group[order], np.arange(group.max(initial=-1) + 1))[group]
        else:
            position = self._positions(name, link, link.along)
        # Positions are replaced by their ranks, so that a key fits into 64 bits however far apart they are.
        positions, rank = np.unique(position, return_inverse=True)
        key = group * len(positions) + rank
        order = np.argsort(key, kind="stable")
        ranked = key[order]
        duplicates = np.flatnonzero(ranked[1:] == ranked[:-1])
        if len(duplicates):
            shown = list_first((order[duplicates + 1] + 1).tolist(), 3)
            raise DataError(f"Link {name!r}: several rows of {link.table!r} share a position: row {shown}. Change one.")
        next_rank = np.minimum(np.searchsorted(positions, position + link.by), len(positions) - 1)
        ahead = np.where(positions[next_rank] == position + link.by, group * len(positions) + next_rank, -1)
        at = np.minimum(np.searchsorted(ranked, ahead), len(ranked) - 1)
        hit = np.flatnonzero(ranked[at] == ahead)
        return hit, order[at[hit]]

    def _positions(self, name: str, link: OffsetLink, along: str) -> np.ndarray:
        labels, codes = self._factorized(link.table, along)
        # Half of the range of 64 bits, so that adding the offset cannot overflow.
        whole = all(isinstance(v, int) and not isinstance(v, bool) and abs(v) < 2**62 for v in labels)
        if (codes < 0).any() or not whole:
            raise DataError(f"Link {name!r}: column {along!r} of {link.table!r} must contain integers, none missing.")
        return np.array(labels, dtype=np.int64)[codes]


def _mapping(given: Any, what: str, form: str) -> dict[Any, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise DataError(f"{what} is a {type(given).__name__}; it must be {form}.")
    return dict(given or {})


def _columns_by_table(given: Any, what: str) -> dict[str, list[str]]:
    mapping = _mapping(given, what, "{table: columns}")
    return {table: list(as_names(columns, f"{what}= of table {table!r}")) for table, columns in mapping.items()}


def _rows_named(labels: Sequence[Label], known: Mapping[Label, int]) -> list[int]:
    """Return the row of each label, -1 if there is none.

    If one side is text and the other numbers, as happens when a key such as "x3" turns a whole column into text,
    numbers are compared by their text.
    """
    sides = [{isinstance(label, str) for label in side} for side in (labels, known)]
    if sides in ([{True}, {False}], [{False}, {True}]):
        known = {str(label): row for label, row in known.items()}
        labels = [str(label) for label in labels]
    return [known.get(label, -1) for label in labels]


def sample_rows(data: Relational, most_rows: int, seed: int) -> tuple[Relational, float]:
    """Return some rows of the largest table without links of its own and what is linked to them, and the share of all.

    Fewer rows are returned as they are, and so are those of tables that link to themselves.
    """
    sizes, links = {name: source.n_rows for name, source in data.sources.items()}, data.links.values()
    ends = {link.to for link in links} - {link.table for link in links}
    total = sum(sizes.values())
    if total <= most_rows or not ends or any(link.table == link.to for link in links):
        return data, 1.0
    left_out = {name: np.zeros(n, dtype=bool) for name, n in sizes.items()}
    largest = max(ends, key=lambda name: sizes[name])
    left_out[largest] = np.random.default_rng(seed).random(sizes[largest]) >= most_rows / total
    for name in [*data.links] * len(data.tables):  # links lead from one table to the next
        rows, to = data.linked_rows(name)
        left_out[data.links[name].table][rows[left_out[data.links[name].to][to]]] = True
    frames = {name: data.sources[name].native[np.flatnonzero(~part)] for name, part in left_out.items()}
    sample = data.with_tables({name: nw.to_native(frame, pass_through=True) for name, frame in frames.items()})
    return sample, sum(int((~part).sum()) for part in left_out.values()) / total


def row_pairs(data: Relational, template: Template) -> Rows:
    """Return the pairs of rows (i, j) of a template's two ends, each once and no row with itself.

    A symmetric template has either (i, j) or (j, i), with the smaller row first. One over paths has the two entities to
    which each row is linked, -1 for none.
    """
    left, right = template_ends(data.links, template)
    if template.kind == "within":
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    one, other = data.linked_rows(template.names[0]), data.linked_rows(template.names[-1])
    if template.over_paths:
        entities = np.full((2, data.sources[left].n_rows), -1)
        entities[0, one[0]], entities[1, other[0]] = one[1], other[1]
        return entities[0], entities[1]
    if template.kind == "across":
        i, j = one
    elif template.kind == "joined":
        _, *joined = _two_ends(one, other)
        i, j = _distinct(*joined)
    elif template.kind == "shared":
        i, j = _pairs_with_shared_neighbor(one, other, template)
    else:
        row, first, second = _two_ends(one, other)
        span = max(first.max(initial=0), second.max(initial=0)) + 1
        i, j = _pairs_with_shared_neighbor((row, first * span + second), (row, second * span + first), template)
    if left == right:
        # With one shared link or two swapped ones, each pair is found in both directions: keep one.
        halved = template.kind == "swapped" or (template.kind == "shared" and len(set(template.names)) == 1)
        keep = i < j if halved else i != j
        i, j = i[keep], j[keep]
        if template.symmetric and not halved:
            i, j = _distinct(np.minimum(i, j), np.maximum(i, j))
    return i, j


def link_product(
    data: Relational, template: Template, *, listed: bool = False
) -> tuple[LinkProduct, LinkProduct] | None:
    """Return the sums over the rows of a template, in both directions, or None where its pairs are listed.

    Those along links are never listed, and many pairs with a shared neighbor only if they are to be ``listed``.
    """
    left, right = template_ends(data.links, template)
    if template.along_links:
        steps = link_steps(data.links, template)
    elif template.kind == "shared" and not listed and (len(set(template.names)) == 1 or not template.symmetric):
        steps = [(template.names[0], True), (template.names[-1], False)]
        sizes = [np.bincount(data.linked_rows(name)[1], minlength=1).astype(float) for name, _ in steps]
        n = min(map(len, sizes))
        if sizes[0][:n] @ sizes[1][:n] <= MAX_LISTED:
            return None
    else:
        return None
    factors = [data.link_matrix(*step) for step in steps]
    return LinkProduct.both_ways(factors, left == right, template.kind == "mean")


def link_steps(links: Mapping[str, Link], template: Template) -> list[tuple[str, bool]]:
    """Return the links of a template "mean" or "sum", and whether each is followed from its table to the other one.

    The first one is followed backward where that leads on, and those within a table: behind may be several rows.
    """
    for first in (links[template.names[0]].to, links[template.names[0]].table):
        table, steps = first, []
        for name in template.names:
            link = links[name]
            if table not in (link.table, link.to):
                break
            ahead = table == link.table != link.to
            table = link.to if ahead else link.table
            steps.append((name, ahead))
        else:
            return steps
    raise DataError(f"The links of the template {template.label!r} do not lead from table to table.")


def template_ends(links: Mapping[str, Link], template: Template) -> tuple[str, str]:
    """Return the tables at the two ends of a template."""
    if template.kind == "within":
        return template.names[0], template.names[0]
    for name in template.names:
        if name not in links:
            known = ", ".join(links) or "none"
            raise DataError(f"The template {template.label!r} names the link {name!r}; links: {known}.")
    one, other = links[template.names[0]], links[template.names[-1]]
    if template.along_links:
        (_, ahead), (_, on) = (steps := link_steps(links, template))[0], steps[-1]
        ends = one.table if ahead else one.to, other.to if on else other.table
    elif template.kind == "across":
        ends = one.table, one.to
    elif template.kind == "shared":
        if one.to != other.to:
            raise DataError(f"Template {template.label!r} needs links to one table, not {one.to!r} and {other.to!r}.")
        ends = one.table, other.table
    else:
        if one.table != other.table or (template.kind != "joined" and one.to != other.to):
            raise DataError(f"The template {template.label!r} needs two links of one table; these do not fit together.")
        ends = (one.to, other.to) if template.kind == "joined" else (one.table, one.table)
    if template.symmetric and ends[0] != ends[1]:
        raise DataError(f"The template {template.label!r} cannot be symmetric: it links {ends[0]!r} and {ends[1]!r}.")
    return ends


def resolve_templates(data: Relational, templates: Any = None) -> tuple[Template, ...]:
    """Return the given templates, or else those of the data, checked; without any, those that a search begins with."""
    templates = data.templates if templates is None else as_templates(templates)
    if not isinstance(templates, tuple):
        return tuple(_base_templates(data))
    resolved = tuple(sorted(templates, key=lambda template: template.over_paths))
    for k, template in enumerate(resolved):
        if any(template.label == other.label for other in resolved[:k]):
            raise DataError(f"The template {template.label!r} is given twice.")
        where = f"The template {template.label!r}"
        if template.kind == "within":
            data.require_table(template.names[0], where)
            continue
        for table, names in zip(template_ends(data.links, template), (template.left, template.right), strict=True):
            for name in names or ():
                if name not in data.variables(table):
                    raise DataError(f"{where} names {name!r}, not a variable of table {table!r}.")
    return resolved


def _base_templates(data: Relational) -> Iterable[Template]:
    without_variables = {name for name in data.tables if not data.variables(name)}
    yield from (Template("within", (name,)) for name in data.tables if name not in without_variables)
    for name, link in data.links.items():
        if link.table not in without_variables and link.to not in without_variables:
            yield Template("across", (name,))
    foreign_keys = [name for name, link in data.links.items() if isinstance(link, ForeignKey)]
    for one, other in combinations(foreign_keys, 2):
        if data.links[one].table != data.links[other].table:
            continue
        table, ends = data.links[one].table, {data.links[one].to, data.links[other].to}
        if table in without_variables and not ends & without_variables:
            yield Template("joined", (one, other))
        if table not in without_variables and len(ends) == 1 and ends <= without_variables:
            yield Template("swapped", (one, other))


def _two_ends(one: Rows, other: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows from which both links start, and the rows to which the one and the other lead."""
    row, at_one, at_other = np.intersect1d(one[0], other[0], assume_unique=True, return_indices=True)
    return row, one[1][at_one], other[1][at_other]


def _distinct(i: np.ndarray, j: np.ndarray) -> Rows:
    """Return each pair once, sorted."""
    span = j.max(initial=0) + 1
    key = np.unique(i * span + j)
    return key // span, key % span


def _pairs_with_shared_neighbor(one: Rows, other: Rows, template: Template) -> Rows:
    """Return the rows i of one link and j of the other that are linked to the same row."""
    order = np.argsort(other[1], kind="stable")
    shared = other[1][order]
    first = np.searchsorted(shared, one[1], side="left")
    lengths = np.searchsorted(shared, one[1], side="right") - first
    total = int(lengths.sum())
    if total > MAX_PAIRS:
        raise DataError(
            f"The template {template.label!r} has {total:,} pairs of rows, since some rows have very many neighbors; "
            f"at most {MAX_PAIRS:,} are allowed. Omit the template, or use rows with fewer neighbors."
        )
    return np.repeat(one[0], lengths), other[0][order[expand(first, lengths)]]
