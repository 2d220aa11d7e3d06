"""Communities against the plain definition of modularity, and against all divisions of small networks."""

from __future__ import annotations

import numpy as np
import pytest

from sparsefield.analysis.centrality import find_communities


def modularity(labels, ends, weights) -> float:
    """Newman's: the sum over pairs of nodes in one community of A_ij - k_i k_j / 2m, over 2m."""
    n_nodes = len(labels)
    matrix = np.zeros((n_nodes, n_nodes))
    for (a, b), weight in zip(ends, weights, strict=True):
        if a != b:
            matrix[a, b] += weight
            matrix[b, a] += weight
    degree, total = matrix.sum(axis=1), matrix.sum()
    return sum(
        (matrix[i, j] - degree[i] * degree[j] / total) / total
        for i in range(n_nodes)
        for j in range(n_nodes)
        if labels[i] == labels[j]
    )


def divisions(n_nodes: int):
    """All ways to divide nodes into groups."""
    if n_nodes == 0:
        yield []
        return
    for rest in divisions(n_nodes - 1):
        for label in range(max(rest, default=-1) + 2):
            yield [*rest, label]


def random_network(seed: int, n_nodes: int, n_edges: int):
    rng = np.random.default_rng(seed)
    return rng.integers(0, n_nodes, (n_edges, 2)), rng.uniform(0.1, 2.0, n_edges)


@pytest.mark.parametrize("seed", range(8))
def test_no_division_of_a_small_network_is_much_better(seed) -> None:
    ends, weights = random_network(seed, 7, 12)
    found = modularity(find_communities(7, ends, weights), ends, weights)
    best = max(modularity(np.array(labels), ends, weights) for labels in divisions(7))
    assert best - 0.05 <= found <= best + 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_no_merge_of_two_communities_increases_modularity(seed) -> None:
    ends, weights = random_network(seed, 40, 90)
    labels = find_communities(40, ends, weights)
    found = modularity(labels, ends, weights)
    merged = max(
        modularity(np.where(labels == one, other, labels), ends, weights)
        for one in np.unique(labels)
        for other in np.unique(labels)
    )
    assert merged <= found + 1e-12


def test_planted_groups_are_found_and_numbered_by_size() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1, 2], [30, 20, 10])
    pairs = [(a, b) for a in range(60) for b in range(a) if rng.random() < (0.4 if groups[a] == groups[b] else 0.01)]
    ends = np.array(pairs)
    assert find_communities(60, ends, np.ones(len(ends))).tolist() == groups.tolist()


def test_nothing_to_divide() -> None:
    nothing = np.empty((0, 2), dtype=np.int64)
    assert find_communities(0, nothing, np.empty(0)).tolist() == []
    assert find_communities(3, nothing, np.empty(0)).tolist() == [0, 1, 2]
    assert find_communities(1, np.array([[0, 0]]), np.ones(1)).tolist() == [0]
