"""The networkx graph has all variables, features and weights of the field, by name."""

from __future__ import annotations

import sys

import pytest
from exchanged_fields import linked_tables, one_table

from sparsefield.app.tables.graph_export import to_networkx
from sparsefield.errors import DataError
from sparsefield.model import edge_table, feature_table

nx = pytest.importorskip("networkx")


def test_nodes_are_variables() -> None:
    nodes = dict(to_networkx(one_table()).nodes(data=True))
    assert list(nodes) == ["smokes", "mood", "always", "town", "age"]
    assert nodes["mood"] == {
        "role": "target",
        "kind": "nominal",
        "states": ["glad", "odd & <so>", "sad"],
        "reference": "sad",
        "shares": [0.2, 0.3, 0.5],
        "weights": {"glad": 0.5},
    }
    assert nodes["smokes"]["weights"] == {1: -1.0}
    assert nodes["always"]["states"] == ["yes"]
    assert nodes["town"] == {
        "role": "observed",
        "kind": "nominal",
        "states": [False, True],
        "reference": False,
        "shares": [0.5, 0.5],
        "weights": {},
    }
    numeric = {"kind": "numeric", "mean": 40.0, "deviation": 10.0, "transform": "linear-scores"}
    assert nodes["age"] == {"role": "observed", "weights": {}, **numeric}


def test_edges_are_pairs_of_variables_with_their_weights() -> None:
    graph = to_networkx(one_table(triples=False))
    assert type(graph) is nx.Graph
    assert set(graph.edges) == {("smokes", "mood"), ("mood", "age")}
    assert graph.edges["mood", "smokes"] == {
        "strength": 5.0,
        "strongest": -4.0,
        "variable_a": "smokes",
        "variable_b": "mood",
        "weights": {(1, "glad"): 3.0, (1, "odd & <so>"): -4.0},
    }
    assert graph.edges["age", "mood"]["weights"] == {("glad", None): 0.25}


def test_conjunctions_join_every_two_of_their_variables() -> None:
    graph = to_networkx(one_table())
    expected = [({"smokes": 1, "mood": "glad", "town": True}, 2.0)]
    for ends in (("smokes", "mood"), ("smokes", "town"), ("mood", "town")):
        assert graph.edges[ends]["conjunctions"] == expected
    assert graph.edges["mood", "town"]["weights"] == {}
    assert graph.edges["mood", "town"]["strength"] == 2.0
    assert graph.edges["smokes", "mood"]["strength"] == pytest.approx(29.0**0.5)


def test_flat_attributes_are_text_and_numbers() -> None:
    graph = to_networkx(one_table(), flat=True)
    for _, attributes in [*graph.nodes(data=True), *((0, own) for *_, own in graph.edges(data=True))]:
        assert {type(value) for value in attributes.values()} <= {str, float}
    assert graph.nodes["mood"]["states"] == "glad, odd & <so>, sad"
    assert graph.nodes["mood"]["weights"] == "glad: 0.5"
    assert graph.nodes["mood"]["label"] == "mood"
    edge = graph.edges["smokes", "mood"]
    assert edge["weights"] == "smokes=1 & mood=glad: 3; smokes=1 & mood=odd & <so>: -4"
    assert edge["conjunctions"] == "smokes=1 & mood=glad & town=True: 2"
    assert edge["weight"] == edge["strength"]
    assert graph.edges["mood", "age"]["weights"] == "mood=glad & age: 0.25"


def test_linked_tables_make_a_multigraph_with_all_features() -> None:
    field = linked_tables()
    graph = to_networkx(field)
    assert type(graph) is nx.MultiGraph
    assert graph.nodes["letter.kind"]["table"] == "letter"
    assert graph.nodes["person.(neighbor count)"] == graph.nodes["letter.(neighbor count)"] == {"role": "count"}
    edges = {
        (e["template"], e["table_a"], e["variable_a"], e["table_b"], e["variable_b"]): e
        for *_, e in graph.edges(data=True)
    }
    frame = edge_table(field)
    assert len(frame) == graph.number_of_edges() == len(edges)
    for *key, strength in frame.iter_rows():
        assert edges[tuple(key)]["strength"] == pytest.approx(strength)
    features = {
        (e["template"], e["table_a"], e["variable_a"], str(a), e["table_b"], e["variable_b"], str(b)): weight
        for e in edges.values()
        for (a, b), weight in e["weights"].items()
    }
    expected = feature_table(field, "pandas").dropna(subset=["variable_b"])
    assert len(expected) == len(features)
    columns = ["template", "table_a", "variable_a", "state_a", "table_b", "variable_b", "state_b", "weight"]
    for *key, weight in expected[columns].itertuples(index=False):
        words = tuple("None" if word != word or word is None else str(word) for word in key)
        assert features[words] == weight
    assert sorted(key for *_, key in graph.edges(keys=True)) == list(range(len(edges)))
    assert any(a == b for a, b in graph.edges())


def test_without_networkx_the_error_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(DataError, match=r"networkx is not installed: pip install 'sparsefield\[graph\]'"):
        to_networkx(one_table())


def test_a_field_that_was_not_learned_has_no_shares() -> None:
    for _, attributes in to_networkx(one_table(learned=False)).nodes(data=True):
        assert "shares" not in attributes
