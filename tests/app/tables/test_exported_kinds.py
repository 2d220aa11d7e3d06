"""Ordinal and numeric columns are exported as tables over their states and levels, and as nodes with their kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mixed_kinds import AGE, CITY, INCOME, SEX, TARGETS, exponentials, mixed_field
from slow_tables import products

from sparsefield import MarkovField
from sparsefield.app.tables.graph_export import to_networkx, write_graphml
from sparsefield.app.tables.uai import write_uai
from sparsefield.errors import DataError
from sparsefield.model.feature_tables import bias_table, edge_table, feature_table


def same_distribution(found: dict, truth: dict) -> None:
    assert set(found) == set(truth)
    assert [found[way] for way in sorted(truth)] == pytest.approx([truth[way] for way in sorted(truth)])


def test_a_uai_file_has_the_distribution_of_all_kinds(tmp_path: Path) -> None:
    field = mixed_field()
    names = write_uai(field, tmp_path / "net.uai")
    same_distribution(products((tmp_path / "net.uai").read_text()), exponentials(field))
    assert names["answer"] == ["never", "rarely", "often"]
    assert names["income"] == [1.0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize("value", [12.0, 53])
def test_numbers_are_given_by_their_values(tmp_path: Path, value: float) -> None:
    field = mixed_field(SEX, INCOME, AGE)
    write_uai(field, tmp_path / "net.uai", given={"age": value})
    bins = [float(AGE.bins[AGE.codes_of(np.array([value]))[0]] == k) for k in range(3)]
    truth = exponentials(field, {"age": [(value - 40.0) / 15.5, *bins]})
    found = products((tmp_path / "net.uai").read_text())
    scale = sum(truth.values()) / sum(found.values())
    same_distribution({way: scale * value for way, value in found.items()}, truth)


def test_a_target_number_is_given_by_a_value_in_its_level(tmp_path: Path) -> None:
    field = mixed_field(CITY, INCOME)
    write_uai(field, tmp_path / "net.uai", given={"income": 7.0})
    truth = exponentials(field)
    given = {way[:1]: value for way, value in truth.items() if way[1] == 3}
    found = products((tmp_path / "net.uai").read_text())
    assert np.divide(*[np.array(list(one.values())) / sum(one.values()) for one in (found, given)]) == pytest.approx(1)
    with pytest.raises(DataError, match="holds numbers; given has 'much'"):
        write_uai(field, tmp_path / "net.uai", given={"income": "much"})


def test_nodes_have_their_kind_and_edges_the_scores(tmp_path: Path) -> None:
    graph = to_networkx(mixed_field())
    assert {name: node["kind"] for name, node in graph.nodes(data=True)} == {v.name: v.kind for v in TARGETS}
    assert graph.nodes["answer"]["states"] == ["never", "rarely", "often"]
    assert "reference" not in graph.nodes["answer"]
    assert "reference" not in graph.nodes["city"]
    assert graph.nodes["sex"]["reference"] == "m"
    assert set(graph.nodes["income"]["weights"]) == {None, "square", "up to 3", "over 3"}
    edge = graph.edges["answer", "income"]
    assert (None, None) in edge["weights"]
    assert ("often", "over 3") in edge["weights"]
    write_graphml(mixed_field(), tmp_path / "net.graphml")
    text = (tmp_path / "net.graphml").read_text()
    assert ">ordinal<" in text
    assert "score: " in text
    assert "None" not in text


def test_scores_have_no_state_in_tables() -> None:
    field = mixed_field()
    rows = feature_table(field).rows(named=True)
    scores = [row for row in rows if (row["variable_a"], row["variable_b"]) == ("answer", "income")]
    assert {row["state_a"] for row in scores} == {None, "never", "rarely", "often"}
    assert {row["state_b"] for row in scores} == {None, "up to 3", "over 3"}
    biases = [row["state"] for row in bias_table(field).rows(named=True) if row["variable"] == "income"]
    assert sorted(map(str, biases)) == ["None", "over 3", "square", "up to 3"]
    assert len(edge_table(field)) == 10


def test_a_field_of_whole_ordinal_states_has_whole_states_in_its_tables() -> None:
    rng = np.random.default_rng(0)
    first = rng.integers(0, 4, 300)
    X = np.column_stack([first, np.clip(first + rng.integers(-1, 2, 300), 0, 3)])
    table = MarkovField(l1=5.0).fit(X).features_
    assert {str(table.schema[name]) for name in ("state_a", "state_b")} == {"Int64"}
    assert table["state_a"][0] is None  # the scores come first
