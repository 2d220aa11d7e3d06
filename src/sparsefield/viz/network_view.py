"""This module prepares a network for the page's script: positions, groups and texts of its nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparsefield.data.schema import Variable
from sparsefield.model import Field
from sparsefield.viz.communities import find_communities, modularity
from sparsefield.viz.feature_sentences import Feature, list_features
from sparsefield.viz.fit_summary import describe_number, describe_states
from sparsefield.viz.network import Network, Subgraph
from sparsefield.viz.node_positions import layout_nodes
from sparsefield.viz.palette import GROUPS
from sparsefield.viz.report.stability_text import COLUMN_TITLE, stability_column

MAX_EDGES = 5_000
"""Edges of a page; of a larger network only the strongest are shown."""

MAX_FEATURES = 12
"""Features of an edge that the page lists."""

MAX_STATES = 6
MIN_INITIAL, MAX_INITIAL, INITIAL_PER_NODE = 60, 200, 1.5
"""Edges that a page shows at first: in proportion to the nodes, within bounds. They have a layout of their own."""

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

    @property
    def n_initial(self) -> int:
        """Number of edges that are shown at first: all, where there are few."""
        few = int(min(max(INITIAL_PER_NODE * len(self.shown.nodes), MIN_INITIAL), MAX_INITIAL))
        return len(self.shown.edges) if len(self.shown.edges) <= 1.25 * few else few

    def to_json(self) -> str:
        """Return the data of the page's script, safe inside a script element."""
        shown, network = self.shown, self.shown.network
        has_frequencies = network.field.record.is_learned
        edges = [network.edge(k) for k in shown.edges.tolist()]
        numbers = [network.feature_numbers(edge.number) for edge in edges]
        group = self.group_of(shown)
        initial = shown.strongest(self.n_initial)  # its nodes are the first of all
        places = _layout_pixels(shown, group)
        initial_places = _layout_pixels(initial, group) if self.n_initial < len(edges) else places
        templates = list(dict.fromkeys(edge.template for edge in edges if edge.template))
        data = {
            "names": shown.names,
            "x": places[:, 0].tolist(),
            "y": places[:, 1].tolist(),
            "initial": self.n_initial,
            "initialX": initial_places[:, 0].tolist(),
            "initialY": initial_places[:, 1].tolist(),
            "descriptions": [_describe(network.variable(node), has_frequencies) for node in shown.nodes],
            "group": group.tolist(),
            "groups": self.groups,
            "colors": GROUPS,
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
        """Names of the groups that color the nodes: tables, or the communities of at least three nodes."""
        network = self.whole.network
        if network.linked:
            return list(dict.fromkeys(network.table_of(node) for node in self.whole.nodes))
        sizes = np.bincount(self.communities)[: len(GROUPS)]
        return [f"community {k + 1}" for k in np.flatnonzero(sizes > 2)]

    def group_of(self, part: Subgraph) -> np.ndarray:
        """Return (nodes,) the number of the group of each node of a part of the network."""
        network = self.whole.network
        if network.linked:
            number = {name: k for k, name in enumerate(self.groups)}
            return np.array([number[network.table_of(node)] for node in part.nodes], dtype=np.int64)
        community = dict(zip(self.whole.nodes, self.communities.tolist(), strict=True))
        return np.array([community[node] for node in part.nodes], dtype=np.int64)


def build_view(
    field: Field, extra: ExtraColumns | None = None, *, features: Sequence[Feature] | None = None
) -> NetworkView:
    """Return the network of a field, of which a page shows the strongest edges; with stability where it is known.

    ``features`` are all features of the field, if they are already listed.
    """
    features = list_features(field) if features is None else features
    whole = Network(field).edge_subgraph()
    stability = stability_column(field, features)
    columns = {**({COLUMN_TITLE: stability} if stability else {}), **(extra or {})}
    return NetworkView(whole, whole.strongest(MAX_EDGES), columns, {feature.number: feature for feature in features})


def _layout_pixels(part: Subgraph, groups: np.ndarray) -> np.ndarray:
    """Return positions in pixels; ``groups`` may be longer than the part's nodes."""
    groups = groups[: len(part.nodes)]
    return np.round(SCALE * layout_nodes(len(part.nodes), part.ends, part.strengths, groups)).astype(int)


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
