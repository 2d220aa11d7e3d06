"""Centrality of columns, and communities of them."""

from __future__ import annotations

import networkx as nx
import numpy as np
import polars as pl
import pytest

from sparsefield import CRFClassifier, MarkovField, Relational, RelationalField, centrality, predictability
from sparsefield.analysis import centrality as centrality_module
from sparsefield.analysis.centrality import communities_of_nodes, find_communities, measure_columns, name_communities
from sparsefield.analysis.network import Network, edges_that_hold
from sparsefield.data import Layout, Schema
from sparsefield.data.schema import Variable
from sparsefield.errors import DataError
from sparsefield.model import Field


def make_field(n: int, edges: dict[tuple[int, int], float]) -> Field:
    """A field of binary columns a, b, ... with one weight for each edge."""
    names = tuple(f"n{k}" if n > 26 else "abcdefghijklmnopqrstuvwxyz"[k] for k in range(n))
    variables = tuple(Variable(name, "target", (0, 1), 0, (0.5, 0.5)) for name in names)
    pairs = np.array(sorted(edges), dtype=np.int64).reshape(-1, 2)
    return Field(
        Layout.single(Schema(variables, names)), np.zeros(n), pairs, np.array([edges[tuple(p)] for p in pairs.tolist()])
    )


def measure(n: int, edges: dict[tuple[int, int], float], communities=None, **options) -> dict:
    return measure_columns(Network(make_field(n, edges)), communities, **options)


def draw_edges(n: int, m: int, seed: int, *, ties: bool) -> dict[tuple[int, int], float]:
    rng = np.random.default_rng(seed)
    ends = [(min(a, b), max(a, b)) for a, b in rng.integers(0, n, (m, 2)).tolist() if a != b]
    # Lengths 10, 5 and 10/3 make many paths equally long, up to rounding.
    strengths = rng.integers(1, 4, len(ends)) / 10.0 if ties else rng.gamma(2.0, 0.5, len(ends))
    signs = rng.choice([-1.0, 1.0], len(ends))
    return dict(zip(ends, (strengths * signs).tolist(), strict=True))


def as_graph(n: int, edges: dict[tuple[int, int], float], *, exact_ties: bool = False) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    for (a, b), weight in edges.items():
        # In another unit all lengths are whole numbers, so that networkx, too, finds ties.
        length = round(6.0 / (10.0 * abs(weight))) if exact_ties else 1.0 / abs(weight)
        graph.add_edge(a, b, length=length, strength=abs(weight))
    return graph


@pytest.mark.parametrize(("seed", "ties"), [(0, False), (1, True)])
def test_closeness_and_betweenness_are_those_of_networkx(seed: int, ties: bool) -> None:
    edges = draw_edges(24, 30, seed, ties=ties)
    found, graph = measure(24, edges), as_graph(24, edges, exact_ties=ties)
    betweenness = nx.betweenness_centrality(graph, normalized=False, weight="length")
    np.testing.assert_allclose(found["betweenness"], [betweenness[k] for k in range(24)], atol=1e-12)
    closeness = nx.closeness_centrality(as_graph(24, edges), distance="length")
    np.testing.assert_allclose(found["closeness"], [closeness[k] for k in range(24)])
    np.testing.assert_array_equal(found["degree"], [graph.degree(k) for k in range(24)])
    np.testing.assert_allclose(found["strength"], [graph.degree(k, weight="strength") for k in range(24)])


