"""The network of a field: columns are nodes, and an edge joins two columns that share features.

A field may have a million columns, so the network is kept as arrays; a page shows a `Subgraph` of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import combinations, islice

import numpy as np
import scipy.sparse as sp

from sparsefield.data.coding import ColumnClass
from sparsefield.data.layout import COUNT_COLUMN, NEIGHBOR_COUNT, PATH_VIEW
from sparsefield.data.schema import Schema, Variable
from sparsefield.model import Field
from sparsefield.model.fit_record import FALSE_DISCOVERY_RATE

Array = np.ndarray

AGREEMENT = 0.5
"""Least ratio of the sum over features to the sum of their absolute values: three parts agree for one that does not."""

LEAST_CORRELATION = 0.05
"""Least mean correlation of the features with the scores: features of middle levels say nothing about a direction."""

SCORES = (ColumnClass.SCORE, ColumnClass.OBSERVED_SCORE)


@dataclass(frozen=True)
class Subgraph:
    """Some nodes of a network and some of the edges among them, strongest first, by their numbers in the network."""

    network: Network
    nodes: tuple[int, ...]
    edges: Array
    left_out: int = 0
    """Number of columns that had no room."""

    @cached_property
    def names(self) -> list[str]:
        """Names of the nodes."""
        return [self.network.labels[node] for node in self.nodes]

    @cached_property
    def ends(self) -> Array:
        """(edges, 2): the ends of each edge as positions in ``nodes``."""
        position = {node: k for k, node in enumerate(self.nodes)}
        found = [[position[a], position[b]] for a, b in self.network.ends[self.edges].tolist()]
        return np.array(found, dtype=np.int64).reshape(-1, 2)

    @property
    def strengths(self) -> Array:
        """(edges,): the Euclidean norm of the weights of each edge."""
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
    strengths : (edges,) array of float
        Norms of the weights, as in ``edges_``.
    signs : (edges,) array of int
        1 or -1 where the two columns rise together, or one falls as the other rises; 0 where that is not known. It is
        that of the covariance of two numbers, ordinal or binary columns to which the features contribute, unless these
        disagree: see `edge_signs`. Other states have no order, so that edges have no sign.
    linear : (edges,) array of bool
        Whether an edge has a linear part: see `are_linear`.
    weights : (edges,) array of float
        Of a linear edge the sum of the weights of its scores; of others sign x strength, or the strength where there is
        no sign.

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
        found = []
        for table, schema in zip(layout.tables, layout.schemas, strict=True):
            names = sorted(schema.index_of_name, key=schema.index_of_name.__getitem__)
            found += [f"{table}.{name}" for name in names] if table else names
        return found + [f"{table}.{NEIGHBOR_COUNT}" for table in layout.tables if self.linked]

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
        """(edges, features): the weights of each edge over its strength; their product with them is the norm."""
        weights = np.concatenate([self.field.weights, self.field.conjunction_weights])
        return self._edges_by_features(weights[self._edge_feature] / np.repeat(self.strengths, self._sizes))

    def norms(self, drawn: Array) -> Array:
        """Return the norms of the weights of each edge, (draws, edges), for weights of features (draws, features)."""
        return np.sqrt(np.square(drawn) @ self._members.T)

    def weigh(self, drawn: Array) -> tuple[Array, Array]:
        """Return the strengths and the signed weights, (draws, edges) each, for weights of features (draws, features).

        A norm has the sign that the edge has in this network, or the other one if weights point away from its weights.
        """
        linear, norms = drawn @ self._linear_parts.T, self.norms(drawn)
        signed = np.where(self.linear, linear, self.signs * np.sign(drawn @ self.directions.T) * norms)
        return np.where(self.linear, np.abs(linear), norms), signed

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

    def overview(self, limit: int, max_edges: int) -> Subgraph:
        """Return the backbone of up to ``limit`` columns with the strongest edges among them, up to ``max_edges``.

        The backbone keeps columns connected, which the strongest edges of a wide table do not. Where there is room,
        columns without edges follow.
        """
        found, tree = self.backbone(limit)
        nodes = dict.fromkeys(found)
        isolated = (k for k in range(self.n_variables) if k not in nodes)
        nodes.update(dict.fromkeys(islice(isolated, limit - len(nodes))))
        left_out = self.n_variables - sum(k < self.n_variables for k in nodes)
        wanted = np.array(list(nodes), dtype=np.int64)
        touching = np.unique(np.concatenate([self._edge_numbers(node) for node in wanted] or [wanted]))
        among = touching[np.isin(self.ends[touching], wanted).all(axis=1)]
        return Subgraph(self, tuple(nodes), np.union1d(tree, among[:max_edges]), left_out)

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
                for number in self._edge_numbers(node).tolist():
                    heappush(frontier, (number, sum(ends[number]) - node))
        return list(nodes), np.array(sorted(tree), dtype=np.int64)

    # -- arrays ------------------------------------------------------------------------------------------------------

    def _table_index(self, node: int) -> int:
        if node >= self.n_variables:
            return node - self.n_variables
        return int(np.searchsorted(self.starts, node, side="right")) - 1

    def _edge_numbers(self, node: int) -> Array:
        return self._edges_by_node[self._offsets[node] : self._offsets[node + 1]]

    def _index_columns(self) -> tuple[Array, Array, Array]:
        """Return the node, the view (-1: none) and the direction (columns, 4) of each column of the layout.

        Columns of linked rows are included; see `column_directions`. The number of linked rows counts as a score.
        """
        layout = self.field.layout
        all_nodes, all_views, all_directions = [], [], []
        directions = [column_directions(schema) for schema in layout.schemas]
        for table in range(len(layout.tables)):
            views, columns = layout.column_views(table)
            nodes, direction = np.zeros(len(views), dtype=np.int64), np.ones((len(views), 4))
            for k in np.unique(views):
                if k == PATH_VIEW:
                    continue
                source = table if k < 0 else layout.neighbor_views[k].source_table
                is_count = columns == COUNT_COLUMN
                own = (views == k) & ~is_count
                nodes[own] = self.starts[source] + layout.schemas[source].variable_of_column[columns[own]]
                direction[own] = directions[source][columns[own]]
                nodes[(views == k) & is_count] = self.n_variables + source
            all_nodes.append(nodes)
            all_views.append(views)
            all_directions.append(direction)
        return np.concatenate(all_nodes), np.concatenate(all_views), np.concatenate(all_directions)

    def _list_ends(self) -> tuple[Array, ...]:
        """Return the feature, template and two ends of each pair of columns that a feature has.

        Products of the covariances and the standard deviations of its columns follow: see `edge_signs`; and the
        product of their slopes. Further columns of a conjunction, or of a triangle, count with their means.
        """
        field, layout = self.field, self.field.layout
        node, view, direction = self._index_columns()
        covariance, spread, mean, slope = direction.T
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
        products = covariance[one] * covariance[two], spread[one] * spread[two], slope[one] * slope[two]
        of_paths, states, templates = layout.path_terms(field.pairs)
        columns = np.arange(len(field.pairs)), template, a, b, *products
        parts = [tuple(np.delete(column, of_paths) for column in columns)]
        conjunctions, tables = field.conjunctions, layout.table_of_column[field.conjunctions[:, 0]]
        higher = [(of_paths, states, len(layout.tables) + templates)]
        higher.append((len(field.pairs) + np.arange(len(conjunctions)), conjunctions, tables))
        for feature, members, template in higher:
            for first, second in combinations(range(members.shape[1]), 2):
                used = np.flatnonzero(members[:, second] >= 0)
                left, right = members[used, first], members[used, second]
                others = np.delete(members[used], [first, second], axis=1)
                rest = np.where(others < 0, 1.0, mean[others]).prod(axis=1)
                products = covariance[left] * covariance[right] * rest, spread[left] * spread[right]
                parts.append((feature[used], template[used], node[left], node[right], *products, np.zeros(len(used))))
        return tuple(np.concatenate([part[k] for part in parts]) for k in range(7))

    def _index_edges(self) -> None:
        """Group features into edges, strongest first, and list the edges of each node."""
        weights = np.concatenate([self.field.weights, self.field.conjunction_weights])
        feature, template, a, b, covariances, spreads, slopes = self._list_ends()
        order = np.lexsort((feature, -np.abs(weights[feature])))
        order = order[weights[feature[order]] != 0]
        feature, template, a, b = (part[order] for part in (feature, template, a, b))
        n_nodes = self.n_variables + len(self.field.layout.tables)
        key = (template * n_nodes + a) * n_nodes + b
        _, first, edge = np.unique(key, return_index=True, return_inverse=True)
        weight, n = weights[feature], len(first)
        strengths = np.sqrt(np.bincount(edge, weight**2, n))
        ranked = np.lexsort((first, -strengths))
        first, edge = first[ranked], np.argsort(ranked)[edge]
        self.strengths = strengths[ranked]
        self.ends = np.column_stack([a[first], b[first]])
        self._template = template[first]
        self.signs = edge_signs(edge, weight, covariances[order], spreads[order], n)
        counts = [2] * len(self.field.layout.tables)  # the number of linked rows is a score
        kinds = np.concatenate([*map(variable_slopes, self.field.layout.schemas), counts])
        self.linear = are_linear(kinds, self.ends)
        others = np.where(self.signs == 0, 1, self.signs) * self.strengths
        self.weights = np.where(self.linear, np.bincount(edge, weight * slopes[order], n), others)
        by_edge = np.argsort(edge, kind="stable")
        self._edge_feature, self._slopes = feature[by_edge], slopes[order][by_edge]
        self._edge_starts = np.concatenate([[0], np.cumsum(np.bincount(edge, minlength=n))])
        loops = self.ends[:, 0] == self.ends[:, 1]
        node = np.concatenate([self.ends[:, 0], self.ends[~loops, 1]])
        number = np.concatenate([np.arange(n), np.flatnonzero(~loops)])
        order = np.lexsort((number, node))
        self._edges_by_node = number[order]
        self._offsets = np.searchsorted(node[order], np.arange(n_nodes + 1))


def edges_that_hold(network: Network) -> np.ndarray | None:
    """Return the numbers of the edges that hold at the usual false discovery rate; None where they were not tested."""
    evidence = network.field.record.evidence
    if evidence is None:
        return None
    tests = zip(evidence.edges, evidence.q_values, strict=True)
    holding = {tuple(sorted(ends)) for ends, q_value in tests if q_value <= FALSE_DISCOVERY_RATE}
    return np.flatnonzero([tuple(sorted(ends)) in holding for ends in network.ends.tolist()])


def selection_frequencies(field: Field) -> np.ndarray | None:
    """Return (features,) the share of resamples that selected each feature; None where the field has no such record."""
    stability = field.record.stability
    if stability is None or len(stability.frequencies) != len(field.features):
        return None
    return np.asarray(stability.frequencies, dtype=float)


def column_directions(schema: Schema) -> Array:
    """Return (columns, 4): covariance with the score of the variable, standard deviation, mean, and linear slope.

    The covariance is 0 where the states of a variable have no order. The only column of a variable with two states is
    its score; where the states are ordered or numbers and it is the lower one, the covariance is negative. The slope is
    1 or -1 for scores and such columns, and 0 for levels, bins and other states.
    """
    widths, variable_of, classes = schema.widths, schema.variable_of_column, schema.column_classes
    directions = np.ones((len(variable_of), 4))
    scores, alone = np.isin(classes, SCORES), widths[variable_of] == 1
    directions[~scores & ~alone, 0] = 0.0
    directions[scores, 2] = 0.0
    for k, variable in enumerate(schema.described):  # plain columns have no levels
        own = slice(schema.offsets[k], schema.offsets[k + 1])
        if variable.has_reference and variable.width == 1:
            directions[own, 0] = -1.0 if _is_lower(variable) else 1.0
        elif variable.ordered and variable.width > variable.n_scores:
            directions[own, :3] = _level_directions(variable)
    directions[:, 3] = np.where(scores | alone, directions[:, 0], 0.0)
    return directions


def variable_slopes(schema: Schema) -> Array:
    """Return (variables,): 2 where a variable has a score, 1 where it has two states, and 0 for other states."""
    slope, scores = column_directions(schema)[:, 3] != 0.0, np.isin(schema.column_classes, SCORES)
    kinds = np.zeros(schema.n_variables, dtype=np.int64)
    np.maximum.at(kinds, schema.variable_of_column, np.where(scores, 2, slope))
    return kinds


def are_linear(slopes: Array, ends: Array) -> Array:
    """Return (edges,) whether an edge joins an ordinal or numeric column to another one or to one of two states.

    The weight of such an edge is that of its linear part, in which features of levels and bins do not count.
    """
    return (slopes[ends].min(axis=1) > 0) & (slopes[ends].max(axis=1) == 2)


def _is_lower(variable: Variable) -> bool:
    """Return whether the state with a column is below the reference state, of a variable with two states."""
    state, reference = int(variable.position_of_code[1]), variable.reference
    if variable.ordered:
        return state < reference
    labels = variable.states[state], variable.states[reference]
    return all(isinstance(label, (int, float)) for label in labels) and labels[0] < labels[1]  # pyright: ignore[reportOperatorIssue]


def _level_directions(variable: Variable) -> Array:
    """Return (width, 3) as `column_directions`, of a variable with a score and indicators of levels."""
    frequencies, scores = variable.code_frequencies, np.asarray(variable.scores)
    coded = variable.coded
    if not frequencies.sum() > 0:
        frequencies = np.full(len(coded), 1.0 / len(coded))
    means = frequencies @ coded
    squares = frequencies @ coded**2 - means**2
    found = np.column_stack([(frequencies * scores) @ (coded - means), np.sqrt(np.maximum(squares, 0.0)), means])
    found[: variable.n_scores] = (1.0, 1.0, 0.0)
    found[variable.column_classes == ColumnClass.SQUARE, 0] = 0.0
    return found


def edge_signs(edge: Array, weights: Array, covariances: Array, spreads: Array, n_edges: int) -> Array:
    """Return (edges,) the sign of each edge: 1, -1, or 0 where its features disagree or have no direction.

    A feature of two columns with weight w changes the covariance of the scores of their variables, to first order, by w
    times the covariance of each column with the score of its variable: 1 for a score, and frequency times score for the
    indicator of a level. The sign of an edge is that of the sum over its features.

    Parameters
    ----------
    edge : (features,) the number of the edge
    weights : (features,)
    covariances : (features,) the product of the covariances of both columns with the scores of their variables
    spreads : (features,) the product of the standard deviations of both columns
    n_edges : the number of edges

    Examples
    --------
    Two levels of a positive edge, and two that contradict each other:

    >>> edge, weights = np.array([0, 0, 1, 1]), np.array([1.0, 0.5, 1.0, -0.8])
    >>> edge_signs(edge, weights, np.full(4, 0.04), np.full(4, 0.16), 2).tolist()
    [1, 0]
    """
    change = np.bincount(edge, weights * covariances, n_edges)
    size = np.bincount(edge, np.abs(weights * covariances), n_edges)
    largest = np.bincount(edge, np.abs(weights) * spreads, n_edges)
    clear = (np.abs(change) >= AGREEMENT * size) & (np.abs(change) >= LEAST_CORRELATION * largest) & (size > 0)
    return np.sign(change).astype(np.int64) * clear
