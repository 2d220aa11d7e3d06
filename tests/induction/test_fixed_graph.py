"""Rules with fixed candidates: a graph, which is read edge by edge, and all pairs, which must fit into memory."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from oracle import candidate_pairs
from plain import learn_plain_schema
from sparse_tables import switches

from sparsefield import FixedGraph, MarkovField, config
from sparsefield.data import Layout, as_source
from sparsefield.errors import DataError


@pytest.fixture
def schema():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, k, 40) for k in (2, 3, 2, 3, 2)])
    return learn_plain_schema(as_source(X), observed=["x1", "x4"])


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


def schema_of(states=(2, 3, 1, 4, 2), observed=("x1", "x4"), n_rows: int = 40):
    X = np.column_stack([np.arange(n_rows) % k for k in states])
    return learn_plain_schema(as_source(X), observed=list(observed))


def start(schema, edges) -> list[tuple[int, int]]:
    return [tuple(pair) for pair in FixedGraph(edges).start(Layout.single(schema)).tolist()]


def by_looking_at_all(schema, edges) -> list[tuple[int, int]]:
    """The candidates whose two variables make an edge, in order."""
    wanted = {frozenset(edge) for edge in edges}
    return [
        (a, b)
        for a, b in candidate_pairs(schema)
        if frozenset((schema.column_name(a)[0], schema.column_name(b)[0])) in wanted
    ]


@given(data=st.data(), observed=st.sets(st.sampled_from(["x0", "x1", "x2", "x3", "x4"]), max_size=3))
def test_pairs_are_those_that_a_look_at_all_candidates_finds(data, observed) -> None:
    """Edges in any order and direction, twice, by name or by position, with constant columns."""
    schema = schema_of(observed=sorted(observed))
    names = list(schema.order)
    possible = [(a, b) for a in names for b in names if a != b and not (a in observed and b in observed)]
    edges = data.draw(st.lists(st.sampled_from(possible), max_size=8))
    positions = data.draw(st.lists(st.booleans(), min_size=2 * len(edges), max_size=2 * len(edges)))
    told = [
        tuple(names.index(end) if positions[2 * k + i] else end for i, end in enumerate(edge))
        for k, edge in enumerate(edges)
    ]
    assert start(schema, told) == by_looking_at_all(schema, edges)


@pytest.mark.parametrize("observed", [[], ["x2", "x5"]])
def test_a_schema_in_arrays_gives_the_pairs_of_the_general_one(observed) -> None:
    on = switches(0, n_rows=60, n_columns=8, density=0.3).toarray()
    on[:, 3], on[:, 6] = 0, 1
    edges = [(0, 1), ("x4", "x2"), (3, 0), ("x6", 7), (7, 5), (1, 0)]
    parts = (learn_plain_schema(as_source(X), observed=observed) for X in (sp.csr_matrix(on), on))
    one, other = (start(schema, edges) for schema in parts)
    assert one == other
    assert len(one) == 3


def test_a_field_over_20000_columns_takes_no_list_of_all_candidates() -> None:
    """There are 2 x 10^8 of them."""
    rng = np.random.default_rng(0)
    n_rows, n_columns = 2000, 20_000
    columns = rng.integers(0, n_columns, (n_rows, 8))
    columns[:, 1] = np.where(rng.random(n_rows) < 0.5, columns[:, 0] % 100, columns[:, 1])
    columns[:, 2] = np.where(rng.random(n_rows) < 0.8, columns[:, 1] + 100, columns[:, 2]) % n_columns
    rows = np.repeat(np.arange(n_rows), 8)
    X = sp.csr_matrix((np.ones(len(rows)), (rows, columns.ravel())), shape=(n_rows, n_columns))
    X.data[:] = 1.0
    assert X.nnz < config.SPARSE_DENSITY * n_rows * n_columns
    edges = [(k, k + 100) for k in range(100)]
    field = MarkovField(induction=FixedGraph(edges=edges), l1=0.1, n_jobs=1).fit(X)
    assert field.converged_
    schema = field.field_.schema
    found = {tuple(schema.column_name(c)[0] for c in pair) for pair in field.field_.pairs.tolist()}
    assert found <= {(f"x{a}", f"x{b}") for a, b in edges}
    assert len(found) > 90
