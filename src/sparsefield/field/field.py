"""Features and weights: the learned field, and the arcs that kernels walk."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sparsefield.data.layout import Arcs, Layout
from sparsefield.data.schema import Schema

__all__ = ["Field", "Graph", "compile_graphs"]


class Graph(NamedTuple):
    """Who influences the states of one table, as flat arrays: each arc leads from a column that the table's rows see,
    their own or a neighbour's, to a target state, and names the feature whose weight it carries."""

    first: int
    """Place of the table's first unary weight in theta."""
    state_offsets: np.ndarray
    """(targets + 1,)"""
    arc_offsets: np.ndarray
    """(states + 1,)"""
    arc_source: np.ndarray
    arc_feature: np.ndarray
    """Index into theta: unary weights first, then pair weights."""
    widest: int


def compile_graphs(layout: Layout, arcs: Arcs) -> tuple[Graph, ...]:
    """The graph of each table, arcs sorted by target state and source."""
    order = np.lexsort((arcs.source, arcs.target))
    target, source = arcs.target[order], arcs.source[order]
    feature = layout.n_states + arcs.feature[order]
    graphs = []
    for t, schema in enumerate(layout.schemas):
        first, last = int(layout.state_starts[t]), int(layout.state_starts[t + 1])
        offsets = np.searchsorted(target, np.arange(first, last + 1))
        mine = slice(int(offsets[0]), int(offsets[-1]))
        widest = int(np.diff(schema.state_offsets).max(initial=1))
        graphs.append(
            Graph(
                first,
                schema.state_offsets,
                offsets - offsets[0],
                source[mine] - layout.column_starts[t],
                feature[mine],
                widest,
            )
        )
    return tuple(graphs)


@dataclass(frozen=True)
class Field:
    """A conditional random field (Eq. 1): a layout, unary weights, and weighted pairs of columns."""

    layout: Layout
    unary: np.ndarray
    """(states,)"""
    pairs: np.ndarray
    """(features, 2): column numbers of the layout, a target state and what it sees, ascending."""
    weights: np.ndarray
    """(features,)"""
    about: dict[str, Any] = field(default_factory=dict)
    """How it was learned: options and outcome, plain values."""

    @property
    def schema(self) -> Schema:
        """The columns of a field over one table."""
        (schema,) = self.layout.schemas
        return schema

    @cached_property
    def graphs(self) -> tuple[Graph, ...]:
        return compile_graphs(self.layout, self.layout.arcs(self.pairs))

    @cached_property
    def theta(self) -> np.ndarray:
        return np.concatenate([self.unary, self.weights])
