"""Centrality of the columns of a network: by their edges, and by shortest paths."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from sklearn.utils.validation import check_is_fitted

from sparsefield.analysis.communities import find_communities, name_community
from sparsefield.analysis.network import Network, sum_by_node
from sparsefield.analysis.predictability import predict_columns
from sparsefield.analysis.refit import list_names
from sparsefield.compute import Threads
from sparsefield.data import make_frame
from sparsefield.data.frame_building import Frame
from sparsefield.errors import DataError
from sparsefield.estimators import FieldEstimator
from sparsefield.kernels.shortest_paths import sum_over_paths

Array = np.ndarray
Communities = Mapping[str, Any] | Literal["auto"] | None
"""{column: its community}; "auto" finds communities; None has none."""

EXACT_NODES, SOURCES, LEAST_SOURCES = 2_000, 1_000, 50
"""Shortest paths begin at every node of a connected component up to this size, and at up to this number of nodes, drawn
at random, of a larger one; at least at the third number."""

MOST_VISITS = 10_000_000
"""Nodes of a connected component, times those at which its paths begin, if it is large."""

MOST_PARTS, SOURCES_AT_ONCE = 200, 50
"""Paths are summed in up to this number of parts, each of which has the memory of all nodes."""

BRIDGES = ("bridge_strength", "bridge_expected_influence", "bridge_closeness", "bridge_betweenness")
MEASURES = ("strength", "expected_influence", "closeness", "betweenness", *BRIDGES)


@dataclass(frozen=True, eq=False)
class Centrality:
    """How central the columns of a network are; all arrays are (columns,).

    An edge has a strength, the norm of its weights, and a sign, 1, -1, or 0 where states have no order; see `Edge`. The
    distance of two adjacent columns is 1 / strength. Edges of a column with itself, over links, do not count.
    """

    names: tuple[str, ...]
    """The columns in the order of the input; for linked tables ``"table.column"``."""
    degree: Array
    """Number of adjacent columns."""
    strength: Array
    """Sum of the strengths of the edges."""
    expected_influence: Array
    """Sum of sign x strength of the edges; NaN where a column has edges, but none with a sign."""
    unsigned_edges: Array
    """Number of edges without a sign, which expected influence lacks."""
    closeness: Array | None = None
    """Inverse of the mean distance to the columns that a path leads to, times their share of all others."""
    betweenness: Array | None = None
    """Number of pairs of other columns whose shortest path passes through; several shortest paths share one."""
    community: tuple[str | None, ...] | None = None
    """Names of the communities; None for columns without edges if they were found. None if there are none."""
    bridge_strength: Array | None = None
    """Sum of the strengths of the edges to other communities."""
    bridge_expected_influence: Array | None = None
    """Sum of sign x strength of the edges to other communities."""
    bridge_closeness: Array | None = None
    """Mean inverse distance to the columns of other communities; 0 counts where no path leads to one."""
    bridge_betweenness: Array | None = None
    """Number of pairs of columns of two communities whose shortest path passes through."""
    sampled: bool = False
    """Whether closeness and betweenness are estimates from paths that begin at some columns only."""

    @property
    def measures(self) -> dict[str, Array]:
        """{name: values} of the measures that can be standardized."""
        found = {name: getattr(self, name) for name in MEASURES}
        return {name: values for name, values in found.items() if values is not None}

    def standardize(self) -> Centrality:
        """Return the measures in standard deviations from their means; a measure that is constant is 0."""
        return replace(self, **{name: _standardize(values) for name, values in self.measures.items()})

    def as_columns(self) -> dict[str, Any]:
        """Return {name: values} for a frame."""
        community = {} if self.community is None else {"community": list(self.community)}
        counts = {"degree": self.degree, "unsigned_edges": self.unsigned_edges}
        return {"column": list(self.names), **community, **counts, **self.measures}


class _Edges(NamedTuple):
    """Edges between different columns; parallel ones are edges of several templates."""

    n: int
    """Number of columns."""
    ends: Array
    """(edges, 2)"""
    strengths: Array
    signs: Array

    def sum_by_node(self, values: Array) -> Array:
        """Return (columns,) the sums of the values of the edges of each column."""
        return sum_by_node(self.ends, values, self.n)

    def where(self, chosen: Array) -> _Edges:
        return _Edges(self.n, self.ends[chosen], self.strengths[chosen], self.signs[chosen])

    def expected_influence(self) -> Array:
        """Return (columns,) the sums of sign x strength; NaN for a column with edges, but none with a sign."""
        signed, all_edges = self.sum_by_node(np.abs(self.signs)), self.sum_by_node(np.ones(len(self.ends)))
        unknown = (signed == 0) & (all_edges > 0)
        return np.where(unknown, np.nan, self.sum_by_node(self.signs * self.strengths))


def centrality(
    field: FieldEstimator, X: Any = None, communities: Communities = None, *, standardized: bool = False
) -> Frame:
    """Return how central each column is in the network.

    The strength of an edge is the norm of its weights, as in ``edges_``; its sign is that of weights between scores
    and binary columns, while states of other nominal columns have no order, and their edges no sign. The distance
    of two adjacent columns is 1 / strength.

    Parameters
    ----------
    field : fitted estimator
    X : table, or `Relational` for a field over linked tables
        Rows for the columns of `predictability`, which are added to the frame.
    communities : {column: community}, "auto" or None
        For bridge centrality: a community for every column, None for a column in none; or "auto", which finds
        communities by greedy modularity (the Louvain method) and calls them 1, 2, ..., the largest first.
    standardized : bool
        Whether measures are in standard deviations from their means over columns.

    Returns
    -------
    frame
        A row for each column, in the order of the input: column (for linked tables "table.column"); community, if
        there are any; degree, the number of adjacent columns; unsigned_edges, the number of those without a sign;
        strength, the sum of the strengths of the edges; expected_influence, that of sign times strength, NaN where
        no edge has a sign; closeness; betweenness; and with communities the measures ``bridge_...``, which count
        edges and paths between different communities only. Paths in connected components of more than 2,000 columns
        begin at up to 1,000 of them, so that closeness and betweenness are estimates there, with a warning.

    Examples
    --------
    >>> from sparsefield import centrality
    >>> from sparsefield.app.datasets import make_markov_field
    >>> field = make_markov_field(3, 1, neighbors=1.0, burn_in=1, seed=1).field
    >>> found = centrality(field)
    >>> list(found["column"]), list(found["degree"])
    (['x0', 'x1', 'x2'], [1, 0, 1])
    """
    check_is_fitted(field)
    found = find_centrality(Network(field.field_), communities, n_jobs=field.n_jobs)
    if found.sampled:
        warnings.warn(
            f"A connected component has more than {EXACT_NODES:,} columns: closeness and betweenness are estimated "
            f"from the paths of up to {SOURCES:,} of them.",
            UserWarning,
            stacklevel=2,
        )
    columns = (found.standardize() if standardized else found).as_columns()
    if X is not None:
        predicted, place = predict_columns(field, X), {name: k for k, name in enumerate(found.names)}
        rows = [place[name] for name in predicted["column"]]
        for name in list(predicted)[2:]:  # NaN, and 0 cells, where a column has no known cells
            columns[name] = np.zeros(len(place), np.int64) if name == "cells" else np.full(len(place), np.nan)
            columns[name][rows] = predicted[name]
    return make_frame(columns, field.kind_)


def find_centrality(
    network: Network, communities: Communities = None, *, paths: bool = True, n_jobs: int | None = 1, seed: int = 0
) -> Centrality:
    """Return how central the columns of a network are.

    Parameters
    ----------
    network : Network
    communities : {column: community}, "auto" or None
        For bridge centrality. A mapping has all columns, with None for those in no community; "auto" finds communities
        by greedy modularity.
    paths : whether measures of shortest paths are computed, which takes long for thousands of columns
    n_jobs : number of threads, which changes nothing else
    seed : seed of the columns at which paths begin in a large network

    Examples
    --------
    >>> from sparsefield.app.datasets import make_markov_field
    >>> network = Network(make_markov_field(3, 1, neighbors=1.0, burn_in=1, seed=1).field.field_)
    >>> find_centrality(network).degree.tolist()
    [1, 0, 1]
    """
    layout, n = network.field.layout, network.n_variables
    order = [
        int(start) + schema.index_of_name[name]
        for start, schema in zip(network.starts[:-1], layout.schemas, strict=True)
        for name in schema.order
    ]
    inner = (network.ends[:, 0] != network.ends[:, 1]) & (network.ends < n).all(axis=1)
    edges = _Edges(n, network.ends[inner], network.strengths[inner], network.signs[inner])
    adjacent = np.unique(np.sort(edges.ends, axis=1), axis=0)
    measures = {
        "degree": np.bincount(adjacent.ravel(), minlength=n),
        "strength": edges.sum_by_node(edges.strengths),
        "expected_influence": edges.expected_influence(),
        "unsigned_edges": edges.sum_by_node((edges.signs == 0).astype(float)).astype(np.int64),
    }
    named, numbers = None, np.zeros(n, dtype=np.int64)
    if communities is not None:
        named = name_communities(network, communities)
        numbers = _number(named)
        between = edges.where(numbers[edges.ends[:, 0]] != numbers[edges.ends[:, 1]])
        measures["bridge_strength"] = between.sum_by_node(between.strengths)
        measures["bridge_expected_influence"] = between.expected_influence()
    sampled = False
    if paths:
        (closeness, betweenness, inverse_distances, across), sampled = _sum_paths(edges, numbers, n_jobs, seed)
        measures |= {"closeness": closeness, "betweenness": betweenness}
        if named is not None:
            known = np.array([name is not None for name in named])
            # A column without a community does not count.
            others = known.sum() - np.bincount(numbers[known], minlength=numbers.max(initial=0) + 1)[numbers]
            measures |= {"bridge_closeness": inverse_distances / np.maximum(others, 1), "bridge_betweenness": across}
    return Centrality(
        tuple(network.labels[node] for node in order),
        **{name: values[order] for name, values in measures.items()},
        community=None if named is None else tuple(named[node] for node in order),
        sampled=sampled,
    )


def name_communities(network: Network, communities: Mapping[str, Any] | Literal["auto"]) -> list[str | None]:
    """Return the name of the community of each variable of a network: found, or given as {column: community}.

    Communities that are found are "1", "2", ..., the largest first; a column without edges has none.
    """
    labels = network.labels[: network.n_variables]
    if isinstance(communities, Mapping):
        problems, unknown = [], sorted(map(str, set(communities) - set(labels)))
        lacking = [name for name in labels if name not in communities]
        if lacking:
            problems.append(f"communities lacks {list_names(lacking)}: every column needs one, or None.")
        if unknown:
            problems.append(f"communities has {list_names(unknown)}, which the field does not have.")
        if problems:
            raise DataError(" ".join(problems))
        return [name_community(communities[name]) for name in labels]
    if communities != "auto":
        raise DataError(
            f"communities must be a mapping of columns to communities, 'auto' or None; got {communities!r}."
        )
    part = network.edge_subgraph()
    found: list[str | None] = [None] * len(labels)
    for node, community in zip(part.nodes, find_communities(len(part.nodes), part.ends, part.strengths), strict=True):
        if node < len(labels):
            found[node] = str(int(community) + 1)
    return found


def _number(names: Sequence[str | None]) -> Array:
    """Return numbers of communities; a column without one is in a community of its own."""
    known = {name: k for k, name in enumerate(dict.fromkeys(name for name in names if name is not None))}
    return np.array([len(known) + k if name is None else known[name] for k, name in enumerate(names)], dtype=np.int64)


def _sum_paths(
    edges: _Edges, communities: Array, n_jobs: int | None, seed: int
) -> tuple[tuple[Array, Array, Array, Array], bool]:
    """Return what shortest paths tell about each column, and whether paths of a large component were sampled.

    Arrays are (columns,): closeness, betweenness, the sum of the inverse distances to columns of other communities, and
    the betweenness of paths between communities.
    """
    graph = _distances(edges)
    _, component = connected_components(graph, directed=False)
    sizes = np.bincount(component, minlength=1)
    sources = _draw_sources(component, sizes, seed)
    arrays = graph.indptr.astype(np.int64), graph.indices.astype(np.int64), graph.data
    parts = np.array_split(sources, min(MOST_PARTS, len(sources) // SOURCES_AT_ONCE + 1))
    total = np.zeros((4, edges.n))
    with Threads(n_jobs) as engine:
        for part in engine.stream(lambda some: sum_over_paths(*arrays, some, communities), parts):
            total += part
    drawn, reachable = np.bincount(component[sources], minlength=len(sizes))[component], sizes[component] - 1
    used = np.maximum(drawn - np.isin(np.arange(edges.n), sources), 1)
    scale = np.where(drawn > 0, sizes[component] / np.maximum(drawn, 1), 0.0)
    mean = np.divide(total[0], used, out=np.ones(edges.n), where=total[0] > 0)
    closeness = np.where(reachable > 0, reachable / max(edges.n - 1, 1) / mean, 0.0)
    # Every path was found from both of its ends.
    sums = closeness, scale * total[1] / 2, scale * total[2], scale * total[3] / 2
    return sums, bool((sizes > EXACT_NODES).any())


def _distances(edges: _Edges) -> sp.csr_array:
    """Return the lengths of edges in compressed rows; of parallel edges the shortest."""
    order = np.lexsort((-edges.strengths, *np.sort(edges.ends, axis=1).T))
    ends = np.sort(edges.ends, axis=1)[order]
    first = np.ones(len(ends), dtype=bool)
    first[1:] = (ends[1:] != ends[:-1]).any(axis=1)
    (a, b), lengths = ends[first].T, 1.0 / edges.strengths[order][first]
    return sp.csr_array(
        (np.tile(lengths, 2), (np.concatenate([a, b]), np.concatenate([b, a]))), shape=(edges.n, edges.n)
    )


def _draw_sources(component: Array, sizes: Array, seed: int) -> Array:
    """Return the columns at which paths begin: all of small components with edges, some of large ones."""
    sources = [np.flatnonzero((sizes > 1)[component] & (sizes <= EXACT_NODES)[component])]
    rng = np.random.default_rng(seed)
    for large in np.flatnonzero(sizes > EXACT_NODES):
        count = min(SOURCES, max(LEAST_SOURCES, MOST_VISITS // int(sizes[large])))
        sources.append(np.sort(rng.choice(np.flatnonzero(component == large), count, replace=False)))
    return np.concatenate(sources)


def _standardize(values: Array) -> Array:
    known = values[~np.isnan(values)]
    deviation = known.std(ddof=1) if len(known) > 1 else 0.0
    if not deviation > 1e-12 * np.abs(known).max(initial=0.0):
        return np.where(np.isnan(values), np.nan, 0.0)
    return (values - known.mean()) / deviation
