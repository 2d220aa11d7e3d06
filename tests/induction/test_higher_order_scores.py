"""Candidates of one column more: their exact gradient, and who is a candidate at all."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from higher import evaluate, graphs_with, with_conjunctions
from hypothesis import given
from hypothesis import strategies as st
from oracle import candidate_features

from sparsefield import RelationalField, config
from sparsefield.compute import Threads
from sparsefield.data import Dataset, Layout, Relational
from sparsefield.data.layout import are_valid_conjunctions
from sparsefield.estimators.compiled_rows import compile_densely
from sparsefield.induction import (
    Proposals,
    all_expandable,
    best_proposals,
    concatenate_proposals,
    higher_order,
    score_expansions,
)
from sparsefield.model import pad_features
from sparsefield.objectives import OBJECTIVES, DenseEvaluator

NOBODY = np.empty(0, dtype=np.int64)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "MIN_BLOCK_ROWS", 4)
    monkeypatch.setattr(higher_order, "FEATURES_PER_ITEM", 7)


def score(factors, layout, expandable, cut=-1.0, known=NOBODY) -> Proposals:
    """With a cut below 0, every candidate."""
    return score_expansions(factors, layout, expandable, cut, known)


def features_of_order(schema, order: int) -> np.ndarray:
    return pad_features(np.array(candidate_features(schema, order)), order + 1)


@pytest.mark.parametrize(("name", "missing"), [("pl", 0.3), ("cd", 0.0)])
def test_every_triple_has_its_exact_gradient(make_problem, small_pieces, name, missing) -> None:
    problem = with_conjunctions(make_problem(3, missing=missing), 4)
    assert len(problem.plain.table.blocks) > 1
    evaluator, _, _ = evaluate(problem, name)
    found = score(evaluator.gradient_factors(), problem.layout, all_expandable(problem.layout, 3))
    # Each triple once, variables never twice, a target state first.
    assert sorted(map(tuple, found.features.tolist())) == candidate_features(problem.schema, 3)
    n = problem.schema.n_target_columns
    exact = evaluator.gradient(graphs_with(problem.layout, found.features), n + len(found))[n:]
    np.testing.assert_allclose(found.gradient, exact, rtol=0, atol=1e-11)
    assert np.array_equal(found.score, np.abs(found.gradient))


@pytest.mark.parametrize("name", ["pl", "cd"])
@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([0.3, 4.0]))
def test_triples_grow_to_features_of_four_with_their_exact_gradient(make_problem, name, seed, size) -> None:
    problem = with_conjunctions(make_problem(seed, states=(2, 3, 2), missing=0.2, size=size), seed, size=size)
    evaluator, _, _ = evaluate(problem, name)
    found = score(evaluator.gradient_factors(), problem.layout, features_of_order(problem.schema, 3))
    assert sorted(map(tuple, found.features.tolist())) == candidate_features(problem.schema, 4)
    n = problem.schema.n_target_columns
    exact = evaluator.gradient(graphs_with(problem.layout, found.features), n + len(found))[n:]
    np.testing.assert_allclose(found.gradient, exact, rtol=0, atol=1e-10)


def test_the_cut_and_known_features_leave_the_others_as_they_are(make_problem) -> None:
    problem = with_conjunctions(make_problem(7), 7)
    factors, layout = evaluate(problem, "pl")[0].gradient_factors(), problem.layout
    every = score(factors, layout, all_expandable(layout, 3))
    cut = float(np.median(every.score))
    beyond = every.take(np.flatnonzero(every.score > cut))
    known = beyond.features[::2]
    found = score(factors, layout, all_expandable(layout, 3), cut, np.sort(layout.keys(known)))
    rest = beyond.take(np.arange(1, len(beyond), 2))
    assert np.array_equal(found.features, rest.features)
    assert np.array_equal(found.gradient, rest.gradient)
    everyone = np.sort(layout.keys(every.features))
    assert len(score(factors, layout, all_expandable(layout, 3), known=everyone)) == 0


def test_threads_change_nothing(make_problem, small_pieces) -> None:
    problem = with_conjunctions(make_problem(8), 8)
    outcomes = []
    for threads in (1, 3):
        with Threads(threads) as engine:
            evaluator = DenseEvaluator(problem.sample, OBJECTIVES["pl"](), engine)
            evaluator.evaluate(problem.field.graphs, problem.field.theta)
            outcomes.append(score(evaluator.gradient_factors(), problem.layout, all_expandable(problem.layout, 3)))
    one, other = outcomes
    assert np.array_equal(one.features, other.features)
    assert one.gradient.tobytes() == other.gradient.tobytes()


# -- linked tables -----------------------------------------------------------------------------------------------------


def linked(templates: list[str] | None) -> Dataset:
    rng = np.random.default_rng(0)
    people = pl.DataFrame(rng.integers(0, 2, (20, 3)), schema=["a", "b", "c"]).with_columns(id=pl.int_range(20))
    visits = pl.DataFrame(rng.integers(0, 2, (30, 3)), schema=["d", "e", "f"])
    visits = visits.with_columns(who=pl.Series(rng.integers(0, 20, 30)))
    links = {"who": ("visit", "who", "person")}
    data = Relational({"person": people, "visit": visits}, keys={"person": "id"}, links=links, templates=templates)
    return compile_densely(RelationalField(l1=1e6, n_jobs=1).fit(data), data)


def test_only_tables_whose_columns_may_meet_have_triples() -> None:
    sample = linked(["within visit", "across who"])
    layout: Layout = sample.layout
    expandable = all_expandable(layout, 3)
    assert {layout.tables[t] for t in layout.table_of_column[expandable[:, :2]].ravel()} == {"visit"}
    assert len(all_expandable(linked(["across who"]).layout, 3)) == 0
    for templates in (["within visit", "across who"], None):
        sample = linked(templates)
        layout = sample.layout
        with Threads(1) as engine:
            evaluator = DenseEvaluator(sample, OBJECTIVES["pl"](), engine)
            nothing = np.empty((0, 3), dtype=np.int64)
            evaluator.evaluate(graphs_with(layout, nothing), np.full(layout.n_target_columns, 0.3))
            found = score(evaluator.gradient_factors(), layout, all_expandable(layout, 3))
            assert len(found) == (1 if templates else 2)
            assert are_valid_conjunctions(layout, found.features)
            n = layout.n_target_columns
            exact = evaluator.gradient(graphs_with(layout, found.features), n + len(found))[n:]
        np.testing.assert_allclose(found.gradient, exact, rtol=0, atol=1e-11)


# -- the choice --------------------------------------------------------------------------------------------------------


def test_the_best_of_all_orders_are_chosen_and_ties_go_by_position() -> None:
    features = np.array([[0, 1, 2], [0, 1, -1], [0, 3, -1], [1, 2, 3], [0, 2, 3]])
    found = Proposals(features, np.array([1.0, -3.0, 2.0, 2.0, -2.0]), np.array([1.0, 3.0, 2.0, 2.0, 2.0]))
    assert best_proposals(found, 10).features.tolist() == features[[1, 4, 2, 3, 0]].tolist()
    assert best_proposals(found, 3).features.tolist() == features[[1, 4, 2]].tolist()
    nothing = concatenate_proposals([], 3)
    assert nothing.features.shape == (0, 3)
    both = concatenate_proposals([concatenate_proposals([]), found], 3)
    assert np.array_equal(both.features, features)
