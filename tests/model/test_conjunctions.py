"""Higher-order features of a field: their arcs, their tables, and their arrays in a file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from higher import with_conjunctions
from plain import learn_plain_schema
from safetensors import safe_open
from safetensors.numpy import save_file

from sparsefield import Features, MarkovField
from sparsefield.data import Layout, as_source
from sparsefield.errors import DataError, ModelFileError
from sparsefield.model import Field
from sparsefield.model.feature_tables import bias_table, edge_table, feature_table
from sparsefield.model.model_file import check_field, load_field, save_field


def small() -> Field:
    """Targets a, b, c with states 1 and 1, 2 and 1 besides their reference state; an observed word d and a number e."""
    X = np.column_stack([np.arange(60) % k for k in (2, 3, 2, 2)] + [np.linspace(0, 1, 60)])
    schema = learn_plain_schema(as_source(X), observed=["x3", "x4"])
    assert [schema.column_name(k) for k in range(4)] == [("x0", 1), ("x1", 1), ("x1", 2), ("x2", 1)]
    number = schema.n_columns - 1
    assert schema.column_name(number) == ("x4", None)
    return Field(
        Layout.single(schema),
        np.array([0.1, 0.0, -0.2, 0.0]),
        np.array([[0, 3], [1, 3]]),
        np.array([0.5, -1.0]),
        np.array([[0, 1, 3, -1], [0, 3, number, -1], [0, 2, 3, number]]),
        np.array([2.0, -0.3, 0.7]),
    )


def test_features_come_in_the_order_of_their_weights() -> None:
    field = small()
    assert field.features.tolist() == [[0, 3, -1, -1], [1, 3, -1, -1], *field.conjunctions.tolist()]
    assert field.theta.tolist() == [0.1, 0.0, -0.2, 0.0, 0.5, -1.0, 2.0, -0.3, 0.7]
    pairs_alone = replace(field, conjunctions=np.empty((0, 3), dtype=np.int64), conjunction_weights=np.empty(0))
    assert pairs_alone.features is pairs_alone.pairs


def test_a_feature_leads_to_each_of_its_target_states_from_all_its_other_columns() -> None:
    field = small()
    (graph,) = field.graphs
    found = {}
    for state in range(4):
        for k in range(graph.term_offsets[state], graph.term_offsets[state + 1]):
            columns = frozenset(c for c in graph.term_source[k].tolist() if c >= 0)
            found.setdefault(int(graph.term_feature[k]), set()).add((state, columns))
    for k, feature in enumerate(field.conjunctions.tolist()):
        columns = {c for c in feature if c >= 0}
        assert found.pop(6 + k) == {(c, frozenset(columns - {c})) for c in columns if c < 4}
    assert not found
    pairs = zip(graph.member_feature.tolist(), graph.members.tolist(), strict=True)
    members = {f: sorted(c for c in m if c >= 0) for f, m in pairs}
    assert members == {6 + k: [c for c in f if c >= 0] for k, f in enumerate(field.conjunctions.tolist())}
    # Pairs keep arcs of their own.
    assert sorted(set(graph.arc_feature.tolist())) == [4, 5]
    assert len(graph.arc_feature) == 4


def test_features_whose_keys_would_overflow_are_refused() -> None:
    """With 255 columns, (255 + 1)^8 is 2^64: the first of nine columns would not count."""
    field = small()
    with pytest.raises(DataError, match="use a lower max_order"):
        field.layout.keys(np.empty((0, 40), dtype=np.int64))
    X = np.column_stack([np.arange(40) % 2, np.arange(40) // 2 % 2])
    with pytest.raises(DataError, match="use a lower max_order"):
        MarkovField(l1=2.0, features=Features(max_order=64), n_jobs=1).fit(X)


def test_feature_and_edge_tables_have_conjunctions() -> None:
    field = small()
    table = feature_table(field)
    assert table.columns == [f"{part}_{letter}" for letter in "abcd" for part in ("variable", "state")] + ["weight"]
    assert table["weight"].to_list() == [2.0, -1.0, 0.7, 0.5, -0.3]
    assert table.row(0) == ("x0", 1, "x1", 1, "x2", 1, None, None, 2.0)
    assert table.row(2) == ("x0", 1, "x1", 2, "x2", 1, "x4", None, 0.7)
    assert table.row(4) == ("x0", 1, "x2", 1, "x4", None, None, None, -0.3)
    assert table.filter(table["weight"] == 0.5).row(0)[4:8] == (None,) * 4
    assert bias_table(field).rows() == [("x1", 2, -0.2), ("x0", 1, 0.1)]
    edges = {(a, b): (strength, beyond) for a, b, _, _, strength, beyond, *_ in edge_table(field).iter_rows()}
    expected = {
        ("x0", "x1"): 2.0**2 + 0.7**2, ("x0", "x2"): 2.0**2 + 0.3**2 + 0.7**2, ("x1", "x2"): 1.0 + 2.0**2 + 0.7**2,
        ("x0", "x4"): 0.3**2 + 0.7**2, ("x2", "x4"): 0.3**2 + 0.7**2, ("x1", "x4"): 0.7**2,
    }  # fmt: skip
    assert set(edges) == set(expected)
    for key, square in expected.items():
        norm = np.sqrt(square)
        two_states = "x1" not in key
        assert edges[key] == pytest.approx((0.5 if key == ("x0", "x2") else norm, norm if two_states else 0.0))


# -- on disk -----------------------------------------------------------------------------------------------------------


def test_a_saved_field_is_loaded_with_the_same_bits(make_problem, tmp_path) -> None:
    for k, orders in enumerate([(3,), (3, 4)]):
        field = with_conjunctions(make_problem(3), k, orders).field
        save_field(field, tmp_path / "m")
        again, _ = load_field(tmp_path / "m")
        assert np.array_equal(again.conjunctions, field.conjunctions)
        assert again.theta.tobytes() == field.theta.tobytes()
        save_field(again, tmp_path / "n")
        assert (tmp_path / "n").read_bytes() == (tmp_path / "m").read_bytes()


DAMAGE = {
    "beyond the last column": [[0, 1, 99]],
    "two columns of one variable": [[0, 1, 2]],
    "-1 in the middle": [[0, -1, 3]],
    "observed first": [[4, 0, 3]],
    "not ascending": [[3, 1, 0]],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_conjunctions_are_refused(tmp_path, damage) -> None:
    field = replace(small(), conjunctions=np.array(DAMAGE[damage]), conjunction_weights=np.array([1.0]))
    with pytest.raises(ValueError, match="a conjunction refers to a column that does not exist"):
        check_field(field)
    with pytest.raises(DataError, match="The field is invalid: a conjunction refers to a column that does not exist"):
        MarkovField.from_field(field)
    save_field(field, tmp_path / "m")
    with pytest.raises(ModelFileError, match="damaged contents"):
        load_field(tmp_path / "m")


@pytest.mark.parametrize(
    "change",
    [
        {"conjunctions": np.array([[0.0, 1.0, 3.0]])},
        {"conjunctions": np.array([[0, 1, 3], [0, 2, 3]])},
        {"conjunction_weights": None},
        {"conjunction_weights": np.array([np.nan])},
    ],
)
def test_arrays_of_another_kind_or_shape_are_refused(tmp_path, change) -> None:
    field = replace(small(), conjunctions=np.array([[0, 1, 3]]), conjunction_weights=np.array([1.0]))
    save_field(field, tmp_path / "m")
    with safe_open(tmp_path / "m", framework="np") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    tensors = {name: array for name, array in {**tensors, **change}.items() if array is not None}
    save_file(tensors, tmp_path / "m", metadata)
    with pytest.raises(ModelFileError, match="damaged contents"):
        load_field(tmp_path / "m")
