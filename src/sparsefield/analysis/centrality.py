"""Centrality of the columns of a network, by edges and by shortest paths; its stability; communities of columns."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numba import njit
from scipy.sparse.csgraph import connected_components, dijkstra
from sklearn.utils.validation import check_is_fitted

from sparsefield.analysis.network import Network, counted_edges, sum_by_node
from sparsefield.analysis.predictability import predict_columns
from sparsefield.analysis.refit import Progress, compile_refit, draw_weights, refit_field
from sparsefield.compute import Threads
from sparsefield.data import make_frame
from sparsefield.data.frame_building import Frame
from sparsefield.data.labels import is_missing
from sparsefield.errors import DataError, list_first
from sparsefield.estimators import FieldEstimator
from sparsefield.model import Field
from sparsefield.options import raise_problems

Array = np.ndarray
Communities = Mapping[str, Any] | Literal["auto"] | None
"""{column: its community}; "auto" finds communities; None has none."""

MOST_NODES = 10_000
"""Columns of a connected component, at most, whose shortest paths are computed."""

MOST_PARTS, SOURCES_AT_ONCE = 200, 50
"""Paths are summed in up to this number of parts, each of which has the memory of all nodes."""

TIE = 1e-12
"""Two paths are equally short if their lengths differ by less than this share of them: sums are rounded."""

MIN_GAIN = 1e-12
"""Smallest gain of modularity, as a share of the total weight: smaller ones are rounding and could cycle."""

MAX_ROUNDS = 100

MAX_EDGES = 200_000
"""Edges that communities are found from, the strongest ones: more would take too long."""

INDICES = ("strength", "expected_influence")
"""The sum of the strengths of the edges of a column, and the sum of their signed weights."""

SHARES = tuple(np.round(np.arange(0.05, 0.951, 0.05), 2).tolist())
"""Shares of the rows that case dropping drops."""

CORRELATION, PROBABILITY = 0.7, 0.95
"""The correlation that an index has to keep, and with which probability (Epskamp, Borsboom and Fried, 2018)."""

CONSTANT = 1e-12
"""Values whose deviation from their mean is a smaller share of them than this are constant but for rounding."""


def centrality(field: FieldEstimator, X: Any = None, communities: Communities = None) -> Frame:
    """Return how central each column is in the network: by the edges that hold, or all edges where none were tested.

    The strength of an edge is the size of its weight in ``edges_``: between ordinal, numeric and binary columns that of
    its linear part. Where states have no order edges have no sign. Adjacent columns have distance 1 / strength.

    Parameters
    ----------
    field : fitted estimator
    X : table, or `Relational` for a field over linked tables
        Rows for the columns of `predictability`, which are added to the frame.
    communities : {column: community}, "auto" or None
        For bridge centrality: a community for every column, None for a column in none; or "auto", which finds
        communities by greedy modularity (the Louvain method) and calls them 1, 2, ..., the largest first.

    Returns
    -------
    frame
        A row for each column, in the order of the input: column (for linked tables "table.column"); community, if
        there are any; degree, the number of adjacent columns; unsigned_edges, the number of those without a sign;
        strength, the sum of the strengths of the edges; expected_influence, that of signed weights, NaN where no
        edge has a sign; closeness; betweenness; and with communities ``bridge_strength`` and
        ``bridge_expected_influence``, which count edges between different communities only. Where more than
        10,000 columns are connected, closeness and betweenness are left out, with a warning.

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
    columns = measure_columns(Network(field.field_), communities, n_jobs=field.n_jobs)
    if X is not None:
        predicted, place = predict_columns(field, X), {name: k for k, name in enumerate(columns["column"])}
        rows = [place[name] for name in predicted["column"]]
        for name in list(predicted)[2:]:  # NaN, and 0 cells, where a column has no known cells
            columns[name] = np.zeros(len(place), np.int64) if name == "cells" else np.full(len(place), np.nan)
            columns[name][rows] = predicted[name]
    return make_frame(columns, field.kind_)


