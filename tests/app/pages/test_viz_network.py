"""The network is that of the field, and its subgraphs are bounded."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import polars as pl
import pytest
from surveys import stability_of

from sparsefield import Features, MarkovField, Relational, RelationalField, Solver
from sparsefield.analysis.network import EDGES_PER_NODE, Network
from sparsefield.app.datasets import make_markov_field


@pytest.fixture(scope="module")
def wide() -> Network:
    return Network(make_markov_field(400, 1, neighbors=6, burn_in=1, thin=1, seed=1).field.field_)


@pytest.fixture(scope="module")
def people() -> RelationalField:
    rng = np.random.default_rng(0)
    person = pl.DataFrame({"id": range(60), "smokes": (np.arange(60) % 20 < 10).tolist()})
    visit = pl.DataFrame({"who": rng.integers(0, 60, 150)})
    fun = [bool(person["smokes"][who]) for who in visit["who"]]
    data = Relational(
        {"person": person, "visit": visit.with_columns(fun=pl.Series(fun))},
        keys={"person": "id"},
        links={"who": ("visit", "who", "person")},
    )
    return RelationalField(l1=0.5).fit(data)


def test_edges_are_those_of_the_estimator(field: MarkovField) -> None:
    network = Network(field.field_)
    edges = {frozenset((a, b)): strength for a, b, strength in field.edges_.iter_rows()}
    assert len(network.strengths) == len(edges) > 2
    found = {}
    for number in range(network.n_variables):
        strengths = []
        for one in network.neighbors(number, 100):
            found[frozenset((network.labels[number], one.label))] = one.edge.strength
            strengths.append(one.edge.strength)
        assert strengths == sorted(strengths, reverse=True)
        assert network.degree(number) == len(strengths)
    assert found == pytest.approx(edges)


def test_weights_of_a_neighbor_are_those_of_the_features(field: MarkovField) -> None:
    network = Network(field.field_)
    told = {}
    for row in field.features_.filter(pl.col("variable_b").is_not_null()).iter_rows(named=True):
        ends = [(row["variable_a"], str(row["state_a"])), (row["variable_b"], str(row["state_b"]))]
        told[frozenset(ends)] = row["weight"]
    found = {}
    for number in range(network.n_variables):
        for one in network.neighbors(number, 100):
            for feature in one.features:
                states = {term.column: str(term.state) for term in feature.terms}
                assert set(states) == {network.labels[number], one.label}
                found[frozenset(states.items())] = feature.weight
            signs = {np.sign(feature.weight) for feature in one.features}
            binary = "age" not in (network.labels[number], one.label)  # age has three states
            assert one.edge.sign == (signs.pop() if len(signs) == 1 and binary else 0)
    assert found == pytest.approx(told)


def test_conjunctions_join_each_pair_of_their_variables() -> None:
    bits = np.random.default_rng(0).integers(0, 2, (1000, 4))
    bits[:, 2] = bits[:, 0] ^ bits[:, 1]
    model = MarkovField(l1=20.0, features=Features(max_order=3, expand="all")).fit(bits)
    assert len(model.field_.conjunctions)
    network = Network(model.field_)
    first = {one.label: one for one in network.neighbors(0, 10)}
    assert set(first) >= {"x1", "x2"}
    assert {term.column for feature in first["x1"].features for term in feature.terms} >= {"x1", "x2"}


def test_linked_tables_name_their_tables_and_their_links(people: RelationalField) -> None:
    network = Network(people.field_)
    assert network.labels[:2] == ["person.smokes", "visit.fun"]
    neighbors = {one.label: one for one in network.neighbors(0, 10)}
    assert "visit.fun" in neighbors
    assert neighbors["visit.fun"].edge.template == neighbors["visit.fun"].features[0].template == "across who"
    edges = people.edges_.filter(pl.col("table_a") != pl.col("table_b"))
    assert len(network.strengths) >= len(edges)
    assert set(network.overview(10).names) >= {"person.smokes", "visit.fun"}


@pytest.mark.parametrize("limit", [1, 5, 25, 60])
def test_a_neighborhood_is_bounded_and_takes_the_strongest_first(wide: Network, limit: int) -> None:
    part = wide.neighborhood([7], limit)
    assert len(part.nodes) == limit
    assert part.nodes[0] == 7
    near = [edge.other_end(7) for edge in wide.edges_of(7)]
    assert list(part.nodes[1 : len(near) + 1]) == near[: limit - 1]
    assert part.left_out == max(0, len(near) - (limit - 1))
    assert len(part.edges) <= EDGES_PER_NODE * limit + len(near)
    among = {frozenset(ends) for ends in wide.ends[part.edges].tolist()}
    assert {frozenset((7, k)) for k in near[: limit - 1]} <= among
    assert all(pair <= set(part.nodes) for pair in among)


def test_the_overview_has_the_strongest_edges(wide: Network) -> None:
    part = wide.overview(20)
    assert len(part.nodes) <= 20
    best = max((edge for number in range(400) for edge in wide.edges_of(number)), key=lambda edge: edge.strength)
    assert part.edges[0] == best.number


def test_a_field_without_edges_still_shows_its_variables() -> None:
    network = Network(make_markov_field(5, 1, neighbors=0, burn_in=1, thin=1).field.field_)
    assert network.overview(10).nodes == (0, 1, 2, 3, 4)
    assert network.neighborhood([2], 10).nodes == (2,)
    assert network.neighbors(2, 10) == []


def test_names_are_found_beginnings_first(wide: Network) -> None:
    assert [wide.labels[k] for k in wide.find("X12", 4)] == ["x12", "x120", "x121", "x122"]
    assert wide.find("nothing", 4) == []
    assert len(wide.find("", 30)) == 30


def test_stability_is_that_of_each_feature(field: MarkovField) -> None:
    assert Network(field.field_).stability is None
    shares = np.linspace(0, 1, len(field.field_.weights)).tolist()
    told = replace(field.field_, record=msgspec.structs.replace(field.field_.record, stability=stability_of(shares)))
    network = Network(told)
    assert network.stability is not None
    neighbors = [one for number in range(network.n_variables) for one in network.neighbors(number, 9)]
    weights = dict(zip(field.field_.weights.tolist(), shares, strict=True))
    assert neighbors
    for feature in (feature for one in neighbors for feature in one.features):
        assert network.stability[feature.number] == pytest.approx(weights[feature.weight])


def test_features_of_different_templates_make_different_edges() -> None:
    """A feature within a row and one over a link, of the same two columns, do not share an edge."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"id": range(20), "next": [*range(1, 20), None], "a": rng.integers(0, 2, 20)})
    frame = frame.with_columns(b=pl.Series(rng.integers(0, 2, 20)))
    data = Relational({"t": frame}, keys={"t": "id"}, links={"next": ("t", "next", "t")})
    field = RelationalField(l1=2.0, solver=Solver(max_iter=1, certify=False)).fit(data).field_
    layout = field.layout
    columns = range(layout.n_columns)
    names = {}
    for one, two in ((one, two) for one in (0, 1) for two in columns if one != two):
        name = layout.feature_name(one, two)
        if name.state_b is not None:
            names[name.template, name.variable_a, name.variable_b] = one, two
    across = next(key for key in names if key[0].startswith("across"))
    pairs = np.array(sorted([names["within t", "a", "b"], names[across[0], "a", "b"]]))
    made = replace(field, pairs=pairs, weights=np.array([3.0, -4.0]))
    network = Network(made)
    assert [network.edge(k).template for k in (0, 1)] == [across[0], "within t"]
    whole = network.edge_subgraph()
    assert whole.names == ["t.a", "t.b"]
    assert whole.degrees.tolist() == [1, 1]
    assert whole.total_strengths.tolist() == [7.0, 7.0]
    assert [one.edge.template for one in network.neighbors(0, 9)] == [across[0], "within t"]


def test_the_backbone_is_a_maximum_spanning_forest(wide: Network) -> None:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

    nodes, tree = wide.backbone()
    joined = np.unique(wide.ends)
    assert sorted(nodes) == joined.tolist()
    graph = coo_array((-wide.strengths, wide.ends.T), shape=(400, 400))
    assert wide.strengths[tree].sum() == pytest.approx(-minimum_spanning_tree(graph.tocsr()).sum())
    kept = coo_array((np.ones(len(tree)), wide.ends[tree].T), shape=(400, 400))
    assert connected_components(kept)[0] == connected_components(graph)[0]
    assert sorted(tree.tolist()) == tree.tolist()


@pytest.mark.parametrize("limit", [1, 10, 150])
def test_a_bounded_backbone_is_connected(wide: Network, limit: int) -> None:
    nodes, tree = wide.backbone(limit)
    assert len(nodes) == limit
    assert len(tree) == limit - 1  # this network is connected
    assert set(wide.ends[tree].ravel().tolist()) <= set(nodes)
