"""Layout of a network of some hundred nodes: deterministic, and with room for the names of few.

Each connected component is laid out separately: the start is a spectral layout, then forces act, in which strong edges
attract and all nodes repel each other. Components are then packed side by side, the largest first.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

STEPS, POWER_STEPS, SMALL = 120, 200, 8
BETWEEN_GROUPS = 0.25
"""Factor of the attraction along edges between two groups."""

GROUP_PULL, MAX_GROUP_PULL = 0.02, 2.0
"""Attraction of a node to the center of its group, times the root of the number of nodes; and its upper bound."""

ASPECT = 1.25
"""Ratio of width to height that a component is stretched by."""

EVENLY = 0.4
"""Share of the ranks of coordinates in the positions of a component."""

MIN_GROUPED = 60
"""Nodes beyond which the nodes of a group are kept near each other; few nodes show their groups by color alone."""

FEW_PULL, MANY_PULL = (1.0, 0.4, 1.6), (2.0, 0.03, 4.0)
"""Attraction of an edge for up to `MIN_GROUPED` nodes and for more: power of strength / mean, and its bounds."""

GAP = np.array([8.0, 6.0])
"""Pixels between the boxes of two nodes."""

MAX_SEPARATED, ROUNDS, MAX_STRETCH = 150, 8, 1.35
"""Nodes whose names get room, times that they are moved apart and fitted into the frame, and the largest ratio of the
two scales that fit a layout into its frame."""


def layout_nodes(
    n_nodes: int, ends: np.ndarray, weights: np.ndarray, groups: np.ndarray | None = None, *, seed: int = 0
) -> np.ndarray:
    """Return (nodes, 2) positions, with about one unit between adjacent nodes.

    Edges have ``ends`` (edges, 2) and positive ``weights`` (edges,): strong edges become short. ``groups`` (nodes,) are
    numbers, such as those of communities; the nodes of a group are kept near each other. Another ``seed`` gives another
    layout; the same arguments always give the same one.

    Examples
    --------
    >>> layout_nodes(3, np.array([[0, 1], [1, 2]]), np.ones(2)).shape
    (3, 2)
    """
    if n_nodes == 0:
        return np.empty((0, 2))
    no_loop = ends[:, 0] != ends[:, 1]
    ends = ends[no_loop]
    groups = np.zeros(n_nodes, dtype=np.int64) if groups is None else groups
    within = groups[ends[:, 0]] == groups[ends[:, 1]]
    weights = weights[no_loop] * np.where(within, 1.0, BETWEEN_GROUPS)
    # Few nodes need no strong contrast: clusters that a weak edge joins would be small and far from each other.
    power, least, most = FEW_PULL if n_nodes <= MIN_GROUPED else MANY_PULL
    pull = np.clip((weights / weights.mean()) ** power, least, most) if len(ends) else weights
    graph = sp.coo_array((pull, ends.T), shape=(n_nodes, n_nodes))
    count, component = connected_components(graph, directed=False)
    members = _split(component, count)
    local = np.empty(n_nodes, dtype=np.int64)
    for own in members:
        local[own] = np.arange(len(own))
    laid_out = [
        _layout_component(local[ends[e]], pull[e], np.unique(groups[own], return_inverse=True)[1], seed)
        for own, e in zip(members, _split(component[ends[:, 0]], count), strict=True)
    ]
    order = sorted(range(count), key=lambda k: (-len(members[k]), members[k][0]))
    return _pack_components(n_nodes, [members[k] for k in order], [laid_out[k] for k in order])


def _split(component: np.ndarray, count: int) -> list[np.ndarray]:
    """Return the positions of each component in ascending order."""
    sizes = np.bincount(component, minlength=count)
    return np.split(np.argsort(component, kind="stable"), np.cumsum(sizes)[:-1])


def _layout_component(ends: np.ndarray, pull: np.ndarray, groups: np.ndarray, seed: int) -> np.ndarray:
    """Return the layout of one connected component, centered."""
    n_nodes = len(groups)
    if n_nodes == 1:
        return np.zeros((1, 2))
    if n_nodes == 2:
        return np.array([[-0.5, 0.0], [0.5, 0.0]])
    positions = _apply_forces(_spectral_layout(n_nodes, ends, pull, seed), ends, pull, groups)
    positions = _rotate_to_principal_axis(positions) * (ASPECT, 1.0)
    if n_nodes <= SMALL:
        return positions
    # A long branch would leave no room for the others: ranks bring it nearer, and spread what is crowded.
    ranks = np.argsort(np.argsort(positions, axis=0, kind="stable"), axis=0, kind="stable") / (n_nodes - 1) - 0.5
    return (1.0 - EVENLY) * positions + EVENLY * ranks * np.ptp(positions, axis=0)


def _spectral_layout(n_nodes: int, ends: np.ndarray, pull: np.ndarray, seed: int) -> np.ndarray:
    """Return a start from two leading eigenvectors of the random walk, by power iteration.

    Sums are those of NumPy, whose bits do not depend on the number of threads.
    """
    if n_nodes <= SMALL:  # from a circle, the forces alone find a good layout
        order = np.random.default_rng(seed).permutation(n_nodes) if seed else np.arange(n_nodes)
        angle = 2 * np.pi * order / n_nodes
        return np.sqrt(n_nodes) / 2 * np.column_stack([np.cos(angle), np.sin(angle)])
    graph = sp.coo_array((pull, ends.T), shape=(n_nodes, n_nodes)).tocsr()
    graph = graph + graph.T
    degree = np.bincount(ends.ravel(), np.repeat(pull, 2), n_nodes)
    share = degree / degree.sum()
    rng = np.random.default_rng(seed)
    basis: list[np.ndarray] = [np.ones(n_nodes)]
    for _ in range(2):
        vector = rng.normal(size=n_nodes)
        for _ in range(min(POWER_STEPS, 5 * n_nodes)):
            for known in basis:
                vector = vector - known * ((share * known * vector).sum() / (share * known * known).sum())
            vector = 0.5 * (vector + (graph @ vector) / degree)
            vector /= np.sqrt((share * vector * vector).sum()) + 1e-300
        basis.append(vector)
    # Ranks spread nodes with nearly equal values; a little noise separates nodes with equal ones.
    positions = np.column_stack([np.argsort(np.argsort(vector, kind="stable"), kind="stable") for vector in basis[1:]])
    positions = positions / n_nodes - 0.5
    return np.sqrt(n_nodes) * (positions + rng.normal(scale=0.01, size=positions.shape))


def _apply_forces(positions: np.ndarray, ends: np.ndarray, pull: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return positions after forces acted, in steps of decreasing size."""
    n_nodes = len(positions)
    degree = np.bincount(ends.ravel(), minlength=n_nodes)
    sizes = np.bincount(groups)[:, None]
    group_pull = min(GROUP_PULL * np.sqrt(n_nodes), MAX_GROUP_PULL)
    # Each edge of a hub counts less, or its neighbors would collapse into it.
    ease = pull / np.sqrt(np.minimum(degree[ends[:, 0]], degree[ends[:, 1]]))
    steps = min(STEPS, 20 + 4 * n_nodes)
    for step in range(steps):
        force = _repulsion(positions)
        along = positions[ends[:, 1]] - positions[ends[:, 0]]
        length = np.sqrt((along * along).sum(axis=1))
        along *= (ease * length)[:, None]
        for axis in (0, 1):
            force[:, axis] += np.bincount(ends[:, 0], along[:, axis], n_nodes)
            force[:, axis] -= np.bincount(ends[:, 1], along[:, axis], n_nodes)
        if len(sizes) > 1:
            sums = [np.bincount(groups, positions[:, axis]) for axis in (0, 1)]
            force -= group_pull * (positions - (np.column_stack(sums) / sizes)[groups])
        force -= 0.02 * positions  # toward the center, so that branches do not drift away
        size = np.sqrt((force * force).sum(axis=1))
        most = 0.12 * np.sqrt(n_nodes) * (1.0 - step / steps) ** 1.5 + 0.01
        positions = positions + force * (np.minimum(size, most) / np.maximum(size, 1e-12))[:, None]
    return positions


