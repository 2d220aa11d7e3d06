"""Communities of nodes by greedy modularity, level by level (the Louvain method).

Following Blondel and others (2008), each node in turn joins the neighboring community that increases modularity most,
until none does; then communities become nodes, and the procedure repeats. Nodes are visited in a fixed order, so the
result is deterministic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsefield.data.cell_values import is_missing

MIN_GAIN = 1e-12
"""Smallest gain of modularity, as a share of the total weight: smaller ones are rounding and could cycle."""

MAX_ROUNDS = 100


def name_community(given: Any) -> str | None:
    """Return the name of a given community as text; None where it is empty or missing: the column is in none."""
    return None if is_missing(given) or given == "" else str(given)


def find_communities(n_nodes: int, ends: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return (nodes,) the community of each node; 0 is the largest, ties go to the one with the first node.

    Edges have ``ends`` (edges, 2) and positive ``weights`` (edges,); loops are ignored, parallel edges are added up.

    Examples
    --------
    >>> ends = np.array([[0, 1], [1, 2], [0, 2], [2, 3], [3, 4], [4, 5], [3, 5]])
    >>> find_communities(6, ends, np.ones(7)).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    kept = ends[:, 0] != ends[:, 1]
    graph = sp.coo_array((weights[kept], ends[kept].T), shape=(n_nodes, n_nodes)).tocsr()
    graph = graph + graph.T
    label = np.arange(n_nodes)
    while True:
        found, number = np.unique(_move(graph), return_inverse=True)
        if len(found) == graph.shape[0]:
            return _by_size(label)
        label = number[label]
        # Communities become nodes; the weights within a community become a loop, which counts in its degree.
        member = sp.csr_array((np.ones(len(number)), (np.arange(len(number)), number)))
        graph = (member.T @ graph @ member).tocsr()


def modularity(labels: np.ndarray, ends: np.ndarray, weights: np.ndarray) -> float:
    """Return the share of the weight within communities, minus its expectation for nodes of these degrees."""
    kept = ends[:, 0] != ends[:, 1]
    ends, weights = ends[kept], weights[kept]
    total = weights.sum()
    if total == 0:
        return 0.0
    inside = weights[labels[ends[:, 0]] == labels[ends[:, 1]]].sum() / total
    degree = np.bincount(labels[ends].ravel(), np.repeat(weights, 2))
    return float(inside - np.square(degree / (2 * total)).sum())


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


def _by_size(label: np.ndarray) -> np.ndarray:
    _, first, number, count = np.unique(label, return_index=True, return_inverse=True, return_counts=True)
    return np.argsort(np.lexsort((first, -count)))[number]
