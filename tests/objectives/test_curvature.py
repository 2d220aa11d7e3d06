"""Hessians of regressions are the derivatives of gradients, and matrix products agree with loops over arcs."""

from __future__ import annotations

import numpy as np
import pytest
from higher import evaluate, with_conjunctions

from sparsefield import config
from sparsefield.compute import Threads
from sparsefield.kernels.regression_hessians import choose_rows
from sparsefield.objectives import OBJECTIVES, DenseEvaluator, curvature, regressions

SHAPES = {
    "binary": {"states": (2, 2, 2, 2), "observed_states": (), "numbers": 0},
    "many states": {"states": (2, 3, 4, 2), "observed_states": (3,), "numbers": 1, "n_rows": 20},
    "all states": {"states": (2, 3, 4, 2), "observed_states": (), "numbers": 0, "symmetric": True, "n_rows": 20},
    "ordinal": {"states": (2, 4, 3), "numbers": 1, "kinds": {"x1": "ordinal", "x2": "ordinal"}, "n_rows": 20},
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "MIN_BLOCK_ROWS", 4)


def jacobian(evaluator: DenseEvaluator, graphs, theta: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Return the derivatives of the gradient by finite differences."""
    found = np.empty((len(theta), len(theta)))
    for k in range(len(theta)):
        move = np.zeros(len(theta))
        move[k] = step
        up, down = (evaluator.evaluate(graphs, theta + sign * move)[1] for sign in (1, -1))
        found[k] = (up - down) / (2 * step)
    return found


def assembled(regressions, size: int) -> np.ndarray:
    """Return the sum of the matrices of all regressions, (size, size)."""
    total = np.zeros((size, size))
    for r in regressions:
        np.add.at(total, np.ix_(r.parameters, r.parameters), r.matrix)
    return total


@pytest.mark.parametrize("shape", SHAPES)
def test_hessians_are_the_derivatives_of_the_gradient(make_problem, shape) -> None:
    problem = with_conjunctions(make_problem(7, **SHAPES[shape]), 8)
    evaluator, _, _ = evaluate(problem, "pl")
    graphs, theta = problem.field.graphs, problem.field.theta
    penalized = np.zeros(problem.schema.n_target_columns, dtype=bool)
    found = assembled(evaluator.regression_hessians(graphs, theta, penalized), len(theta))
    np.testing.assert_allclose(found, jacobian(evaluator, graphs, theta), rtol=0, atol=2e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_free_biases_are_minimized_over(make_problem, shape) -> None:
    problem = with_conjunctions(make_problem(7, **SHAPES[shape]), 8)
    evaluator, _, _ = evaluate(problem, "pl")
    graphs, theta, n = problem.field.graphs, problem.field.theta, problem.schema.n_target_columns
    found = assembled(evaluator.regression_hessians(graphs, theta, np.ones(n, dtype=bool)), len(theta))
    whole = jacobian(evaluator, graphs, theta)
    biases = whole[:n, :n] + curvature.MIN_DIAGONAL * np.eye(n)
    expected = whole[n:, n:] - whole[n:, :n] @ np.linalg.solve(biases, whole[:n, n:])
    np.testing.assert_allclose(found[n:, n:], expected, rtol=0, atol=1e-3)


def test_a_sample_of_rows_has_the_weight_of_all(make_problem, monkeypatch) -> None:
    problem = with_conjunctions(make_problem(7, n_rows=40, weighted=False, missing=0.0), 8)
    evaluator, _, _ = evaluate(problem, "pl")
    monkeypatch.setattr(curvature, "MAX_SAMPLE", 20)
    sample = curvature.sample_rows(evaluator.source.rows, 1)
    assert curvature.count_rows(evaluator.source.rows, 1).tolist() == [40]
    assert sample.tables[0].block.n_rows == 20
    assert sample.tables[0].block.weight.sum() == 40.0


def test_rows_are_chosen_by_their_curvature_and_stand_for_all() -> None:
    rng = np.random.default_rng(0)
    before = rng.exponential(size=2_000) ** 3
    before[::7] = 0.0
    variance, rows = before.copy(), np.empty(2_000, dtype=np.int64)
    rows = rows[: choose_rows(variance, 500, rows)]
    assert 450 <= len(rows) <= 510
    assert (before[rows] > 0.0).all()
    assert variance[rows].sum() == pytest.approx(before.sum(), rel=0.01)
    changed = rows[variance[rows] != before[rows]]
    assert before[changed].max() < variance[changed].min() == pytest.approx(variance[changed].max())
    # Every row of larger variance than those that are sampled is kept as it is.
    assert np.isin(np.flatnonzero(before > variance[changed].max()), rows).all()


def test_all_rows_with_a_curvature_are_kept_where_they_are_few() -> None:
    variance, rows = np.array([0.5, 0.0, 2.0, 1.0]), np.empty(4, dtype=np.int64)
    assert choose_rows(variance, 3, rows) == 3
    assert rows[:3].tolist() == [0, 2, 3]
    assert variance.tolist() == [0.5, 0.0, 2.0, 1.0]


@pytest.mark.parametrize("shape", SHAPES)
def test_hessians_of_chosen_rows_are_near_those_of_all(make_problem, monkeypatch, shape) -> None:
    problem = with_conjunctions(make_problem(7, **{**SHAPES[shape], "n_rows": 400}), 8)
    evaluator, _, _ = evaluate(problem, "pl")
    graphs, theta = problem.field.graphs, problem.field.theta
    free = np.ones(problem.schema.n_target_columns, dtype=bool)
    whole = assembled(evaluator.regression_hessians(graphs, theta, free), len(theta))
    monkeypatch.setattr(curvature, "MAX_ROWS", 200)
    found = assembled(evaluator.regression_hessians(graphs, theta, free), len(theta))
    assert 0.0 < np.linalg.norm(found - whole) < 0.15 * np.linalg.norm(whole)


def test_hessians_cost_more_where_variables_have_many_arcs_and_are_not_for_cd(make_problem) -> None:
    problem = make_problem(7)
    with Threads(1) as engine:
        few, many = (
            DenseEvaluator(problem.sample, OBJECTIVES["pl"](), engine).hessian_cost(problem.graphs)
            for problem in (make_problem(7, share=0.2), make_problem(7, share=1.0))
        )
        assert DenseEvaluator(problem.sample, OBJECTIVES["cd"](), engine).hessian_cost(problem.graphs) == np.inf
    assert 0.0 < few < many < np.inf


@pytest.mark.parametrize("shape", SHAPES)
def test_matrix_products_and_loops_over_arcs_agree(make_problem, monkeypatch, shape) -> None:
    problem = with_conjunctions(make_problem(5, **SHAPES[shape]), 8)
    found = []
    for share in (0.0, 1.0):
        monkeypatch.setattr(regressions, "MATRIX_SHARE", share)
        found.append(evaluate(problem, "pl")[1:])
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-12)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=0, atol=1e-11)