def _repulsion(positions: np.ndarray) -> np.ndarray:
    """Return (nodes, 2) repulsion of all nodes on each, which decreases with the distance."""
    dx, dy = (positions[:, axis, None] - positions[:, axis] for axis in (0, 1))
    share = 1.0 / (dx * dx + dy * dy + 0.01)
    return np.column_stack([(dx * share).sum(axis=1), (dy * share).sum(axis=1)])


def _rotate_to_principal_axis(positions: np.ndarray) -> np.ndarray:
    """Return centered positions, rotated so that the longest extent is horizontal."""
    positions = positions - positions.mean(axis=0)
    xx, yy, xy = (positions[:, a] * positions[:, b] for a, b in ((0, 0), (1, 1), (0, 1)))
    angle = 0.5 * np.arctan2(2 * xy.sum(), xx.sum() - yy.sum())
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return np.column_stack([(positions * turn[:, axis]).sum(axis=1) for axis in (0, 1)])


def _pack_components(n_nodes: int, members: list[np.ndarray], components: list[np.ndarray]) -> np.ndarray:
    """Return components in rows below each other, in a frame that is somewhat wider than high."""
    margin = np.array([1.6, 1.3])
    boxes = [part.max(axis=0) - part.min(axis=0) + margin for part in components]
    area = sum(float(box[0] * box[1]) for box in boxes)
    width = max(1.45 * np.sqrt(area), max(float(box[0]) for box in boxes))
    positions = np.empty((n_nodes, 2))
    x = y = height = 0.0
    for own, part, box in zip(members, components, boxes, strict=True):
        if x > 0 and x + box[0] > width:
            x, y, height = 0.0, y + height, 0.0
        positions[own] = part - part.min(axis=0) + margin / 2 + (x, y)
        x, height = x + float(box[0]), max(height, float(box[1]))
    return positions - positions.mean(axis=0)


