"""Rules with fixed candidates: a graph of given pairs, and all pairs, which must fit into memory."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from plain import learn_plain_schema

from sparsefield import FixedGraph, MarkovField
from sparsefield.data import Layout, as_source
from sparsefield.errors import DataError


@pytest.fixture
def schema():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, k, 40) for k in (2, 3, 2, 3, 2)])
    return learn_plain_schema(as_source(X), observed=["x1", "x4"])


def test_names_and_positions_mean_the_same(schema) -> None:
    by_name = FixedGraph([("x0", "x3"), ("x1", "x2")]).start(Layout.single(schema))
    by_position = FixedGraph([(3, 0), (2, np.int64(1))]).start(Layout.single(schema))
    assert by_name.tolist() == by_position.tolist()


def test_an_edge_holds_every_pair_of_states_of_its_two_variables(schema) -> None:
    pairs = FixedGraph([("x1", "x3"), ("x3", "x1")]).start(Layout.single(schema))
    names = [tuple(schema.column_names[c][0] for c in pair) for pair in pairs]
    assert names == [("x3", "x1")] * 4


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ([("x0", "x9")], "'x9'"),
        ([("x0", 7)], "7"),
        ([("x0", "x0")], "itself"),
        ([("x1", "x4")], "two observed columns"),
        ([("x0", "x1", "x2")], "fixed graph"),
        ([("x0", -1)], "fixed graph"),
    ],
)
def test_an_edge_that_cannot_be_is_refused_by_name(schema, edges, words) -> None:
    with pytest.raises(DataError, match=words):
        FixedGraph(edges).start(Layout.single(schema))


def test_an_edge_to_a_constant_column_holds_nothing_and_is_no_error() -> None:
    """As a fold of a cross-validation may leave a column."""
    X = np.column_stack([np.arange(40) % 2, np.ones(40), np.arange(40) % 3])
    layout = Layout.single(learn_plain_schema(as_source(X)))
    alone = FixedGraph(edges=[("x0", "x2")]).start(layout)
    assert FixedGraph([("x0", "x1")]).start(layout).tolist() == []
    assert FixedGraph([("x0", "x1"), ("x0", "x2")]).start(layout).tolist() == alone.tolist()
    assert len(alone) == 2


def test_a_field_over_a_fixed_graph_has_weights_on_its_edges_alone() -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(0, 2, 300)
    b = np.where(rng.random(300) < 0.9, a, 1 - a)
    c = np.where(rng.random(300) < 0.9, b, 1 - b)
    field = MarkovField(l1=2.0, induction=FixedGraph(edges=[("x0", "x1")]), n_jobs=1).fit(np.column_stack([a, b, c]))
    assert field.edges_["variable_a"].to_list() == ["x0"]
    assert field.edges_["variable_b"].to_list() == ["x1"]
    assert field.converged_


def test_induction_by_graph_without_a_graph_is_refused() -> None:
    with pytest.raises(ValueError, match="edges="):
        MarkovField(induction="graph").fit([[0, 1], [1, 0]])


def test_an_edge_between_numbers_has_weights_of_scores() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=500)
    table = pl.DataFrame({"x": x, "y": x + rng.normal(size=500), "z": rng.normal(size=500)})
    field = MarkovField(l1=20.0, induction=FixedGraph(edges=[("x", "y")])).fit(table)
    assert [row[:2] for row in field.edges_.rows()] == [("x", "y")]
    assert field.score(table) > MarkovField(l1=1e6).fit(table).score(table) + 0.1


def test_full_on_many_columns_is_refused_with_the_figure() -> None:
    n_columns = 200_000
    rows = np.repeat(np.arange(200), n_columns // 200)
    matrix = sp.csr_matrix((np.ones(n_columns, dtype=np.int8), (rows, np.arange(n_columns))), shape=(200, n_columns))
    with pytest.raises(DataError, match=r"19,999,900,000 candidates may take [\d,.]+ GiB.*'cfi'"):
        MarkovField(l1=2.0, induction="full").fit(matrix)
