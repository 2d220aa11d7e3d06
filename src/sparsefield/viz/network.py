"""The network of a field: a node for each column that has features, an edge for each two that share some."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from sparsefield.data.schema import Variable
from sparsefield.model import Field
from sparsefield.viz.feature_sentences import Feature, list_features

__all__ = ["Edge", "Network", "Node", "build_network", "find_variable"]


@dataclass(frozen=True)
class Node:
    """A column; ``variable`` is None for the number of neighbors that rows see over a link."""

    name: str
    table: str
    variable: Variable | None


@dataclass(frozen=True)
class Edge:
    """Two columns that share features; over links the two ends may be one column, of two rows."""

    ends: tuple[int, int]
    template: str
    features: tuple[Feature, ...]
    """Strongest first."""

    @cached_property
    def strength(self) -> float:
        """The norm of all weights, as in ``edges_``."""
        return math.hypot(*(feature.weight for feature in self.features))

    @property
    def strongest(self) -> float:
        return self.features[0].weight


@dataclass(frozen=True)
class Network:
    """Nodes in order of their first appearance among the edges, and edges, strongest first."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    linked: bool

    @cached_property
    def ends(self) -> np.ndarray:
        """(edges, 2)"""
        return np.array([edge.ends for edge in self.edges], dtype=np.int64).reshape(-1, 2)

    @cached_property
    def strengths(self) -> np.ndarray:
        """(edges,)"""
        return np.array([edge.strength for edge in self.edges])

    @cached_property
    def degrees(self) -> np.ndarray:
        """(nodes,): how many other columns each shares features with."""
        pairs = {(min(pair), max(pair)) for pair in self.ends.tolist() if pair[0] != pair[1]}
        ends = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
        return np.bincount(ends.ravel(), minlength=len(self.nodes))

    @cached_property
    def total_strengths(self) -> np.ndarray:
        """(nodes,): sum of the strengths of the edges of each; one to itself counts once."""
        ends, loops = self.ends, self.ends[:, 0] == self.ends[:, 1]
        total = np.bincount(ends[:, 0], self.strengths, len(self.nodes))
        return total + np.bincount(ends[~loops, 1], self.strengths[~loops], len(self.nodes))

    def strongest(self, most: int) -> Network:
        """The strongest edges alone, with the nodes that they join."""
        return self if len(self.edges) <= most else _with_own_nodes(self.nodes, self.edges[:most], self.linked)


def build_network(field: Field, features: Sequence[Feature] | None = None) -> Network:
    """The network of a field, or of some of its features.

    Examples
    --------
    >>> from sparsefield.datasets import make_markov_field
    >>> network = build_network(make_markov_field(3, 1, neighbors=1.0, burn_in=1, seed=1).field.field_)
    >>> [node.name for node in network.nodes], network.edges[0].ends
    (['x0', 'x2'], (0, 1))
    """
    linked = field.layout.tables != ("",)
    numbers: dict[tuple[str, str], int] = {}
    shared: dict[tuple[str, int, int], list[Feature]] = {}
    for feature in list_features(field) if features is None else features:
        ends = [numbers.setdefault(term[:2], len(numbers)) for term in feature.terms]
        for pair in combinations(ends, 2):
            shared.setdefault((feature.template, *pair), []).append(feature)
    nodes = [
        Node(f"{table}.{name}" if table else name, table, find_variable(field, table, name)) for table, name in numbers
    ]
    edges = [Edge((a, b), template, tuple(own)) for (template, a, b), own in shared.items()]
    edges.sort(key=lambda edge: -edge.strength)
    return _with_own_nodes(nodes, edges, linked)


def find_variable(field: Field, table: str, name: str) -> Variable | None:
    """The column of a table; None for what is no column, such as the number of neighbors."""
    schema = field.layout.schemas[field.layout.tables.index(table)]
    k = schema.index_of_name.get(name)
    if k is None:
        return None
    targets = len(schema.targets)  # asked for one by one: a schema may have a million columns
    return schema.targets[k] if k < targets else schema.observed[k - targets]


def _with_own_nodes(nodes: Sequence[Node], edges: Sequence[Edge], linked: bool) -> Network:
    """Nodes renumbered in the order in which the edges name them."""
    number: dict[int, int] = {}
    renamed = []
    for edge in edges:
        a, b = (number.setdefault(end, len(number)) for end in edge.ends)
        renamed.append(Edge((a, b), edge.template, edge.features))
    return Network(tuple(nodes[k] for k in number), tuple(renamed), linked)
