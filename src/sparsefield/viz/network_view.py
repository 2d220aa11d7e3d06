"""The network for the eye: places, groups and words of its nodes, as the page's script takes them."""

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
from sparsefield.viz.fit_summary import is_learned
from sparsefield.viz.network import Edge, Network, build_network
from sparsefield.viz.node_positions import place_nodes
from sparsefield.viz.report.stability_text import TITLE, stability_column

__all__ = ["COLORS", "MOST_EDGES", "OTHER", "ExtraColumns", "View", "look_at"]

MOST_EDGES = 5_000
"""Edges that a page holds; of a larger network the strongest."""

MOST_FEATURES = 12
"""Features of an edge that the page tells one by one."""

MOST_STATES = 6
FEWEST, FEW, FEW_BY_NODE = 60, 200, 1.5
"""Edges that a page begins with: by the number of nodes, within bounds. They have a layout of their own."""

SCALE = 60.0
"""Pixels between two neighbors at the first look, about."""

COLORS = (
    "#2f7f79", "#7a5195", "#b5598f", "#7d7f1f", "#7c5b3b", "#4d5f83", "#3d8c40", "#a04a4a", "#5aa3a0", "#a98bc4",
    "#d28cb4", "#a9ab55",
)  # fmt: skip
"""Of groups, the largest first; none is near the blue and the orange of edges. Further groups are gray."""

OTHER = "#667085"

ExtraColumns = Mapping[str, Mapping[str, Any]]
"""{title: {name of a feature: value}}, such as how often each was selected."""


@dataclass(frozen=True)
class View:
    """A network with its communities, and the part of it that a page shows."""

    whole: Network
    shown: Network
    learned: bool
    """Whether shares of states come from data."""
    extra: ExtraColumns

    @cached_property
    def communities(self) -> np.ndarray:
        """(nodes of the whole network,): 0 is the largest."""
        return find_communities(len(self.whole.nodes), self.whole.ends, self.whole.strengths)

    @property
    def modularity(self) -> float:
        return modularity(self.communities, self.whole.ends, self.whole.strengths)

    @cached_property
    def number_of(self) -> dict[str, int]:
        """Name -> its number among the nodes that are shown."""
        return {node.name: k for k, node in enumerate(self.shown.nodes)}

    @property
    def n_few(self) -> int:
        """Edges of the first look: all, where there are few."""
        few = int(min(max(FEW_BY_NODE * len(self.shown.nodes), FEWEST), FEW))
        return len(self.shown.edges) if len(self.shown.edges) <= 1.25 * few else few

    def as_json(self) -> str:
        """All that the script needs, safe inside a script element."""
        return json.dumps(self._plain(), allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")

    def _plain(self) -> dict[str, Any]:
        shown = self.shown
        group = self.group_of(shown)
        few = shown.strongest(self.n_few)  # whose nodes are the first of all
        places = _places(shown, group)
        places_of_few = _places(few, group) if self.n_few < len(shown.edges) else places
        templates = list(dict.fromkeys(edge.template for edge in shown.edges if edge.template))
        return {
            "names": [node.name for node in shown.nodes],
            "x": places[:, 0].tolist(),
            "y": places[:, 1].tolist(),
            "few": self.n_few,
            "fewX": places_of_few[:, 0].tolist(),
            "fewY": places_of_few[:, 1].tolist(),
            "told": [_describe(node.variable, self.learned) for node in shown.nodes],
            "group": group.tolist(),
            "groups": self.groups,
            "colors": COLORS,
            "a": shown.ends[:, 0].tolist(),
            "b": shown.ends[:, 1].tolist(),
            "s": [_short(value) for value in shown.strengths.tolist()],
            "w": [_short(edge.strongest) for edge in shown.edges],
            "t": [templates.index(edge.template) if edge.template else -1 for edge in shown.edges],
            "templates": templates,
            "f": [[self._tell(edge, feature) for feature in edge.features[:MOST_FEATURES]] for edge in shown.edges],
            "more": [max(0, len(edge.features) - MOST_FEATURES) for edge in shown.edges],
            "extra": list(self.extra),
            "cut": len(shown.edges) < len(self.whole.edges),
        }

    def _tell(self, edge: Edge, feature: Feature) -> list[Any]:
        """[state, state, weight, 0] of a pair, [name, null, weight, 1] of more columns, and extra columns if any."""
        if len(feature.terms) == 2:
            states = [None if term.state is None else str(term.state) for term in feature.terms]
            told: list[Any] = [*states, _short(feature.weight), 0]
        else:
            told = [feature.name, None, _short(feature.weight), 1]
        if self.extra:
            values = (column.get(feature.name) for column in self.extra.values())
            told.append([_short(value) if isinstance(value, float) else value for value in values])
        return told

    @property
    def groups(self) -> list[str]:
        """Names of the groups that nodes are colored by: tables, or else the communities of three nodes and more."""
        if self.whole.linked:
            return list(dict.fromkeys(node.table for node in self.whole.nodes))
        sizes = np.bincount(self.communities)[: len(COLORS)]
        return [f"community {k + 1}" for k in np.flatnonzero(sizes > 2)]

    def group_of(self, network: Network) -> np.ndarray:
        """(nodes of a part of the network,): the number of each one's group."""
        if self.whole.linked:
            number = {name: k for k, name in enumerate(self.groups)}
            return np.array([number[node.table] for node in network.nodes], dtype=np.int64)
        label = {node.name: own for node, own in zip(self.whole.nodes, self.communities.tolist(), strict=True)}
        return np.array([label[node.name] for node in network.nodes], dtype=np.int64)


def look_at(
    field: Field,
    extra: ExtraColumns | None = None,
    *,
    features: Sequence[Feature] | None = None,
    most: int = MOST_EDGES,
) -> View:
    """The network of a field, of which a page shows the ``most`` strongest edges; with stability, where it is known."""
    features = list_features(field) if features is None else features
    whole = build_network(field, features)
    stability = stability_column(field, features)
    known = {TITLE: stability} if stability else {}
    return View(whole, whole.strongest(most), is_learned(field), {**known, **(extra or {})})


def _places(network: Network, groups: np.ndarray) -> np.ndarray:
    """Pixels; groups stand together. ``groups`` may go on beyond the network's nodes."""
    groups = groups[: len(network.nodes)]
    return np.round(SCALE * place_nodes(len(network.nodes), network.ends, network.strengths, groups)).astype(int)


def _describe(variable: Variable | None, shares: bool) -> str:
    if variable is None:
        return "how many rows a row is linked with"
    role = {"target": "", "observed": "observed; "}.get(variable.role, f"{variable.role}; ")
    if variable.numeric:
        return f"{role}a number, mean {variable.center:.4g}, deviation {variable.scale:.4g}"
    ranked = sorted(zip(variable.frequencies, variable.states, strict=True), key=lambda pair: -pair[0])
    told = [f"{state} ({share:.0%})" if shares else f"{state}" for share, state in ranked[:MOST_STATES]]
    more = f", and {len(ranked) - MOST_STATES} more" if len(ranked) > MOST_STATES else ""
    return f"{role}{', '.join(told)}{more}; base {variable.states[variable.base]}"


def _short(value: float) -> float:
    return float(f"{value:.4g}")
