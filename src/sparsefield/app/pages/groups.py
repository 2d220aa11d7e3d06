"""Groups of columns that color a network: communities, tables of linked data, or what the user says."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparsefield.analysis.communities import find_communities, name_community
from sparsefield.analysis.network import Network
from sparsefield.app.pages.short_names import MAX_LISTED
from sparsefield.app.tables.read_options import DEFAULT_MISSING
from sparsefield.data.cell_values import is_missing
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


def find_groups(network: Network, communities: Mapping[str, Any] | None = None) -> Groups:
    """Return the given communities {column: name}, else the tables of linked data, else communities that are found.

    A community that is found has at least two columns. Given names that are numbers are sorted, as found ones are.
    """
    if communities is not None:
        named = {column: name_community(community) for column, community in communities.items()}
        names = list(dict.fromkeys(name for name in named.values() if name is not None))
        names = sorted(names, key=int) if names and all(name.isdecimal() for name in names) else names
        number = {
            node: names.index(name)
            for node, label in enumerate(network.labels)
            if (name := named.get(label)) is not None
        }
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


def read_column_values(given: Any, what: str, *values: str) -> dict[str, Any] | None:
    """Return {column: value} of a mapping, or of a frame or file with "column" and the first of ``values`` it has.

    Values of a text file are text; None where they are missing.
    """
    if given is None or isinstance(given, Mapping):
        return None if given is None else {str(name): value for name, value in given.items()}
    import narwhals as nw

    place = what
    if isinstance(given, (str, os.PathLike)):
        from sparsefield.app.tables.read import read_source

        place, given = str(given), read_source(str(given)).cells
    try:
        frame = nw.from_native(given, eager_only=True)
    except TypeError:
        wanted = ", ".join(("column", *values))
        raise DataError(f"{what} must be a mapping, a frame or a file with {wanted}, not {given!r}.") from None
    value = next((name for name in values if name in frame.columns), " or ".join(values))
    absent = [name for name in ("column", value) if name not in frame.columns]
    if absent:
        shown = ", ".join(frame.columns[:MAX_LISTED]) + (", ..." if len(frame.columns) > MAX_LISTED else "")
        option = "--communities auto" if value == "community" else "DATA"
        raise DataError(
            f"{place}: the table needs the columns column and {value}, with a row for each column of the data, but has "
            f"no {', '.join(absent)} (its columns are {shown}): rename its columns, or let “sparsefield analyze "
            f"centrality MODEL {option} -o FILE” write such a table."
        )
    names = frame["column"].to_list()
    empty = [row for row, name in enumerate(names, start=1) if is_missing(name)]
    repeated = [name for name, times in Counter(names).items() if times > 1 and not is_missing(name)]
    problems = [f"row {empty[0]:,} names no column"] if empty else []
    problems += [f"column {repeated[0]!r} has several rows"] if repeated else []
    if problems:
        raise DataError(f"{place}: {' and '.join(problems)}: give one row for each column.")
    pairs = zip(names, frame[value].to_list(), strict=True)
    return {str(name): None if is_missing(own) or str(own).strip() in DEFAULT_MISSING else own for name, own in pairs}
