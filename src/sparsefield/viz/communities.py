"""This module finds communities of nodes by greedy modularity, level by level (the Louvain method).

Following Blondel and others (2008), each node in turn joins the neighboring community that increases modularity most,
until none does; then communities become nodes, and the procedure repeats. Nodes are visited in a fixed order, so the
result is deterministic.
"""

from __future__ import annotations

import numpy as np

__all__ = ["find_communities", "modularity"]

MIN_GAIN = 1e-12
"""Smallest gain of modularity, as a share of the total weight: smaller ones are rounding and could cycle."""

MAX_ROUNDS = 100


def find_communities(n_nodes: int, ends: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return (nodes,) the community of each node; 0 is the largest, ties go to the one with the first node.

    Parameters
    ----------
    n_nodes : int
    ends : (edges, 2)
        Loops are ignored; parallel edges are added up.
    weights : (edges,)
        Positive.

    Examples
    --------
    >>> ends = np.array([[0, 1], [1, 2], [0, 2], [2, 3], [3, 4], [4, 5], [3, 5]])
    >>> find_communities(6, ends, np.ones(7)).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    label = np.arange(n_nodes)
    neighbors: list[dict[int, float]] = [{} for _ in range(n_nodes)]
    for (a, b), weight in zip(ends.tolist(), weights.tolist(), strict=True):
        if a != b:
            neighbors[a][b] = neighbors[a].get(b, 0.0) + weight
            neighbors[b][a] = neighbors[b].get(a, 0.0) + weight
    degrees = [sum(own.values()) for own in neighbors]
    while True:
        moved = _move(neighbors, degrees)
        found, number = np.unique(moved, return_inverse=True)
        if len(found) == len(neighbors):
            return _by_size(label)
        label = number[label]
        neighbors, degrees = _merge(neighbors, degrees, number.tolist(), len(found))


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


def _move(neighbors: list[dict[int, float]], degrees: list[float]) -> list[int]:
    """Return the community of each node after moves that increase modularity, until none does."""
    home = list(range(len(neighbors)))
    size = list(degrees)
    double = sum(degrees)  # twice the weight of all edges
    for _ in range(MAX_ROUNDS):
        moved = False
        for node, own in enumerate(neighbors):
            links: dict[int, float] = {}
            for other, weight in own.items():
                if other != node:
                    links[home[other]] = links.get(home[other], 0.0) + weight
            here = home[node]
            size[here] -= degrees[node]
            stay = links.get(here, 0.0) - degrees[node] * size[here] / double if double else 0.0
            best, gain = here, stay + MIN_GAIN * double
            for group in sorted(links):
                value = links[group] - degrees[node] * size[group] / double
                if value > gain:
                    best, gain = group, value
            size[best] += degrees[node]
            home[node] = best
            moved |= best != here
        if not moved:
            break
    return home


def _merge(
    neighbors: list[dict[int, float]], degrees: list[float], number: list[int], count: int
) -> tuple[list[dict[int, float]], list[float]]:
    """Return the graph of communities; weights within a community remain in its degree."""
    merged: list[dict[int, float]] = [{} for _ in range(count)]
    total = [0.0] * count
    for node, own in enumerate(neighbors):
        group = number[node]
        total[group] += degrees[node]
        for other, weight in own.items():
            if number[other] != group:
                merged[group][number[other]] = merged[group].get(number[other], 0.0) + weight
    return merged, total


def _by_size(label: np.ndarray) -> np.ndarray:
    found, first, number, count = np.unique(label, return_index=True, return_inverse=True, return_counts=True)
    rank = np.empty(len(found), dtype=np.int64)
    rank[np.lexsort((first, -count))] = np.arange(len(found))
    return rank[number]
