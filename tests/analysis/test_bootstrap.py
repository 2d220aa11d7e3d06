"""The bootstrap is the same for any number of threads, and agrees with the sandwich."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from known_tables import several_kinds, two_by_two

from sparsefield import MarkovField, confidence_intervals
from sparsefield.analysis.bootstrap import draw_weights, row_factors
from sparsefield.analysis.refit import compile_refit, minimize

pytestmark = pytest.mark.filterwarnings("ignore::sparsefield.errors.PenaltyWarning")  # bins of few rows


@pytest.fixture(scope="module")
def mixed() -> MarkovField:
    return MarkovField(l1=6.0).fit(several_kinds())


def test_every_resample_is_the_optimum_of_its_rows(mixed: MarkovField) -> None:
    problem, _ = compile_refit(mixed, several_kinds(), None, None)
    estimate = minimize(problem, mixed.field_.theta, problem.rows.weight)
    found = draw_weights(problem, estimate, 5, 1, seed=3)
    factors = [row_factors(problem.n_rows, 3, k) for k in range(5)]
    exact = [minimize(problem, estimate.theta, part).theta[problem.n_biases :] for part in factors]
    assert found == pytest.approx(np.array(exact), abs=0.01)
    assert factors[2].sum() == problem.n_rows
    assert row_factors(100, 0, 1, dropped=0.25).sum() == 75


def rare_state() -> np.ndarray:
    """Return binary columns of which one has 4 ones in 300 rows: many resamples lose some of its pairs of states."""
    rng = np.random.default_rng(1)
    a, rare = rng.integers(0, 2, 300), np.zeros(300)
    b = np.where(rng.random(300) < 0.7, a, 1 - a)
    rare[:4], a[:4] = 1.0, [1, 1, 1, 0]
    return np.column_stack([a, b, rare, np.where(rng.random(300) < 0.8, b, a)]).astype(float)


def collinear() -> np.ndarray:
    """Return numeric columns of which two are nearly equal."""
    columns = np.random.default_rng(1).normal(size=(120, 3))
    columns[:, 1] += columns[:, 0]
    columns[:, 2] = columns[:, 1] + 0.03 * columns[:, 2]
    return columns


@pytest.mark.parametrize(("make", "l1"), [(rare_state, 0.3), pytest.param(collinear, 1.0, marks=pytest.mark.slow)])
def test_resamples_reach_their_optimum_also_along_flat_directions(make: Callable[[], np.ndarray], l1: float) -> None:
    X, count = make(), 32
    field = MarkovField(l1=l1, l2=0.01, n_jobs=1).fit(X)
    problem, _ = compile_refit(field, X, None, None)
    estimate = minimize(problem, field.field_.theta, problem.rows.weight)
    found = draw_weights(problem, estimate, count, 1, seed=5)
    factors = [row_factors(problem.n_rows, 5, k) for k in range(count)]
    exact = np.array([minimize(problem, estimate.theta, part).theta[problem.n_biases :] for part in factors])
    error = np.abs(found - exact) / exact.std(axis=0)
    assert error.max() < 0.05
    limits = [np.quantile(draws, [0.025, 0.975], axis=0) for draws in (found, exact)]
    assert (np.abs(limits[0] - limits[1]) < 0.03 * exact.std(axis=0)).all()


def test_draws_spread_as_the_standard_errors_say() -> None:
    X, counts = two_by_two()
    field = MarkovField(l1=1.0, l2=0.0).fit(X)
    found = confidence_intervals(field, X, method="bootstrap", n=400)
    assert found.standard_errors[0] == pytest.approx(np.sqrt((1.0 / counts).sum()), rel=0.12)
    row = found.weights.row(0, named=True)
    assert row["low"] < row["estimate"] < row["high"]


def test_threads_change_no_bit(mixed: MarkovField) -> None:
    table, results = several_kinds(), []
    for n_jobs in (1, 3):
        mixed.n_jobs = n_jobs
        results.append(confidence_intervals(mixed, table, method="bootstrap", n=70, seed=2))
    one, three = results
    assert np.array_equal(one.draws, three.draws)


def test_a_model_without_features_has_empty_frames() -> None:
    X = np.random.default_rng(0).integers(0, 2, (60, 3))
    found = confidence_intervals(MarkovField(l1=1e4, n_jobs=1).fit(X), X, method="bootstrap", n=3)
    assert found.draws is not None
    assert found.draws.shape == (3, 0)
    assert [len(frame) for frame in (found.weights, found.edges, found.differences())] == [0, 0, 0]
