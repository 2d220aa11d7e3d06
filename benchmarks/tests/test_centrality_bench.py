"""The comparison with networkx has a row for each task and size."""

from __future__ import annotations

from benchmarks.centrality import run_centrality


def test_both_find_communities_of_about_the_same_modularity() -> None:
    communities, paths = run_centrality([200])
    assert abs(communities["modularity"] - communities["networkx_modularity"]) < 0.1
    assert {communities["task"], paths["task"]} == {"communities", "closeness and betweenness"}
    assert min(row["networkx_seconds"] for row in (communities, paths)) > 0.0
