"""Confidence intervals of weights and edges, also from resampled rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from known_tables import several_kinds, two_by_two
from scipy.stats import kstest
from sklearn.exceptions import ConvergenceWarning

from sparsefield import CRFClassifier, MarkovField, centrality_stability, confidence_intervals
from sparsefield.analysis import refit
from sparsefield.analysis.bootstrap import CentralityStability, centrality_indices, correlate, draw_weights, row_factors
from sparsefield.analysis.confidence_intervals import ConfidenceIntervals
from sparsefield.analysis.refit import compile_refit, minimize
from sparsefield.app.datasets import make_markov_field
from sparsefield.errors import DataError, OtherTableWarning, PenaltyWarning


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    return make_markov_field(5, 400, weights=(-2.0, 2.0), neighbors=3.0, burn_in=100, thin=5, seed=2).samples


@pytest.fixture(scope="module")
def field(samples: np.ndarray) -> MarkovField:
    return MarkovField(l1=8.0).fit(samples)


@pytest.fixture(scope="module")
def found(field: MarkovField, samples: np.ndarray) -> ConfidenceIntervals:
    return confidence_intervals(field, samples)


def test_an_edge_of_one_weight_has_the_interval_of_this_weight(found: ConfidenceIntervals) -> None:
    weights = {(r["variable_a"], r["variable_b"]): r for r in found.weights.iter_rows(named=True)}
    assert len(found.edges) == len(weights)
    for edge in found.edges.iter_rows(named=True):
        weight = weights[edge["variable_a"], edge["variable_b"]]
        for name in ("estimate", "standard_error", "low", "high"):
            assert edge[name] == pytest.approx(weight[name])
        assert edge["strength"] == pytest.approx(abs(weight["weight"]))
        assert (edge["p_value"] < 0.05) == (edge["low"] * edge["high"] > 0)


@pytest.mark.filterwarnings("ignore::sparsefield.errors.PenaltyWarning")  # bins of few rows
def test_an_edge_of_several_weights_has_the_norm_of_its_estimates() -> None:
    table = several_kinds()
    found = confidence_intervals(MarkovField(l1=4.0, penalty="group").fit(table), table)
    edges = {(r["variable_a"], r["variable_b"]): r for r in found.edges.iter_rows(named=True)}
    mine = found.weights.filter(variable_a="yes", variable_b="letter")
    assert len(mine) == 3
    edge = edges["yes", "letter"]
    assert edge["sign"] == 0
    assert edge["estimate"] == pytest.approx(np.linalg.norm(mine["estimate"].to_numpy()))
    assert edge["low"] >= 0.0


def test_p_values_of_all_states_are_uniform_under_independence_and_tiny_under_dependence() -> None:
    rng = np.random.default_rng(0)
    first, noise = rng.choice(["x", "y", "z"], (2, 300), p=[0.5, 0.3, 0.2])
    table = pl.DataFrame({"a": first, "b": np.where(rng.random(300) < 0.5, first, noise)})
    field = MarkovField(l1=0.05, penalty="group", n_jobs=1).fit(table)
    assert len(field.field_.weights) == 9
    assert confidence_intervals(field, table).edges["p_value"][0] < 1e-12
    few = confidence_intervals(field, table, method="bootstrap", n=3)
    assert few.edges["p_value"][0] < 1e-12
    found = []
    for _ in range(25):
        apart = table.with_columns(b=pl.Series(rng.permutation(table["b"].to_numpy())))
        found.append(confidence_intervals(field, apart).edges["p_value"][0])
    assert kstest(found, "uniform").pvalue > 0.01
    assert np.mean(np.array(found) < 0.05) < 0.2


def test_columns_of_a_frame_are_found_by_name() -> None:
    table = several_kinds()
    field = MarkovField(l1=4.0).fit(table)
    wider = table.select(reversed(table.columns)).with_columns(extra=0.0)
    assert confidence_intervals(field, wider).weights.equals(confidence_intervals(field, table).weights)
    one, two = (centrality_stability(field, each, n=2, shares=[0.1]).to_frame() for each in (wider, table))
    assert np.array_equal(one, two)
    classifier = CRFClassifier(l1=4.0).fit(table.drop("yes"), table["yes"])
    intervals = [confidence_intervals(classifier, each, table["yes"]).weights for each in (wider, table.drop("yes"))]
    assert intervals[0].equals(intervals[1])


def test_a_difference_takes_the_covariance_of_both_edges_into_account(found: ConfidenceIntervals) -> None:
    rows, count = found.differences(), len(found.edges)
    assert len(rows) == count * (count - 1) // 2
    assert (rows["difference"] >= 0.0).all()
    first, second = np.argsort(-np.abs(found.estimates))[:2]  # every edge has one weight
    row = rows.row(0, named=True)
    sides = np.sign(found.estimates[[first, second]]) * [1, -1]
    covariance = found.covariance[np.ix_([first, second], [first, second])]
    assert row["difference"] == pytest.approx(sides @ found.estimates[[first, second]])
    assert row["standard_error"] == pytest.approx(np.sqrt(sides @ covariance @ sides))


def test_bootstrap_draws_give_the_limits_of_differences(field: MarkovField, samples: np.ndarray) -> None:
    found = confidence_intervals(field, samples, method="bootstrap", n=100, level=0.8)
    rows = found.differences()
    inside = (rows["low"] <= rows["difference"]) & (rows["difference"] <= rows["high"])
    assert inside.mean() > 0.8


def test_centrality_of_the_estimates_is_the_sum_over_edges_that_hold(field: MarkovField) -> None:
    weights = field.field_.weights
    strength, influence = centrality_indices(field.field_, weights)(weights[None])[:, 0]
    rows = list(field.edges_.filter(pl.col("q_value") <= 0.05).iter_rows(named=True))
    assert len(rows) < len(field.edges_)
    for k in range(5):
        mine = [row["weight"] for row in rows if f"x{k}" in (row["variable_a"], row["variable_b"])]
        assert strength[k] == pytest.approx(np.abs(mine).sum())
        assert influence[k] == pytest.approx(np.sum(mine))
    assert correlate(np.array([[1.0, 2.0], [3.0, 3.0]]), np.array([0.0, 1.0])).tolist() == pytest.approx([1.0, 0.0])


def test_the_coefficient_is_the_largest_share_up_to_which_correlations_are_kept() -> None:
    kept = np.array([[1.0] * 20, [0.8] * 20, [0.8] * 18 + [0.1] * 2, [0.9] * 20])
    found = CentralityStability(np.array([0.2, 0.4, 0.6, 0.8]), np.stack([kept, 0.0 * kept]))
    assert found.coefficients == {"strength": 0.4, "expected_influence": 0.0}
    assert found.to_frame()["mean"][0] == 1.0


def test_weights_that_the_penalty_determines_are_named() -> None:
    column = np.random.default_rng(0).integers(0, 2, 200)
    X = np.column_stack([column, column])
    field = MarkovField(l1=1.0, n_jobs=1).fit(X)
    with pytest.warns(PenaltyWarning, match="l2 = 1 determines the weights of 'x0=1 & x1=1' more than the rows do"):
        confidence_intervals(field, X)


def test_estimates_that_did_not_converge_are_said(
    field: MarkovField, samples: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refit, "MAX_STEPS", 1)
    with pytest.warns(ConvergenceWarning, match="estimates without L1 did not converge"):
        confidence_intervals(field, samples)


def test_a_constant_reference_has_no_correlation() -> None:
    assert np.isnan(correlate(np.array([[1.0, 2.0]]), np.array([3.0, 3.0]))).all()
    rng = np.random.default_rng(1)
    letters = rng.choice(["x", "y", "z"], 100)
    table = pl.DataFrame({"a": letters, "b": np.where(rng.random(100) < 0.5, letters, "x")})
    found = centrality_stability(MarkovField(l1=2.0, n_jobs=1).fit(table), table, n=3, shares=[0.2])
    assert np.isnan(list(found.coefficients.values())).all()
    assert np.isnan(found.to_frame()["mean"].to_numpy()).all()


def test_dropping_few_rows_keeps_the_centrality(field: MarkovField, samples: np.ndarray) -> None:
    few = centrality_stability(field, samples, n=10, shares=[0.05, 0.9])
    assert few.values[:, 0].min() > 0.9
    assert few.values[0, 1].mean() < few.values[0, 0].mean()
    with pytest.raises(ValueError, match=r"n must be .* shares must be ascending"):
        centrality_stability(field, samples, n=1, shares=[0.5, 0.2])


def test_another_table_is_noticed(field: MarkovField, samples: np.ndarray) -> None:
    with pytest.warns(OtherTableWarning, match=r"\(200 rows, and 400 in training\)"):
        confidence_intervals(field, samples[:200])


def test_a_field_of_constant_columns_is_refused_in_one_sentence() -> None:
    field = MarkovField(l1=1.0, n_jobs=1).fit(np.ones((30, 2)))
    for estimate in (confidence_intervals, centrality_stability):
        with pytest.raises(DataError, match=r"^No column of the field varies, so it has no weights"):
            estimate(field, np.ones((30, 2)))


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