def arrange(positions: np.ndarray, boxes: np.ndarray, frame: tuple[float, float, float, float]) -> np.ndarray:
    """Return positions (nodes, 2) in a frame (left, top, right, bottom) at which the boxes of nodes have room.

    The box of a node, its circle and its name, reaches ``boxes`` (nodes, 4) to the left, up, right and down.
    """
    places = fit_into_frame(positions, boxes, frame)
    if len(positions) <= MAX_SEPARATED:
        for _ in range(ROUNDS):  # to fit into the frame brings boxes together again, but less each time
            moved = _separate(places, boxes, steps=max(6000 // max(len(places), 1), 40))
            if np.array_equal(moved, places):
                break
            places = fit_into_frame(moved, boxes, frame)
    return places


def fit_into_frame(
    positions: np.ndarray, boxes: np.ndarray, frame: tuple[float, float, float, float], stretch: float = MAX_STRETCH
) -> np.ndarray:
    """Return positions that fill the frame; ``stretch`` bounds the ratio of the scales of the two directions."""
    left, top, right, bottom = frame
    margins = boxes.max(axis=0, initial=0.0)
    low, high = positions.min(axis=0), positions.max(axis=0)
    room = np.array([right - left - margins[0] - margins[2], bottom - top - margins[1] - margins[3]])
    scales = np.where(high > low, np.maximum(room, 1.0) / np.maximum(high - low, 1e-9), np.inf)
    scales = np.minimum(scales, stretch * scales.min())
    middle = np.array([left + right + margins[0] - margins[2], top + bottom + margins[1] - margins[3]]) / 2
    return (positions - (low + high) / 2) * np.where(np.isfinite(scales), scales, 1.0) + middle


def _separate(positions: np.ndarray, boxes: np.ndarray, steps: int) -> np.ndarray:
    """Return positions at which boxes do not overlap: two that do are moved apart along the line of their centers."""
    positions = positions.copy()
    shift = (boxes[:, 2:] - boxes[:, :2]) / 2
    half = (boxes[:, 2:] + boxes[:, :2]) / 2 + GAP / 2
    wide, tall = (half[:, None, k] + half[None, :, k] for k in (0, 1))
    # Two boxes at one position are separated by their numbers, in different directions.
    number = np.arange(len(positions))
    sign = np.sign(number[:, None] - number[None])
    angle = 2.4 * (number[:, None] + number[None])
    for _ in range(steps):
        centers = positions + shift
        dx, dy = (centers[:, None, k] - centers[None, :, k] for k in (0, 1))
        same = (np.abs(dx) < 1e-6) & (np.abs(dy) < 1e-6)
        dx, dy = np.where(same, 1e-3 * sign * np.cos(angle), dx), np.where(same, 1e-3 * sign * np.sin(angle), dy)
        reach = np.maximum(np.abs(dx) / wide, np.abs(dy) / tall)
        np.fill_diagonal(reach, 1.0)
        if (reach > 1.0 - 1e-6).all():
            break
        step = 0.25 * np.maximum(1.0 / np.maximum(reach, 1e-9) - 1.0, 0.0)
        positions += np.column_stack([(dx * step).sum(axis=1), (dy * step).sum(axis=1)])
    return positions
