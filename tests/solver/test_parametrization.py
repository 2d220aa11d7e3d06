"""Centered coordinates describe the same field, and their gradient is that of the same objective."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain import evaluated

from sparsefield.objectives import DenseEvaluator
from sparsefield.objectives.pseudo_likelihood import PseudoLikelihood
from sparsefield.solver.working_set import CenteredParametrization


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


def test_preconditioner_is_positive_and_finite(make_problem) -> None:
    problem, coordinates = setting(make_problem, 5)
    arcs = problem.layout.arcs(problem.pairs)
    n = problem.schema.n_target_columns
    for l2 in (0.0, 1.0):
        scale = coordinates.preconditioner(arcs, np.zeros(n), None, np.full(len(problem.theta), l2))(
            np.ones(len(problem.theta))
        )
        assert np.isfinite(scale).all()
        assert (scale > 0).all()
