"""networkx reads GraphML as the graph that was written."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from exchanged_fields import linked_tables, one_table
from hypothesis import given
from hypothesis import strategies as st

from sparsefield.app.tables.graph_export import to_networkx, write_graphml
from sparsefield.data import Layout, Schema, Variable
from sparsefield.errors import DataError
from sparsefield.model import Field

LETTERS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"), max_size=5
)


def same(one, other) -> bool:
    nx = pytest.importorskip("networkx")
    one.graph.clear(), other.graph.clear()
    return type(one) is type(other) and nx.utils.graphs_equal(one, other)


def named(names: list[str], states: tuple[str, ...] = ("a", "b")) -> Field:
    """A chain of columns with these names."""
    variables = tuple(Variable(name, "target", states, 0, (0.5, 0.5)) for name in names)
    pairs = np.array([[k, k + 1] for k in range(len(names) - 1)], dtype=np.int64).reshape(-1, 2)
    layout = Layout.single(Schema(variables, tuple(names)))
    return Field(layout, np.arange(1.0, 1 + len(names)), pairs, 0.1 + np.arange(len(pairs)))


@pytest.mark.parametrize("make", [one_table, lambda: named([])])
def test_networkx_reads_the_same_graph(tmp_path: Path, make) -> None:
    nx = pytest.importorskip("networkx")
    write_graphml(make(), tmp_path / "net.graphml")
    assert same(nx.read_graphml(tmp_path / "net.graphml"), to_networkx(make(), flat=True))
    assert [path.name for path in tmp_path.iterdir()] == ["net.graphml"]


def test_linked_tables_come_back_with_templates_and_parallel_edges(tmp_path: Path) -> None:
    nx = pytest.importorskip("networkx")
    write_graphml(linked_tables(), tmp_path / "net.graphml")
    graph = nx.read_graphml(tmp_path / "net.graphml", force_multigraph=True)
    assert same(graph, to_networkx(linked_tables(), flat=True))
    assert {edge["template"] for *_, edge in graph.edges(data=True)} >= {"within person", "across sender"}
    assert graph.number_of_edges() > len({frozenset(ends) for ends in graph.edges()})


@given(names=st.lists(LETTERS.filter(bool), min_size=2, max_size=4, unique=True), states=st.tuples(LETTERS, LETTERS))
def test_any_names_come_back(tmp_path_factory, names, states) -> None:
    nx = pytest.importorskip("networkx")
    path = tmp_path_factory.mktemp("graphml") / "net.graphml"
    field = named([f" {name}\t\n" for name in names], (f"{states[0]}\n", f"<&>{states[1]}]]>"))
    write_graphml(field, path)
    assert same(nx.read_graphml(path), to_networkx(field, flat=True))


def test_characters_that_xml_does_not_allow_are_replaced(tmp_path: Path) -> None:
    write_graphml(named(["a\x00", "b\udc80"]), tmp_path / "net.graphml")
    nodes = ET.parse(tmp_path / "net.graphml").getroot().iter("{http://graphml.graphdrawing.org/xmlns}node")
    assert [node.get("id") for node in nodes] == ["a\ufffd", "b\ufffd"]
    with pytest.raises(DataError, match="rename one"):
        write_graphml(named(["a\x00", "a\x01"]), tmp_path / "other.graphml")
    assert not (tmp_path / "other.graphml").exists()


def test_tables_and_columns_with_the_same_full_name_are_refused(tmp_path: Path) -> None:
    one, other = (Schema((Variable(n, "target", (0, 1), 0, (0.5, 0.5)),), (n,)) for n in ("b.c", "c"))
    layout, none = Layout(("a", "a.b"), (one, other), (), ()), np.empty((0, 2), dtype=np.int64)
    field = Field(layout, np.zeros(2), none, np.empty(0))
    with pytest.raises(DataError, match=r"have the name 'a\.b\.c'"):
        write_graphml(field, tmp_path / "net.graphml")
