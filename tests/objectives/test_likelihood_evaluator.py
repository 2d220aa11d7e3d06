"""The exact likelihood and that of Bethe: losses by enumeration, exact on trees, and gradients that are derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from oracle import SlowField
from plain import evaluated
from scipy.special import logsumexp

from sparsefield.compute import Threads
from sparsefield.data import Dataset, Layout, as_source, compile_table, learn_schema
from sparsefield.induction import all_pairs
from sparsefield.inference import BeliefPropagation, missing_sums
from sparsefield.objectives import BetheEvaluator, GradientFactors, LikelihoodEvaluator


class Problem:
    """Rows of several kinds of columns with missing cells, covariates and weights, and random features."""

    def __init__(self, seed: int, *, missing: float = 0.0, observed: bool = True, triples: bool = False) -> None:
        rng = np.random.default_rng(seed)
        columns = [rng.integers(0, 2, 14), rng.integers(0, 3, 14), rng.normal(size=14).round(1), rng.integers(0, 3, 14)]
        cells = np.column_stack([*columns, rng.integers(0, 2, 14)]).astype(float)
        cells[rng.random(cells.shape) < missing] = np.nan
        cells[:, 4] = columns[0] if observed else cells[:, 4]
        source = as_source(cells)
        kinds = {"x1": "nominal", "x2": "numeric", "x3": "ordinal"}
        self.schema = learn_schema(source, observed=["x4"] if observed else [], kinds=kinds)
        self.weight = rng.uniform(0.5, 2.0, len(cells))
        self.table = compile_table(source, self.schema, sample_weight=self.weight)
        self.layout = Layout.single(self.schema)
        pairs = all_pairs(self.layout)
        self.features = pairs[rng.random(len(pairs)) < 0.5]
        if triples:
            third = np.full((len(self.features), 1), -1)
            own = self.schema.variable_of_column
            used = [own.searchsorted(v) for v in range(3)]
            self.features = np.concatenate([np.hstack([self.features, third]), [used]])
        n = self.schema.n_target_columns
        self.theta = rng.normal(0.0, 0.7, n + len(self.features))

    def evaluator(self, engine) -> LikelihoodEvaluator:
        return LikelihoodEvaluator(Dataset.single(self.table), engine)

    def slow_loss(self) -> float:
        n, (block,) = self.schema.n_target_columns, self.table.blocks
        pairs = self.features[:, :2] if self.features.shape[1] == 2 else self.features[self.features[:, 2] < 0, :2]
        higher = self.features[len(pairs) :]
        weights = self.theta[n:]
        slow = SlowField(self.schema, self.theta[:n], pairs, weights[: len(pairs)], higher, weights[len(pairs) :])

        def log_sum(codes: list[int], covariates: list[float]) -> float:
            energies = (
                slow.energy(slow.one_hot(s, covariates)) + slow.base_measure(s) for s in slow.assignments(codes)
            )
            return float(logsumexp(list(energies)))

        total = 0.0
        for row, weight in enumerate(block.weight):
            codes, covariates = block.codes[:, row].tolist(), block.covariates[:, row].tolist()
            total -= weight * (log_sum(codes, covariates) - log_sum([-1] * len(codes), covariates))
        return total


CASES = [{"missing": 0.3}, {"observed": False}]


@pytest.mark.parametrize("case", [*CASES, {"missing": 0.3, "triples": True}])
def test_the_loss_is_that_of_enumeration(case) -> None:
    problem = Problem(1, **case)
    with Threads(1) as engine:
        evaluator = problem.evaluator(engine)
        loss, _ = evaluator.evaluate(evaluator.compile(problem.layout.arcs(problem.features)), problem.theta)
    assert loss == pytest.approx(problem.slow_loss(), rel=1e-11)


@pytest.mark.parametrize("case", [*CASES, {"missing": 0.3, "triples": True}])
def test_the_gradient_is_the_derivative_of_the_loss(case) -> None:
    problem, step = Problem(2, **case), 1e-5
    with Threads(1) as engine:
        evaluator = problem.evaluator(engine)
        graph = evaluator.compile(problem.layout.arcs(problem.features))

        def loss(k: int, change: float) -> float:
            theta = problem.theta.copy()
            theta[k] += change
            return evaluator.evaluate(graph, theta)[0]

        derivative = [(loss(k, step) - loss(k, -step)) / (2 * step) for k in range(0, len(problem.theta), 3)]
        _, gradient = evaluator.evaluate(graph, problem.theta)
    np.testing.assert_allclose(gradient[::3], derivative, rtol=0, atol=1e-7)


@pytest.mark.parametrize("case", CASES)
def test_gradients_of_other_features_are_those_at_weight_0(case) -> None:
    problem = Problem(3, **case)
    n, features = problem.schema.n_target_columns, problem.features
    theta = problem.theta.copy()
    theta[n + 4 :] = 0.0
    with Threads(1) as engine:
        evaluator = problem.evaluator(engine)
        _, wanted = evaluator.evaluate(evaluator.compile(problem.layout.arcs(features)), theta)
        evaluator.evaluate(evaluator.compile(problem.layout.arcs(features[:4])), theta[: n + 4])
        found = evaluator.gradient_factors().gradient(features[4:])
    np.testing.assert_allclose(found, wanted[n + 4 :], rtol=0, atol=1e-11)


def test_threads_and_equal_rows_change_no_bit(monkeypatch) -> None:
    monkeypatch.setattr(missing_sums, "CHUNK_ROWS", 3)
    problem, found = Problem(4, missing=0.3), []
    for threads in (1, 3):
        with Threads(threads) as engine:
            evaluator = problem.evaluator(engine)
            graph = evaluator.compile(problem.layout.arcs(problem.features))
            loss, gradient = evaluator.evaluate(graph, problem.theta)
            found.append((loss, gradient.tobytes(), evaluator.bias_hessian().tobytes()))
    assert found[0] == found[1]


def test_extreme_weights_keep_the_loss_finite() -> None:
    problem = Problem(6, missing=0.3)
    with Threads(1) as engine:
        evaluator = problem.evaluator(engine)
        graph = evaluator.compile(problem.layout.arcs(problem.features))
        loss, gradient = evaluator.evaluate(graph, 300.0 * problem.theta)
    assert math.isfinite(loss)
    assert np.isfinite(gradient).all()


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
