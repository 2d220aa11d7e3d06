"""Sums over shortest paths of a weighted graph: Dijkstra's distances, and Brandes' betweenness.

A graph is undirected and in compressed rows, with each edge in both of them. Distances are positive.
"""

import numpy as np
from numba import njit

TIE = 1e-12
"""Two paths are equally short if their lengths differ by less than this share of them: sums are rounded."""


@njit(nogil=True, cache=True, inline="always")
def _move_up(heap, place, distance, k):
    """Move the node at place k of the heap up to where it belongs."""
    node = heap[k]
    while k > 0 and distance[heap[(k - 1) // 2]] > distance[node]:
        heap[k] = heap[(k - 1) // 2]
        place[heap[k]] = k
        k = (k - 1) // 2
    heap[k] = node
    place[node] = k


@njit(nogil=True, cache=True, inline="always")
def _pop(heap, place, distance, size):
    """Return the nearest node of a heap of some size, and remove it."""
    nearest, node, k = heap[0], heap[size - 1], 0
    while 2 * k + 1 < size - 1:
        child = 2 * k + 1
        if child + 1 < size - 1 and distance[heap[child + 1]] < distance[heap[child]]:
            child += 1
        if distance[heap[child]] >= distance[node]:
            break
        heap[k] = heap[child]
        place[heap[k]] = k
        k = child
    heap[k] = node
    place[node] = k
    return nearest


@njit(nogil=True, cache=True)
def sum_over_paths(offsets, neighbors, lengths, sources):
    """Return sums over the shortest paths from some sources to all nodes, (2, nodes).

    The rows are, for each node: the sum of its distances to the sources that reach it; and the number of shortest paths
    that pass through it, where paths of equal length share one.
    """
    n = len(offsets) - 1
    sums = np.zeros((2, n))
    distance, paths, through = np.full(n, np.inf), np.zeros(n), np.zeros(n)
    heap, place, order = np.empty(n, np.int64), np.full(n, -1, np.int64), np.empty(n, np.int64)
    for source in sources:
        distance[source], paths[source] = 0.0, 1.0
        heap[0], place[source], size, reached = source, 0, 1, 0
        while size > 0:
            node = _pop(heap, place, distance, size)
            size -= 1
            place[node] = -2  # done
            order[reached] = node
            reached += 1
            for k in range(offsets[node], offsets[node + 1]):
                other, length = neighbors[k], distance[node] + lengths[k]
                if place[other] == -2:
                    continue
                if length < distance[other] * (1.0 - TIE):
                    distance[other], paths[other] = length, paths[node]
                    if place[other] == -1:
                        heap[size], place[other] = other, size
                        size += 1
                    _move_up(heap, place, distance, place[other])
                elif length <= distance[other] * (1.0 + TIE):
                    paths[other] += paths[node]
        for last in range(reached - 1, 0, -1):
            node = order[last]
            sums[0, node] += distance[node]
            sums[1, node] += through[node]
            for k in range(offsets[node], offsets[node + 1]):
                before = neighbors[k]
                gap = distance[before] + lengths[k] - distance[node]
                if distance[before] < distance[node] and gap <= TIE * distance[node]:
                    share = paths[before] / paths[node]
                    through[before] += share * (1.0 + through[node])
        for last in range(reached):
            node = order[last]
            distance[node], paths[node], through[node], place[node] = np.inf, 0.0, 0.0, -1
    return sums
