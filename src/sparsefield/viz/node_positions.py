"""Where the nodes of a network stand: by the network itself, the same for the same network, quickly for thousands.

Each connected part is laid out by itself: a start from the slow directions of a random walk, then forces, strong edges
pulling and all nodes pushing. Parts are then set side by side, the largest first.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

__all__ = ["place_nodes"]

STEPS = 120
WALK_STEPS = 200
SMALL = 8
EXACT_NODES = 900
"""Up to so many nodes push each other one by one; beyond, far ones push as the cells of a grid."""

CELLS = 28
BETWEEN_GROUPS = 0.25
"""Edges between groups pull less."""

GATHER, MOST_GATHERED = 0.05, 2.0
"""How strongly the middle of its group draws a node: times the root of the number of nodes, at most the second."""

WIDER = 1.25
"""Pictures are wider than high."""

SPREAD = 1.0
"""Distance at which a pull of mean strength and a push are even."""


def place_nodes(n_nodes: int, ends: np.ndarray, weights: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray:
    """(nodes, 2): places, about one unit from a node to the next.

    Parameters
    ----------
    n_nodes : int
    ends : (edges, 2)
    weights : (edges,)
        Above 0; strong edges are drawn short.
    groups : (nodes,), optional
        Numbers of groups, such as communities, that are to stand together.

    Examples
    --------
    >>> place_nodes(3, np.array([[0, 1], [1, 2]]), np.ones(2)).shape
    (3, 2)
    """
    if n_nodes == 0:
        return np.empty((0, 2))
    kept = ends[:, 0] != ends[:, 1]
    ends = ends[kept]
    groups = np.zeros(n_nodes, dtype=np.int64) if groups is None else groups
    within = groups[ends[:, 0]] == groups[ends[:, 1]]
    weights = weights[kept] * np.where(within, 1.0, BETWEEN_GROUPS)
    pull = weights / weights.mean() if len(ends) else weights
    pull = np.clip(pull * pull, 0.03, 4.0)
    graph = sp.coo_matrix((pull, (ends[:, 0], ends[:, 1])), shape=(n_nodes, n_nodes))
    count, part = connected_components(graph, directed=False)
    members = _split(np.argsort(part, kind="stable"), np.bincount(part, minlength=count))
    local = np.empty(n_nodes, dtype=np.int64)
    for own in members:
        local[own] = np.arange(len(own))
    by_part = np.argsort(part[ends[:, 0]], kind="stable") if len(ends) else np.empty(0, dtype=np.int64)
    edges = _split(by_part, np.bincount(part[ends[:, 0]], minlength=count))
    placed = [
        _place_part(local[ends[e]], pull[e], np.unique(groups[own], return_inverse=True)[1])
        for own, e in zip(members, edges, strict=True)
    ]
    order = sorted(range(count), key=lambda k: (-len(members[k]), members[k][0]))
    return _side_by_side(n_nodes, [members[k] for k in order], [placed[k] for k in order])


def _split(numbers: np.ndarray, sizes: np.ndarray) -> list[np.ndarray]:
    return np.split(numbers, np.cumsum(sizes)[:-1])


def _place_part(ends: np.ndarray, pull: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """One connected part, about its middle."""
    n_nodes = len(groups)
    if n_nodes == 1:
        return np.zeros((1, 2))
    if n_nodes == 2:
        return np.array([[-0.5 * SPREAD, 0.0], [0.5 * SPREAD, 0.0]])
    return _level(_relax(_start(n_nodes, ends, pull), ends, pull, groups)) * (WIDER, 1.0)


def _start(n_nodes: int, ends: np.ndarray, pull: np.ndarray) -> np.ndarray:
    """Two slow directions of a random walk on the graph, by power iteration; sums of NumPy's own, whose bits do not
    depend on threads."""
    if n_nodes <= SMALL:  # forces alone find their way from a circle
        angle = 2 * np.pi * np.arange(n_nodes) / n_nodes
        return np.sqrt(n_nodes) * SPREAD / 2 * np.column_stack([np.cos(angle), np.sin(angle)])
    graph = sp.coo_matrix((pull, (ends[:, 0], ends[:, 1])), shape=(n_nodes, n_nodes)).tocsr()
    graph = graph + graph.T
    degree = np.bincount(ends.ravel(), np.repeat(pull, 2), n_nodes)
    share = degree / degree.sum()
    rng = np.random.default_rng(0)
    basis: list[np.ndarray] = [np.ones(n_nodes)]
    for _ in range(2):
        vector = rng.normal(size=n_nodes)
        for _ in range(min(WALK_STEPS, 5 * n_nodes)):
            for known in basis:
                vector = vector - known * ((share * known * vector).sum() / (share * known * known).sum())
            vector = 0.5 * (vector + (graph @ vector) / degree)
            vector /= np.sqrt((share * vector * vector).sum()) + 1e-300
        basis.append(vector)
    # Ranks spread what a walk leaves in heaps; a little noise parts nodes that the walk cannot tell apart.
    places = np.column_stack([np.argsort(np.argsort(vector, kind="stable"), kind="stable") for vector in basis[1:]])
    places = places / n_nodes - 0.5
    return np.sqrt(n_nodes) * SPREAD * (places + rng.normal(scale=0.01, size=places.shape))


def _relax(places: np.ndarray, ends: np.ndarray, pull: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Let forces act, in steps that grow smaller."""
    n_nodes = len(places)
    degree = np.bincount(ends.ravel(), minlength=n_nodes)
    sizes = np.bincount(groups)[:, None]
    gather = min(GATHER * np.sqrt(n_nodes), MOST_GATHERED)
    # A hub is pulled by many: each of its edges counts less, or its neighbors would fall into it.
    ease = pull / np.sqrt(np.minimum(degree[ends[:, 0]], degree[ends[:, 1]]))
    steps = min(STEPS, 20 + 4 * n_nodes)
    for step in range(steps):
        force = _push(places)
        along = places[ends[:, 1]] - places[ends[:, 0]]
        length = np.sqrt((along * along).sum(axis=1))
        drawn = along * (ease * length / SPREAD)[:, None]
        for axis in (0, 1):
            force[:, axis] += np.bincount(ends[:, 0], drawn[:, axis], n_nodes)
            force[:, axis] -= np.bincount(ends[:, 1], drawn[:, axis], n_nodes)
        if len(sizes) > 1:
            sums = [np.bincount(groups, places[:, axis]) for axis in (0, 1)]
            force -= gather * (places - (np.column_stack(sums) / sizes)[groups])
        force -= 0.02 * places  # towards the middle, so that arms do not drift off
        size = np.sqrt((force * force).sum(axis=1))
        most = 0.12 * np.sqrt(n_nodes) * SPREAD * (1.0 - step / steps) ** 1.5 + 0.01
        places = places + force * (np.minimum(size, most) / np.maximum(size, 1e-12))[:, None]
    return places


