"""Exact marginals are those of enumeration; rows of too large a treewidth are refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_fields import small_field

from sparsefield import ExactInference, MarkovField
from sparsefield import config as memory
from sparsefield.errors import DataError
from sparsefield.inference.elimination import Shape, plan_elimination

SEEDS = st.integers(0, 2**32 - 1)


@given(
    seed=SEEDS,
    structure=st.sampled_from(["tree", "loop", "all"]),
    states=st.lists(st.integers(1, 4), min_size=4, max_size=5),
    size=st.sampled_from([0.5, 2.0, 15.0]),
    triples=st.sampled_from([0, 0, 5]),
)
def test_beliefs_are_those_of_enumeration(seed, structure, states, size, triples) -> None:
    many = triples if min(states) > 1 else 0  # a column with one state has no features
    small = small_field(seed, states=states, structure=structure, size=size, triples=many, rows=3, missing=0.8)
    answers = small.infer(ExactInference())
    assert answers.unconverged == 0
    assert small.worst(answers.marginals[0]) < 1e-10


def grid(side: int) -> Shape:
    number = {place: k for k, place in enumerate(itertools.product(range(side), repeat=2))}
    pairs = [(number[i, j], number[i + 1, j]) for i in range(side - 1) for j in range(side)]
    pairs += [(number[i, j], number[i, j + 1]) for i in range(side) for j in range(side - 1)]
    return Shape((2,) * side**2, tuple(sorted(pairs)))


def test_plans_have_the_treewidth_of_known_graphs() -> None:
    chain = Shape((3,) * 50, tuple((k, k + 1) for k in range(49)))
    assert plan_elimination(chain, 100).table_size == 9
    ring = Shape((2,) * 40, (*((k, k + 1) for k in range(39)), (0, 39)))
    assert plan_elimination(ring, 100).table_size == 8
    assert 2**6 <= plan_elimination(grid(5), 2**20).table_size <= 2**7
    star = Shape((2,) * 30, tuple((0, k) for k in range(1, 30)))
    assert plan_elimination(star, 100).table_size == 4


def test_planning_ends_early_where_no_plan_is_feasible() -> None:
    """A complete plan for a thousand cells with five thousand factors would take minutes."""
    rng = np.random.default_rng(0)
    pairs = {tuple(sorted(pair)) for pair in rng.integers(0, 1000, (5000, 2)).tolist() if pair[0] != pair[1]}
    plan = plan_elimination(Shape((2,) * 1000, tuple(sorted(pairs))), 2**20)
    assert not plan.feasible
    assert plan.table_size > 2**20


def test_a_row_of_too_large_treewidth_is_refused_with_row_and_limit() -> None:
    small = small_field(1, states=(2,) * 12, structure="all", rows=4, missing=0.0)
    X = np.full((4, 13), 0.0)
    X[2, :12] = np.nan
    field = MarkovField.from_field(small.field, inference=ExactInference(max_cells=1000))
    assert np.isfinite(field.predict_proba(X[:2])["x0"]).all()
    with pytest.raises(DataError, match=r"4,096 cells or more for row 2; max_cells is 1,000"):
        field.predict_proba(X)
    field.inference = "exact"
    assert np.isfinite(field.predict_proba(X)["x0"]).all()


def test_tables_beyond_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    small = small_field(0, structure="all", missing=1.0)
    monkeypatch.setattr(memory, "machine_memory", lambda: 100.0)
    with pytest.raises(DataError, match="tables of all missing cells"):
        small.infer(ExactInference())
