"""Force-directed layout of a network of some hundred nodes, the same each time, with room for names.

Each connected component is laid out by itself: nodes start at their distances from four nodes that are far from each
other, then strong edges attract and all nodes repel each other. Components are packed side by side, the largest first.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, shortest_path

STEPS = 120
BETWEEN_GROUPS, GROUP_PULL = 0.25, 0.2
"""Factor of the attraction along edges between two groups, and attraction of a node to the center of its group."""

ASPECT, EVENLY = 1.25, 0.4
"""Ratio of width to height that a component is stretched by, and share of the ranks of coordinates in its positions."""

MIN_GROUPED = 60
"""Nodes beyond which the nodes of a group are kept near each other; few nodes show their groups by color alone."""

FEW_PULL, MANY_PULL = (1.0, 0.4, 1.6), (2.0, 0.03, 4.0)
"""Attraction of an edge for up to `MIN_GROUPED` nodes and for more: power of strength / mean, and its bounds."""

GAP = np.array([8.0, 6.0])
"""Pixels between the boxes of two nodes."""

MAX_SEPARATED, ROUNDS, MAX_STRETCH = 150, 8, 1.35
"""Nodes whose names get room, times that they are moved apart and fitted into the frame, and the largest ratio of the
two scales that fit a layout into its frame."""


def layout_nodes(n_nodes: int, ends: np.ndarray, weights: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray:
    """Return (nodes, 2) positions, with about one unit between adjacent nodes.

    Edges have ``ends`` (edges, 2) and positive ``weights`` (edges,): strong edges become short. ``groups`` (nodes,) are
    numbers, such as those of communities; the nodes of a group are kept near each other.

    Examples
    --------
    >>> layout_nodes(3, np.array([[0, 1], [1, 2]]), np.ones(2)).shape
    (3, 2)
    """
    if n_nodes == 0:
        return np.empty((0, 2))
    no_loop = ends[:, 0] != ends[:, 1]
    ends, weights = ends[no_loop], weights[no_loop]
    if groups is None:
        groups = np.zeros(n_nodes, dtype=np.int64)
    weights = weights * np.where(groups[ends[:, 0]] == groups[ends[:, 1]], 1.0, BETWEEN_GROUPS)
    # Few nodes need no strong contrast: clusters that a weak edge joins would be small and far from each other.
    power, least, most = FEW_PULL if n_nodes <= MIN_GROUPED else MANY_PULL
    pull = np.clip((weights / weights.mean()) ** power, least, most) if len(ends) else weights
    component = connected_components(sp.coo_array((pull, ends.T), shape=(n_nodes, n_nodes)), directed=False)[1]
    sizes = np.bincount(component)
    members = [np.flatnonzero(component == k) for k in np.argsort(-sizes, kind="stable")]
    inside = [component[ends[:, 0]] == component[own[0]] for own in members]
    parts = [
        _layout_component(np.searchsorted(own, ends[edges]), pull[edges], groups[own])
        for own, edges in zip(members, inside, strict=True)
    ]
    return _pack_components(members, parts)


def _layout_component(ends: np.ndarray, pull: np.ndarray, groups: np.ndarray) -> np.ndarray:
    n_nodes = len(groups)
    if n_nodes == 1:
        return np.zeros((1, 2))
    if n_nodes == 2:
        return np.array([[-0.5, 0.0], [0.5, 0.0]])
    positions = _apply_forces(_start(n_nodes, ends, pull), ends, pull, np.unique(groups, return_inverse=True)[1])
    positions = _rotate_to_principal_axis(positions) * (ASPECT, 1.0)
    # A long branch would leave no room for the others: ranks bring it nearer, and spread what is crowded.
    return (1.0 - EVENLY) * positions + EVENLY * _ranks(positions) * np.ptp(positions, axis=0)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return the ranks of each column of (nodes, columns) values, from -0.5 to 0.5."""
    return np.argsort(np.argsort(values, axis=0, kind="stable"), axis=0, kind="stable") / (len(values) - 1) - 0.5


def _start(n_nodes: int, ends: np.ndarray, pull: np.ndarray) -> np.ndarray:
    """Return positions by distances: an axis between two far ends, and one between two ends that are far from both."""
    # Older versions of scipy find shortest paths only with indices of 32 bits.
    graph = sp.coo_array((1.0 / pull, ends.T.astype(np.int32)), shape=(n_nodes, n_nodes))
    distance = shortest_path(graph.tocsr(), directed=False)
    first = int(distance[0].argmax())
    second = int(distance[first].argmax())
    third = int(np.minimum(distance[first], distance[second]).argmax())
    fourth = int(np.minimum(np.minimum(distance[first], distance[second]), distance[third]).argmax())
    axes = np.column_stack([distance[first] - distance[second], distance[third] - distance[fourth]])
    # Ranks spread nodes with nearly equal values; a little noise separates nodes with equal ones.
    return np.sqrt(n_nodes) * (_ranks(axes) + np.random.default_rng(0).normal(scale=0.01, size=axes.shape))


