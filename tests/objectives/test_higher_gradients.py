"""Loss and gradient of features of three columns and more: those of plain loops (Eq. 3, 8 and 14)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from higher import evaluate, graphs_with, with_conjunctions
from hypothesis import given
from hypothesis import strategies as st
from oracle import SlowField, candidate_features

from sparsefield import config
from sparsefield.compute import Threads
from sparsefield.data import DenseDataset, Table
from sparsefield.model import pad_features
from sparsefield.objectives import OBJECTIVES, DenseEvaluator

pytestmark = pytest.mark.grid(keep=6)

SHAPES = {
    "binary": {"states": (2, 2, 2, 2), "observed_states": (), "numbers": 0},
    "many states": {"states": (2, 3, 4, 2), "observed_states": (), "numbers": 0, "n_rows": 20},
    "observed": {"states": (3, 2), "observed_states": (2, 3), "numbers": 2},
    "one target": {"states": (4,), "observed_states": (3, 2), "numbers": 2},
}
ORDERS = {"triples": (3,), "fours": (4,), "both": (3, 4)}
LOSS = {"pl": SlowField.pl_loss, "cd": SlowField.cd_loss}
GRADIENT = {"pl": SlowField.pl_gradient, "cd": SlowField.cd_gradient}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "MIN_BLOCK_ROWS", 4)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_loss_and_gradient_are_those_of_the_oracle(make_problem, small_blocks, name, shape, orders, missing) -> None:
    problem = with_conjunctions(make_problem(3, missing=missing, **SHAPES[shape]), 4, ORDERS[orders])
    assert len(problem.plain.table.blocks) > 1
    _, loss, gradient = evaluate(problem, name)
    assert loss == pytest.approx(LOSS[name](problem.slow, problem.rows), rel=1e-11, abs=1e-11)
    expected = GRADIENT[name](problem.slow, problem.rows, [*problem.field.pairs, *problem.field.conjunctions])
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("name", OBJECTIVES)
@given(seed=st.integers(0, 2**32 - 1), missing=st.sampled_from([0.0, 0.4]), size=st.sampled_from([0.1, 1.0, 6.0]))
def test_so_they_are_of_any_field(make_problem, name, seed, missing, size) -> None:
    problem = with_conjunctions(make_problem(seed, missing=missing, size=size), seed, size=size)
    _, loss, gradient = evaluate(problem, name)
    assert loss == pytest.approx(LOSS[name](problem.slow, problem.rows), rel=1e-10, abs=1e-10)
    expected = GRADIENT[name](problem.slow, problem.rows, [*problem.field.pairs, *problem.field.conjunctions])
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_gradient_of_pl_is_that_of_finite_differences(make_problem, small_blocks, shape) -> None:
    problem = with_conjunctions(make_problem(7, missing=0.2, **SHAPES[shape]), 8)
    evaluator, _, gradient = evaluate(problem, "pl")
    step, theta = 1e-5, problem.field.theta
    found = np.empty(len(theta))
    for k in range(len(theta)):
        move = np.zeros(len(theta))
        move[k] = step
        up, down = (evaluator.evaluate(problem.field.graphs, theta + sign * move)[0] for sign in (1, -1))
        found[k] = (up - down) / (2 * step)
    np.testing.assert_allclose(gradient, found, rtol=0, atol=1e-6)


def test_errors_of_cd_are_those_of_one_sequential_sweep(make_problem) -> None:
    problem = with_conjunctions(make_problem(12, missing=0.3), 5)
    factors = evaluate(problem, "cd")[0].gradient_factors()
    n = problem.schema.n_target_columns
    assert factors.averaged
    for i, row in enumerate(problem.rows):
        q0, q1 = np.array(row.q), np.array(problem.slow.sweep(row.q))
        np.testing.assert_allclose(factors.errors[0][0][:, i], row.weight * (q1 - q0)[:n], rtol=0, atol=1e-12)
        np.testing.assert_allclose(factors.expectations[0][0][:, i], (q0 + q1) / 2, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_conjunctions_change_the_errors_at_all(make_problem, name) -> None:
    """So that the tests above have teeth."""
    problem = with_conjunctions(make_problem(12), 5)
    without = replace(problem.field, conjunction_weights=np.zeros(len(problem.field.conjunctions)))
    evaluator, loss, gradient = evaluate(problem, name)
    other, slope = evaluator.evaluate(without.graphs, without.theta)
    assert abs(loss - other) > 0.1
    assert np.abs(gradient - slope).max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_gradient_for_more_features_comes_from_the_errors_at_hand(make_problem, name) -> None:
    problem = with_conjunctions(make_problem(8, share=0.3), 8)
    evaluator, _, _ = evaluate(problem, name)
    features = np.concatenate(
        [pad_features(np.array(candidate_features(problem.schema, order)), 4) for order in (2, 3, 4)]
    )
    graphs = graphs_with(problem.layout, features)
    found = evaluator.gradient(graphs, problem.schema.n_target_columns + len(features))
    expected = GRADIENT[name](problem.slow, problem.rows, features)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_row_of_weight_0_adds_nothing(make_problem, name) -> None:
    problem = with_conjunctions(make_problem(4, n_rows=10), 4)
    block = problem.plain.table.blocks[0]
    silent = np.where(np.arange(10) % 3 == 0, 0.0, block.weight)
    table = Table(problem.schema, (block._replace(weight=silent),), 10)
    kept = [row for k, row in enumerate(problem.rows) if k % 3]
    with Threads(1) as engine:
        evaluator = DenseEvaluator(DenseDataset.single(table), OBJECTIVES[name](), engine)
        loss, gradient = evaluator.evaluate(problem.field.graphs, problem.field.theta)
    assert loss == pytest.approx(LOSS[name](problem.slow, kept), rel=1e-11)
    expected = GRADIENT[name](problem.slow, kept, [*problem.field.pairs, *problem.field.conjunctions])
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-11)


def test_moments_are_those_of_products_of_columns(make_problem, small_blocks) -> None:
    problem = with_conjunctions(make_problem(5, missing=0.2), 5)
    evaluator, _, _ = evaluate(problem, "pl")
    mean, variance = evaluator.moments_of(problem.field.conjunctions)
    weights = [row.weight for row in problem.rows]
    for k, feature in enumerate(problem.field.conjunctions):
        products = np.array([np.prod([row.q[c] for c in feature if c >= 0]) for row in problem.rows])
        expected = np.average(products, weights=weights)
        assert mean[k] == pytest.approx(expected, abs=1e-13)
        assert variance[k] == pytest.approx(np.average((products - expected) ** 2, weights=weights), abs=1e-12)