def measure_columns(
    network: Network, communities: Communities = None, *, paths: bool = True, n_jobs: int | None = 1
) -> dict[str, Any]:
    """Return the columns of `centrality`; edges of a column with itself, over links, do not count.

    Without ``paths``, the measures of shortest paths are left out, which take long for thousands of columns.
    """
    layout, n = network.field.layout, network.n_variables
    order = [
        int(start) + schema.index_of_name[name]
        for start, schema in zip(network.starts[:-1], layout.schemas, strict=True)
        for name in schema.order
    ]
    inner = counted_edges(network)
    inner = inner[(network.ends[inner] < n).all(axis=1) & (network.ends[inner, 0] != network.ends[inner, 1])]
    ends, weights = network.ends[inner], network.weights[inner]
    strengths, has_sign = np.abs(weights), network.linear[inner]

    def influence(edges: Any) -> Array:
        """Return the sums of the signed weights of edges; NaN for a column with edges, but none with a sign."""
        signed, total = (sum_by_node(ends[edges], part[edges], n) for part in (has_sign, np.ones(len(ends))))
        return np.where((signed == 0) & (total > 0), np.nan, sum_by_node(ends[edges], (has_sign * weights)[edges], n))

    measures = {
        "degree": np.bincount(np.unique(np.sort(ends, axis=1), axis=0).ravel(), minlength=n),
        "unsigned_edges": sum_by_node(ends, (~has_sign).astype(float), n).astype(np.int64),
        "strength": sum_by_node(ends, strengths, n),
        "expected_influence": influence(slice(None)),
    }
    if paths:
        measures |= _sum_paths(ends, strengths, n, n_jobs)
    first: dict[str, Any] = {"column": [network.labels[node] for node in order]}
    if communities is not None:
        named = name_communities(network, communities)
        first["community"] = [named[node] for node in order]
        # A column without a community is in one of its own.
        own = [(k, name) if name is None else name for k, name in enumerate(named)]
        between = np.array([own[a] != own[b] for a, b in ends.tolist()], dtype=bool)
        measures["bridge_strength"] = sum_by_node(ends[between], strengths[between], n)
        measures["bridge_expected_influence"] = influence(between)
    return first | {name: values[order] for name, values in measures.items()}


def name_communities(network: Network, communities: Mapping[str, Any] | Literal["auto"]) -> list[str | None]:
    """Return the name of the community of each variable of a network: found, or given as {column: community}.

    Communities that are found are "1", "2", ..., the largest first; a column without edges has none.
    """
    labels = network.labels[: network.n_variables]
    if isinstance(communities, Mapping):
        problems, unknown = [], sorted(map(str, set(communities) - set(labels)))
        lacking = [name for name in labels if name not in communities]
        if lacking:
            problems.append(f"communities lacks {list_first(lacking, form=repr)}: every column needs one, or None.")
        if unknown:
            problems.append(f"communities has {list_first(unknown, form=repr)}, which the field does not have.")
        if problems:
            raise DataError(" ".join(problems))
        return [name_community(communities[name]) for name in labels]
    if communities != "auto":
        raise DataError(f"communities must be {{column: community}}, 'auto' or None; got {communities!r}.")
    community = communities_of_nodes(network)
    return [str(community[node] + 1) if node in community else None for node in range(len(labels))]


def communities_of_nodes(network: Network) -> dict[int, int]:
    """Return {node: its community} of the nodes that have edges that count, by `find_communities`."""
    edges = counted_edges(network)[:MAX_EDGES]
    nodes, places = np.unique(network.ends[edges], return_inverse=True)
    label = find_communities(len(nodes), places.reshape(-1, 2), network.strengths[edges])
    return dict(zip(nodes.tolist(), label.tolist(), strict=True))


