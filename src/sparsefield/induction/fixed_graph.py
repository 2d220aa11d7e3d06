"""A fixed graph (TrueGraph in the paper): features of given pairs of variables, no induction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsefield.data import Layout
from sparsefield.data.layout import COUNT_COLUMN
from sparsefield.errors import DataError
from sparsefield.induction.dense_scores import are_candidates, pairs_at
from sparsefield.induction.rules import FixedCandidatesRule

VariableIndex = tuple[int, int]
"""The number of a table, and of a variable in its schema."""


@dataclass(frozen=True)
class FixedGraph(FixedCandidatesRule):
    """Restrict features to the pairs of states of given pairs of variables.

    Parameters
    ----------
    edges : sequence of edges
        An edge of a plain table names two columns, by name or by position. In a field over linked tables it names two
        variables as ``"table.variable"``, and may name the template as a third part, ``"across subject"``; without it,
        every template that joins the two tables counts.
    """

    edges: Sequence[Sequence[str | int]] | None = None
    name = "graph"

    def problems(self) -> list[str]:
        """Return a sentence if the edges are none, or are not pairs of columns."""
        wrong = super().problems()
        if self.edges is None:
            wrong.append("induction='graph' needs edges, pairs of columns: induction=FixedGraph(edges=[('a', 'b')]).")
        elif not _are_edges(self.edges):
            wrong.append(f"edges must be a list of pairs of columns such as [('a', 'b')], got {self.edges!r}.")
        return wrong

    def start(self, layout: Layout) -> np.ndarray:
        variables: dict[str, VariableIndex] = {}
        for t, (table, schema) in enumerate(zip(layout.tables, layout.schemas, strict=True)):
            names = schema.index_of_name
            variables |= {f"{table}.{name}" if table else name: (t, k) for name, k in names.items()}
        positions: list[set[tuple[int, int]]] = [set() for _ in layout.candidate_blocks]
        for edge in map(tuple, () if self.edges is None else self.edges):
            a, b, templates = _read_edge(layout, variables, edge)
            if all(k >= len(layout.schemas[t].targets) for t, k in (a, b)):
                raise DataError(f"The graph has the edge {edge!r} between two observed columns; one must be a target.")
            candidates = {k: set(_candidates(layout, k, a, b)) for k in templates}
            constant = any(layout.schemas[t].widths[k] == 0 for t, k in (a, b))
            if not any(candidates.values()) and not constant:
                raise DataError(f"The fixed graph has the edge {edge!r}, which no template allows.")
            for k, part in candidates.items():
                positions[k] |= part
        parts = [np.array(sorted(part), dtype=np.int64).reshape(-1, 2).T for part in positions]
        blocks = zip(layout.candidate_blocks, parts, strict=True)
        return np.concatenate([pairs_at(block, layout, *part) for block, part in blocks])


def _read_edge(
    layout: Layout, variables: Mapping[str, VariableIndex], edge: Sequence[str | int]
) -> tuple[VariableIndex, VariableIndex, list[int]]:
    """Return the two variables of an edge, and the numbers of the templates that it allows."""
    if len(edge) not in (2, 3):
        raise DataError(f"The graph has {edge!r}; an edge is a pair of columns, with a template where tables link.")
    a, b = _find_variable(layout, variables, edge[0]), _find_variable(layout, variables, edge[1])
    templates = [k for k, template in enumerate(layout.templates) if not template.over_paths]
    if len(edge) == 3:
        templates = [k for k in templates if edge[2] in (layout.templates[k].label, layout.templates[k].words)]
        if not templates:
            known = ", ".join(repr(template.label) for template in layout.templates)
            raise DataError(f"The fixed graph names the template {edge[2]!r}; templates: {known}.")
    elif a == b:
        raise DataError(f"The fixed graph has an edge from {edge[0]!r} to itself.")
    return a, b, templates


def _find_variable(layout: Layout, variables: Mapping[str, VariableIndex], end: str | int) -> VariableIndex:
    """Return the variable that an end of an edge names; in linked tables names are 'table.variable'."""
    if layout.tables != ("",) and end not in variables:
        alike = [name for name in variables if name.split(".", 1)[-1] == end] or list(variables)
        raise DataError(
            f"The fixed graph names column {end!r}; in linked tables a column is named 'table.column', such as "
            f"{' or '.join(map(repr, alike[:3]))}."
        )
    if not isinstance(end, str):
        order = layout.schemas[0].order
        if not 0 <= int(end) < len(order):
            raise DataError(f"The fixed graph names column {end}, but there are {len(order)} columns.")
        end = order[int(end)]
    if end not in variables:
        raise DataError(f"The fixed graph names the column {end!r}, which is not there.")
    return variables[end]


def _candidates(layout: Layout, template: int, a: VariableIndex, b: VariableIndex) -> Iterator[tuple[int, int]]:
    """Yield the candidates of two variables, as positions among the left and right columns of a template's block."""
    block = layout.candidate_blocks[template]
    for one, other in {(a, b), (b, a)}:
        left = _positions(layout, block.left.table, block.left.columns, one)
        right = _positions(layout, block.right.table, block.right.columns, other)
        i, j = (part.ravel() for part in np.meshgrid(left, right, indexing="ij"))
        keep = are_candidates(block, layout, i, j)
        yield from zip(i[keep].tolist(), j[keep].tolist(), strict=True)


def _positions(layout: Layout, table: int, columns: np.ndarray, variable: VariableIndex) -> np.ndarray:
    """Return the positions of a variable among ``columns``, which ascend except for COUNT_COLUMN at the end."""
    if variable[0] != table:
        return np.arange(0)
    own = columns[: len(columns) - 1] if len(columns) and columns[-1] == COUNT_COLUMN else columns
    return np.arange(*np.searchsorted(own, layout.schemas[table].offsets[variable[1] : variable[1] + 2]))


def _are_edges(edges: Any) -> bool:
    """Return whether a value is a collection of edges; which columns they name is checked with the data."""
    if isinstance(edges, str) or not isinstance(edges, Iterable) or isinstance(edges, Iterator):
        return False
    return all(not isinstance(edge, str) and isinstance(edge, Iterable) for edge in edges)