def test_values_computed_by_hand() -> None:
    """a - b - c with strengths 2 and 0.5, signs + and -, and d alone; a and b are one community."""
    found = measure(4, {(0, 1): 2.0, (1, 2): -0.5}, {"a": "x", "b": "x", "c": "y", "d": "y"})
    assert found["column"] == ["a", "b", "c", "d"]
    assert found["community"] == ["x", "x", "y", "y"]
    assert found["degree"].tolist() == [1, 2, 1, 0]
    assert found["strength"].tolist() == [2.0, 2.5, 0.5, 0.0]
    assert found["expected_influence"].tolist() == [2.0, 1.5, -0.5, 0.0]
    assert found["unsigned_edges"].tolist() == [0, 0, 0, 0]
    np.testing.assert_allclose(found["closeness"], [2 / 3 / 1.5, 2 / 3 / 1.25, 2 / 3 / 2.25, 0.0])
    assert found["betweenness"].tolist() == [0.0, 1.0, 0.0, 0.0]
    assert found["bridge_strength"].tolist() == [0.0, 0.5, 0.5, 0.0]
    assert found["bridge_expected_influence"].tolist() == [0.0, -0.5, -0.5, 0.0]


def test_two_equally_short_paths_share_one() -> None:
    found = measure(4, {(0, 1): 1.0, (1, 3): 1.0, (0, 2): 1.0, (2, 3): 1.0})
    assert found["betweenness"].tolist() == [0.5, 0.5, 0.5, 0.5]


def test_an_edge_of_states_without_order_has_strength_but_no_influence() -> None:
    """A nominal column of three states, which follow a number, and another number."""
    rng = np.random.default_rng(0)
    number = rng.normal(size=400)
    state = np.where(number > 0.6, "high", np.where(number < -0.6, "low", "mid"))
    table = pl.DataFrame({"state": state, "number": number, "other": number + rng.normal(size=400)})
    found = centrality(MarkovField(l1=5.0).fit(table))
    assert list(found["column"]) == ["state", "number", "other"]
    assert np.isnan(found["expected_influence"][0])
    assert found["strength"][0] > 0
    assert found["unsigned_edges"][0] == found["degree"][0]
    assert found["expected_influence"][2] > 0


def test_paths_of_a_large_component_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(centrality_module, "MOST_NODES", 60)
    with pytest.warns(UserWarning, match="closeness and betweenness would take long"):
        found = centrality(MarkovField.from_field(make_field(90, draw_edges(90, 300, 1, ties=False))))
    assert "betweenness" not in found.columns


def test_communities_are_found() -> None:
    edges = {(0, 1): 1.0, (1, 2): 1.0, (0, 2): 1.0, (3, 4): 1.0, (4, 5): 1.0, (3, 5): 1.0, (2, 3): 0.2}
    network = Network(make_field(7, edges))
    assert sorted(map(str, name_communities(network, "auto"))) == ["1", "1", "1", "2", "2", "2", "None"]
    found = measure_columns(network, "auto")
    assert found["bridge_strength"].tolist() == [0.0, 0.0, 0.2, 0.2, 0.0, 0.0, 0.0]


def test_an_empty_community_means_none() -> None:
    network = Network(make_field(4, {(0, 1): 1.0, (1, 2): 1.0}))
    given = {"a": 1, "b": None, "c": float("nan"), "d": ""}
    assert name_communities(network, given) == ["1", None, None, None]


def test_wrong_communities_are_refused_with_all_names() -> None:
    field = MarkovField.from_field(make_field(3, {(0, 1): 1.0}))
    with pytest.raises(DataError, match=r"lacks 'b', 'c': every.* has 'q', which the field does not have"):
        centrality(field, communities={"a": 1, "q": 2})
    with pytest.raises(DataError, match=r"\{column: community\}, 'auto' or None; got 'spinglass'"):
        centrality(field, communities="spinglass")  # pyright: ignore[reportArgumentType]


def test_covariates_of_a_classifier_are_columns() -> None:
    rng = np.random.default_rng(0)
    heat = rng.integers(0, 2, 200)
    ice = np.where(rng.random(200) < 0.9, heat, 1 - heat)
    found = centrality(CRFClassifier(l1=2.0).fit(pl.DataFrame({"heat": heat}), pl.Series("ice", ice)))
    assert sorted(found["column"]) == ["heat", "ice"]
    assert list(found["degree"]) == [1, 1]
    assert min(found["expected_influence"]) > 0


