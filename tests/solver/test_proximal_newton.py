"""Newton steps reach the minimum of their model, and fits with and without them the same optimum."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sparsefield import Features, MarkovField, Solver
from sparsefield.kernels.proximal_newton import newton_step
from sparsefield.kernels.regression_hessians import Designs, NewtonSystem, empty_system
from sparsefield.objectives import DenseEvaluator
from sparsefield.objectives.curvature import MIN_DIAGONAL


def table(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    """Return binary, nominal and ordinal columns that depend on one another."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=rows)
    cells = {f"b{k}": (factor + rng.normal(size=rows) > 0.3).astype(int) for k in range(6)}
    cells |= {f"n{k}": np.array(list("uvw"))[np.digitize(factor + rng.normal(size=rows), [-0.7, 0.7])] for k in (0, 1)}
    cells |= {f"o{k}": np.digitize(factor + rng.normal(size=rows), [-1, 0, 1]) for k in (0, 1)}
    return pd.DataFrame(cells)


def shared_model(seed: int) -> tuple[NewtonSystem, np.ndarray]:
    """Return a model of three regressions, with a bias each, that share three weights; and its whole Hessian."""
    rng = np.random.default_rng(seed)
    whole, parameters = np.zeros((6, 6)), np.array([0, 3, 4, 1, 3, 5, 2, 4, 5])
    source = np.where(parameters < 3, -1, 0)
    designs = Designs(np.arange(0, 10, 3), source, parameters, np.empty((0, 2), dtype=np.int64), np.arange(4))
    system = empty_system([designs], np.ones(3, dtype=bool), 6)
    for v in range(3):
        design = rng.normal(size=(3, 30)) + 1.0
        design[0] = 1.0
        hessian = (design * rng.uniform(0.05, 0.25, 30)) @ design.T
        hessian[0, 0] += MIN_DIAGONAL
        places = parameters[3 * v : 3 * v + 3]
        whole[np.ix_(places, places)] += hessian
        cross, inverse = hessian[:1, 1:], 1.0 / hessian[:1, :1]
        system.blocks[4 * v : 4 * v + 4] = (hessian[1:, 1:] - cross.T @ inverse @ cross).ravel()
        system.of_gradient[v], system.of_weights[2 * v : 2 * v + 2] = inverse[0, 0], (inverse @ cross)[0]
    return system, whole


def minimum(hessian: np.ndarray, theta: np.ndarray, gradient: np.ndarray, strengths: np.ndarray) -> np.ndarray:
    """Return the step to the minimum of a quadratic function plus L1, by many proximal gradient steps."""
    rate, step = 1.0 / np.linalg.eigvalsh(hessian)[-1], np.zeros(len(theta))
    for _ in range(4_000):
        moved = theta + step - rate * (gradient + hessian @ step)
        step = np.sign(moved) * np.maximum(np.abs(moved) - rate * strengths, 0.0) - theta
    return step


@pytest.mark.parametrize("seed", range(2))
def test_the_step_is_that_of_proximal_gradient_descent(seed) -> None:
    model, hessian = shared_model(seed)
    rng = np.random.default_rng(seed + 10)
    theta, gradient = np.array([0.3, -0.2, 0.1, 0.4, 0.0, -0.2]), rng.normal(size=6)
    strengths, ridge = np.array([0.0, 0.0, 0.0, 0.8, 4.0, 2.5]), np.array([0.0, 0.0, 0.0, 0.1, 0.1, 0.1])
    found = newton_step(model, theta, gradient, strengths, ridge, 1e6, 1e-7, 0.0, 1000)
    expected = minimum(hessian + np.diag(ridge), theta, gradient, strengths)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    at_zero = np.abs(theta + expected) < 1e-12
    assert at_zero.any()
    np.testing.assert_allclose((theta + found)[at_zero], 0.0, rtol=0, atol=1e-15)


def test_no_weight_changes_by_more_than_the_bound_and_biases_follow() -> None:
    model, _ = shared_model(0)
    step = newton_step(model, np.zeros(6), np.full(6, -100.0), np.zeros(6), np.zeros(6), 0.5, 0.03, 0.0, 1000)
    assert np.abs(step[3:]).max() == 0.5
    assert np.abs(step[:3]).max() > 0.5


# With expand="active" the candidates depend on which pairs were active on the way, and so does the optimum.
ALL_TRIPLES = {"features": Features(max_order=3, expand="all")}


@pytest.mark.parametrize("options", [{}, {"features": Features(penalize_biases=True)}, ALL_TRIPLES], ids=str)
def test_fits_with_newton_steps_alone_and_without_any_reach_the_same_optimum(monkeypatch, options) -> None:
    objectives = []
    for cost in (0.0, np.inf):
        monkeypatch.setattr(DenseEvaluator, "hessian_cost", lambda self, graphs, cost=cost: cost)
        field = MarkovField(l1=3.0, n_jobs=1, solver=Solver(kkt_tol=1e-4), **options).fit(table())
        assert field.converged_
        objectives.append(field.field_.record.objective)
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-7)
