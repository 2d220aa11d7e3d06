"""This module prepares a network for the page's script: positions, groups and texts of its nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparsefield.analysis.communities import find_communities, modularity, name_community
from sparsefield.analysis.feature_sentences import Feature, list_features
from sparsefield.analysis.network import Network, Subgraph
from sparsefield.app.pages.figure_options import unknown_columns
from sparsefield.app.pages.fit_summary import describe_number, describe_states
from sparsefield.app.pages.node_positions import MIN_GROUPED, layout_nodes
from sparsefield.app.pages.palette import GROUPS
from sparsefield.app.pages.report.stability_text import COLUMN_TITLE, stability_column
from sparsefield.app.pages.short_names import shorten_all
from sparsefield.data.schema import Variable
from sparsefield.errors import DataError
from sparsefield.model import Field

MAX_EDGES = 5_000
"""Edges of a page; of a larger network only the strongest are shown."""

MAX_FEATURES = 12
"""Features of an edge that the page lists."""

MAX_STATES = 6
MIN_INITIAL, MAX_INITIAL, INITIAL_PER_NODE = 60, 200, 1.5
"""Edges that a page shows at first: in proportion to the nodes, within bounds. They have a layout of their own."""

MAX_CONNECTED = 400
"""Columns that the backbone connects; in a wider network, those around the strongest edges."""

MAX_GROUPS = 30
"""Groups that a page lists."""

MAX_NAME = 30
"""Letters of a name on the canvas."""

SCALE = 60.0
"""Pixels between two adjacent nodes before zooming, approximately."""

ExtraColumns = Mapping[str, Mapping[str, Any]]
"""{title: {name of a feature: value}}, such as how often each feature was selected."""


@dataclass(frozen=True)
class NetworkView:
    """A network with its communities, and the part of it that a page shows."""

    whole: Subgraph
    shown: Subgraph
    extra: ExtraColumns
    features: Mapping[int, Feature]
    """Features by their number in the field."""
    initial: Subgraph
    """The part of ``shown`` that a page shows at first, which has a layout of its own: its nodes are the first ones."""
    tree: frozenset[int]
    """Edges of the backbone, which keep the columns of a large network connected."""
    given_communities: Mapping[str, str] | None = None
    """{column: community}, instead of tables or communities that are found."""

    @cached_property
    def communities(self) -> np.ndarray:
        """(nodes of the whole network,): the community of each node; 0 is the largest."""
        return find_communities(len(self.whole.nodes), self.whole.ends, self.whole.strengths)

    @property
    def modularity(self) -> float:
        """Modularity of the communities."""
        return modularity(self.communities, self.whole.ends, self.whole.strengths)

    @cached_property
    def position_of(self) -> dict[str, int]:
        """{name: position among the nodes that are shown}"""
        return {name: k for k, name in enumerate(self.shown.names)}

    def to_json(self) -> str:
        """Return the data of the page's script, safe inside a script element."""
        shown, network = self.shown, self.shown.network
        has_frequencies = network.field.record.is_learned
        edges = [network.edge(k) for k in shown.edges.tolist()]
        numbers = [network.feature_numbers(edge.number) for edge in edges]
        group = self.group_of(shown)
        places = _layout_pixels(shown, group)
        apart = len(self.initial.edges) < len(edges)
        initial_places = _layout_pixels(self.initial, group) if apart else places
        templates = list(dict.fromkeys(edge.template for edge in edges if edge.template))
        data = {
            "names": shown.names,
            "short": shorten_all(shown.names, MAX_NAME),
            "x": places[:, 0].tolist(),
            "y": places[:, 1].tolist(),
            "initial": count_initial(shown) if apart else len(edges),
            "tree": [int(edge.number in self.tree) for edge in edges],
            "initialX": initial_places[:, 0].tolist(),
            "initialY": initial_places[:, 1].tolist(),
            "descriptions": [_describe(network.variable(node), has_frequencies) for node in shown.nodes],
            "group": group.tolist(),
            "groups": self.group_titles[:MAX_GROUPS],
            "colors": GROUPS[: len(self.groups)],
            "a": shown.ends[:, 0].tolist(),
            "b": shown.ends[:, 1].tolist(),
            "s": [_round(value) for value in shown.strengths.tolist()],
            "sign": network.signs[shown.edges].tolist(),
            "t": [templates.index(edge.template) if edge.template else -1 for edge in edges],
            "templates": templates,
            "f": [[self._format_feature(self.features[k]) for k in own[:MAX_FEATURES]] for own in numbers],
            "more": [max(0, len(own) - MAX_FEATURES) for own in numbers],
            "extra": list(self.extra),
            "cut": len(edges) < len(self.whole.edges),
        }
        return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")

    def _format_feature(self, feature: Feature) -> list[Any]:
        """Return [state, state, weight, 0] of a pair, [name, null, weight, 1] of more columns; then extra columns."""
        if len(feature.terms) == 2:
            states = [None if term.state is None else str(term.state) for term in feature.terms]
            entry: list[Any] = [*states, _round(feature.weight), 0]
        else:
            entry = [feature.name, None, _round(feature.weight), 1]
        if self.extra:
            values = (column.get(feature.name) for column in self.extra.values())
            entry.append([_round(value) if isinstance(value, float) else value for value in values])
        return entry

    @property
    def groups(self) -> list[str]:
        """Names of the groups that color the nodes: tables, or the communities of at least two nodes, largest first.

        Given communities are in the order in which they are given, unless they are numbers, as those that are found.
        """
        network = self.whole.network
        if self.given_communities is not None:
            given = list(dict.fromkeys(self.given_communities.values()))
            return sorted(given, key=int) if given and all(name.isdecimal() for name in given) else given
        if network.linked:
            return list(dict.fromkeys(network.table_of(node) for node in self.whole.nodes))
        return [str(k + 1) for k in np.flatnonzero(np.bincount(self.communities) > 1)]

    @property
    def group_titles(self) -> list[str]:
        """Names of the groups as a legend shows them: "community 1" where the name is a number."""
        return [f"community {name}" if name.isdecimal() else name for name in self.groups]

    @cached_property
    def without_edges(self) -> list[str]:
        """Names of the columns without edges."""
        network, joined = self.whole.network, set(self.whole.nodes)
        return [name for k, name in enumerate(network.labels[: network.n_variables]) if k not in joined]

    def group_of(self, part: Subgraph) -> np.ndarray:
        """Return (nodes,) the number of the group of each node of a part of the network; beyond all groups if none."""
        network = self.whole.network
        if self.given_communities is not None:
            number = {name: k for k, name in enumerate(self.groups)}
            given = [self.given_communities.get(name) for name in part.names]
            return np.array([len(number) if own is None else number[own] for own in given], dtype=np.int64)
        if network.linked:
            number = {name: k for k, name in enumerate(self.groups)}
            names = [network.table_of(node) for node in part.nodes]
            return np.array([number.get(name, len(number)) for name in names], dtype=np.int64)
        community = dict(zip(self.whole.nodes, self.communities.tolist(), strict=True))
        alone = len(self.whole.nodes)  # a column without edges is in no community
        return np.array([community.get(node, alone) for node in part.nodes], dtype=np.int64)