def test_linked_tables_have_columns_of_all_tables() -> None:
    rng = np.random.default_rng(0)
    mood = rng.integers(0, 2, 80)
    fun = np.where(rng.random(160) < 0.9, np.repeat(mood, 2), 1 - np.repeat(mood, 2))
    people = pl.DataFrame({"id": range(80), "mood": mood})
    visits = pl.DataFrame({"who": np.repeat(np.arange(80), 2), "fun": fun})
    links = {"who": ("visit", "who", "person")}
    data = Relational({"person": people, "visit": visits}, keys={"person": "id"}, links=links)
    field = RelationalField(l1=3.0, templates="base").fit(data)
    found = centrality(field)
    assert list(found["column"]) == ["person.mood", "visit.fun"]
    assert list(found["degree"]) == [1, 1]
    with pytest.warns(UserWarning, match="probably the training rows"):
        predicted = predictability(field, data)
    assert list(predicted["column"]) == ["person.mood", "visit.fun"]
    assert min(predicted["normalized_accuracy"]) > 0.5


def modularity(labels, ends, weights) -> float:
    """Newman's: the sum over pairs of nodes in one community of A_ij - k_i k_j / 2m, over 2m."""
    n_nodes = len(labels)
    matrix = np.zeros((n_nodes, n_nodes))
    for (a, b), weight in zip(ends, weights, strict=True):
        if a != b:
            matrix[a, b] += weight
            matrix[b, a] += weight
    degree, total = matrix.sum(axis=1), matrix.sum()
    return sum(
        (matrix[i, j] - degree[i] * degree[j] / total) / total
        for i in range(n_nodes)
        for j in range(n_nodes)
        if labels[i] == labels[j]
    )


def divisions(n_nodes: int):
    """All ways to divide nodes into groups."""
    if n_nodes == 0:
        yield []
        return
    for rest in divisions(n_nodes - 1):
        for label in range(max(rest, default=-1) + 2):
            yield [*rest, label]


def random_network(seed: int, n_nodes: int, n_edges: int):
    rng = np.random.default_rng(seed)
    return rng.integers(0, n_nodes, (n_edges, 2)), rng.uniform(0.1, 2.0, n_edges)


@pytest.mark.parametrize("seed", range(8))
def test_no_division_of_a_small_network_is_much_better(seed) -> None:
    ends, weights = random_network(seed, 7, 12)
    found = modularity(find_communities(7, ends, weights), ends, weights)
    best = max(modularity(np.array(labels), ends, weights) for labels in divisions(7))
    assert best - 0.05 <= found <= best + 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_no_merge_of_two_communities_increases_modularity(seed) -> None:
    ends, weights = random_network(seed, 40, 90)
    labels = find_communities(40, ends, weights)
    found = modularity(labels, ends, weights)
    merged = max(
        modularity(np.where(labels == one, other, labels), ends, weights)
        for one in np.unique(labels)
        for other in np.unique(labels)
    )
    assert merged <= found + 1e-12


def test_planted_groups_are_found_and_numbered_by_size() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1, 2], [30, 20, 10])
    pairs = [(a, b) for a in range(60) for b in range(a) if rng.random() < (0.4 if groups[a] == groups[b] else 0.01)]
    ends = np.array(pairs)
    assert find_communities(60, ends, np.ones(len(ends))).tolist() == groups.tolist()


def test_nothing_to_divide() -> None:
    nothing = np.empty((0, 2), dtype=np.int64)
    assert find_communities(0, nothing, np.empty(0)).tolist() == []
    assert find_communities(3, nothing, np.empty(0)).tolist() == [0, 1, 2]
    assert find_communities(1, np.array([[0, 0]]), np.ones(1)).tolist() == [0]


def test_communities_count_the_edges_that_hold() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 6))
    x[:, 1] += x[:, 0]
    network = Network(MarkovField(l1=0.5).fit(x).field_)
    holding = edges_that_hold(network)
    assert holding is not None
    assert len(holding) < len(network.ends)
    assert set(communities_of_nodes(network)) == set(network.ends[holding].ravel().tolist())
