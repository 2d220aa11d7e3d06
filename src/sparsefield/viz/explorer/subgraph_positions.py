"""Where the nodes of a picture stand: the same part of a network always looks the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

__all__ = ["place"]

Array = np.ndarray

ROUNDS = 120
"""Of stress majorisation; some dozens of nodes settle well before."""

GAP_X, GAP_Y = 14.0, 16.0
"""Pixels between two labels."""


def place(
    n_nodes: int,
    edges: Sequence[tuple[int, int, float]],
    widths: Array,
    heights: float,
    box: tuple[float, float],
) -> Array:
    """Positions, (nodes, 2), at which distances are those along edges, as far as may be, and no labels overlap.

    Parameters
    ----------
    n_nodes : int
    edges : two nodes each, numbers below ``n_nodes``, and a length
    widths, heights : of the labels in pixels, one width a node
    box : width and height that the nodes are to fill; labels that need more room take it
    """
    if n_nodes < 2:
        return np.zeros((n_nodes, 2))
    distance = _distances(n_nodes, edges)
    spots = _settle(_on_circle(distance), distance)
    # Nodes that few edges hold drift far out; ranks bring them half-way back.
    spots = _into_box(0.5 * _unit(spots) + 0.5 * _unit(_ranks(spots)), box)
    return _apart(spots, np.asarray(widths) + GAP_X, heights + GAP_Y)


def _distances(n_nodes: int, edges: Sequence[tuple[int, int, float]]) -> Array:
    """Lengths along edges; nodes that no way leads to count as a little farther than all others."""
    ends = np.array([edge[:2] for edge in edges], dtype=np.int64).reshape(-1, 2)
    lengths = np.array([edge[2] for edge in edges], dtype=float)
    graph = csr_array((lengths, (ends[:, 0], ends[:, 1])), shape=(n_nodes, n_nodes))
    steps = np.asarray(shortest_path(graph, directed=False))
    far = steps[np.isfinite(steps)].max(initial=1.0) + 1.0
    return np.where(np.isfinite(steps), steps, far)


def _on_circle(distance: Array) -> Array:
    """A start: a circle, in an order that keeps what is close together, the most central node in its middle."""
    middle = int(np.argmin(distance.sum(axis=1)))
    order = np.lexsort((np.arange(len(distance)), distance[middle]))
    angle = np.empty(len(distance))
    angle[order] = np.arange(len(order)) * np.pi * (3.0 - np.sqrt(5.0))  # as seeds in a sunflower
    radius = distance[middle]
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def _settle(spots: Array, distance: Array) -> Array:
    """Stress majorisation (SMACOF), distances weighing 1 / d^2."""
    weight = np.where(distance > 0, 1.0 / np.maximum(distance, 1e-9) ** 2, 0.0)
    laplacian = np.diag(weight.sum(axis=1)) - weight
    inverse = np.linalg.pinv(laplacian)
    for _ in range(ROUNDS):
        gap = np.linalg.norm(spots[:, None] - spots[None], axis=2)
        pull = np.where(gap > 0, -weight * distance / np.maximum(gap, 1e-9), 0.0)
        np.fill_diagonal(pull, 0.0)
        np.fill_diagonal(pull, -pull.sum(axis=1))
        spots = inverse @ (pull @ spots)
    return spots


def _ranks(spots: Array) -> Array:
    return np.argsort(np.argsort(spots, axis=0, kind="stable"), axis=0, kind="stable").astype(float)


def _unit(spots: Array) -> Array:
    """Between -1 and 1 in both directions."""
    low, high = spots.min(axis=0), spots.max(axis=0)
    return (2.0 * spots - low - high) / np.maximum(high - low, 1e-9)


def _into_box(spots: Array, box: tuple[float, float]) -> Array:
    return _unit(spots) * np.array(box) / 2.0


def _apart(spots: Array, widths: Array, height: float) -> Array:
    """Push labels that overlap apart, along the direction in which less is needed."""
    spots = spots.copy()
    room = (widths[:, None] + widths[None]) / 2.0
    for _ in range(200):
        dx, dy = (spots[:, None, k] - spots[None, :, k] for k in (0, 1))
        over_x, over_y = room - np.abs(dx), height - np.abs(dy)
        clash = (over_x > 0) & (over_y > 0)
        np.fill_diagonal(clash, False)
        if not clash.any():
            break
        # Two labels at one spot part by their numbers.
        sign = np.sign(np.arange(len(spots))[:, None] - np.arange(len(spots))[None])
        down = over_y <= over_x
        spots[:, 0] += np.where(clash & ~down, np.where(dx == 0, sign, np.sign(dx)) * over_x, 0.0).sum(axis=1) * 0.3
        spots[:, 1] += np.where(clash & down, np.where(dy == 0, sign, np.sign(dy)) * over_y, 0.0).sum(axis=1) * 0.3
    return spots
