"""Candidates of one column more: their exact gradient, what thresholds leave of it, and who is a candidate at all."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from higher import evaluate, graphs_with, with_conjunctions
from hypothesis import given
from hypothesis import strategies as st
from oracle import candidate_features, columns_of

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

EXACT = (0.0, 0.0)
NOBODY = np.empty(0, dtype=np.int64)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "MIN_BLOCK_ROWS", 4)
    monkeypatch.setattr(higher_order, "FEATURES_PER_ITEM", 7)


def score(factors, layout, expandable, thresholds=EXACT, cut=-1.0, known=NOBODY) -> Proposals:
    """With a cut below 0, every candidate."""
    return score_expansions(factors, layout, expandable, thresholds, cut, known)


def features_of_order(schema, order: int) -> np.ndarray:
    return pad_features(np.array(candidate_features(schema, order)), order + 1)


@pytest.mark.parametrize(("name", "missing"), [("pl", 0.3), ("cd", 0.0)])
def test_without_thresholds_every_triple_has_its_exact_gradient(make_problem, small_pieces, name, missing) -> None:
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


@pytest.mark.parametrize(("name", "thresholds"), [("pl", (0.05, 0.4)), ("cd", (0.3, 0.0))])
def test_thresholds_leave_out_what_plain_loops_leave_out(make_problem, small_pieces, name, thresholds) -> None:
    problem = with_conjunctions(make_problem(5, missing=0.2), 6)
    evaluator, _, _ = evaluate(problem, name)
    expandable = np.concatenate(
        [all_expandable(problem.layout, 4)[::3], pad_features(features_of_order(problem.schema, 3), 4)[::9]]
    )
    found = score(evaluator.gradient_factors(), problem.layout, expandable, thresholds)
    expected = slow_estimates(problem, name, expandable, thresholds)
    assert sorted(map(columns_of, found.features)) == sorted(expected)
    for feature, gradient in zip(found.features, found.gradient, strict=True):
        # From whichever feature the estimate is largest, it is the one that counts.
        assert abs(gradient) == pytest.approx(max(map(abs, expected[columns_of(feature)])), abs=1e-11)
        assert min(abs(gradient - estimate) for estimate in expected[columns_of(feature)]) < 1e-11
    exact = score(evaluator.gradient_factors(), problem.layout, expandable)
    assert np.abs(found.gradient - exact.gradient).max() > 0.01


def slow_estimates(problem, name: str, expandable, thresholds) -> dict[tuple[int, ...], list[float]]:
    """Per candidate, error x signal where both are beyond their thresholds, plus the two products of sums and means."""
    t_err, t_sig = thresholds
    owner, columns = problem.schema.variable_of_column, problem.schema.n_columns
    points = []
    for row in problem.rows:
        q0 = row.q
        if name == "cd":
            q1 = problem.slow.sweep(q0)
        else:
            q1 = list(q0)
            for v, code in enumerate(row.codes):
                if code >= 0:
                    for s, p in zip(problem.slow.columns(v), problem.slow.update(v, q0)[1:], strict=True):
                        q1[s] = p
        points.append((row.weight, q0, q1))

    def seen(members: tuple[int, ...]) -> tuple[list[float], list[float], float]:
        """Errors, signals and the mean of a product of columns."""
        errors, expectations = [], []
        for _, q0, q1 in points:
            if name == "cd":
                before, after = math.prod(q0[c] for c in members), math.prod(q1[c] for c in members)
                errors.append(after - before)
                expectations.append((before + after) / 2)
            else:
                others = [math.prod(q0[o] for o in members if o != c) for c in members]
                errors.append(sum((q1[c] - q0[c]) * other for c, other in zip(members, others, strict=True)))
                expectations.append(math.prod(q0[c] for c in members))
        mean = sum(w * m for (w, _, _), m in zip(points, expectations, strict=True)) / sum(w for w, _, _ in points)
        return errors, [m - mean for m in expectations], mean

    single = [seen((c,)) for c in range(columns)]
    found: dict[tuple[int, ...], list[float]] = {}
    for feature in expandable:
        have = columns_of(feature)
        errors, signals, mean = seen(have)
        for c in range(columns):
            if owner[c] in owner[list(have)]:
                continue
            other_errors, other_signals, other_mean = single[c]
            total = 0.0
            for i, (w, _, _) in enumerate(points):
                if abs(errors[i]) > t_err and abs(other_signals[i]) > t_sig:
                    total += w * errors[i] * other_signals[i]
                if abs(signals[i]) > t_sig and abs(other_errors[i]) > t_err:
                    total += w * signals[i] * other_errors[i]
                total += w * (errors[i] * other_mean + other_errors[i] * mean)
            found.setdefault(tuple(sorted((*have, c))), []).append(total)
    return found


@pytest.mark.parametrize("thresholds", [EXACT, (0.1, 0.2)])
def test_the_cut_and_known_features_leave_the_others_as_they_are(make_problem, thresholds) -> None:
    problem = with_conjunctions(make_problem(7), 7)
    factors, layout = evaluate(problem, "pl")[0].gradient_factors(), problem.layout
    every = score(factors, layout, all_expandable(layout, 3), thresholds)
    cut = float(np.median(every.score))
    beyond = every.take(np.flatnonzero(every.score > cut))
    known = beyond.features[::2]
    found = score(factors, layout, all_expandable(layout, 3), thresholds, cut, np.sort(layout.keys(known)))
    rest = beyond.take(np.arange(1, len(beyond), 2))
    assert np.array_equal(found.features, rest.features)
    assert np.array_equal(found.gradient, rest.gradient)
    everyone = np.sort(layout.keys(every.features))
    assert len(score(factors, layout, all_expandable(layout, 3), thresholds, known=everyone)) == 0


@pytest.mark.parametrize("thresholds", [EXACT, (0.1, 0.2)])
def test_threads_change_nothing(make_problem, small_pieces, thresholds) -> None:
    problem = with_conjunctions(make_problem(8), 8)
    outcomes = []
    for threads in (1, 3):
        with Threads(threads) as engine:
            evaluator = DenseEvaluator(problem.sample, OBJECTIVES["pl"](), engine)
            evaluator.evaluate(problem.field.graphs, problem.field.theta)
            outcomes.append(
                score(evaluator.gradient_factors(), problem.layout, all_expandable(problem.layout, 3), thresholds)
            )
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
