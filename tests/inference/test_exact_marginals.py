"""Exact marginals are those of enumeration; rows of too large a treewidth are refused."""

from __future__ import annotations

import itertools
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_fields import Small, small_field

from sparsefield import BeliefPropagation, ExactInference, MarkovField
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
    assert plan_elimination(chain, 100).width == 1
    assert plan_elimination(chain, 100).table_size == 9
    ring = Shape((2,) * 40, (*((k, k + 1) for k in range(39)), (0, 39)))
    assert plan_elimination(ring, 100).width == 2
    assert 5 <= plan_elimination(grid(5), 2**20).width <= 6
    star = Shape((2,) * 30, tuple((0, k) for k in range(1, 30)))
    assert plan_elimination(star, 100).width == 1


def test_planning_ends_early_where_no_plan_is_feasible() -> None:
    """A complete plan for a thousand cells with five thousand factors would take minutes."""
    rng = np.random.default_rng(0)
    pairs = {tuple(sorted(pair)) for pair in rng.integers(0, 1000, (5000, 2)).tolist() if pair[0] != pair[1]}
    start = time.process_time()
    plan = plan_elimination(Shape((2,) * 1000, tuple(sorted(pairs))), 2**20)
    assert not plan.feasible
    assert plan.table_size > 2**20
    assert time.process_time() - start < 10.0


def test_a_row_of_too_large_treewidth_is_refused_with_row_and_limit() -> None:
    small = small_field(1, states=(2,) * 12, structure="all", rows=4, missing=0.0)
    X = np.full((4, 13), 0.0)
    X[2, :12] = np.nan
    field = MarkovField.from_field(small.field, inference=ExactInference(max_cells=1000))
    assert np.isfinite(field.predict_proba(X[:2])["x0"]).all()
    with pytest.raises(DataError, match=r"4,096 cells or more for row 2, .* at least 11; max_cells is 1,000"):
        field.predict_proba(X)
    field.inference = "exact"
    assert np.isfinite(field.predict_proba(X)["x0"]).all()


def test_invalid_options_are_refused() -> None:
    with pytest.raises(ValueError, match="max_cells"):
        ExactInference(max_cells=0)


def pgmpy_marginals(small: Small, method: str) -> list[np.ndarray]:
    """Return the marginals of pgmpy for a row without values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("pgmpy")
        from pgmpy.factors.discrete import DiscreteFactor
        from pgmpy.inference import BeliefPropagation as Theirs
        from pgmpy.inference import VariableElimination
        from pgmpy.models import DiscreteMarkovNetwork

        schema, field = small.field.schema, small.field
        names = [v.name for v in schema.targets]
        net = DiscreteMarkovNetwork()
        net.add_nodes_from(names)
        tables = {}
        owner = schema.variable_of_column
        for s in range(schema.n_target_columns):
            v = int(owner[s])
            table = tables.setdefault((v,), np.zeros(len(schema.targets[v].states)))
            table[s - schema.offsets[v] + 1] += field.biases[s]
        for (a, b), weight in zip(field.pairs.tolist(), field.weights.tolist(), strict=True):
            v, w = int(owner[a]), int(owner[b])
            shape = len(schema.targets[v].states), len(schema.targets[w].states)
            tables.setdefault((v, w), np.zeros(shape))[a - schema.offsets[v] + 1, b - schema.offsets[w] + 1] += weight
        for members, table in tables.items():
            if len(members) == 2:
                net.add_edge(*(names[v] for v in members))
            net.add_factors(DiscreteFactor([names[v] for v in members], list(table.shape), np.exp(table)))
        engine = VariableElimination(net) if method == "elimination" else Theirs(net)
        found = []
        for name in names:
            answer = engine.query([name], show_progress=False)
            order = [answer.state_names[name].index(k) for k in range(len(answer.values))]
            found.append(np.asarray(answer.values)[order] / np.sum(answer.values))
        return found


@pytest.mark.parametrize(
    ("structure", "theirs"), [("all", "elimination"), ("tree", "elimination"), ("tree", "messages")]
)
def test_pgmpy_gives_the_same_marginals(structure, theirs) -> None:
    small = small_field(11, states=(2, 3, 4, 2, 3, 2), structure=structure, rows=1, missing=1.0)
    within = small.field.pairs[:, 1] < small.field.schema.n_target_columns
    bare = replace(small.field, pairs=small.field.pairs[within], weights=small.field.weights[within])
    small = replace(small, field=bare)
    wanted = pgmpy_marginals(small, theirs)
    for method in (ExactInference(), *([BeliefPropagation()] if structure == "tree" else [])):
        (found,) = small.infer(method).marginals
        for v, exact in enumerate(wanted):
            np.testing.assert_allclose(found[small.states(v), 0], exact, rtol=0, atol=1e-9)
