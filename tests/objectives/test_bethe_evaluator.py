"""The Bethe likelihood: exact on trees, and elsewhere a loss whose gradient is that of belief propagation."""

from __future__ import annotations

import numpy as np
import pytest
from plain import evaluated
from test_likelihood_evaluator import Problem

from sparsefield.compute import Threads
from sparsefield.data import Dataset, as_source, compile_table, learn_schema
from sparsefield.induction import all_pairs
from sparsefield.inference import BeliefPropagation
from sparsefield.objectives import BetheEvaluator, GradientFactors

CASES = [{"missing": 0.3}, {"observed": False}]
EXACT = BeliefPropagation(tolerance=1e-12)


def bethe(problem: Problem, engine: Threads) -> BetheEvaluator:
    return BetheEvaluator(Dataset.single(problem.table), engine, EXACT)


def make_tree(problem: Problem) -> None:
    """Keep the features of a path of columns, and those with a covariate."""
    owner = problem.schema.variable_of_column[problem.features]
    kept = (np.abs(owner[:, 0] - owner[:, 1]) == 1) | (owner.max(axis=1) == 4)
    problem.features = problem.features[kept]
    problem.theta = problem.theta[: problem.schema.n_target_columns + len(problem.features)]


@pytest.mark.parametrize("case", CASES)
def test_it_is_the_exact_likelihood_on_trees(case) -> None:
    problem = Problem(3, **case)
    if not case.get("observed", True):
        problem.features = problem.features[(problem.schema.variable_of_column[problem.features] < 4).all(axis=1)]
    make_tree(problem)
    with Threads(1) as engine:
        exact, approximate = problem.evaluator(engine), bethe(problem, engine)
        arcs = problem.layout.arcs(problem.features)
        loss, gradient = exact.evaluate(exact.compile(arcs), problem.theta)
        found, found_gradient = approximate.evaluate(approximate.compile(arcs), problem.theta)
    assert found == pytest.approx(loss, abs=1e-8)
    assert np.allclose(found_gradient, gradient, atol=1e-8)
    assert np.allclose(approximate.bias_hessian(), exact.bias_hessian(), atol=1e-8)
    assert approximate.unconverged == 0


@pytest.mark.parametrize("case", CASES)
def test_its_gradient_is_the_derivative_of_its_loss(case) -> None:
    problem = Problem(5, **case)
    with Threads(1) as engine:
        evaluator = bethe(problem, engine)
        graph = evaluator.compile(problem.layout.arcs(problem.features))
        _, gradient = evaluator.evaluate(graph, problem.theta)
        assert evaluator.unconverged == 0
        for k in range(len(problem.theta)):
            step = np.zeros(len(problem.theta))
            step[k] = 1e-5
            above, below = (evaluator.evaluate(graph, problem.theta + sign * step)[0] for sign in (1.0, -1.0))
            assert gradient[k] == pytest.approx((above - below) / 2e-5, abs=1e-5)


def test_errors_and_expectations_give_the_gradients_of_candidates() -> None:
    rng = np.random.default_rng(7)
    source = as_source(rng.integers(0, 2, (20, 6)))
    schema = learn_schema(source)
    sample = Dataset.single(compile_table(source, schema, sample_weight=rng.uniform(0.5, 2.0, 20)))
    pairs = all_pairs(sample.layout)
    known = rng.random(len(pairs)) < 0.4
    features, candidates = pairs[known], pairs[~known]
    with Threads(1) as engine:
        evaluator = BetheEvaluator(sample, engine, EXACT)
        evaluator.evaluate(evaluator.compile(sample.layout.arcs(features)), rng.normal(0.0, 0.5, 6 + len(features)))
        factors = evaluator.gradient_factors()
        assert isinstance(factors, GradientFactors)
        errors, expectations = evaluated(factors)
        product = errors @ expectations.T
        found = (product + product.T)[candidates[:, 0], candidates[:, 1]]
        other = evaluator.compile(sample.layout.arcs(candidates))
        assert np.allclose(found, evaluator.gradient(other, 6 + len(candidates))[6:], atol=1e-8)


def test_components_without_a_fixed_point_are_counted() -> None:
    problem = Problem(9, observed=False)
    with Threads(1) as engine:
        evaluator = BetheEvaluator(
            Dataset.single(problem.table), engine, BeliefPropagation(max_updates=1, tolerance=1e-14)
        )
        loss, _ = evaluator.evaluate(evaluator.compile(problem.layout.arcs(problem.features)), problem.theta)
        assert evaluator.unconverged > 0
        assert loss == np.inf
