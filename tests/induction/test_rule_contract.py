"""What every rule must hold: it proposes candidates alone, above the cut, and none that is known."""

from __future__ import annotations

import numpy as np
import pytest
from gradient_factors import factors_of
from hypothesis import given
from hypothesis import strategies as st
from oracle import candidate_pairs

from sparsefield.compute import Threads
from sparsefield.induction import RULES, FixedGraph, Proposals, all_pairs, best_proposals
from sparsefield.objectives import OBJECTIVES, DenseEvaluator
from sparsefield.objectives.objective import PairQuery

SHAPES = [
    {},
    {"states": (2, 2, 2, 2), "observed_states": (), "numbers": 0},
    {"states": (4, 3), "observed_states": (2, 3), "numbers": 2},
    {"states": (3,), "observed_states": (), "numbers": 0},
    {"states": (2, 1, 3), "observed_states": (1, 2), "numbers": 1},
]


@pytest.mark.parametrize("name", RULES)
@given(
    objective=st.sampled_from(["pl", "cd"]),
    seed=st.integers(0, 2**32 - 1),
    shape=st.sampled_from(SHAPES),
    cut=st.sampled_from([0.0, 0.3, 2.0]),
    known=st.floats(0.0, 1.0),
)
def test_a_proposal_is_a_candidate_above_the_cut_and_not_known(
    make_problem, objective, name, seed, shape, cut, known
) -> None:
    problem = make_problem(seed, n_rows=9, **shape)
    schema = problem.schema
    candidates = np.array(candidate_pairs(schema), dtype=np.int64).reshape(-1, 2)
    taken = candidates[np.random.default_rng(seed).random(len(candidates)) < known]
    keys = np.sort(problem.layout.keys(taken))
    found = RULES[name]().score(factors_of(problem, objective), PairQuery(cut, keys))
    proposed = [tuple(pair) for pair in found.features.tolist()]
    assert len(set(proposed)) == len(proposed)
    assert set(proposed) <= {tuple(pair) for pair in candidates.tolist()}
    assert not set(proposed) & {tuple(pair) for pair in taken.tolist()}
    assert (np.abs(found.gradient) > cut).all()
    assert np.isfinite(found.score).all()
    assert len(found.features) == len(found.gradient) == len(found.score)


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if not rule.fixed_candidates])
def test_an_open_rule_proposes_what_stands_out_and_the_same_on_any_number_of_threads(make_problem, name) -> None:
    problem = make_problem(2, n_rows=700, states=(2, 3, 2, 4, 2, 2), size=0.4)
    assert len(factors_of(problem).parts) > 1
    outcomes = []
    for n_jobs in (1, 2, 3):
        with Threads(n_jobs) as engine:
            evaluator = DenseEvaluator(problem.sample, OBJECTIVES["pl"](), engine)
            evaluator.evaluate(problem.graphs, problem.theta)
            nobody = np.empty(0, dtype=np.int64)
            outcomes.append(RULES[name]().score(evaluator.gradient_factors(), PairQuery(1.0, nobody)))
    assert len(outcomes[0])
    for other in outcomes[1:]:
        for part in ("features", "gradient", "score"):
            assert np.array_equal(getattr(outcomes[0], part), getattr(other, part))


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.fixed_candidates])
def test_a_closed_rule_proposes_nothing(make_problem, name) -> None:
    problem = make_problem(2)
    found = RULES[name]().score(factors_of(problem), PairQuery(0.0, np.empty(0, dtype=np.int64)))
    assert len(found) == 0


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("shape", SHAPES[::2])
def test_starting_pairs_are_candidates_each_once(make_problem, name, shape) -> None:
    problem = make_problem(4, **shape)
    rule = FixedGraph([(0, len(problem.schema.order) - 1)]) if name == "graph" else RULES[name]()
    if name == "graph" and len(problem.schema.order) == 1:
        pytest.skip("a graph over one column has no edges")
    start = rule.start(problem.layout)
    assert start.shape[1] == 2
    pairs = [tuple(pair) for pair in start.tolist()]
    assert len(set(pairs)) == len(pairs)
    assert set(pairs) <= set(candidate_pairs(problem.schema))


@pytest.mark.parametrize("shape", SHAPES)
def test_full_starts_with_every_candidate_there_is(make_problem, shape) -> None:
    problem = make_problem(4, **shape)
    layout, expected = problem.layout, candidate_pairs(problem.schema)
    assert [tuple(pair) for pair in all_pairs(layout).tolist()] == expected
    assert problem.schema.n_candidate_pairs == layout.n_candidate_pairs == len(expected)
    assert RULES["full"]().start(layout).tolist() == all_pairs(layout).tolist()


def test_selection_takes_the_highest_scores_and_breaks_ties_by_position(make_problem) -> None:
    pairs = np.array([[3, 4], [0, 2], [0, 1], [2, 9]])
    found = Proposals(pairs, np.array([1.0, -5.0, 5.0, -9.0]), np.array([1.0, 5.0, 5.0, 0.5]))
    assert best_proposals(found, 3).features.tolist() == [[0, 1], [0, 2], [3, 4]]
    assert best_proposals(found, 99).gradient.tolist() == [5.0, -5.0, 1.0, -9.0]