def _apply_forces(positions: np.ndarray, ends: np.ndarray, pull: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return positions after forces acted, in steps of decreasing size."""
    n_nodes = len(positions)
    degree = np.bincount(ends.ravel(), minlength=n_nodes)
    sizes = np.bincount(groups)[:, None]
    # Each edge of a hub counts less, or its neighbors would collapse into it.
    ease = pull / np.sqrt(np.minimum(degree[ends[:, 0]], degree[ends[:, 1]]))
    for step in range(STEPS):
        dx, dy = (axis[:, None] - axis for axis in positions.T)
        nearness = 1.0 / (dx * dx + dy * dy + 0.01)
        force = np.column_stack([(dx * nearness).sum(axis=1), (dy * nearness).sum(axis=1)])
        along = positions[ends[:, 1]] - positions[ends[:, 0]]
        along *= (ease * np.sqrt((along * along).sum(axis=1)))[:, None]
        np.add.at(force, ends[:, 0], along)
        np.subtract.at(force, ends[:, 1], along)
        if len(sizes) > 1:
            centers = np.zeros((len(sizes), 2))
            np.add.at(centers, groups, positions)
            force -= GROUP_PULL * (positions - (centers / sizes)[groups])
        force -= 0.02 * positions  # toward the center, so that branches do not drift away
        size = np.sqrt((force * force).sum(axis=1, keepdims=True))
        most = 0.12 * np.sqrt(n_nodes) * (1.0 - step / STEPS) ** 1.5 + 0.01
        positions = positions + force * (np.minimum(size, most) / np.maximum(size, 1e-12))
    return positions


def _rotate_to_principal_axis(positions: np.ndarray) -> np.ndarray:
    """Return centered positions, rotated so that the longest extent is horizontal."""
    x, y = (positions - positions.mean(axis=0)).T
    angle = 0.5 * np.arctan2(2 * (x * y).sum(), (x * x).sum() - (y * y).sum())
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.column_stack([cosine * x + sine * y, cosine * y - sine * x])


def _pack_components(members: list[np.ndarray], components: list[np.ndarray]) -> np.ndarray:
    """Return components in rows below each other, in a frame that is somewhat wider than high."""
    margin = np.array([1.6, 1.3])
    boxes = [np.ptp(part, axis=0) + margin for part in components]
    width = max(1.45 * np.sqrt(sum(box.prod() for box in boxes)), max(box[0] for box in boxes))
    positions = np.empty((sum(map(len, members)), 2))
    x = y = height = 0.0
    for own, part, box in zip(members, components, boxes, strict=True):
        if x > 0 and x + box[0] > width:
            x, y, height = 0.0, y + height, 0.0
        positions[own] = part - part.min(axis=0) + margin / 2 + (x, y)
        x, height = x + box[0], max(height, box[1])
    return positions - positions.mean(axis=0)


def arrange(positions: np.ndarray, boxes: np.ndarray, frame: tuple[float, float, float, float]) -> np.ndarray:
    """Return positions (nodes, 2) in a frame (left, top, right, bottom) at which the boxes of nodes have room.

    The box of a node, its circle and its name, reaches ``boxes`` (nodes, 4) to the left, up, right and down.
    """
    places = _fit_into_frame(positions, boxes, frame)
    if len(positions) <= MAX_SEPARATED:
        for _ in range(ROUNDS):  # to fit into the frame brings boxes together again, but less each time
            moved = _separate(places, boxes, steps=max(6000 // max(len(places), 1), 40))
            if np.array_equal(moved, places):
                break
            places = _fit_into_frame(moved, boxes, frame)
    return places


def _fit_into_frame(positions: np.ndarray, boxes: np.ndarray, frame: tuple[float, float, float, float]) -> np.ndarray:
    left, top, right, bottom = frame
    margins = boxes.max(axis=0, initial=0.0)
    low, high = positions.min(axis=0), positions.max(axis=0)
    room = np.array([right - left - margins[0] - margins[2], bottom - top - margins[1] - margins[3]])
    scales = np.where(high > low, np.maximum(room, 1.0) / np.maximum(high - low, 1e-9), np.inf)
    scales = np.minimum(scales, MAX_STRETCH * scales.min())
    middle = np.array([left + right + margins[0] - margins[2], top + bottom + margins[1] - margins[3]]) / 2
    return (positions - (low + high) / 2) * np.where(np.isfinite(scales), scales, 1.0) + middle


def _separate(positions: np.ndarray, boxes: np.ndarray, steps: int) -> np.ndarray:
    """Return positions at which boxes do not overlap: two that do are moved apart along the line of their centers."""
    shift = (boxes[:, 2:] - boxes[:, :2]) / 2
    half = (boxes[:, 2:] + boxes[:, :2] + GAP) / 2
    reach = half[:, None] + half[None]
    # Two boxes at one position are separated by their numbers, in different directions.
    number = np.arange(len(positions))
    angle = 2.4 * (number[:, None] + number)
    apart = 1e-3 * np.sign(number[:, None] - number)[..., None] * np.stack([np.cos(angle), np.sin(angle)], axis=2)
    for _ in range(steps):
        centers = positions + shift
        between = centers[:, None] - centers[None]
        between = np.where((np.abs(between) < 1e-6).all(axis=2, keepdims=True), apart, between)
        clearance = (np.abs(between) / reach).max(axis=2)
        np.fill_diagonal(clearance, 1.0)
        if (clearance > 1.0 - 1e-6).all():
            break
        step = 0.25 * np.maximum(1.0 / np.maximum(clearance, 1e-9) - 1.0, 0.0)
        positions = positions + (between * step[..., None]).sum(axis=1)
    return positions
