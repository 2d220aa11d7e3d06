"""A given graph (TrueGraph in the paper): the features of some pairs of variables, and no induction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sparsefield.data import Layout, Meeting
from sparsefield.errors import DataError
from sparsefield.induction.base import ClosedRule
from sparsefield.induction.candidates import all_pairs, candidate_places

__all__ = ["GivenGraph"]


@dataclass(frozen=True)
class GivenGraph(ClosedRule):
    """All state pairs of the given pairs of variables.

    An edge of a plain table names two columns, by name or by position. In a field over linked tables it names two
    variables as ``"table.variable"``, and may name the template as a third part, ``"across subject"``; without it,
    every template that joins the two tables counts.
    """

    edges: tuple[tuple[str | int, ...], ...] = ()
    name = "graph"

    @classmethod
    def of(cls, edges: Iterable[Iterable[str | int]]) -> GivenGraph:
        return cls(tuple(tuple(edge) for edge in edges))

    def start(self, layout: Layout) -> np.ndarray:
        candidates = all_pairs(layout)
        wanted = [np.empty(0, dtype=np.int64)]
        ends = [_ends(layout, meeting) for meeting in layout.meetings]
        owner = np.concatenate([np.full(len(part[0]), k) for k, part in enumerate(ends)])
        one, other = (np.concatenate([part[side] for part in ends]) for side in (0, 1))
        roles = [variable.role for schema in layout.schemas for variable in schema.variables]
        for edge in self.edges:
            a, b, templates = self._read(layout, edge)
            if roles[a] == roles[b] == "observed":
                raise DataError(f"graph= holds the edge {edge!r} between two observed columns; one must be a target.")
            if not any(_joins(layout, k, a, b) for k in templates):
                raise DataError(f"graph= holds the edge {edge!r}, which no template allows.")
            hit = np.isin(owner, templates) & (((one == a) & (other == b)) | ((one == b) & (other == a)))
            wanted.append(np.flatnonzero(hit))  # none when one of the two is constant
        return candidates[np.unique(np.concatenate(wanted))]

    @staticmethod
    def _read(layout: Layout, edge: tuple[str | int, ...]) -> tuple[int, int, list[int]]:
        """Numbers of the two variables, and the templates that count."""
        if len(edge) not in (2, 3):
            raise DataError(f"graph= holds {edge!r}; an edge is a pair of columns, with a template where tables link.")
        a, b = _variable(layout, edge[0]), _variable(layout, edge[1])
        templates = list(range(len(layout.templates)))
        if len(edge) == 3:
            templates = [k for k in templates if edge[2] in (layout.templates[k].label, layout.templates[k].words)]
            if not templates:
                known = ", ".join(repr(template.label) for template in layout.templates)
                raise DataError(f"graph= names the template {edge[2]!r}; templates: {known}.")
        elif a == b:
            raise DataError(f"graph= holds an edge from {edge[0]!r} to itself.")
        return a, b, templates


def _variable(layout: Layout, end: str | int) -> int:
    """Number of a variable over all tables."""
    names = [
        f"{table}.{variable.name}" if table else variable.name
        for table, schema in zip(layout.tables, layout.schemas, strict=True)
        for variable in schema.variables
    ]
    if layout.tables != ("",) and end not in names:
        alike = [name for name in names if name.split(".", 1)[-1] == end] or names
        raise DataError(
            f"graph= names column {end!r}; in linked tables a column is named 'table.column', such as "
            f"{' or '.join(map(repr, alike[:3]))}."
        )
    if not isinstance(end, str):
        order = layout.schemas[0].order
        if not 0 <= int(end) < len(order):
            raise DataError(f"graph= names column {end}, but there are {len(order)} columns.")
        end = order[int(end)]
    if end not in names:
        raise DataError(f"graph= names the column {end!r}, which is not there.")
    return names.index(end)


def _joins(layout: Layout, template: int, a: int, b: int) -> bool:
    """Whether a template pairs two variables (by number), be it that one of them has no states to pair."""
    firsts = np.cumsum([0, *(len(schema.variables) for schema in layout.schemas)])

    def at_end(table: int, names: tuple[str, ...] | None) -> list[int]:
        variables = enumerate(layout.schemas[table].variables, start=int(firsts[table]))
        return [number for number, variable in variables if names is None or variable.name in names]

    chosen, (left, right) = layout.templates[template], layout.ends[template]
    one, other = at_end(left, chosen.left), at_end(right, chosen.right)
    meets = (a in one and b in other) or (b in one and a in other)
    return meets and not (chosen.kind == "within" and a == b)


def _ends(layout: Layout, meeting: Meeting) -> tuple[np.ndarray, np.ndarray]:
    """Variables at the two ends of every candidate of a meeting, in the order of `all_pairs`."""
    a, b = candidate_places(layout, meeting)
    left = _owners(layout, meeting.left, meeting.left_columns)
    right = _owners(layout, meeting.right, meeting.right_columns)
    return left[a], right[b]


def _owners(layout: Layout, table: int, columns: np.ndarray) -> np.ndarray:
    """Variable of each column, counted over all tables; -1 for the number of neighbours, which belongs to none."""
    first = sum(len(schema.variables) for schema in layout.schemas[:table])
    owner = np.append(first + layout.schemas[table].variable_of_column, -1)
    return owner[columns]
