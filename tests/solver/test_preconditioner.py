"""What the optimizer knows of curvature: freed of dropped parameters, symmetric, and exact for a single pair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import violation
from sparse_tables import sparse_sample

from sparsefield.objectives import SparseEvaluator
from sparsefield.solver import working_set
from sparsefield.solver.owlqn import NonsmoothPenalty, OrthantLBFGS, Point
from sparsefield.solver.working_set import CenteredParametrization

# -- memory that lets parameters go --------------------------------------------------------------------------------


def quadratic(seed: int, size: int):
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(size, size)))
    A = (turn * np.geomspace(1e-3, 1.0, size)) @ turn.T
    b = rng.normal(size=size)
    return lambda theta: (0.5 * theta @ A @ theta - b @ theta, A @ theta - b)


def minimize(smooth, l1, start, optimizer, steps: int) -> Point:
    def evaluate(theta):
        value, gradient = smooth(theta)
        return value + float(l1 @ np.abs(theta)), gradient

    point = Point(start, *evaluate(start))
    for _ in range(steps):
        found = optimizer.step(point, NonsmoothPenalty(l1), np.copy, evaluate)
        if found is None:
            break
        assert found.value <= point.value
        point = found
    return point


def test_without_what_was_let_go_the_optimum_is_that_of_a_fresh_start() -> None:
    """Parameters at 0 leave, as in a fit; the rest goes on from where it stood."""
    smooth, optimizer = quadratic(0, 14), OrthantLBFGS()
    l1 = np.full(14, 0.8)
    point = minimize(smooth, l1, np.zeros(14), optimizer, 8)
    places = np.flatnonzero(point.coordinates)
    assert 0 < len(places) < 14

    def of_those(theta):
        whole = np.zeros(14)
        whole[places] = theta
        value, gradient = smooth(whole)
        return value, gradient[places]

    optimizer.keep(places)
    end = minimize(of_those, l1[places], point.coordinates[places], optimizer, 2000)
    fresh = minimize(of_those, l1[places], np.zeros(len(places)), OrthantLBFGS(), 2000)
    assert end.value == pytest.approx(fresh.value, rel=1e-6)
    worst = max(violation(t, g, 0.8) for t, g in zip(end.coordinates, end.gradient, strict=True))
    assert worst < 1e-4


# -- the preconditioner --------------------------------------------------------------------------------------------


def curvature(problem, engine, theta=None, centered=True):
    """A problem's coordinates, arcs, and both parts of the Hessian at its point."""
    theta = problem.theta if theta is None else theta
    evaluator = SparseEvaluator(sparse_sample(problem), engine)
    arcs = problem.layout.arcs(problem.pairs)
    compiled = evaluator.compile(arcs)
    evaluator.evaluate(compiled, theta)
    places = CenteredParametrization(
        *evaluator.moments(), np.broadcast_to(centered, problem.schema.n_target_columns).copy()
    )
    return evaluator, places, arcs, evaluator.bias_hessian(), evaluator.arc_hessian(compiled)


@given(
    seed=st.integers(0, 2**32 - 1),
    states=st.sampled_from([(2,) * 6, (2, 3, 4)]),
    observed=st.sampled_from([(), (2, 3)]),
    l2=st.sampled_from([0.0, 1.0]),
    size=st.sampled_from([0.1, 1.0, 8.0]),
)
def test_it_is_symmetric_and_positive(make_problem, engine, seed, states, observed, l2, size) -> None:
    problem = make_problem(seed, missing=0.0, numbers=0, states=states, observed_states=observed, size=size, n_rows=20)
    rng = np.random.default_rng(seed)
    _, places, arcs, unsure, shared = curvature(
        problem, engine, centered=rng.random(problem.schema.n_target_columns) < 0.7
    )
    multiply = places.preconditioner(arcs, unsure, shared, np.full(len(problem.theta), l2))
    for _ in range(5):
        v, w = rng.normal(size=(2, len(problem.theta)))
        kept = v.copy()
        assert v @ multiply(w) == pytest.approx(w @ multiply(v), rel=1e-9, abs=1e-9)
        assert v @ multiply(v) > 0.0
        assert np.array_equal(v, kept)
    whole = np.array([multiply(row) for row in np.eye(len(problem.theta))])
    np.testing.assert_allclose(whole, whole.T, rtol=1e-9, atol=1e-9)
    assert np.linalg.eigvalsh((whole + whole.T) / 2).min() > 0.0


def second_derivatives(evaluator, places, arcs, theta, l2) -> np.ndarray:
    """Of the objective in the optimizer's coordinates, by differences of its gradient."""
    compiled, start, step = evaluator.compile(arcs), places.from_theta(theta, arcs), 1e-5

    def gradient(place):
        plain = places.to_theta(place, arcs)
        return places.from_plain_gradient(evaluator.evaluate(compiled, plain)[1] + l2 * plain, arcs)

    moves = step * np.eye(len(theta))
    return np.array([(gradient(start + move) - gradient(start - move)) / (2 * step) for move in moves])


@pytest.mark.parametrize(
    ("kind", "l2", "centered"),
    [("two targets", 0.0, True), ("a target and what is given", 2.0, True), ("two targets", 2.0, False)],
)
def test_for_a_single_pair_it_is_the_inverse_of_the_second_derivatives(
    make_problem, engine, monkeypatch, kind, l2, centered
) -> None:
    """With u = sum p (1 - p) of an end and s = the same over rows in which the other end is on, the second derivatives
    in plain coordinates are u at each bias, s between it and the pair weight, and the sum of s (+ l2) at the
    pair weight. Eliminating biases leaves sum s (1 - s / u) + l2, and the means only shift the elimination:
    exactly what `preconditioner` inverts, but for MIN_DIAGONAL. l2 is on the pair weight alone, as in a fit that leaves
    biases free. An end that is not centered is not eliminated, so nothing is claimed of it but its diagonal."""
    monkeypatch.setattr(working_set, "MIN_DIAGONAL", 0.0)
    shape = (
        {"states": (2, 2), "observed_states": ()}
        if kind == "two targets"
        else {"states": (2,), "observed_states": (2,)}
    )
    problem = make_problem(0, missing=0.0, numbers=0, n_rows=30, share=2.0, **shape)
    assert len(problem.pairs) == 1
    penalty = np.append(np.zeros(problem.schema.n_target_columns), l2)
    evaluator, places, arcs, unsure, shared = curvature(problem, engine, centered=centered)
    multiply = places.preconditioner(arcs, unsure, shared, penalty)
    found = np.array([multiply(row) for row in np.eye(len(problem.theta))])
    exact = second_derivatives(evaluator, places, arcs, problem.theta, penalty)
    if centered:
        np.testing.assert_allclose(found @ exact, np.eye(len(exact)), atol=1e-5)
    else:
        np.testing.assert_allclose(found, np.diag(1.0 / np.diag(exact)), atol=1e-5)
