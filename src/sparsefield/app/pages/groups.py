"""Groups of columns that color a network: communities, tables of linked data, or what the user says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparsefield.analysis.communities import find_communities, modularity, name_community
from sparsefield.analysis.network import Network
from sparsefield.app.pages.column_values import unknown_columns
from sparsefield.errors import DataError

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

    @property
    def modularity(self) -> float:
        """Modularity of the groups."""
        label = np.array([self.of(node) for node in range(len(self.network.labels))])
        return modularity(label, self.network.ends, self.network.strengths)


def find_groups(network: Network, communities: Mapping[str, Any] | None = None) -> Groups:
    """Return the given communities {column: name}, else the tables of linked data, else communities that are found.

    A community that is found has at least two columns. Given names that are numbers are sorted, as found ones are.
    """
    if communities is not None:
        problems = unknown_columns("communities", communities, set(network.labels))
        if problems:
            raise DataError(f"The communities cannot be used: {problems[0]}.")
        named = {column: name_community(community) for column, community in communities.items()}
        names = list(dict.fromkeys(name for name in named.values() if name is not None))
        names = sorted(names, key=int) if names and all(name.isdecimal() for name in names) else names
        place = {name: k for k, name in enumerate(names)}
        node_of = {label: node for node, label in enumerate(network.labels)}
        number = {node_of[column]: place[name] for column, name in named.items() if name is not None}
        return Groups(network, tuple(names), number, found=False)
    if network.linked:
        joined = np.unique(network.ends).tolist() or range(network.n_variables)
        tables = list(dict.fromkeys(network.table_of(node) for node in joined))
        number = {node: tables.index(network.table_of(node)) for node in joined}
        return Groups(network, tuple(tables), number, found=False)
    ends, strengths = network.ends[:MAX_EDGES], network.strengths[:MAX_EDGES]
    nodes, places = np.unique(ends, return_inverse=True)
    label = find_communities(len(nodes), places.reshape(ends.shape), strengths)
    n_groups = int((np.bincount(label) > 1).sum()) if len(nodes) else 0
    return Groups(
        network,
        tuple(str(k + 1) for k in range(n_groups)),
        dict(zip(nodes.tolist(), label.tolist(), strict=True)),
        True,
    )
