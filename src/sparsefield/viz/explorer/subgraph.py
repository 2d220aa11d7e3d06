"""Which variables share weights, and the part of it that fits on a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice

import numpy as np

from sparsefield.data import Schema, Variable
from sparsefield.data.layout import COUNT_COLUMN, NEIGHBOR_COUNT
from sparsefield.data.schema import Label
from sparsefield.model import Field

__all__ = ["Edge", "Neighbor", "Network", "Part", "Tie", "variable_at"]

Array = np.ndarray

EDGES_A_NODE = 2.5
"""Lines of one picture for each of its nodes, beside those of chosen variables; more of them hide each other."""

MOST_TIES = 12
"""Weights that a neighbor lists; variables of many states share hundreds."""


@dataclass(frozen=True)
class Tie:
    """One weight between a variable and others, as the variable sees it."""

    weight: float
    state: Label | None
    """Of the variable itself; None for a number."""
    others: tuple[tuple[str, Label | None], ...]
    """(variable, state) of the other end, or of the others of a conjunction."""
    template: str
    """Over which kind of link; empty within a row."""
    stability: float | None = None
    """Share of resamples in which the feature was selected, where the model tells."""


@dataclass(frozen=True)
class Edge:
    """Two variables that share weights."""

    a: int
    b: int
    strength: float
    """Norm of their weights."""
    sign: int
    """1 or -1 where all weights have that sign, else 0."""


@dataclass(frozen=True)
class Neighbor:
    """A variable at the other end of an edge, and the weights that make it up, strongest first."""

    number: int
    label: str
    strength: float
    sign: int
    ties: tuple[Tie, ...]
    left_out: int
    """Weaker weights that are not among ``ties``."""


@dataclass(frozen=True)
class Part:
    """Some variables, and the strongest edges among them."""

    nodes: tuple[int, ...]
    edges: tuple[Edge, ...]
    left_out: int
    """Neighbors of the chosen variables, or without any of all variables, that found no room."""


def variable_at(schema: Schema, number: int) -> Variable:
    """A variable by its number; a schema of a million columns has no list of them."""
    targets = len(schema.targets)
    return schema.targets[number] if number < targets else schema.observed[number - targets]


class Network:
    """The variables of a field as nodes 0, 1, ..., table by table, and edges where two of them share weights.

    Parameters
    ----------
    field : Field
        Where its ``about`` has "stability", a number for each pair feature and then for each conjunction, weights
        are shown with it.
    """

    def __init__(self, field: Field) -> None:
        self.field = field
        layout = field.layout
        self.starts = np.concatenate([[0], np.cumsum([schema.n_variables for schema in layout.schemas])])
        self.linked = layout.tables != ("",)
        self.stability = _stability(field)
        self._node_of_column = self._place_columns()
        self._index()

    # -- names -------------------------------------------------------------------------------------------------------

    @property
    def n_variables(self) -> int:
        return int(self.starts[-1])

    @property
    def n_edges(self) -> int:
        return len(self._strength)

    @cached_property
    def labels(self) -> list[str]:
        """What each node is called; with the name of its table where there are several."""
        layout = self.field.layout
        found = []
        for table, schema in zip(layout.tables, layout.schemas, strict=True):
            names = sorted(schema.index_of_name, key=schema.index_of_name.__getitem__)
            found += [self._named(table, name) for name in names]
        return found + [self._named(table, NEIGHBOR_COUNT) for table in layout.tables if self.linked]

    @cached_property
    def _lower(self) -> list[str]:
        return [label.lower() for label in self.labels[: self.n_variables]]

    def find(self, words: str, limit: int) -> list[int]:
        """Variables whose name has ``words`` in it: those that begin with them first, then in the order of columns."""
        words = words.strip().lower()
        hits = [k for k, label in enumerate(self._lower) if words in label]
        hits.sort(key=lambda k: (self._lower[k] != words, not self._lower[k].startswith(words)))
        return hits[:limit]

    def number(self, name: str, table: str = "") -> int:
        """The node of a variable."""
        t = self.field.layout.tables.index(table)
        return int(self.starts[t]) + self.field.layout.schemas[t].index_of_name[name]

    def table_of(self, number: int) -> str:
        """The table that a variable stands in; empty where there is one."""
        return self.field.layout.tables[int(np.searchsorted(self.starts, number, side="right")) - 1]

    def is_variable(self, number: int) -> bool:
        """Whether a node is a column, and not the number of linked rows."""
        return 0 <= number < self.n_variables

    def variable(self, number: int) -> Variable:
        t = int(np.searchsorted(self.starts, number, side="right")) - 1
        return variable_at(self.field.layout.schemas[t], int(number - self.starts[t]))

    # -- edges -------------------------------------------------------------------------------------------------------

    def degree(self, number: int) -> int:
        return int(self._offsets[number + 1] - self._offsets[number])

    def edges_of(self, number: int) -> list[Edge]:
        """All edges of a node, strongest first."""
        return [self._edge(k) for k in self._at[self._offsets[number] : self._offsets[number + 1]].tolist()]

    def neighbors(self, number: int, limit: int) -> list[Neighbor]:
        """The strongest neighbors of a variable with their weights, strongest first."""
        found = []
        for edge in self.edges_of(number)[:limit]:
            other = edge.b if edge.a == number else edge.a
            key = self._key(number, other)
            first, last = np.searchsorted(self._pair_key, [key, key + 1])
            features = self._pair_feature[first:last]
            order = np.argsort(-np.abs(self._weight[features]), kind="stable")[:MOST_TIES]
            ties = tuple(self._tie(number, int(k)) for k in features[order])
            left = len(features) - len(ties)
            found.append(Neighbor(other, self.labels[other], edge.strength, edge.sign, ties, left))
        return found

    def around(self, chosen: Sequence[int], limit: int) -> Part:
        """The neighborhood of some variables, ring by ring, strongest edges first, up to ``limit`` nodes."""
        nodes = dict.fromkeys(chosen[:limit])
        ring = list(nodes)
        while ring and len(nodes) < limit:
            best: dict[int, float] = {}
            for node in ring:
                for edge in self.edges_of(node)[: limit + len(nodes)]:
                    other = edge.b if edge.a == node else edge.a
                    if other not in nodes:
                        best[other] = max(best.get(other, 0.0), edge.strength)
            ring = sorted(best, key=lambda k: (-best[k], k))[: limit - len(nodes)]
            nodes.update(dict.fromkeys(ring))
        around = {edge.b if edge.a == node else edge.a for node in chosen for edge in self.edges_of(node)}
        return Part(tuple(nodes), self._among(nodes, chosen), len(around - set(nodes)))

    def strongest(self, limit: int) -> Part:
        """The variables of the strongest edges, up to ``limit`` of them; where there is room, those without edges."""
        nodes: dict[int, None] = {}
        for k in self._ranked.tolist():
            ends = {int(self._a[k]), int(self._b[k])} - set(nodes)
            if len(nodes) + len(ends) > limit:
                break
            nodes.update(dict.fromkeys(sorted(ends)))
        else:
            alone = (k for k in range(self.n_variables) if k not in nodes)
            nodes.update(dict.fromkeys(islice(alone, limit - len(nodes))))
        return Part(tuple(nodes), self._among(nodes), self.n_variables - sum(k < self.n_variables for k in nodes))

    # -- behind them -------------------------------------------------------------------------------------------------

    def _named(self, table: str, name: str) -> str:
        return f"{table}.{name}" if self.linked else name

    def _place_columns(self) -> Array:
        """(columns of the layout,): the node of each, those that are seen over links included."""
        layout = self.field.layout
        found = []
        for t, schema in enumerate(layout.schemas):
            views, seen = layout.column_views(t)
            nodes = np.empty(len(views), dtype=np.int64)
            own = views < 0
            nodes[own] = self.starts[t] + schema.variable_of_column[seen[own]]
            for k in np.unique(views[~own]):
                there = layout.neighbor_views[k].source_table
                mine, counted = views == k, (views == k) & (seen == COUNT_COLUMN)
                nodes[counted] = self.n_variables + there
                mine &= ~counted
                nodes[mine] = self.starts[there] + layout.schemas[there].variable_of_column[seen[mine]]
            found.append(nodes)
        return np.concatenate([np.empty(0, dtype=np.int64), *found])

    def _index(self) -> None:
        """Edges from features, and the features and edges of each node."""
        field = self.field
        self._weight = np.concatenate([field.weights, field.conjunction_weights])
        left, right = (self._node_of_column[field.pairs[:, k]] for k in (0, 1))
        ends, owner = [(left, right)], [np.arange(len(field.pairs))]
        numbers = len(field.pairs) + np.arange(len(field.conjunctions))
        for one, two in combinations(range(field.conjunctions.shape[1]), 2):
            there = field.conjunctions[:, two] >= 0
            columns = field.conjunctions[there]
            ends.append((self._node_of_column[columns[:, one]], self._node_of_column[columns[:, two]]))
            owner.append(numbers[there])
        feature = np.concatenate(owner)
        a, b = (np.concatenate([pair[k] for pair in ends]) for k in (0, 1))
        here = self._weight[feature] != 0
        feature, a, b = feature[here], np.minimum(a, b)[here], np.maximum(a, b)[here]
        key = self._key(a, b)
        order = np.argsort(key, kind="stable")
        self._pair_key, self._pair_feature = key[order], feature[order]
        edges, edge = np.unique(key, return_inverse=True)
        weight, n = self._weight[feature], len(edges)
        self._strength = np.sqrt(np.bincount(edge, weight**2, n))
        rises, falls = np.bincount(edge, weight > 0, n) > 0, np.bincount(edge, weight < 0, n) > 0
        self._sign = np.where(rises & falls, 0, np.where(rises, 1, -1))
        self._a, self._b = np.divmod(edges, self._n_nodes)
        self._ranked = np.lexsort((np.arange(n), -self._strength))
        both = self._a != self._b
        node = np.concatenate([self._a, self._b[both]])
        at = np.concatenate([np.arange(n), np.flatnonzero(both)])
        order = np.lexsort((at, -self._strength[at], node))
        self._at = at[order]
        self._offsets = np.searchsorted(node[order], np.arange(self._n_nodes + 1))

    @property
    def _n_nodes(self) -> int:
        """Variables, and for each table the number of its rows that are linked."""
        return self.n_variables + len(self.field.layout.tables)

    def _key(self, a: Array | int, b: Array | int) -> Array:
        return np.minimum(a, b) * np.int64(self._n_nodes) + np.maximum(a, b)

    def _edge(self, k: int) -> Edge:
        return Edge(int(self._a[k]), int(self._b[k]), float(self._strength[k]), int(self._sign[k]))

    def _among(self, nodes: Iterable[int], chosen: Iterable[int] = ()) -> tuple[Edge, ...]:
        """The strongest edges among some nodes, and all that lead to a chosen one."""
        wanted, chosen = set(nodes), set(chosen)
        found = {
            int(k)
            for node in wanted
            for k in self._at[self._offsets[node] : self._offsets[node + 1]]
            if int(self._a[k]) in wanted and int(self._b[k]) in wanted
        }
        edges = [self._edge(k) for k in sorted(found, key=lambda k: (-self._strength[k], k))]
        room = round(EDGES_A_NODE * len(wanted))
        return tuple(edge for k, edge in enumerate(edges) if k < room or chosen & {edge.a, edge.b})

    def _tie(self, number: int, feature: int) -> Tie:
        """A feature in words, from the end of one of its variables."""
        field, template = self.field, ""
        if feature < len(field.pairs):
            name = field.layout.feature_name(*field.pairs[feature].tolist())
            terms = [name[1:4], name[4:7]]
            template = "" if name.template.startswith("within") else name.template
        else:
            columns = field.conjunctions[feature - len(field.pairs)].tolist()
            terms = [field.layout.own_column_name(column) for column in columns if column >= 0]
        mine = next(k for k, (table, name, _) in enumerate(terms) if self._named(table, name) == self.labels[number])
        others = tuple((self._named(table, name), state) for table, name, state in terms[:mine] + terms[mine + 1 :])
        stability = None if self.stability is None else float(self.stability[feature])
        return Tie(float(self._weight[feature]), terms[mine][2], others, template, stability)


def _stability(field: Field) -> Array | None:
    """Share of resamples that selected each feature; None where the model does not tell, or of other features."""
    stability = field.record.stability
    if stability is None or len(stability.frequencies) != len(field.weights) + len(field.conjunction_weights):
        return None
    return np.asarray(stability.frequencies, dtype=float)
