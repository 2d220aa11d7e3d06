"""The graph has all variables, features and weights of the field, by name, and networkx reads it as it was written."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from exchanged_fields import linked_tables, one_table
from mixed_kinds import TARGETS, mixed_field

from sparsefield.app.tables.export import to_networkx, write_graph
from sparsefield.data import Layout, Schema, Variable
from sparsefield.errors import DataError
from sparsefield.model import Field
from sparsefield.model.feature_tables import edge_table

nx = pytest.importorskip("networkx")


def same(one, other) -> bool:
    one.graph.clear(), other.graph.clear()
    return type(one) is type(other) and nx.utils.graphs_equal(one, other)


def named(names: list[str], states: tuple[str, ...] = ("a", "b")) -> Field:
    """A chain of columns with these names."""
    variables = tuple(Variable(name, "target", states, 0, (0.5, 0.5)) for name in names)
    pairs = np.array([[k, k + 1] for k in range(len(names) - 1)], dtype=np.int64).reshape(-1, 2)
    layout = Layout.single(Schema(variables, tuple(names)))
    return Field(layout, np.arange(1.0, 1 + len(names)), pairs, 0.1 + np.arange(len(pairs)))


def test_nodes_are_variables() -> None:
    nodes = dict(to_networkx(one_table()).nodes(data=True))
    assert list(nodes) == ["smokes", "mood", "always", "town", "age"]
    assert nodes["mood"] == {
        "label": "mood", "role": "target", "kind": "nominal", "states": "glad, odd & <so>, sad",
        "shares": "0.2, 0.3, 0.5", "biases": "glad: 0.5",
    }  # fmt: skip
    assert nodes["age"] == {"label": "age", "role": "observed", "kind": "numeric", "mean": 40.0, "deviation": 10.0}
    for _, attributes in to_networkx(one_table(learned=False)).nodes(data=True):
        assert "shares" not in attributes


def test_edges_are_pairs_of_variables_with_their_weights() -> None:
    graph = to_networkx(one_table(triples=False))
    assert type(graph) is nx.Graph
    assert set(graph.edges) == {("smokes", "mood"), ("mood", "age")}
    assert graph.edges["mood", "smokes"] == {
        "weight": 5.0,
        "strongest": -4.0,
        "features": "smokes=1 & mood=odd & <so>: -4; smokes=1 & mood=glad: 3",
    }
    assert graph.edges["age", "mood"]["features"] == "mood=glad & age: 0.25"


def test_conjunctions_join_every_two_of_their_variables() -> None:
    graph = to_networkx(one_table())
    for ends in (("smokes", "mood"), ("smokes", "town"), ("mood", "town")):
        assert "smokes=1 & mood=glad & town=True: 2" in graph.edges[ends]["features"]
    assert graph.edges["mood", "town"]["weight"] == 2.0
    assert graph.edges["smokes", "mood"]["weight"] == pytest.approx(29.0**0.5)


def test_nodes_have_their_kind_and_scores_have_no_state() -> None:
    graph = to_networkx(mixed_field())
    assert {name: node["kind"] for name, node in graph.nodes(data=True)} == {v.name: v.kind for v in TARGETS}
    biases = graph.nodes["income"]["biases"]
    assert all(word in biases for word in ("score: ", "square: ", "up to 3: "))
    assert "answer & income: " in graph.edges["answer", "income"]["features"]
    assert "answer=often & income=over 3: " in graph.edges["answer", "income"]["features"]


def test_linked_tables_make_a_multigraph_with_all_edges() -> None:
    field = linked_tables()
    graph = to_networkx(field)
    assert type(graph) is nx.MultiGraph
    assert graph.nodes["letter.kind"]["role"] == "target"
    assert graph.nodes["person.(neighbor count)"]["role"] == "count"
    edges = {(e["template"], frozenset((a, b))): e for a, b, e in graph.edges(data=True)}
    frame = edge_table(field)
    assert len(frame) == graph.number_of_edges()
    for template, table_a, a, table_b, b, _, _, strength, *_ in frame.iter_rows():
        ends = frozenset((f"{table_a}.{a}", f"{table_b}.{b}"))
        parallel = [e["weight"] for x, y, e in graph.edges(data=True) if (e["template"], {x, y}) == (template, ends)]
        assert any(weight == pytest.approx(strength) for weight in parallel)
    assert len(edges) > len({ends for _, ends in edges})
    assert any(a == b for a, b in graph.edges())


def read_json(path: Path):
    return nx.node_link_graph(json.loads(path.read_text(encoding="utf-8")), edges="edges")


@pytest.mark.parametrize("make", [one_table, lambda: named([]), linked_tables])
@pytest.mark.parametrize("suffix", [".graphml", ".json"])
def test_networkx_reads_the_same_graph(tmp_path: Path, make, suffix: str) -> None:
    path = tmp_path / f"net{suffix}"
    assert write_graph(make(), path) == (len(to_networkx(make())), to_networkx(make()).number_of_edges())
    many = to_networkx(make()).is_multigraph()
    graph = read_json(path) if suffix == ".json" else nx.read_graphml(path, force_multigraph=many)
    assert same(graph, to_networkx(make()))
    assert [path.name for path in tmp_path.iterdir()] == [f"net{suffix}"]


def test_characters_that_xml_does_not_allow_are_replaced(tmp_path: Path) -> None:
    write_graph(named(["a\x00", "b\x01"]), tmp_path / "net.graphml")
    nodes = ET.parse(tmp_path / "net.graphml").getroot().iter("{http://graphml.graphdrawing.org/xmlns}node")
    assert [node.get("id") for node in nodes] == ["a\ufffd", "b\ufffd"]
    with pytest.raises(DataError, match="rename one"):
        write_graph(named(["a\x00", "a\x01"]), tmp_path / "other.graphml")
    assert not (tmp_path / "other.graphml").exists()


def test_tables_and_columns_with_the_same_full_name_are_refused() -> None:
    one, other = (Schema((Variable(n, "target", (0, 1), 0, (0.5, 0.5)),), (n,)) for n in ("b.c", "c"))
    layout, none = Layout(("a", "a.b"), (one, other), (), ()), np.empty((0, 2), dtype=np.int64)
    with pytest.raises(DataError, match=r"have the name 'a\.b\.c'"):
        to_networkx(Field(layout, np.zeros(2), none, np.empty(0)))
