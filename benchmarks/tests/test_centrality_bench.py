"""The comparison with networkx has a row for each task and size."""

from __future__ import annotations

import numpy as np

from benchmarks.centrality import fit_graphical_lasso, run_centrality


def test_both_find_communities_of_about_the_same_modularity() -> None:
    communities, paths = run_centrality([200])
    assert abs(communities["modularity"] - communities["networkx_modularity"]) < 0.1
    assert {communities["task"], paths["task"]} == {"communities", "closeness and betweenness"}
    assert min(row["networkx_seconds"] for row in (communities, paths)) > 0.0


def test_the_graphical_lasso_finds_a_chain() -> None:
    X = np.random.default_rng(0).normal(size=(800, 4))
    for k in range(1, 4):
        X[:, k] += 0.8 * X[:, k - 1]
    partial = fit_graphical_lasso(X)
    assert np.diag(partial, 1).min() > 0.3
    assert np.abs(partial[[0, 0, 1], [2, 3, 3]]).max() < 0.1
    assert np.abs(np.diag(partial)).max() < 1e-12
