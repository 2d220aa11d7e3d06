"""This module implements a fixed graph (TrueGraph in the paper): features of given pairs of variables, no induction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sparsefield.data import Layout, Schema
from sparsefield.data.layout import COUNT_COLUMN
from sparsefield.errors import DataError
from sparsefield.induction.candidates import pairs_at
from sparsefield.induction.rule import ClosedRule

__all__ = ["FixedGraph"]


@dataclass(frozen=True)
class FixedGraph(ClosedRule):
    """All pairs of states of the given pairs of variables.

    Parameters
    ----------
    edges : sequence of edges
        An edge of a plain table names two columns, by name or by position. In a field over linked tables it names two
        variables as ``"table.variable"``, and may name the template as a third part, ``"across subject"``; without it,
        every template that joins the two tables counts.
    """

    edges: Sequence[Sequence[str | int]] | None = None
    name = "graph"

    def check(self) -> None:
        if self.edges is None:
            raise ValueError(
                "induction='graph' needs the edges, pairs of column names: induction=FixedGraph(edges=[('a', 'b')])."
            )

    def start(self, layout: Layout) -> np.ndarray:
        roles = np.concatenate([[v == "observed" for v in _roles(schema)] for schema in layout.schemas])
        numbers = _numbers(layout)
        places: dict[tuple[int, int, int], None] = {}
        for edge in () if self.edges is None else map(tuple, self.edges):
            a, b, templates = self._read(layout, numbers, edge)
            if roles[a] and roles[b]:
                raise DataError(
                    f"The fixed graph has the edge {edge!r} between two observed columns; one must be a target."
                )
            if not any(_joins(layout, k, a, b) for k in templates):
                raise DataError(f"The fixed graph has the edge {edge!r}, which no template allows.")
            for k in templates:  # none when one of the two is constant
                places |= dict.fromkeys((k, *place) for place in _candidates(layout, k, a, b))
        found = np.array(sorted(places), dtype=np.int64).reshape(-1, 3)
        parts = [found[found[:, 0] == k] for k in range(len(layout.candidate_blocks))]
        return np.concatenate(
            [
                pairs_at(m, layout, part[:, 1], part[:, 2])
                for m, part in zip(layout.candidate_blocks, parts, strict=True)
            ]
        )

    @staticmethod
    def _read(layout: Layout, numbers: dict[str, int], edge: Sequence[str | int]) -> tuple[int, int, list[int]]:
        """Numbers of the two variables, and the templates that count."""
        if len(edge) not in (2, 3):
            raise DataError(
                f"The fixed graph has {edge!r}; an edge is a pair of columns, with a template where tables link."
            )
        a, b = _variable(layout, numbers, edge[0]), _variable(layout, numbers, edge[1])
        templates = list(range(len(layout.templates)))
        if len(edge) == 3:
            templates = [k for k in templates if edge[2] in (layout.templates[k].label, layout.templates[k].words)]
            if not templates:
                known = ", ".join(repr(template.label) for template in layout.templates)
                raise DataError(f"The fixed graph names the template {edge[2]!r}; templates: {known}.")
        elif a == b:
            raise DataError(f"The fixed graph has an edge from {edge[0]!r} to itself.")
        return a, b, templates


def _roles(schema: Schema) -> Iterator[str]:
    yield from ("target" for _ in range(len(schema.targets)))
    yield from ("observed" for _ in range(len(schema.observed)))


def _numbers(layout: Layout) -> dict[str, int]:
    """Number of each variable over all tables, by name; in linked tables that is 'table.variable'."""
    numbers, first = {}, 0
    for table, schema in zip(layout.tables, layout.schemas, strict=True):
        numbers |= {f"{table}.{name}" if table else name: first + k for name, k in schema.index_of_name.items()}
        first += schema.n_variables
    return numbers


def _variable(layout: Layout, numbers: dict[str, int], end: str | int) -> int:
    """Number of a variable over all tables."""
    if layout.tables != ("",) and end not in numbers:
        alike = [name for name in numbers if name.split(".", 1)[-1] == end] or list(numbers)
        raise DataError(
            f"The fixed graph names column {end!r}; in linked tables a column is named 'table.column', such as "
            f"{' or '.join(map(repr, alike[:3]))}."
        )
    if not isinstance(end, str):
        order = layout.schemas[0].order
        if not 0 <= int(end) < len(order):
            raise DataError(f"The fixed graph names column {end}, but there are {len(order)} columns.")
        end = order[int(end)]
    if end not in numbers:
        raise DataError(f"The fixed graph names the column {end!r}, which is not there.")
    return numbers[end]


def _joins(layout: Layout, template: int, a: int, b: int) -> bool:
    """Whether a template pairs two variables (by number), be it that one of them has no states to pair."""
    chosen, (left, right) = layout.templates[template], layout.ends[template]
    one, other = _at_end(layout, left, chosen.left), _at_end(layout, right, chosen.right)
    meets = (one(a) and other(b)) or (one(b) and other(a))
    return meets and not (chosen.kind == "within" and a == b)


def _at_end(layout: Layout, table: int, names: Collection[str] | None) -> Callable[[int], bool]:
    """Which variables (by number) stand at one end of a template."""
    schema, first = layout.schemas[table], _first(layout, table)
    wanted = None if names is None else {first + schema.index_of_name[name] for name in names}
    return lambda number: first <= number < first + schema.n_variables and (wanted is None or number in wanted)


def _first(layout: Layout, table: int) -> int:
    """Number of a table's first variable."""
    return sum(schema.n_variables for schema in layout.schemas[:table])


def _candidates(layout: Layout, template: int, a: int, b: int) -> Iterator[tuple[int, int]]:
    """Places, among the left and right columns of a template's meeting, of the candidates of two variables."""
    meeting = layout.candidate_blocks[template]
    for one, other in dict.fromkeys([(a, b), (b, a)]):
        for i in _places(layout, meeting.left.table, meeting.left.columns, one):
            for j in _places(layout, meeting.right.table, meeting.right.columns, other):
                aimed = i < meeting.left.n_states or j < meeting.right.n_states
                if aimed and (i <= j or not meeting.mirrored) and not (meeting.within and a == b):
                    yield i, j


def _places(layout: Layout, table: int, columns: np.ndarray, number: int) -> range:
    """Return the positions of a variable among ``columns``, which ascend except for COUNT_COLUMN at the end."""
    schema, k = layout.schemas[table], number - _first(layout, table)
    if not 0 <= k < schema.n_variables:
        return range(0)
    own = columns[: len(columns) - 1] if len(columns) and columns[-1] == COUNT_COLUMN else columns
    return range(*np.searchsorted(own, schema.offsets[k : k + 2]).tolist())
