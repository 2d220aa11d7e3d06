"""Look of a network: groups of columns and their colors, positions of some hundred nodes, and room for names.

Blue means positive, orange negative, and gray that there is no sign. Blue and orange are those of Okabe and Ito: they
differ for every kind of color vision, and in gray. The colors of groups follow the muted scheme of Paul Tol. The style
sheet ``static/page.css`` has the same colors, and those of dark pages.

Distances on the page follow shortest paths, on which strong edges are short (Kamada and Kawai 1989), by majorization
(Gansner, Koren and North 2005) from classical scaling, the same each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse.csgraph import shortest_path

from sparsefield.analysis.centrality import communities_of_nodes, name_community
from sparsefield.analysis.network import Network, counted_edges, sum_by_node

INK, GREY, PALE, WHITE = "#1f2430", "#5b6472", "#e4e7ec", "#ffffff"
BLUE, ORANGE, NEUTRAL = "#0072b2", "#d55e00", "#868e99"
SIGN_COLORS = {1: BLUE, -1: ORANGE, 0: NEUTRAL}
"""Colors by the sign of an edge: 0 is one of both signs, or of states that have no order."""

GROUP_COLORS = (
    "#44aa99", "#ddcc77", "#aa4499", "#88ccee", "#999933", "#d9788a", "#1f7d3d", "#a23b6f", "#7568b8",
)  # fmt: skip
"""Colors of groups of nodes, the largest group first; none is close to the colors of edges. Further groups are gray."""

DARK_COLORS = frozenset({"#aa4499", "#1f7d3d", "#a23b6f", "#7568b8"})
"""Those on which white text can be read better than dark text."""

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


@dataclass(frozen=True)
class Groups:
    """The groups of the columns of a network, the largest first; columns in none have a number beyond all groups."""

    network: Network
    names: tuple[str, ...]
    number: Mapping[int, int]
    """{node: number of its group}"""
    found: bool
    """Whether they are communities that were found in the network."""

    def of(self, node: int) -> int:
        """Return the group of a node."""
        return self.number.get(node, len(self.names))

    @staticmethod
    def color(group: int) -> str:
        """Return the color of a group by its number; gray beyond the known ones."""
        return GROUP_COLORS[group] if 0 <= group < len(GROUP_COLORS) else NEUTRAL

    @cached_property
    def titles(self) -> list[str]:
        """Names as a legend shows them: "community 1" where the name is a number."""
        return [f"community {name}" if name.isdecimal() else name for name in self.names]

    @cached_property
    def members(self) -> list[list[int]]:
        """Nodes of each group, those with the strongest edges in total first."""
        edges = counted_edges(self.network)
        total = sum_by_node(self.network.ends[edges], self.network.strengths[edges], len(self.network.labels))
        members: list[list[int]] = [[] for _ in self.names]
        for node in sorted(self.number, key=lambda node: (-total[node], node)):
            if self.number[node] < len(members):
                members[self.number[node]].append(node)
        return members


def find_groups(network: Network, communities: Mapping[str, Any] | None = None) -> Groups:
    """Return communities {column: name} of the user, else the tables of linked data, else communities that are found.

    A community that is found has at least two columns. Names that are numbers are sorted, as found ones are.
    """
    if communities is not None:
        named = {column: name_community(community) for column, community in communities.items()}
        names = list(dict.fromkeys(name for name in named.values() if name is not None))
        names = sorted(names, key=int) if names and all(name.isdecimal() for name in names) else names
        group = {node: named.get(label) for node, label in enumerate(network.labels)}
        number = {node: names.index(name) for node, name in group.items() if name is not None}
        return Groups(network, tuple(names), number, found=False)
    if network.linked:
        joined = np.unique(network.ends).tolist() or range(network.n_variables)
        tables = list(dict.fromkeys(network.table_of(node) for node in joined))
        number = {node: tables.index(network.table_of(node)) for node in joined}
        return Groups(network, tuple(tables), number, found=False)
    number = communities_of_nodes(network)
    sizes = np.bincount(list(number.values()), minlength=1)
    return Groups(network, tuple(str(k + 1) for k in range(int((sizes > 1).sum()))), number, found=True)


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
