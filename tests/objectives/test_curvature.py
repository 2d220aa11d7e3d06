"""Hessians of regressions are the derivatives of gradients, and matrix products agree with loops over arcs."""

from __future__ import annotations

import numpy as np
import pytest
from higher import evaluate, with_conjunctions

from sparsefield import config
from sparsefield.objectives import DenseEvaluator, block_evaluation, curvature

SHAPES = {
    "many states": {"states": (2, 3, 4, 2), "observed_states": (3,), "numbers": 1, "n_rows": 20},
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


def assembled(system, size: int) -> np.ndarray:
    """Return the sum of the matrices of all regressions, (size, size)."""
    total = np.zeros((size, size))
    for parameters, matrix in system.matrices():
        np.add.at(total, np.ix_(parameters, parameters), matrix)
    return total


@pytest.mark.parametrize("shape", SHAPES)
def test_hessians_are_the_derivatives_of_the_gradient(make_problem, shape) -> None:
    problem = with_conjunctions(make_problem(7, **SHAPES[shape]), 8)
    evaluator, _, _ = evaluate(problem, "pl")
    graphs, theta = problem.field.graphs, problem.field.theta
    penalized = np.zeros(problem.schema.n_target_columns, dtype=bool)
    found = assembled(evaluator.newton_system(graphs, theta, penalized), len(theta))
    np.testing.assert_allclose(found, jacobian(evaluator, graphs, theta), rtol=0, atol=2e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_free_biases_are_minimized_over(make_problem, shape) -> None:
    problem = with_conjunctions(make_problem(7, **SHAPES[shape]), 8)
    evaluator, _, _ = evaluate(problem, "pl")
    graphs, theta, n = problem.field.graphs, problem.field.theta, problem.schema.n_target_columns
    found = assembled(evaluator.newton_system(graphs, theta, np.ones(n, dtype=bool)), len(theta))
    whole = jacobian(evaluator, graphs, theta)
    biases = whole[:n, :n] + curvature.MIN_DIAGONAL * np.eye(n)
    expected = whole[n:, n:] - whole[n:, :n] @ np.linalg.solve(biases, whole[:n, n:])
    np.testing.assert_allclose(found[n:, n:], expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize("shape", SHAPES)
def test_matrix_products_and_loops_over_arcs_agree(make_problem, monkeypatch, shape) -> None:
    problem = with_conjunctions(make_problem(5, **SHAPES[shape]), 8)
    found = []
    for share in (0.0, 1.0):
        monkeypatch.setattr(block_evaluation, "MATRIX_SHARE", share)
        found.append(evaluate(problem, "pl")[1:])
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-12)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=0, atol=1e-11)
