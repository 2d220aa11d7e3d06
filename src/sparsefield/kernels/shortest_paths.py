"""Sums over shortest paths of a weighted graph: distances, and Brandes' betweenness."""

import numpy as np
import scipy.sparse as sp
from numba import njit
from scipy.sparse.csgraph import dijkstra

TIE = 1e-12
"""Two paths are equally short if their lengths differ by less than this share of them: sums are rounded."""


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
