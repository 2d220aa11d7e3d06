"""Stress majorization of a network of some hundred nodes, the same each time, and room for names.

Distances on the page follow shortest paths, on which strong edges are short (Kamada and Kawai 1989), by majorization
(Gansner, Koren and North 2005) from classical scaling.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import shortest_path

STEPS = 100
BETWEEN_GROUPS, CONTRAST = 2.0, 0.4
"""Factor of the length of an edge between two groups, and power of the mean strength / strength that is its length."""

ASPECT, EVENLY = 1.25, 0.4
"""Ratio of width to height that a layout is stretched by, and share of the ranks of coordinates in its positions."""

MIN_GROUPED = 60
"""Nodes beyond which the nodes of a group are kept near each other; few nodes show their groups by color alone."""

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
    if n_nodes < 2:
        return np.zeros((n_nodes, 2))
    groups = np.zeros(n_nodes, dtype=np.int64) if groups is None else groups
    lengths = np.clip((weights.mean() / weights) ** CONTRAST, 0.5, 2.0) if len(weights) else weights
    lengths = lengths * np.where(groups[ends[:, 0]] == groups[ends[:, 1]], 1.0, BETWEEN_GROUPS)
    # Of several edges between two nodes the shortest counts.
    graph = np.full((n_nodes, n_nodes), np.inf)
    np.minimum.at(graph, (ends[:, 0], ends[:, 1]), lengths)
    graph = np.minimum(graph, graph.T)
    distance = shortest_path(np.where(np.isfinite(graph), graph, 0.0), directed=False)
    known = np.isfinite(distance)
    distance[~known] = 0.6 * distance[known].max() + 1.0  # other components are beside this one
    np.fill_diagonal(distance, 0.0)
    positions = _majorize(_scale(distance), distance)
    positions = (positions - positions.mean(axis=0)) * (ASPECT, 1.0)
    # A long branch would leave no room for the others: ranks bring it nearer, and spread what is crowded.
    ranks = np.argsort(np.argsort(positions, axis=0, kind="stable"), axis=0, kind="stable") / (n_nodes - 1) - 0.5
    return (1.0 - EVENLY) * positions + EVENLY * ranks * np.ptp(positions, axis=0)


def _scale(distance: np.ndarray) -> np.ndarray:
    """Return (nodes, 2) positions by classical scaling, the longest extent first, with noise that separates equals."""
    center = np.eye(len(distance)) - 1.0 / len(distance)
    values, axes = np.linalg.eigh(-0.5 * center @ distance**2 @ center)
    noise = np.random.default_rng(0).normal(scale=0.01, size=(len(distance), 2))
    return axes[:, :-3:-1] * np.sqrt(np.maximum(values[:-3:-1], 0.0)) + noise


def _majorize(positions: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Return positions whose squared relative errors of distances are small, after steps that each lower their sum."""
    off = ~np.eye(len(distance), dtype=bool)
    pull = np.divide(1.0, distance**2, where=off, out=np.zeros_like(distance))
    inverse = np.linalg.pinv(np.diag(pull.sum(axis=1)) - pull)
    for _ in range(STEPS):
        gaps = np.linalg.norm(positions[:, None] - positions, axis=2)
        ratio = np.divide(pull * distance, gaps, where=gaps > 1e-9, out=np.zeros_like(gaps))
        positions = inverse @ (np.diag(ratio.sum(axis=1)) - ratio) @ positions
    return positions


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
