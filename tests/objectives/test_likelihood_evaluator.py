"""The exact likelihood: its loss is what enumeration finds, and its gradient the derivative of that."""

from __future__ import annotations

import math

import numpy as np
import pytest
from oracle import SlowField
from scipy.special import logsumexp

from sparsefield.compute import Threads
from sparsefield.data import Dataset, Layout, as_source, compile_table, learn_schema
from sparsefield.induction import all_pairs
from sparsefield.inference import missing_sums
from sparsefield.objectives import LikelihoodEvaluator


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
