"""This module summarizes a large network by its communities: their columns, the strongest of them, and their links."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.analysis.communities import find_communities
from sparsefield.analysis.network import Network, Subgraph

MIN_COLUMNS = 150
"""Columns above which the overview shows communities."""

MAX_BUBBLES = 36
"""Communities of an overview, the largest ones; more are not legible."""

MAX_EDGES = 200_000
"""Edges that communities are found from, the strongest ones: more would take too long."""

LINES_PER_BUBBLE = 2.0
NAMES = 2
"""Columns that a community is named by."""


@dataclass(frozen=True)
class CommunityBubbles:
    """The communities of a network that an overview shows, the largest first."""

    network: Network
    members: tuple[tuple[int, ...], ...]
    """Nodes of each community, those with the strongest edges first."""
    ends: np.ndarray
    """(lines, 2): communities between which there are edges."""
    strengths: np.ndarray
    """(lines,): the sum of the strengths of these edges."""

    @property
    def left_out(self) -> int:
        """Number of columns in no community that is shown."""
        shown = sum(node < self.network.n_variables for members in self.members for node in members)
        return self.network.n_variables - shown

    def names_of(self, k: int) -> list[str]:
        """Return the names of the columns of a community with the strongest edges."""
        return [self.network.labels[node] for node in self.members[k][:NAMES]]

    def community_of(self, node: int) -> int | None:
        """Return the community of a node; None if it is not shown."""
        return next((k for k, members in enumerate(self.members) if node in members), None)

    def open(self, k: int, limit: int) -> Subgraph:
        """Return up to ``limit`` columns of a community: those that strong edges connect with its first one."""
        members = set(self.members[k])
        chosen = dict.fromkeys(self.members[k][:1])
        candidates: dict[int, float] = {}
        newest = self.members[k][0]
        while len(chosen) < limit:
            for edge in self.network.edges_of(newest):
                other = edge.other_end(newest)
                if other in members and other not in chosen:
                    candidates[other] = max(candidates.get(other, 0.0), edge.strength)
            if not candidates:
                break
            newest = min(candidates, key=lambda node: (-candidates[node], node))
            del candidates[newest]
            chosen[newest] = None
        return self.network.subgraph(chosen, left_out=len(members) - len(chosen))


def find_bubbles(network: Network) -> CommunityBubbles | None:
    """Return the communities of a network of many columns; None where it is small enough to be shown itself."""
    if network.n_variables <= MIN_COLUMNS or not len(network.strengths):
        return None
    ends, strengths = network.ends[:MAX_EDGES], network.strengths[:MAX_EDGES]
    nodes, places = np.unique(ends, return_inverse=True)
    places = places.reshape(ends.shape)
    label = find_communities(len(nodes), places, strengths)
    total = np.bincount(places.ravel(), np.repeat(strengths, 2), len(nodes))
    order = np.lexsort((nodes, -total))
    n_shown = min(int(label.max()) + 1, MAX_BUBBLES)
    members = [tuple(nodes[order[label[order] == k]].tolist()) for k in range(n_shown)]
    lines, sums = _sum_between(label[places], strengths, n_shown)
    return CommunityBubbles(network, tuple(members), lines, sums)


def _sum_between(labels: np.ndarray, strengths: np.ndarray, n_shown: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the strongest lines between communities, given the communities (edges, 2) of the ends of edges."""
    labels = np.sort(labels, axis=1)
    between = (labels[:, 0] != labels[:, 1]) & (labels[:, 1] < n_shown)
    key, place = np.unique(labels[between, 0] * n_shown + labels[between, 1], return_inverse=True)
    sums = np.bincount(place, strengths[between], len(key))
    kept = np.argsort(-sums, kind="stable")[: round(LINES_PER_BUBBLE * n_shown)]
    return np.column_stack([key[kept] // n_shown, key[kept] % n_shown]), sums[kept]
