"""The gradient of pl is the derivative of its loss, and its loss is the pseudo-likelihood by enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from plain import graphs_of

from sparsefield.objectives import DenseEvaluator
from sparsefield.objectives.pseudo_likelihood import PseudoLikelihood


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_gradient_is_the_derivative_of_the_loss(make_problem, engine, missing) -> None:
    problem = make_problem(0, missing=missing, n_rows=15)
    evaluator = DenseEvaluator(problem.sample, PseudoLikelihood(), engine)
    graphs = problem.graphs
    _, gradient = evaluator.evaluate(graphs, problem.theta)
    step = 1e-5
    for k in range(len(problem.theta)):
        there, back = problem.theta.copy(), problem.theta.copy()
        there[k] += step
        back[k] -= step
        slope = (evaluator.evaluate(graphs, there)[0] - evaluator.evaluate(graphs, back)[0]) / (2 * step)
        assert gradient[k] == pytest.approx(slope, rel=1e-6, abs=1e-6)


def test_loss_without_missing_cells_is_the_pseudo_likelihood_by_enumeration(make_problem, engine) -> None:
    problem = make_problem(6, missing=0.0)
    n = problem.schema.n_target_columns
    expected = 0.0
    for row in problem.rows:
        for v, code in enumerate(row.codes):
            expected -= row.weight * math.log(problem.slow.conditional(v, row.codes, row.q[n:])[code])
    loss, _ = DenseEvaluator(problem.sample, PseudoLikelihood(), engine).evaluate(problem.graphs, problem.theta)
    assert loss == pytest.approx(expected, rel=1e-12)


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
