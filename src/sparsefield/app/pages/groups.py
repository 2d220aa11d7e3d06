"""Groups of columns and the colors of networks: communities, tables of linked data, or groups by the user.

Blue means positive, orange negative, and gray that there is no sign. Blue and orange are those of Okabe and Ito: they
differ for every kind of color vision, and in gray. The colors of groups follow the muted scheme of Paul Tol. The style
sheet ``static/page.css`` has the same colors, and those of dark pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparsefield.analysis.centrality import find_communities, name_community
from sparsefield.analysis.network import Network

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

MAX_EDGES = 200_000
"""Edges that communities are found from, the strongest ones: more would take too long."""


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
        ends, strengths = self.network.ends, self.network.strengths
        total = np.bincount(ends.ravel(), np.repeat(strengths, 2), len(self.network.labels))
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
    ends, strengths = network.ends[:MAX_EDGES], network.strengths[:MAX_EDGES]
    nodes, places = np.unique(ends, return_inverse=True)
    label = find_communities(len(nodes), places.reshape(ends.shape), strengths)
    names = [str(k + 1) for k in range(int((np.bincount(label) > 1).sum()) if len(nodes) else 0)]
    return Groups(network, tuple(names), dict(zip(nodes.tolist(), label.tolist(), strict=True)), found=True)
