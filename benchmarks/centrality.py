"""This module compares communities and shortest paths of large networks with those of networkx."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command_line import Json, Row, Seed, print_rows
from benchmarks.measure import Report
from sparsefield.analysis.centrality import find_centrality, find_communities, modularity
from sparsefield.analysis.network import Network
from sparsefield.app.cli.console import print_message
from sparsefield.data import Layout, Schema
from sparsefield.data.schema import Variable
from sparsefield.model import Field

__all__ = ["run_centrality"]

EDGES_PER_NODE, GROUPS, SHARE_WITHIN = 3, 40, 0.8
PEER_SOURCES = 10
"""Nodes at which the paths of networkx begin; its seconds are those of all nodes in proportion."""


def draw_network(nodes: int, seed: int) -> Network:
    """Return a connected network of binary columns in groups, most of whose edges are within a group."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, nodes, (EDGES_PER_NODE * nodes, 2))
    within = rng.random(len(ends)) < SHARE_WITHIN
    ends[within, 1] = (ends[within, 0] + GROUPS * rng.integers(1, nodes // GROUPS, within.sum())) % nodes
    pairs = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)
    names = tuple(f"x{k}" for k in range(nodes))
    variables = tuple(Variable(name, "target", (0, 1), 0, (0.5, 0.5)) for name in names)
    weights = rng.gamma(2.0, 0.3, len(pairs)) * rng.choice([-1.0, 1.0], len(pairs))
    return Network(Field(Layout.single(Schema(variables, names)), np.zeros(nodes), pairs, weights))


def run_centrality(sizes: Sequence[int], *, seed: int = 0, report: Report = lambda _: None) -> list[Row]:
    """Return a row for each size and task: seconds of this library and of networkx, and modularities."""
    rows = []
    for nodes in sizes:
        network = draw_network(nodes, seed)
        report(f"{nodes:,} columns, {len(network.strengths):,} edges")
        rows += [_compare_communities(network), _compare_paths(network)]
    return rows


def _compare_communities(network: Network) -> Row:
    import networkx as nx

    part = network.edge_subgraph()
    ours, seconds = _timed(lambda: find_communities(len(part.nodes), part.ends, part.strengths))
    parts, peer_seconds = _timed(lambda: nx.community.louvain_communities(_as_graph(network), seed=0))
    theirs, position = np.empty(len(part.nodes), dtype=np.int64), {node: k for k, node in enumerate(part.nodes)}
    for k, members in enumerate(parts):
        theirs[[position[node] for node in members]] = k
    found = {"modularity": modularity(ours, part.ends, part.strengths)}
    found["networkx_modularity"] = modularity(theirs, part.ends, part.strengths)
    return _row(network, "communities", seconds, peer_seconds) | found


def _compare_paths(network: Network) -> Row:
    import networkx as nx

    _, seconds = _timed(lambda: find_centrality(network))
    graph = _as_graph(network)
    _, peer_seconds = _timed(lambda: nx.betweenness_centrality(graph, k=PEER_SOURCES, weight="length", seed=0))
    return _row(network, "closeness and betweenness", seconds, peer_seconds * network.n_variables / PEER_SOURCES)


def _row(network: Network, task: str, seconds: float, peer_seconds: float) -> Row:
    size = {"columns": network.n_variables, "edges": len(network.strengths)}
    return {**size, "task": task, "seconds": seconds, "networkx_seconds": peer_seconds}


def _as_graph(network: Network) -> Any:
    import networkx as nx

    graph = nx.Graph()
    for (a, b), strength in zip(network.ends.tolist(), network.strengths.tolist(), strict=True):
        graph.add_edge(a, b, weight=strength, length=1.0 / strength)
    return graph


def _timed(function: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    found = function()
    return found, time.perf_counter() - started


def command(
    columns: Annotated[list[int] | None, typer.Option("--columns", min=200, help="Columns of a network.")] = None,
    as_json: Json = False,
    seed: Seed = 0,
) -> None:
    """Compare communities, closeness and betweenness of large networks with networkx, on one thread."""
    find_centrality(draw_network(200, seed))  # compile first
    rows = run_centrality(columns or [1_000, 5_000, 10_000], seed=seed, report=print_message)
    shown = ("columns", "edges", "task", "seconds", "networkx_seconds", "modularity", "networkx_modularity")
    print_rows(rows, shown, as_json)