def build_view(
    field: Field,
    extra: ExtraColumns | None = None,
    *,
    features: Sequence[Feature] | None = None,
    given_communities: Mapping[str, str] | None = None,
) -> NetworkView:
    """Return the network of a field, of which a page shows the strongest edges; with stability where it is known.

    ``features`` are all features of the field, if they are already listed. ``given_communities`` are {column:
    community}.
    """
    features = list_features(field) if features is None else features
    network = Network(field)
    whole = network.edge_subgraph()
    _, tree = network.backbone(MAX_CONNECTED)
    edges = np.union1d(whole.strongest(MAX_EDGES).edges, tree)
    shown = network.edge_subgraph(edges)
    initial = network.edge_subgraph(np.union1d(edges[: count_initial(shown)], tree))
    ordered = dict.fromkeys([*initial.nodes, *shown.nodes])  # the nodes of the initial part are the first
    shown = Subgraph(network, tuple(ordered), edges)
    stability = stability_column(field, features)
    columns = {**({COLUMN_TITLE: stability} if stability else {}), **(extra or {})}
    by_number = {feature.number: feature for feature in features}
    return NetworkView(whole, shown, columns, by_number, initial, frozenset(tree.tolist()), given_communities)


def check_communities(field: Field, given: Mapping[str, Any] | None) -> dict[str, str] | None:
    """Return {column: name of its community}, or refuse columns that the field does not have."""
    if given is None:
        return None
    problems = unknown_columns("communities", given, set(Network(field).labels))
    if problems:
        raise DataError(f"The communities cannot be used: {problems[0]}.")
    named = {name: name_community(community) for name, community in given.items()}
    return {name: community for name, community in named.items() if community is not None}


def count_initial(shown: Subgraph) -> int:
    """Return the number of the strongest edges that are shown at first: all, where there are few."""
    few = int(min(max(INITIAL_PER_NODE * len(shown.nodes), MIN_INITIAL), MAX_INITIAL))
    few = MIN_INITIAL if len(shown.nodes) > MAX_CONNECTED else few  # many would be pairs beside the backbone
    return len(shown.edges) if len(shown.edges) <= 1.25 * few else few


def _layout_pixels(part: Subgraph, groups: np.ndarray) -> np.ndarray:
    """Return positions in pixels; ``groups`` may be longer than the part's nodes."""
    together = groups[: len(part.nodes)] if len(part.nodes) > MIN_GROUPED else None
    return np.round(SCALE * layout_nodes(len(part.nodes), part.ends, part.strengths, together)).astype(int)


def _describe(variable: Variable | None, has_frequencies: bool) -> str:
    if variable is None:
        return "number of linked rows"
    role = {"target": "", "observed": "covariate; ", "latent": "latent variable; "}.get(variable.role, "")
    if variable.numeric:
        return f"{role}numeric; {describe_number(variable)}"
    states = describe_states(variable, MAX_STATES, frequencies=has_frequencies)
    base = f"; reference state {variable.states[variable.reference]}" if variable.has_reference else ""
    return f"{role}{variable.kind}; {states}{base}"


def _round(value: float) -> float:
    return float(f"{value:.4g}")