def _push(places: np.ndarray) -> np.ndarray:
    """(nodes, 2): the push of all nodes on each, falling with the distance."""
    if len(places) <= EXACT_NODES:
        return _push_from(places, places, np.ones(len(places)))
    low, high = places.min(axis=0), places.max(axis=0)
    cell = np.minimum(((places - low) / np.maximum(high - low, 1e-9) * CELLS).astype(np.int64), CELLS - 1)
    number = cell[:, 0] * CELLS + cell[:, 1]
    mass = np.bincount(number, minlength=CELLS * CELLS).astype(float)
    full = np.flatnonzero(mass)
    centres = np.column_stack([np.bincount(number, places[:, axis], CELLS * CELLS)[full] for axis in (0, 1)])
    force = _push_from(places, centres / mass[full, None], mass[full])
    return force + _push_near(places)


def _push_from(places: np.ndarray, sources: np.ndarray, mass: np.ndarray) -> np.ndarray:
    dx = places[:, :1] - sources[:, 0]
    dy = places[:, 1:] - sources[:, 1]
    share = (SPREAD * SPREAD * mass) / (dx * dx + dy * dy + 0.01)
    return np.column_stack([(dx * share).sum(axis=1), (dy * share).sum(axis=1)])


def _push_near(places: np.ndarray) -> np.ndarray:
    """What a grid of cells leaves out: nodes that stand closer than the usual distance."""
    from scipy.spatial import KDTree

    pairs = KDTree(places).query_pairs(0.8 * SPREAD, output_type="ndarray")
    force = np.zeros_like(places)
    if len(pairs) == 0:
        return force
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    apart = places[pairs[:, 0]] - places[pairs[:, 1]]
    apart *= (SPREAD * SPREAD / ((apart * apart).sum(axis=1) + 0.01))[:, None]
    for axis in (0, 1):
        force[:, axis] += np.bincount(pairs[:, 0], apart[:, axis], len(places))
        force[:, axis] -= np.bincount(pairs[:, 1], apart[:, axis], len(places))
    return force


def _level(places: np.ndarray) -> np.ndarray:
    """Turned so that the longer side lies level, and centered."""
    places = places - places.mean(axis=0)
    xx, yy, xy = (places[:, a] * places[:, b] for a, b in ((0, 0), (1, 1), (0, 1)))
    angle = 0.5 * np.arctan2(2 * xy.sum(), xx.sum() - yy.sum())
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return np.column_stack([(places * turn[:, axis]).sum(axis=1) for axis in (0, 1)])


def _side_by_side(n_nodes: int, members: list[np.ndarray], parts: list[np.ndarray]) -> np.ndarray:
    """Parts in rows below each other, all in a frame that is somewhat wider than high."""
    margin = np.array([1.6, 1.3]) * SPREAD
    boxes = [part.max(axis=0) - part.min(axis=0) + margin for part in parts]
    area = sum(float(box[0] * box[1]) for box in boxes)
    width = max(1.45 * np.sqrt(area), max(float(box[0]) for box in boxes))
    places = np.empty((n_nodes, 2))
    x = y = height = 0.0
    for own, part, box in zip(members, parts, boxes, strict=True):
        if x > 0 and x + box[0] > width:
            x, y, height = 0.0, y + height, 0.0
        places[own] = part - part.min(axis=0) + margin / 2 + (x, y)
        x, height = x + float(box[0]), max(height, float(box[1]))
    return places - places.mean(axis=0)
