"""The network of a field: columns are nodes, and an edge joins two columns that share features.

A field may have a million columns, so the network is kept as arrays; a page shows a `Subgraph` of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsefield.data.coding import ColumnClass
from sparsefield.data.layout import COUNT_COLUMN, NEIGHBOR_COUNT, PATH_VIEW
from sparsefield.data.schema import Schema, Variable
from sparsefield.model import Field
from sparsefield.model.fit_record import FALSE_DISCOVERY_RATE

Array = np.ndarray


@dataclass(frozen=True)
class Subgraph:
    """Some nodes of a network and some of the edges among them, strongest first, by their numbers in the network."""

    network: Network
    nodes: tuple[int, ...]
    edges: Array

    @cached_property
    def names(self) -> list[str]:
        """Names of the nodes."""
        return [self.network.labels[node] for node in self.nodes]

    @property
    def titles(self) -> list[str]:
        """Names of the nodes; those of two states of text with the upper one, which signs are about: "car (yes)"."""
        variables = [self.network.variable(node) for node in self.nodes]
        upper = [v and not v.ordered and len(v.states) == 2 and v.states[v.upper] for v in variables]
        pairs = zip(self.names, upper, strict=True)
        return [f"{name} ({state})" if isinstance(state, str) else name for name, state in pairs]

    @cached_property
    def ends(self) -> Array:
        """(edges, 2): the ends of each edge as positions in ``nodes``."""
        position = {node: k for k, node in enumerate(self.nodes)}
        positions = [[position[a], position[b]] for a, b in self.network.ends[self.edges].tolist()]
        return np.array(positions, dtype=np.int64).reshape(-1, 2)

    @property
    def strengths(self) -> Array:
        """(edges,): the strength of each edge."""
        return self.network.strengths[self.edges]

    @cached_property
    def total_strengths(self) -> Array:
        """(nodes,): the sum of the strengths of the edges of each node; a loop counts once."""
        ends, loops = self.ends, self.ends[:, 0] == self.ends[:, 1]
        total = np.bincount(ends[:, 0], self.strengths, len(self.nodes))
        return total + np.bincount(ends[~loops, 1], self.strengths[~loops], len(self.nodes))


def sum_by_node(ends: Array, values: Array, n_nodes: int) -> Array:
    """Return (nodes,) the sums of the values (edges,) of the edges of each node; ends are (edges, 2), without loops."""
    # Without edges bincount would return whole numbers.
    return np.bincount(ends.ravel(), np.repeat(values, 2), n_nodes).astype(float)


class Network:
    """The network of a field.

    Nodes are the variables 0, 1, ..., table by table, then for each table the number of its linked rows. Edges are
    numbered by strength, the strongest first.

    Attributes
    ----------
    ends : (edges, 2) array of int
        Over links both ends may be one column, of two rows.
    linear : (edges,) array of bool
        Whether both ends are ordinal, numeric or have two states. The upper one of two states is `Variable.upper`.
    weights : (edges,) array of float
        Of a linear edge the weight of its linear part, in which features of levels and bins do not count; of others the
        Euclidean norm of all weights.
    signs : (edges,) array of int
        1 or -1 where the two columns rise together, or one falls as the other rises: those of the weights of linear
        edges; 0 for others, because their states have no order.
    strengths : (edges,) array of float
        Sizes of the weights, as in ``edges_``; the norm of all weights where the linear part has none.

    Examples
    --------
    >>> from sparsefield.app.datasets import make_markov_field
    >>> network = Network(make_markov_field(3, 1, neighbors=1.0, burn_in=1, seed=1).field.field_)
    >>> network.labels, network.ends.tolist()
    (['x0', 'x1', 'x2'], [[0, 2]])
    """

    def __init__(self, field: Field) -> None:
        self.field = field
        layout = field.layout
        self.starts = np.concatenate([[0], np.cumsum([schema.n_variables for schema in layout.schemas])])
        self.n_variables = int(self.starts[-1])
        self.linked = layout.tables != ("",)
        self._index_edges()

    # -- nodes -------------------------------------------------------------------------------------------------------

    @cached_property
    def labels(self) -> list[str]:
        """Names of the nodes, with the name of the table where there are several."""
        layout = self.field.layout
        labels = []
        for table, schema in zip(layout.tables, layout.schemas, strict=True):
            names = sorted(schema.index_of_name, key=schema.index_of_name.__getitem__)
            labels += [f"{table}.{name}" for name in names] if table else names
        return labels + [f"{table}.{NEIGHBOR_COUNT}" for table in layout.tables if self.linked]

    def table_of(self, node: int) -> str:
        """Return the table of a node; empty where there is only one table."""
        return self.field.layout.tables[self._table_index(node)]

    def variable(self, node: int) -> Variable | None:
        """Return the variable of a node; None for the number of linked rows, which is not a column."""
        if node >= self.n_variables:
            return None
        t = self._table_index(node)
        return self.field.layout.schemas[t].variable(int(node - self.starts[t]))

    # -- edges -------------------------------------------------------------------------------------------------------

    def template(self, k: int) -> str:
        """Return the template of the features of an edge; empty within one plain table."""
        return self._templates[self._template[k]]

    def feature_numbers(self, k: int) -> list[int]:
        """Return the numbers of the features of an edge, strongest first."""
        return self._edge_feature[self._edge_starts[k] : self._edge_starts[k + 1]].tolist()

    @cached_property
    def directions(self) -> sp.csr_array:
        """(edges, features): the slope of the strength of each edge in the weights; their product is the strength."""
        weights, signs = np.concatenate([self.field.weights, self.field.conjunction_weights]), self.signs
        unit = weights[self._edge_feature] / np.repeat(self.norms(weights[None])[0], self._sizes)
        signs = np.repeat(signs, self._sizes)
        return self._edges_by_features(np.where(signs == 0, unit, signs * self._slopes))

    def norms(self, drawn: Array) -> Array:
        """Return the norms of the weights of each edge, (draws, edges), for weights of features (draws, features)."""
        return np.sqrt(np.square(drawn) @ self._members.T)

    def weigh(self, drawn: Array) -> tuple[Array, Array]:
        """Return sizes of the weights of edges and signed weights, (draws, edges) each, for weights (draws, features).

        The signed weights of edges that are not linear are 0.
        """
        linear = drawn @ self._linear_parts.T
        return np.where(self.linear, np.abs(linear), self.norms(drawn)), np.where(self.linear, linear, 0.0)

    @cached_property
    def _members(self) -> sp.csr_array:
        return self._edges_by_features(np.ones(len(self._slopes)))

    @cached_property
    def _linear_parts(self) -> sp.csr_array:
        return self._edges_by_features(self._slopes)

    @property
    def _sizes(self) -> Array:
        return np.diff(self._edge_starts)

    def _edges_by_features(self, values: Array) -> sp.csr_array:
        """Return (edges, features) from values of the features of each edge, edge by edge."""
        n_features = len(self.field.weights) + len(self.field.conjunction_weights)
        rows = np.repeat(np.arange(len(self.strengths)), self._sizes)
        return sp.csr_array((values, (rows, self._edge_feature)), shape=(len(self.strengths), n_features))

    # -- subgraphs ---------------------------------------------------------------------------------------------------

    def backbone(self, limit: int | None = None) -> tuple[list[int], Array]:
        """Return up to ``limit`` nodes with edges, and the edges of a maximum spanning forest of them, strongest first.

        The forest grows from the strongest edge by the strongest edge to a new node (Prim's algorithm), and from the
        strongest remaining edge where a component is complete; so the nodes of each component are connected, and
        without a limit no other forest has a larger total strength.
        """
        limit = self.n_variables + len(self.field.layout.tables) if limit is None else limit
        nodes: dict[int, None] = {}
        tree: list[int] = []
        ends = self.ends.tolist()
        for start, _ in ends:
            frontier = [(-1, start)]  # numbers of edges rank them by strength
            while frontier and len(nodes) < limit:
                edge, node = heappop(frontier)
                if node in nodes:
                    continue
                nodes[node] = None
                tree += [edge] if edge >= 0 else []
                for number in self._edges_by_node[self._offsets[node] : self._offsets[node + 1]].tolist():
                    heappush(frontier, (number, sum(ends[number]) - node))
        return list(nodes), np.array(sorted(tree), dtype=np.int64)

    # -- arrays ------------------------------------------------------------------------------------------------------

    def _table_index(self, node: int) -> int:
        if node >= self.n_variables:
            return node - self.n_variables
        return int(np.searchsorted(self.starts, node, side="right")) - 1

    def _index_columns(self) -> tuple[Array, Array, Array]:
        """Return the node, the view (-1: none) and the slope of each column of the layout, linked rows included.

        See `column_slopes`; the number of linked rows counts as a score.
        """
        layout = self.field.layout
        all_nodes, all_views, all_slopes = [], [], []
        slopes = [column_slopes(schema) for schema in layout.schemas]
        for table in range(len(layout.tables)):
            views, columns = layout.column_views(table)
            nodes, slope = np.zeros(len(views), dtype=np.int64), np.ones(len(views))
            for k in np.unique(views):
                if k == PATH_VIEW:
                    continue
                source = table if k < 0 else layout.neighbor_views[k].source_table
                is_count = columns == COUNT_COLUMN
                own = (views == k) & ~is_count
                nodes[own] = self.starts[source] + layout.schemas[source].variable_of_column[columns[own]]
                slope[own] = slopes[source][columns[own]]
                nodes[(views == k) & is_count] = self.n_variables + source
            all_nodes.append(nodes)
            all_views.append(views)
            all_slopes.append(slope)
        return np.concatenate(all_nodes), np.concatenate(all_views), np.concatenate(all_slopes)

    def _list_ends(self) -> tuple[Array, ...]:
        """Return the feature, template, two ends and slope of each pair of columns that a feature has.

        The slope is the product of those of the two columns, 0 in features of more columns.
        """
        field, layout = self.field, self.field.layout
        node, view, slope = self._index_columns()
        self._templates = [layout.within_label(table) if self.linked else "" for table in layout.tables]
        self._templates += [template.label for template in layout.templates]
        one, two = field.pairs.T
        over = np.maximum(view[two], -1)
        views = [(len(layout.tables) + v.template, v.forward) for v in layout.neighbor_views] or [(0, True)]
        template_of_view, forward = map(np.array, zip(*views, strict=True))
        template = np.where(over >= 0, template_of_view[over], layout.table_of_column[one])
        # The ends follow the template's direction, as the names of features do.
        backward = (over >= 0) & ~forward[over]
        a, b = np.where(backward, node[two], node[one]), np.where(backward, node[one], node[two])
        of_paths, states, templates = layout.path_terms(field.pairs)
        columns = np.arange(len(field.pairs)), template, a, b, slope[one] * slope[two]
        parts: list[Any] = [tuple(np.delete(column, of_paths) for column in columns)]
        conjunctions, tables = field.conjunctions, layout.table_of_column[field.conjunctions[:, 0]]
        higher = [(of_paths, states, len(layout.tables) + templates)]
        higher.append((len(field.pairs) + np.arange(len(conjunctions)), conjunctions, tables))
        for feature, members, template in higher:
            for first, second in combinations(range(members.shape[1]), 2):
                used = np.flatnonzero(members[:, second] >= 0)
                left, right = members[used, first], members[used, second]
                parts.append((feature[used], template[used], node[left], node[right], np.zeros(len(used))))
        return tuple(np.concatenate([part[k] for part in parts]) for k in range(5))

    def _index_edges(self) -> None:
        """Group features into edges, strongest first, and list the edges of each node."""
        weights = np.concatenate([self.field.weights, self.field.conjunction_weights])
        feature, template, a, b, slopes = self._list_ends()
        order = np.lexsort((feature, -np.abs(weights[feature])))
        order = order[weights[feature[order]] != 0]
        feature, template, a, b, slopes = (part[order] for part in (feature, template, a, b, slopes))
        n_nodes = self.n_variables + len(self.field.layout.tables)
        key = (template * n_nodes + a) * n_nodes + b
        _, first, edge = np.unique(key, return_index=True, return_inverse=True)
        weight, n = weights[feature], len(first)
        counts = [1] * len(self.field.layout.tables)  # the number of linked rows is a score
        kinds = np.concatenate([*map(variable_slopes, self.field.layout.schemas), counts])
        linear = kinds[np.column_stack([a, b])[first]].min(axis=1) > 0
        norms = np.sqrt(np.bincount(edge, weight**2, n))
        weights = np.where(linear, np.bincount(edge, weight * slopes, n), norms)
        strengths = np.where(weights != 0.0, np.abs(weights), norms)
        ranked = np.lexsort((first, -strengths))
        first, edge = first[ranked], np.argsort(ranked)[edge]
        self.strengths, self.weights, self.linear = strengths[ranked], weights[ranked], linear[ranked]
        self.signs = np.sign(self.weights).astype(np.int64) * self.linear
        self.ends = np.column_stack([a[first], b[first]])
        self._template = template[first]
        by_edge = np.argsort(edge, kind="stable")
        self._edge_feature, self._slopes = feature[by_edge], slopes[by_edge]
        self._edge_starts = np.concatenate([[0], np.cumsum(np.bincount(edge, minlength=n))])
        loops = self.ends[:, 0] == self.ends[:, 1]
        node = np.concatenate([self.ends[:, 0], self.ends[~loops, 1]])
        number = np.concatenate([np.arange(n), np.flatnonzero(~loops)])
        order = np.lexsort((number, node))
        self._edges_by_node = number[order]
        self._offsets = np.searchsorted(node[order], np.arange(n_nodes + 1))


def counted_edges(network: Network) -> np.ndarray:
    """Return the numbers of the edges that centrality and communities count: those that hold, or all if untested."""
    holding = edges_that_hold(network)
    return np.arange(len(network.ends)) if holding is None else holding


def edges_that_hold(network: Network) -> np.ndarray | None:
    """Return the numbers of the edges that hold at the usual false discovery rate; None where they were not tested."""
    evidence = network.field.record.evidence
    if evidence is None:
        return None
    tests = zip(evidence.edges, evidence.q_values, strict=True)
    holding = {tuple(sorted(ends)) for ends, q_value in tests if q_value <= FALSE_DISCOVERY_RATE}
    return np.flatnonzero([tuple(sorted(ends)) in holding for ends in network.ends.tolist()])


def column_slopes(schema: Schema) -> Array:
    """Return (columns,): 1 for scores, 1 or -1 for the only column of two states, and 0 for other columns."""
    widths, variable_of = schema.widths, schema.variable_of_column
    scores = np.isin(schema.column_classes, (ColumnClass.SCORE, ColumnClass.OBSERVED_SCORE))
    slopes = (scores | (widths[variable_of] == 1)).astype(float)
    for k, variable in enumerate(schema.described):  # plain columns are 0 or 1
        if variable.has_reference and variable.width == 1 and variable.position_of_code[1] != variable.upper:
            slopes[schema.offsets[k]] = -1.0
    return slopes


def variable_slopes(schema: Schema) -> Array:
    """Return (variables,): 1 where a variable has a score or two states, and 0 for other states."""
    slopes = np.zeros(schema.n_variables, dtype=np.int64)
    np.maximum.at(slopes, schema.variable_of_column, column_slopes(schema) != 0.0)
    return slopes
