"""A given graph (TrueGraph in the paper): the features of some pairs of variables, and no induction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sparsefield.data import Schema
from sparsefield.errors import DataError
from sparsefield.induction.base import ClosedRule

__all__ = ["GivenGraph"]


@dataclass(frozen=True)
class GivenGraph(ClosedRule):
    """All state pairs of the given pairs of variables, by name or by position."""

    edges: tuple[tuple[str | int, str | int], ...] = ()
    name = "graph"

    @classmethod
    def of(cls, edges: Iterable[Iterable[str | int]]) -> GivenGraph:
        return cls(tuple((a, b) for a, b in (tuple(edge) for edge in edges)))

    def start(self, schema: Schema) -> np.ndarray:
        found = set()
        for edge in self.edges:
            one, other = (self._variable(schema, end) for end in edge)
            if one == other:
                raise DataError(f"graph= holds an edge from {edge[0]!r} to itself.")
            first, second = sorted((one, other))
            if first >= len(schema.targets):
                raise DataError(f"graph= holds the edge {edge!r} between two observed columns; one must be a target.")
            found |= {(a, b) for a in _columns(schema, first) for b in _columns(schema, second)}
        return np.array(sorted(found), dtype=np.int64).reshape(-1, 2)

    @staticmethod
    def _variable(schema: Schema, end: str | int) -> int:
        if not isinstance(end, str):
            if not 0 <= int(end) < len(schema.order):
                raise DataError(f"graph= names column {end}, but there are {len(schema.order)} columns.")
            end = schema.order[int(end)]
        if end not in schema.index_of_name:
            raise DataError(f"graph= names the column {end!r}, which is not there.")
        return schema.index_of_name[end]


def _columns(schema: Schema, variable: int) -> range:
    return range(int(schema.offsets[variable]), int(schema.offsets[variable + 1]))
