"""Communities and shortest paths of large networks beside those of networkx, and strength beside that of EBICglasso."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any, cast

import numpy as np
import typer
from scipy.stats import spearmanr
from sklearn.covariance import graphical_lasso

from benchmarks.command_line import Json, Row, Seed, print_rows
from benchmarks.measure import Report
from reproduction.public_data import load_mixed
from sparsefield import MarkovField, centrality
from sparsefield.analysis.centrality import communities_of_nodes, measure_columns
from sparsefield.analysis.network import Network
from sparsefield.app.cli.console import print_message
from sparsefield.data import Layout, Schema
from sparsefield.data.schema import Variable
from sparsefield.model import Field

__all__ = ["fit_graphical_lasso", "run_centrality", "run_strength"]

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

    ours, seconds = _timed(lambda: communities_of_nodes(network))
    parts, peer_seconds = _timed(lambda: nx.community.louvain_communities(_as_graph(network), seed=0))
    graph, own = _as_graph(network), [set[int]() for _ in range(max(ours.values()) + 1)]
    for node, community in ours.items():
        own[community].add(node)
    names = {"modularity": own, "networkx_modularity": parts}
    return _row(network, "communities", seconds, peer_seconds) | {
        name: nx.community.modularity(graph, sets) for name, sets in names.items()
    }


def _compare_paths(network: Network) -> Row:
    import networkx as nx

    _, seconds = _timed(lambda: measure_columns(network))
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


def fit_graphical_lasso(X: np.ndarray) -> np.ndarray:
    """Return the partial correlations (columns, columns) of a graphical lasso with the lowest EBIC (gamma 1/2).

    It stands in for R's EBICglasso, with correlations of Pearson where bootnet takes polychoric ones.
    """
    (n, p), correlations = X.shape, np.corrcoef(X.T)
    upper, best = np.triu_indices(p, 1), (np.inf, np.eye(p))
    largest = np.abs(correlations[upper]).max()
    for penalty in largest * np.geomspace(1.0, 0.02, 60):
        _, precision = graphical_lasso(correlations, penalty, tol=1e-3, enet_tol=1e-8, max_iter=500)
        edges = np.count_nonzero(np.abs(precision[upper]) > 1e-10)
        likelihood = 0.5 * n * (np.linalg.slogdet(precision)[1] - np.trace(correlations @ precision))
        best = min(
            best, (edges * (np.log(n) + 2.0 * np.log(p)) - 2.0 * likelihood, precision), key=lambda pair: pair[0]
        )
    scale = np.sqrt(best[1].diagonal())
    return np.eye(p) - best[1] / np.outer(scale, scale)


def run_strength(seed: int = 0) -> list[Row]:
    """Return rank correlations of centralities with those of a graphical lasso on the 25 items of bfi."""
    items = load_mixed("bfi").select("^[ACENO][1-5]$")
    partial, rows = fit_graphical_lasso(items.drop_nulls().to_numpy().astype(float)), []
    for selection in ("heldout", "ebic"):
        field = MarkovField(selection=selection, random_state=seed).fit(items)
        found = centrality(field)
        pairs = {"strength": np.abs(partial).sum(axis=0), "expected_influence": partial.sum(axis=0)}
        figures = {name: float(cast(Any, spearmanr(found[name], theirs)).statistic) for name, theirs in pairs.items()}
        rows.append({"selection": selection, **figures})
    return rows


def _timed(function: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    found = function()
    return found, time.perf_counter() - started


def command(
    columns: Annotated[list[int] | None, typer.Option("--columns", min=200, help="Columns of a network.")] = None,
    as_json: Json = False,
    seed: Seed = 0,
) -> None:
    """Compare communities, closeness and betweenness of large networks with networkx, on one thread.

    Then strength and expected influence of 25 questionnaire items are correlated with those of a graphical lasso.
    """
    measure_columns(draw_network(200, seed))  # compile first
    rows = run_centrality(columns or [1_000, 5_000, 10_000], seed=seed, report=print_message)
    shown = ("columns", "edges", "task", "seconds", "networkx_seconds", "modularity", "networkx_modularity")
    print_rows(rows, shown, as_json)
    rows = run_strength(seed)
    print_message("rank correlations with a graphical lasso, which stands in for EBICglasso:")
    print_rows(rows, ("selection", "strength", "expected_influence"), as_json)
