"""A planted network is drawn as described, and its field is found again."""

from __future__ import annotations

import numpy as np
import polars as pl

from benchmarks.network import ACROSS, WITHIN, draw_network, run_network
from sparsefield import RelationalField


def test_a_network_has_the_entities_links_and_gaps_that_were_asked_for() -> None:
    network = draw_network(300, 6, links=700, missing=0.25, seed=3)
    people, knows = network.data.tables["person"], network.data.tables["knows"]
    assert people.shape == (300, 7)
    assert knows.shape == (700, 2)
    assert (knows["who"] != knows["whom"]).all()
    missing_cells = people.drop("id").null_count().sum_horizontal()[0] / 1800
    assert 0.2 < missing_cells < 0.3
    assert len([edge for edge in network.edges if edge[0] == WITHIN]) == 5
    assert len([edge for edge in network.edges if edge[0] == ACROSS]) == 6


def test_a_seed_fixes_the_network() -> None:
    one, same, other = (draw_network(200, 5, seed=seed) for seed in (1, 1, 2))
    assert one.data.tables["person"].equals(same.data.tables["person"])
    assert one.edges == same.edges
    assert not one.data.tables["person"].equals(other.data.tables["person"])


def test_the_planted_edges_are_the_strongest() -> None:
    network = draw_network(4000, 8, seed=0)
    field = RelationalField(l1=200.0, l2=0.0).fit(network.data)
    edges = field.edges_.head(len(network.edges))
    found = set(zip(edges["template"], edges["variable_a"], edges["variable_b"], strict=True))
    assert len(found & network.edges) >= 0.9 * len(network.edges)
    assert field.converged_


def test_attributes_that_share_an_edge_move_together_as_its_sign_says() -> None:
    network = draw_network(4000, 8, seed=0)
    field = RelationalField(l1=20.0, l2=0.0).fit(network.data)
    within = field.features_.filter(pl.col("template") == WITHIN)
    cells = network.data.tables["person"]
    for a, b, weight in within.select("variable_a", "variable_b", "weight").head(7).iter_rows():
        assert np.sign(np.corrcoef(cells[a], cells[b])[0, 1]) == np.sign(weight)


def test_the_benchmark_reports_growth_and_recovery() -> None:
    rows = run_network((400, 800), 5, report=lambda line: None)
    assert [row["entities"] for row in rows] == [400, 800]
    assert rows[0]["exponent"] is None
    assert isinstance(rows[1]["exponent"], float)
    for row in rows:
        assert row["links"] == 5 * row["entities"]
        assert 0 <= row["precision"] <= 1
        assert 0 <= row["recall"] <= 1
        assert row["certified"]
