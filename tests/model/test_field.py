"""Fields have sound features, which tables name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain import learn_plain_schema

from sparsefield import MarkovField, RelationalField
from sparsefield.data import Layout, Relational, as_source
from sparsefield.data.layout import are_valid_pairs
from sparsefield.data.links import Template
from sparsefield.induction import all_pairs
from sparsefield.model import compile_adjacency


@given(seed=st.integers(0, 2**32 - 1), share=st.sampled_from([0.0, 0.3, 1.0]))
def test_arcs_lead_from_every_source_to_every_target_once(make_problem, seed, share) -> None:
    problem = make_problem(seed, share=share)
    n = problem.schema.n_target_columns
    order = np.random.default_rng(seed).permutation(len(problem.pairs))
    pairs = problem.pairs[order]
    (graph,) = compile_adjacency(problem.layout, problem.layout.arcs(pairs))
    expected = set()
    for f, (a, b) in enumerate(pairs.tolist()):
        expected.add((a, b, n + f))
        if b < n:
            expected.add((b, a, n + f))
    found = [
        (state, int(graph.arc_source[k]), int(graph.arc_feature[k]))
        for state in range(n)
        for k in range(graph.arc_offsets[state], graph.arc_offsets[state + 1])
    ]
    assert len(found) == len(graph.arc_source) == len(expected)
    assert set(found) == expected
    assert [arc[:2] for arc in found] == sorted(arc[:2] for arc in found)
    assert graph.widest == max(v.width for v in problem.schema.targets)


def linked(left: tuple[str, ...] | None, right: tuple[str, ...] | None) -> Layout:
    """A table of words x0, x1, x2 (the last observed) whose rows follow each other."""
    schema = learn_plain_schema(as_source(np.arange(12)[:, None] // (1, 2, 3) % (2, 3, 2)), observed=["x2"])
    templates = Template("within", ("t",)), Template("across", ("next",), left=left, right=right)
    return Layout(("t",), (schema,), templates, ((0, 0), (0, 0)))


def test_every_candidate_is_valid_and_has_an_arc_to_each_target() -> None:
    for left, right in ((None, None), (("x0",), None), (None, ("x2",)), (("x0",), ("x1",)), (("x2",), ("x1",))):
        layout = linked(left, right)
        pairs = all_pairs(layout)
        assert are_valid_pairs(layout, pairs)
        assert len(np.unique(layout.keys(pairs))) == len(pairs) == layout.n_candidate_pairs
        arcs = layout.arcs(pairs)
        assert (arcs.target < layout.n_target_columns).all()
        assert (arcs.source < layout.n_columns).all()


def test_pairs_without_a_template_are_invalid() -> None:
    layout = linked(("x0",), ("x1",))
    pairs = all_pairs(layout)
    n = layout.n_target_columns
    for a in range(layout.n_columns):
        for b in range(layout.schemas[0].n_columns, layout.n_columns):
            allowed = [a, b] in pairs.tolist() or [a, b] in backward(layout, pairs).tolist()
            assert are_valid_pairs(layout, np.array([[a, b]])) == allowed
    assert not are_valid_pairs(layout, np.array([[n, 0]]))
    assert not are_valid_pairs(layout, np.array([[0, layout.n_columns]]))
    assert not are_valid_pairs(layout, np.array([[-1, 0]]))


def backward(layout: Layout, pairs: np.ndarray) -> np.ndarray:
    """The same features from their other end."""
    arcs = layout.arcs(pairs)
    return np.column_stack([layout.column_of_target[arcs.target], arcs.source])


COLUMNS = {"a": ["u", "v"] * 20, "b": [0, 1] * 20}


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table], ids=["polars", "arrow"])
def test_states_of_both_ends_are_of_one_type(make) -> None:
    features = MarkovField(n_jobs=1, l1=0.1).fit(make(COLUMNS)).features_
    frame = pl.DataFrame(features)
    assert frame.schema["state_a"] == frame.schema["state_b"] == pl.String
    ends = pl.col("state_a") == "v", pl.col("state_b") == "1"
    assert len(frame.filter(*ends)) == 1


def test_states_of_both_ends_are_of_one_type_in_pandas() -> None:
    features = MarkovField(n_jobs=1, l1=0.1).fit(pd.DataFrame(COLUMNS)).features_
    assert ((features["state_a"] == "v") & (features["state_b"] == "1")).sum() == 1


def test_states_that_are_all_numbers_stay_numbers_even_where_one_end_has_none() -> None:
    table = pl.DataFrame({"a": [0, 1, 1] * 20, "b": [0, 0, 1] * 20})
    for l1 in (0.1, 1e3):
        schema = MarkovField(n_jobs=1, l1=l1).fit(table).features_.schema
        assert schema["state_a"] == schema["state_b"] == pl.Int64
        assert schema["variable_b"] == pl.String


def test_states_of_linked_tables_are_of_one_type() -> None:
    people = pl.DataFrame({"id": range(40), "smokes": [k % 20 < 10 for k in range(40)]})
    pets = pl.DataFrame({"owner": range(40), "kind": ["cat" if k % 20 < 10 else "dog" for k in range(40)]})
    data = Relational(
        {"person": people, "pet": pets}, keys={"person": "id"}, links={"owner": ("pet", "owner", "person")}
    )
    features = RelationalField(n_jobs=1, l1=0.1).fit(data).features_
    assert features.schema["state_a"] == features.schema["state_b"] == pl.String
    assert set(features.drop_nulls("state_b")["template"]) == {"across owner"}