def _sum_paths(ends: Array, strengths: Array, n: int, n_jobs: int | None) -> dict[str, Array]:
    """Return closeness and betweenness, (columns,) each; nothing, with a warning, where too many are connected."""
    ends, strengths = ends[strengths > 0.0], strengths[strengths > 0.0]
    order = np.lexsort((-strengths, *np.sort(ends, axis=1).T))
    sorted_ends = np.sort(ends, axis=1)[order]
    first = np.ones(len(ends), dtype=bool)  # of parallel edges the shortest
    first[1:] = (sorted_ends[1:] != sorted_ends[:-1]).any(axis=1)
    (a, b), lengths = sorted_ends[first].T, 1.0 / strengths[order][first]
    places = np.concatenate([[a, b], [b, a]], axis=1).astype(np.int32)  # as older versions of SciPy want them
    graph = sp.csr_array((np.tile(lengths, 2), tuple(places)), shape=(n, n))
    _, component = connected_components(graph, directed=False)
    sizes = np.bincount(component, minlength=1)
    if sizes.max() > MOST_NODES:
        warnings.warn(
            f"More than {MOST_NODES:,} columns are connected: closeness and betweenness would take long and are left "
            "out.",
            UserWarning,
            stacklevel=4,
        )
        return {}
    total, sources = np.zeros((2, n)), np.flatnonzero((sizes > 1)[component])
    with Threads(n_jobs) as engine:
        parts = np.array_split(sources, min(MOST_PARTS, len(sources) // SOURCES_AT_ONCE + 1))
        for part in engine.stream(lambda some: sum_over_paths(graph, some), parts):
            total += part
    reachable = sizes[component] - 1
    closeness = np.divide(reachable**2 / max(n - 1, 1), total[0], out=np.zeros(n), where=total[0] > 0)
    return {"closeness": closeness, "betweenness": total[1] / 2}  # a path is found from both of its ends


def sum_over_paths(graph: sp.csr_array, sources: np.ndarray) -> np.ndarray:
    """Return sums over the shortest paths from some sources to all nodes of an undirected graph, (2, nodes).

    The rows are, for each node: the sum of its distances to the sources that reach it; and the number of shortest paths
    that pass through it, where paths of equal length share one. ``graph`` has each edge twice, with its length.
    """
    distances = dijkstra(graph, indices=sources)
    return _count_paths(graph.indptr, graph.indices, graph.data, distances, np.argsort(distances, axis=1))


@njit(nogil=True, cache=True)
def _count_paths(offsets, neighbors, lengths, distances, orders):
    """Return the sums of `sum_over_paths`; ``orders`` has the nodes by their distances from each source."""
    n = len(offsets) - 1
    sums = np.zeros((2, n))
    for source in range(len(distances)):
        distance, order = distances[source], orders[source]
        paths, through, reached = np.zeros(n), np.zeros(n), n
        while distance[order[reached - 1]] == np.inf:
            reached -= 1
        paths[order[0]] = 1.0
        for outward in (True, False):
            for k in range(1, reached):
                node = order[k if outward else reached - k]
                for edge in range(offsets[node], offsets[node + 1]):
                    before = neighbors[edge]
                    gap = distance[before] + lengths[edge] - distance[node]
                    if distance[before] >= distance[node] or gap > TIE * distance[node]:
                        continue
                    if outward:
                        paths[node] += paths[before]
                    else:
                        through[before] += paths[before] / paths[node] * (1.0 + through[node])
        for k in range(1, reached):
            sums[0, order[k]] += distance[order[k]]
            sums[1, order[k]] += through[order[k]]
    return sums


def name_community(given: Any) -> str | None:
    """Return the name of a given community as text; None where it is empty or missing: the column is in none."""
    return None if is_missing(given) or given == "" else str(given)


def find_communities(n_nodes: int, ends: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return (nodes,) the community of each node; 0 is the largest, ties go to the one with the first node.

    This is the Louvain method of Blondel and others (2008): each node in turn joins the neighboring community that
    increases modularity most, until none does; then communities become nodes, and the procedure repeats. Nodes are
    visited in a fixed order, so the result is deterministic.

    Edges have ``ends`` (edges, 2) and positive ``weights`` (edges,); loops are ignored, parallel edges are added up.
    """
    kept = ends[:, 0] != ends[:, 1]
    graph = sp.coo_array((weights[kept], ends[kept].T), shape=(n_nodes, n_nodes)).tocsr()
    graph = graph + graph.T
    label = np.arange(n_nodes)
    while True:
        distinct, number = np.unique(_move(graph), return_inverse=True)
        if len(distinct) == graph.shape[0]:
            _, first, number, count = np.unique(label, return_index=True, return_inverse=True, return_counts=True)
            return np.argsort(np.lexsort((first, -count)))[number]
        label = number[label]
        # Communities become nodes; the weights within a community become a loop, which counts in its degree.
        member = sp.csr_array((np.ones(len(number)), (np.arange(len(number)), number)))
        graph = (member.T @ graph @ member).tocsr()


def _move(graph: sp.csr_array) -> list[int]:
    """Return the community of each node after moves that increase modularity, until none does."""
    degrees: list[float] = np.asarray(graph.sum(axis=1)).tolist()
    starts = [int(k) for k in graph.indptr]
    others: list[int] = graph.indices.tolist()
    weights: list[float] = graph.data.tolist()
    home, size = list(range(len(degrees))), list(degrees)
    double = sum(degrees)  # twice the weight of all edges
    for _ in range(MAX_ROUNDS if double else 0):
        moved = False
        for node, degree in enumerate(degrees):
            links: dict[int, float] = {}
            for k in range(starts[node], starts[node + 1]):
                if others[k] != node:
                    links[home[others[k]]] = links.get(home[others[k]], 0.0) + weights[k]
            here = best = home[node]
            size[here] -= degree
            gain = links.get(here, 0.0) - degree * size[here] / double + MIN_GAIN * double
            for group in sorted(links):
                value = links[group] - degree * size[group] / double
                if value > gain:
                    best, gain = group, value
            size[best] += degree
            home[node] = best
            moved |= best != here
        if not moved:
            break
    return home


@dataclass(frozen=True, eq=False)
class CentralityStability:
    """Correlations of the centrality of columns in parts of the rows with that in all rows."""

    shares: np.ndarray
    """(shares,): shares of the rows that were dropped, ascending."""
    values: np.ndarray
    """(indices, shares, resamples): correlations of `INDICES`; NaN for an index that is the same for all columns."""
    kind: str = "polars"

    @property
    def coefficients(self) -> dict[str, float]:
        """The correlation stability coefficient of each index.

        It is the largest share of rows that can be dropped such that the correlation is at least 0.7 with a probability
        of 95%, also for all smaller shares; 0 if it is for none, and NaN where there are no correlations. Below 0.25,
        the order of the columns by an index means little, and it should be above 0.5 (Epskamp et al., 2018).
        """
        coefficients = {}
        for name, values in zip(INDICES, self.values, strict=True):
            stable = np.mean(values >= CORRELATION, axis=1) >= PROBABILITY
            count = len(stable) if stable.all() else int(np.argmin(stable))
            share = float(self.shares[count - 1]) if count else 0.0
            coefficients[name] = math.nan if np.isnan(values).all() else share
        return coefficients

    def to_frame(self) -> Frame:
        """Return index, share of dropped rows, mean correlation, and the limits between which 95% of them are."""
        low, high = np.quantile(self.values, [0.025, 0.975], axis=2)
        columns = {
            "index": np.repeat(INDICES, len(self.shares)).tolist(),
            "dropped": np.tile(self.shares, len(INDICES)),
            "mean": self.values.mean(axis=2).ravel(),
            "low": low.ravel(),
            "high": high.ravel(),
        }
        return make_frame(columns, self.kind)


def centrality_stability(
    field: FieldEstimator,
    X: Any,
    y: Any = None,
    *,
    n: int = 100,
    shares: Sequence[float] = SHARES,
    seed: int = 0,
    sample_weight: Any = None,
    drop_incomplete: bool = False,
    progress: Progress | None = None,
) -> CentralityStability:
    """Drop shares of the rows, and compare the centrality of the columns with that from all rows (case dropping).

    The weights of the selected features are estimated again, without L1, from the remaining rows. The indices are
    strength, the sum of the strengths of the edges of a column, and expected influence, the sum of their signed
    weights; the latter has no correlations where no edge has a sign.

    Parameters
    ----------
    field : fitted `MarkovField` or `CRFClassifier`
    X : the table that the field was learned from
    y : labels, for a `CRFClassifier`
    n : number of resamples for each share
    shares : shares of the rows that are dropped, ascending
    seed : seed of the resamples
    sample_weight : (rows,) weights, if the fit had some
    drop_incomplete : whether rows with missing cells are left out instead of refused
    progress : function that is called with the number of resamples that are done and their total number

    Examples
    --------
    >>> from sparsefield import MarkovField, centrality_stability
    >>> from sparsefield.app.datasets import make_markov_field
    >>> X = make_markov_field(6, 500, weights=(-2.0, 2.0), burn_in=100, thin=5, seed=1).samples
    >>> stability = centrality_stability(MarkovField(l1=10.0).fit(X), X, n=20, shares=[0.1, 0.5])
    >>> sorted(stability.coefficients)
    ['expected_influence', 'strength']
    """
    check_is_fitted(field)
    problems, ascending = [], list(shares)
    if not isinstance(n, Integral) or n < 2:
        problems.append(f"n must be a whole number from 2, got {n!r}.")
    if not ascending or sorted(set(ascending)) != ascending or not 0.0 < ascending[0] <= ascending[-1] < 1.0:
        problems.append(f"shares must be ascending numbers between 0 and 1, got {shares!r}.")
    raise_problems(problems)
    problem, _ = compile_refit(field, X, y, sample_weight, drop_incomplete)
    estimate = refit_field(field, problem)
    weights = estimate.theta[problem.n_biases :]
    indices = centrality_indices(field.field_, weights)
    reference = indices(weights[None])[:, 0]
    correlations = []
    for k, share in enumerate(ascending):
        done = k * n
        tell = None if progress is None else lambda more, _, done=done: progress(done + more, len(ascending) * n)
        values = indices(draw_weights(problem, estimate, n, field.n_jobs, seed=seed, dropped=share, progress=tell))
        correlations.append([correlate(*pair) for pair in zip(values, reference, strict=True)])
    values = np.array(correlations).swapaxes(0, 1)
    return CentralityStability(np.array(ascending, dtype=float), values, field.kind_)


def centrality_indices(field: Field, weights: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function from weights (draws, features) to `INDICES`, (indices, draws, columns), as in `centrality`.

    A norm has the sign that the edge has with ``weights``, or the other one if weights point away from these.
    """
    pairs, higher = np.split(weights, [len(field.weights)])
    network = Network(replace(field, weights=pairs, conjunction_weights=higher))
    edges = counted_edges(network)
    places = np.repeat(edges, 2), network.ends[edges].ravel()
    ends = sp.csr_array((np.ones(len(places[0])), places), shape=(len(network.ends), network.n_variables))
    return lambda drawn: np.stack([part @ ends for part in network.weigh(drawn)])


def correlate(values: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return the correlation of each row of values (draws, columns) with a reference (columns,).

    It is NaN where the reference is constant, since nothing could correlate with it, and 0 for constant rows.
    """
    a, b = values - values.mean(axis=1, keepdims=True), reference - reference.mean()
    if np.linalg.norm(b) <= CONSTANT * np.linalg.norm(reference):
        return np.full(len(values), np.nan)
    norms = np.linalg.norm(a, axis=1)
    varying = norms > CONSTANT * np.linalg.norm(values, axis=1)
    return np.divide(a @ b, norms * np.linalg.norm(b), out=np.zeros(len(values)), where=varying)
