"""The network of a field as a document for the script of a page: columns, edges with their features, communities."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from sparsefield.analysis.network import Network, Subgraph, edges_that_hold
from sparsefield.app.pages.cells import DataShares, state_labels
from sparsefield.app.pages.findings import list_edge
from sparsefield.app.pages.fit_summary import describe_variable
from sparsefield.app.pages.layout import GROUP_COLORS, MIN_GROUPED, Groups, layout_nodes
from sparsefield.app.pages.names import shorten_all
from sparsefield.data.schema import Variable

MAX_EDGES = 5_000
"""Edges of a page; of a larger network only the strongest are on it."""

MAX_FEATURES, MAX_STATES, MAX_BARS = 12, 6, 12
"""Features of an edge that the page lists, states in the description of a column, and bars of a distribution."""

ALL_COLUMNS = 40
"""Columns up to which those without edges are shown, too."""

MIN_INITIAL, MAX_INITIAL, INITIAL_PER_NODE, WIDE_INITIAL = 16, 200, 1.5, 60
"""Edges that a page shows at first: in proportion to the nodes, within bounds; and those of a wide network."""

MAX_CONNECTED = 400
"""Columns that the backbone connects; in a wider network, those around the strongest edges."""

MAX_PAIRS, MAX_PAIR_STATES, MAX_DISTRIBUTIONS = 400, 16, 500
"""Edges with a table of their states, states of such a table, and columns with a distribution in the panel."""

BUBBLES_ABOVE, MAX_BUBBLES, LINES_PER_BUBBLE, MAX_GROUP = 150, 36, 2.0, 120
"""Columns above which a page starts with communities, the largest number of them, lines for each of them, and columns
that are shown of one."""

MAX_NAME, SCALE = 30, 60.0
"""Letters of a name on the canvas, and units between two adjacent nodes."""


def describe_network(
    network: Network, groups: Groups, rings: Mapping[str, float], shares: Mapping[str, DataShares]
) -> dict[str, Any]:
    """Return what the script draws and lists: all values can be written as JSON.

    ``rings`` are {column: share from 0 to 1}; ``shares`` are the states in the tables of the data, if there are any.
    """
    holding = edges_that_hold(network)
    part, layout_edges, n_initial = _choose_part(network, holding)
    places = _layout(part, layout_edges, groups)
    edges = part.edges.tolist()
    over = [network.template(k) for k in edges]
    templates = list(dict.fromkeys(filter(None, over)))
    learned = network.field.record.is_learned
    variables = [network.variable(node) for node in part.nodes]
    features = [network.feature_numbers(k) for k in edges]
    few = len(part.nodes) <= MAX_DISTRIBUTIONS
    return {
        "names": part.names,
        "titles": part.titles,
        "short": shorten_all(part.titles, MAX_NAME),
        "x": [None if np.isnan(x) else x for x in places[:, 0].tolist()],
        "y": [None if np.isnan(y) else y for y in places[:, 1].tolist()],
        "about": [_describe(variable, learned) for variable in variables],
        "bars": [[] if variable is None or not few else distribution(variable) for variable in variables],
        "ring": [None if name not in rings else round_number(rings[name]) for name in part.names],
        "group": [groups.of(node) for node in part.nodes],
        "groups": groups.titles[:MAX_BUBBLES],
        "colors": GROUP_COLORS[: len(groups.names)],
        "initial": n_initial,
        "total": len(network.strengths),
        "a": part.ends[:, 0].tolist(),
        "b": part.ends[:, 1].tolist(),
        "s": [round_number(value) for value in part.strengths.tolist()],
        "sign": network.signs[part.edges].tolist(),
        "tree": [int(holding is None and edge in layout_edges) for edge in part.edges.tolist()],
        "holding": None if holding is None else int(np.isin(part.edges, holding).sum()),
        "t": [templates.index(template) if template else -1 for template in over],
        "templates": templates,
        "f": (listed := [_features(network, own) for own in features]),
        "more": [len(own) - len(shown) for own, shown in zip(features, listed, strict=True)],
        "pairs": [_pair(network, k, shares) for k in edges[:MAX_PAIRS]],
        "bubbles": _bubbles(network, groups) if len(part.nodes) > BUBBLES_ABOVE else None,
        "alone": network.n_variables - sum(node < network.n_variables for node in part.nodes),
    }


def _choose_part(network: Network, holding: np.ndarray | None) -> tuple[Subgraph, set[int], int]:
    """Return the part of the network on the page, the edges that its layout follows, and how many are shown first."""
    n_edges = len(network.strengths)
    nodes, tree = network.backbone(MAX_CONNECTED)
    edges = np.union1d(np.arange(min(n_edges, MAX_EDGES)), tree).astype(np.int64)
    holds = np.isin(edges, holding) if holding is not None else np.ones(len(edges), dtype=bool)
    edges = np.concatenate([edges[holds], edges[~holds]])  # edges that hold come first
    joined = dict.fromkeys([*nodes, *network.ends[edges].ravel().tolist()])
    if network.n_variables <= ALL_COLUMNS:
        joined.update(dict.fromkeys(range(network.n_variables)))
    few = int(min(max(INITIAL_PER_NODE * len(joined), MIN_INITIAL), MAX_INITIAL))
    few = WIDE_INITIAL if len(joined) > MAX_CONNECTED else few
    initial = len(edges) if len(edges) <= 1.25 * few and holds.all() else min(few, int(holds.sum()) or few)
    # Each node is placed by its strongest edge at least, which comes first.
    ends = network.ends[edges]
    _, first = np.unique(ends.ravel(), return_index=True)
    followed = {*tree.tolist(), *edges[:initial].tolist(), *edges[first // 2].tolist()}
    return Subgraph(network, tuple(joined), edges), followed, initial


def _layout(part: Subgraph, layout_edges: set[int], groups: Groups) -> np.ndarray:
    """Return (nodes, 2) positions. A wide network is shown by groups, so the strongest nodes of each have positions
    within it, and the others none (NaN)."""
    n_nodes, used = len(part.nodes), np.isin(part.edges, list(layout_edges))
    group = np.array([groups.of(node) for node in part.nodes], dtype=np.int64)
    if n_nodes <= BUBBLES_ABOVE:
        together = group if n_nodes > MIN_GROUPED else None
        return np.round(SCALE * layout_nodes(n_nodes, part.ends[used], part.strengths[used], together))
    places, position = np.full((n_nodes, 2), np.nan), np.full(n_nodes, -1)
    order = np.argsort(-part.total_strengths, kind="stable")
    for number in range(min(len(groups.names), MAX_BUBBLES)):
        members = order[group[order] == number][:MAX_GROUP]
        position[:] = -1
        position[members] = np.arange(len(members))
        ends = position[part.ends]
        inside = (ends >= 0).all(axis=1)
        places[members] = np.round(SCALE * layout_nodes(len(members), ends[inside], part.strengths[inside]))
    return places


def _features(network: Network, numbers: list[int]) -> list[list[Any]]:
    """Return the strongest features of an edge, the linear one first.

    A pair is [state, state, weight], and a feature of more columns [name, null, weight, 1].
    """
    rows = []
    for feature in list_edge(network.field, numbers[: 4 * MAX_FEATURES])[:MAX_FEATURES]:
        states, weight = [None if term.state is None else str(term.state) for term in feature.terms], feature.weight
        row = [*states, round_number(weight)] if len(states) == 2 else [feature.name, None, round_number(weight), 1]
        rows.append(row)
    return rows


def _pair(network: Network, number: int, shares: Mapping[str, DataShares]) -> dict[str, Any] | None:
    """Return the rows of the data with each pair of states of an edge, or bins of numbers; None where too many."""
    ends, template = network.ends[number].tolist(), network.template(number)
    first, second = (network.variable(node) for node in ends)
    table, over_link = network.table_of(ends[0]), template != "" and not template.startswith("within")
    if first is None or second is None or over_link or table not in shares:
        return None
    states = [[str(state) for state in state_labels(variable)] for variable in (first, second)]
    if max(map(len, states)) > MAX_PAIR_STATES:
        return None
    counts = shares[table].cross_counts(first.name, second.name)
    return None if counts is None else {"states": states, "counts": counts.tolist()}


def _bubbles(network: Network, groups: Groups) -> dict[str, Any]:
    """Return the largest communities with their strongest columns, and the strongest lines between them."""
    sizes = [len(members) for members in groups.members[:MAX_BUBBLES]]
    n_shown = len(sizes)
    label = np.array([groups.of(node) for node in range(len(network.labels))])
    pairs = np.sort(label[network.ends], axis=1)
    between = (pairs[:, 0] != pairs[:, 1]) & (pairs[:, 1] < n_shown)
    key, place = np.unique(pairs[between, 0] * max(n_shown, 1) + pairs[between, 1], return_inverse=True)
    sums = np.bincount(place, network.strengths[between], len(key))
    strongest = np.argsort(-sums, kind="stable")[: round(LINES_PER_BUBBLE * n_shown)]
    ends = np.column_stack([key[strongest] // max(n_shown, 1), key[strongest] % max(n_shown, 1)]).astype(np.int64)
    places = SCALE * layout_nodes(n_shown, ends, sums[strongest]) if n_shown else np.empty((0, 2))
    return {
        "x": np.round(places[:, 0]).tolist(),
        "y": np.round(places[:, 1]).tolist(),
        "sizes": sizes,
        "names": [[network.labels[node] for node in members[:2]] for members in groups.members[:n_shown]],
        "a": ends[:, 0].tolist(),
        "b": ends[:, 1].tolist(),
        "s": [round_number(value) for value in sums[strongest].tolist()],
        "others": network.n_variables - sum(sizes),
    }


def distribution(variable: Variable) -> list[tuple[str, float, str]]:
    """Return (label, share, hint) of the states of a column in training, or of ranges of its numbers."""
    if not variable.frequencies:
        return []
    if variable.numeric and len(variable.states) > 2:
        values = np.asarray(variable.states, dtype=float)
        edges = np.linspace(values.min(), values.max(), MAX_BARS + 1)
        shares, _ = np.histogram(values, edges, weights=np.asarray(variable.frequencies))
        labels = [f"{a:.4g} to {b:.4g}" for a, b in pairwise(edges.tolist())]
        pairs = list(zip(labels, shares.tolist(), strict=True))
    else:
        pairs = [(str(state), share) for state, share in zip(variable.states, variable.frequencies, strict=True)]
        if not variable.ordered and len(pairs) > MAX_BARS:
            pairs = sorted(pairs, key=lambda pair: -pair[1])
        if len(pairs) > MAX_BARS:
            rest = pairs[MAX_BARS - 1 :]
            pairs = [*pairs[: MAX_BARS - 1], (f"{len(rest):,} others", sum(share for _, share in rest))]
    return [(label, round_number(share), f"{label}: {share:.1%}") for label, share in pairs]


def _describe(variable: Variable | None, learned: bool) -> str:
    if variable is None:
        return "number of linked rows"
    base = f"; reference state {variable.states[variable.reference]}" if variable.has_reference else ""
    return describe_variable(variable, MAX_STATES, frequencies=learned) + base * (not variable.numeric)


def round_number(value: float) -> float:
    """Return a number with four significant digits, which a page does not need more of."""
    return float(f"{value:.4g}")
