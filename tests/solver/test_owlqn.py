"""The optimizer reaches the optimality conditions and never climbs; its coordinates describe the same field."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import violation
from plain import evaluated
from scipy.special import expit

from sparsefield.objectives import DenseEvaluator
from sparsefield.objectives.pseudo_likelihood import PseudoLikelihood
from sparsefield.solver.owlqn import NonsmoothPenalty, OrthantLBFGS, Penalty, Point
from sparsefield.solver.working_set import CenteredParametrization


def quadratic(seed: int, size: int, condition: float = 1e3):
    """theta' A theta / 2 - b' theta, with eigenvalues from 1 / condition to 1."""
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(size, size)))
    A = (turn * np.geomspace(1 / condition, 1.0, size)) @ turn.T
    b = rng.normal(size=size)
    return lambda theta: (0.5 * theta @ A @ theta - b @ theta, A @ theta - b)


def logistic(seed: int, size: int):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, size)) * rng.uniform(0.2, 3.0, size)
    y = rng.integers(0, 2, 60)

    def smooth(theta):
        z = X @ theta
        value = np.logaddexp(0, z).sum() - y @ z + 0.05 * theta @ theta
        return float(value), X.T @ (expit(z) - y) + 0.1 * theta

    return smooth


def with_l1(smooth, l1):
    def evaluate(theta):
        value, gradient = smooth(theta)
        return value + float(l1 @ np.abs(theta)), gradient

    return evaluate


def minimize(evaluate, l1, start, *, steps: int = 3000, scale=None, optimizer=None) -> tuple[Point, list[float]]:
    optimizer = optimizer or OrthantLBFGS()
    scale = np.ones_like(start) if scale is None else scale
    point = Point(start, *evaluate(start))
    values = [point.value]
    for _ in range(steps):
        found = optimizer.step(point, NonsmoothPenalty(l1), lambda g: scale * g, evaluate)
        if found is None:
            break
        point = found
        values.append(point.value)
    return point, values


def worst(point: Point, l1) -> float:
    return max(violation(t, g, p) for t, g, p in zip(point.coordinates, point.gradient, l1, strict=True))


@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(1, 25),
    strength=st.sampled_from([0.0, 0.1, 0.7, 10.0]),
    kind=st.sampled_from([quadratic, logistic]),
    free=st.booleans(),
)
def test_it_reaches_the_optimality_conditions_and_never_climbs(seed, size, strength, kind, free) -> None:
    rng = np.random.default_rng(seed)
    l1 = np.full(size, strength)
    if free:
        l1[::3] = 0.0
    start = np.where(rng.random(size) < 0.5, rng.normal(size=size), 0.0)
    point, values = minimize(with_l1(kind(seed, size), l1), l1, start, scale=rng.uniform(0.2, 2.0, size))
    assert worst(point, l1) < 1e-4
    assert (np.diff(values) <= 0.0).all()


def test_a_strong_penalty_leaves_exact_zeros() -> None:
    l1 = np.full(30, 0.8)
    point, _ = minimize(with_l1(quadratic(3, 30), l1), l1, np.random.default_rng(0).normal(size=30))
    assert 0 < np.count_nonzero(point.coordinates) < 30


@pytest.mark.parametrize(("where", "bad"), [("value", np.nan), ("value", -np.inf), ("gradient", np.inf)])
def test_numbers_that_are_none_never_come_back(where, bad) -> None:
    """Beyond |theta| = 1 the function answers with nonsense; the lowest point within is at the border."""

    def evaluate(theta):
        value, gradient = float(((theta - 5.0) ** 2).sum()), 2 * (theta - 5.0)
        if np.abs(theta).max() > 1.0:
            return (bad, gradient) if where == "value" else (value, np.full_like(gradient, bad))
        return value, gradient

    none = np.zeros(3)
    start = np.zeros(3)
    point, values = minimize(evaluate, none, start, steps=50, scale=np.full(3, 10.0))
    assert np.isfinite(point.coordinates).all()
    assert np.isfinite(point.value)
    assert np.isfinite(point.gradient).all()
    assert np.abs(point.coordinates).max() <= 1.0
    assert point.value < values[0]


def test_parameters_may_join_on_the_way() -> None:
    """Grow from 4 to 12: the end is that of a fresh start over all 12."""
    smooth = quadratic(0, 12)

    def of_four(theta):
        value, gradient = smooth(np.r_[theta, np.zeros(8)])
        return value, gradient[:4]

    optimizer = OrthantLBFGS()
    few, all_of_them = np.full(4, 0.1), np.full(12, 0.1)
    first, _ = minimize(with_l1(of_four, few), few, np.zeros(4), steps=5, optimizer=optimizer)
    optimizer.grow(8)
    evaluate = with_l1(smooth, all_of_them)
    second, values = minimize(evaluate, all_of_them, np.r_[first.coordinates, np.zeros(8)], optimizer=optimizer)
    fresh, _ = minimize(evaluate, all_of_them, np.zeros(12))
    assert values[0] == pytest.approx(first.value)
    assert (np.diff(values) <= 0).all()
    assert worst(second, all_of_them) < 1e-4
    assert second.value == pytest.approx(fresh.value, rel=1e-6)


def test_the_pseudo_gradient_is_the_violation_of_every_weight() -> None:
    theta = np.array([1.0, -1.0, 0.0, 0.0, 0.0, 2.0])
    gradient = np.array([-0.5, 0.2, 0.3, -0.9, 0.5, 0.0])
    l1 = np.array([0.5, 0.5, 0.5, 0.5, 0.5, 0.0])
    slope = NonsmoothPenalty(l1).pseudo_gradient(theta, gradient)
    np.testing.assert_allclose(slope, [0.0, -0.3, 0.0, -0.4, 0.0, 0.0])
    expected = [violation(t, g, p) for t, g, p in zip(theta, gradient, l1, strict=True)]
    np.testing.assert_allclose(np.abs(slope), expected)


@pytest.mark.parametrize("on_biases", [[True, True], [True, False], [False, False]])
def test_penalties_are_those_of_equation_5(on_biases) -> None:
    penalty = Penalty(2.0, 3.0, np.array(on_biases), np.ones(1), np.ones(1))
    theta = np.array([1.0, -2.0, 3.0])
    held = [*on_biases, True]
    assert penalty.value(theta) == pytest.approx(
        sum(2 * abs(t) + 1.5 * t * t for t, h in zip(theta, held, strict=True) if h)
    )
    assert penalty.nonsmooth.strengths.tolist() == [2.0 * h for h in held]
    assert penalty.l2_strengths.tolist() == [3.0 * h for h in held]


def setting(make_problem, seed: int):
    problem = make_problem(seed)
    rng = np.random.default_rng(seed)
    n, columns = problem.schema.n_target_columns, problem.schema.n_columns
    coordinates = CenteredParametrization(rng.normal(size=columns), rng.random(columns), rng.random(n) < 0.6)
    return problem, coordinates


def plain_gradient(coordinates: CenteredParametrization, gradient: np.ndarray, arcs) -> np.ndarray:
    """The inverse of `from_plain_gradient`, which changes the gradient of pair weights alone."""
    return 2.0 * gradient - coordinates.from_plain_gradient(gradient, arcs)


@given(seed=st.integers(0, 2**32 - 1))
def test_there_and_back_again(make_problem, seed) -> None:
    problem, coordinates = setting(make_problem, seed)
    arcs = problem.layout.arcs(problem.pairs)
    place = coordinates.from_theta(problem.theta, arcs)
    np.testing.assert_allclose(coordinates.to_theta(place, arcs), problem.theta, atol=1e-12)
    gradient = np.random.default_rng(seed).normal(size=len(problem.theta))
    transformed = coordinates.from_plain_gradient(gradient, arcs)
    np.testing.assert_allclose(plain_gradient(coordinates, transformed, arcs), gradient, atol=1e-12)


@given(seed=st.integers(0, 2**32 - 1))
def test_slopes_along_a_move_are_the_same_in_both(make_problem, seed) -> None:
    problem, coordinates = setting(make_problem, seed)
    arcs = problem.layout.arcs(problem.pairs)
    rng = np.random.default_rng(seed)
    gradient, move = rng.normal(size=(2, len(problem.theta)))
    plain_move = coordinates.to_theta(move, arcs)
    transformed = coordinates.from_plain_gradient(gradient, arcs)
    assert transformed @ move == pytest.approx(gradient @ plain_move, abs=1e-10)


def test_with_all_centered_at_the_means_the_gradient_is_error_times_signal(make_problem, engine) -> None:
    """Eq. 13 without its last two terms."""
    problem = make_problem(4, missing=0.0)
    evaluator = DenseEvaluator(problem.sample, PseudoLikelihood(), engine)
    _, gradient = evaluator.evaluate(problem.graphs, problem.theta)
    factors = evaluator.gradient_factors()
    mean, variance = evaluator.moments()
    n = problem.schema.n_target_columns
    coordinates = CenteredParametrization(mean, variance, np.ones(n, dtype=bool))
    transformed = coordinates.from_plain_gradient(gradient, problem.layout.arcs(problem.pairs))
    errors = np.zeros((problem.schema.n_columns, problem.table.n_rows))
    errors[:n], expectations = evaluated(factors)
    signals = expectations - mean[:, None]
    expected = [errors[a] @ signals[b] + errors[b] @ signals[a] for a, b in problem.pairs]
    np.testing.assert_allclose(transformed[n:], expected, atol=1e-11)
    weight = problem.table.blocks[0].weight
    np.testing.assert_allclose(variance, np.average(signals**2, axis=1, weights=weight), atol=1e-12)
