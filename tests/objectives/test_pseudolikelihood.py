"""Pseudo-likelihood is the sum of regressions, one per variable, whatever their pieces."""

from __future__ import annotations

import math

import numpy as np
import pytest
from higher import evaluate, with_conjunctions
from plain import graphs_of

from sparsefield import config
from sparsefield.compute import Threads
from sparsefield.objectives import OBJECTIVES, DenseEvaluator, block_evaluation
from sparsefield.objectives.pseudo_likelihood import PseudoLikelihood


@pytest.mark.slow
def test_more_variables_than_one_product_can_hold_do_not_overflow(make_problem, engine) -> None:
    """Normalizers are multiplied along a row: 800 variables with three even states make about 3^800."""
    problem = make_problem(1, n_rows=6, states=(3,) * 800, observed_states=(), numbers=0, share=0.0, missing=0.1)
    theta = np.zeros(problem.schema.n_target_columns)
    loss, _ = DenseEvaluator(problem.sample, PseudoLikelihood(), engine).evaluate(
        graphs_of(problem.schema, np.empty((0, 2), dtype=np.int64)), theta
    )
    logs = [math.log(len(variable.states)) for variable in problem.schema.targets]
    expected = sum(
        row.weight * sum(log for code, log in zip(row.codes, logs, strict=True) if code >= 0) for row in problem.rows
    )
    assert sum(logs) > math.log(np.finfo(float).max)
    assert loss == pytest.approx(expected, rel=1e-12)


SHAPES = {
    "binary": {"states": (2, 2, 2, 2), "observed_states": (), "numbers": 0},
    "many states": {"states": (2, 3, 4, 2), "observed_states": (3,), "numbers": 1, "n_rows": 20},
    "ordinal": {"states": (2, 4, 3), "numbers": 1, "kinds": {"x1": "ordinal", "x2": "ordinal"}, "n_rows": 20},
}


@pytest.fixture
def many_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "MIN_BLOCK_ROWS", 4)
    monkeypatch.setattr(block_evaluation, "MIN_OPERATIONS", 1.0)


@pytest.mark.parametrize("shape", SHAPES)
def test_pieces_have_the_results_of_the_whole(make_problem, monkeypatch, shape) -> None:
    problem = with_conjunctions(make_problem(5, **SHAPES[shape]), 8)
    whole, loss, gradient = evaluate(problem, "pl")
    monkeypatch.setattr(block_evaluation, "MIN_OPERATIONS", 1.0)
    parts, loss_of_parts, gradient_of_parts = evaluate(problem, "pl")
    assert loss_of_parts == pytest.approx(loss, rel=1e-13)
    np.testing.assert_allclose(gradient_of_parts, gradient, rtol=0, atol=1e-12)
    np.testing.assert_allclose(parts.gradient(problem.field.graphs, len(gradient)), gradient, rtol=0, atol=1e-12)
    np.testing.assert_allclose(parts.bias_hessian(), whole.bias_hessian(), rtol=1e-13)


@pytest.mark.usefixtures("many_pieces")
def test_threads_change_no_bit(make_problem) -> None:
    problem, found = with_conjunctions(make_problem(5, **SHAPES["many states"]), 8), []
    for n_jobs in (1, 2, 3):
        with Threads(n_jobs) as engine:
            evaluator = DenseEvaluator(problem.sample, OBJECTIVES["pl"](), engine)
            loss, gradient = evaluator.evaluate(problem.field.graphs, problem.field.theta)
            found.append((loss, gradient.tobytes(), evaluator.bias_hessian().tobytes()))
    assert found[0] == found[1] == found[2]
