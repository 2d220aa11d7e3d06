"""The network that is shown is that of the field, and a picture has a bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from surveys import stability_of

from sparsefield import HigherOrder, MarkovField, Relational, RelationalField
from sparsefield.datasets import make_markov_field
from sparsefield.viz.explorer.cytoscape_elements import elements, stylesheet
from sparsefield.viz.explorer.subgraph import EDGES_A_NODE, Network


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
    assert network.n_edges == len(edges) > 2
    found = {}
    for number in range(network.n_variables):
        strengths = []
        for one in network.neighbors(number, 100):
            found[frozenset((network.labels[number], one.label))] = one.strength
            strengths.append(one.strength)
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
            for tie in one.ties:
                ((other, state),) = tie.others
                assert other == one.label
                found[frozenset([(network.labels[number], str(tie.state)), (other, str(state))])] = tie.weight
            signs = {np.sign(tie.weight) for tie in one.ties}
            assert one.sign == (signs.pop() if len(signs) == 1 else 0)
    assert found == pytest.approx(told)


def test_conjunctions_tie_each_pair_of_their_variables() -> None:
    bits = np.random.default_rng(0).integers(0, 2, (1000, 4))
    bits[:, 2] = bits[:, 0] ^ bits[:, 1]
    model = MarkovField(l1=20.0, max_order=HigherOrder(max_order=3, expand="all")).fit(bits)
    assert len(model.field_.conjunctions)
    network = Network(model.field_)
    first = {one.label: one for one in network.neighbors(0, 10)}
    assert set(first) >= {"x1", "x2"}
    assert {name for tie in first["x1"].ties for name, _ in tie.others} >= {"x1", "x2"}


def test_linked_tables_name_their_tables_and_their_links(people: RelationalField) -> None:
    network = Network(people.field_)
    assert network.labels[:2] == ["person.smokes", "visit.fun"]
    ties = {one.label: one.ties for one in network.neighbors(0, 10)}
    assert "visit.fun" in ties
    assert ties["visit.fun"][0].template == "across who"
    edges = people.edges_.filter(pl.col("table_a") != pl.col("table_b"))
    assert network.n_edges >= len(edges)
    assert elements(network, network.strongest(10))


@pytest.mark.parametrize("limit", [1, 5, 25, 60])
def test_a_neighborhood_is_bounded_and_takes_the_strongest_first(wide: Network, limit: int) -> None:
    part = wide.around([7], limit)
    assert len(part.nodes) == limit
    assert part.nodes[0] == 7
    near = [edge.b if edge.a == 7 else edge.a for edge in wide.edges_of(7)]
    assert list(part.nodes[1 : len(near) + 1]) == near[: limit - 1]
    assert part.left_out == max(0, len(near) - (limit - 1))
    assert len(part.edges) <= EDGES_A_NODE * limit + len(near)
    among = {frozenset((edge.a, edge.b)) for edge in part.edges}
    assert {frozenset((7, k)) for k in near[: limit - 1]} <= among
    assert all(pair <= set(part.nodes) for pair in among)


def test_the_overview_has_the_strongest_edges(wide: Network) -> None:
    part = wide.strongest(20)
    assert len(part.nodes) <= 20
    best = max((edge for number in range(400) for edge in wide.edges_of(number)), key=lambda edge: edge.strength)
    assert part.edges[0] == best


def test_a_field_without_edges_still_shows_its_variables() -> None:
    network = Network(make_markov_field(5, 1, neighbors=0, burn_in=1, thin=1).field.field_)
    assert network.strongest(10).nodes == (0, 1, 2, 3, 4)
    assert network.around([2], 10).nodes == (2,)
    assert network.neighbors(2, 10) == []


def test_names_are_found_beginnings_first(wide: Network) -> None:
    assert [wide.labels[k] for k in wide.find("X12", 4)] == ["x12", "x120", "x121", "x122"]
    assert wide.find("nothing", 4) == []
    assert len(wide.find("", 30)) == 30


def test_pictures_are_the_same_each_time_and_labels_do_not_overlap(wide: Network) -> None:
    shown = elements(wide, wide.around([3], 40), [3])
    assert shown == elements(wide, wide.around([3], 40), [3])
    nodes = [one for one in shown if "position" in one]
    assert len(nodes) == 40
    for k, one in enumerate(nodes):
        for other in nodes[:k]:
            dx = abs(one["position"]["x"] - other["position"]["x"])
            dy = abs(one["position"]["y"] - other["position"]["y"])
            assert dx >= (one["data"]["width"] + other["data"]["width"]) / 2 or dy >= 30
    assert [one["classes"] for one in nodes].count("chosen") == 1


def test_styles_mark_evidence_and_what_moved() -> None:
    looks = {one["selector"]: one["style"] for one in stylesheet([4], {5: (1, 1.0), 6: (-1, 0.0)})}
    assert looks['node[id = "4"]']["background-color"] == "#1f2430"
    assert looks['node[id = "5"]']["background-color"] == "#2f6db5"
    assert looks['node[id = "6"]']["background-color"] == "#ffffff"


def test_stability_is_shown_where_the_model_tells_it(field: MarkovField) -> None:
    assert Network(field.field_).stability is None
    shares = np.linspace(0, 1, len(field.field_.weights)).tolist()
    told = replace(field.field_, record=replace(field.field_.record, stability=stability_of(shares)))
    network = Network(told)
    ties = [tie for number in range(network.n_variables) for one in network.neighbors(number, 9) for tie in one.ties]
    weights = dict(zip(field.field_.weights.tolist(), shares, strict=True))
    assert ties
    assert all(tie.stability == pytest.approx(weights[tie.weight]) for tie in ties)
