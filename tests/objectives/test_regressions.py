"""A block that is evaluated in pieces has the results of the whole block, on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from higher import evaluate, with_conjunctions

from sparsefield import config
from sparsefield.compute import Threads
from sparsefield.objectives import OBJECTIVES, DenseEvaluator, block_evaluation

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
