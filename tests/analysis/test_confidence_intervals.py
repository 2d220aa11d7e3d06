"""Confidence intervals of weights and edges, from resampled rows and from the sandwich covariance."""

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
from sparsefield.analysis.centrality import CentralityStability, centrality_indices, correlate
from sparsefield.analysis.confidence_intervals import ConfidenceIntervals
from sparsefield.analysis.refit import (
    RefitProblem,
    compile_refit,
    draw_weights,
    minimize,
    newton_solver,
    row_factors,
    sandwich,
)
from sparsefield.app.datasets import make_markov_field
from sparsefield.data import Layout
from sparsefield.data.table import join_blocks
from sparsefield.errors import DataError, OtherTableWarning, PenaltyWarning
from sparsefield.estimators.compiled_rows import compile_densely
from sparsefield.model import compile_adjacency


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


@pytest.fixture(scope="module")
def problem(mixed: MarkovField) -> RefitProblem:
    return compile_refit(mixed, several_kinds(), None, None)[0]


def numeric_gradient(function, theta: np.ndarray, step: float = 1e-5) -> np.ndarray:
    shifts = step * np.eye(len(theta))
    return np.array([(function(theta + shift) - function(theta - shift)) / (2 * step) for shift in shifts])


def test_the_weight_of_two_binary_columns_is_the_log_odds_ratio_with_its_standard_error() -> None:
    X, counts = two_by_two()
    found = confidence_intervals(MarkovField(l1=1.0, l2=0.0).fit(X), X)
    assert found.estimates[0] == pytest.approx(np.log(120 * 90 / (40 * 50)), rel=1e-3)  # a refit has l2 = 0.01
    assert found.standard_errors[0] == pytest.approx(np.sqrt((1.0 / counts).sum()), rel=3e-3)
    row = found.weights.row(0, named=True)
    assert row["high"] - row["low"] == pytest.approx(2 * 1.959964 * row["standard_error"])
    assert row["weight"] < row["estimate"]


def test_loss_gradient_and_hessian_belong_together(problem: RefitProblem) -> None:
    rng = np.random.default_rng(1)
    theta, weight = rng.normal(scale=0.3, size=len(problem.l2)), rng.random(problem.n_rows)
    gradient = problem.evaluate(theta, weight)[1]
    assert gradient == pytest.approx(numeric_gradient(lambda t: problem.evaluate(t, weight)[0], theta), abs=1e-4)
    hessian = problem.hessian(theta, weight) + np.diag(problem.l2)
    assert hessian == pytest.approx(numeric_gradient(lambda t: problem.evaluate(t, weight)[1], theta), abs=1e-4)


def test_products_of_columns_are_sources_as_columns_are() -> None:
    rng = np.random.default_rng(2)
    X = rng.integers(0, 2, (40, 3))
    (table,) = compile_densely(MarkovField(l1=1.0).fit(X), X).tables
    layout = Layout.single(table.schema)
    arcs = layout.arcs(np.array([[0, 1, -1], [0, 1, 2]]))
    problem = RefitProblem(layout, join_blocks(table.blocks), arcs, compile_adjacency(layout, arcs)[0], np.full(5, 0.1))
    theta, weight = rng.normal(size=5), rng.random(40)
    codes = table.codes()
    a, b, c = X.T  # every state of 1 has a column
    logits = theta[:3, None] + theta[3] * np.array([b, a, 0 * c]) + theta[4] * np.array([b * c, a * c, a * b])
    loss = sum(weight @ (np.logaddexp(0.0, own) - own * code) for own, code in zip(logits, codes, strict=True))
    value, gradient = problem.evaluate(theta, weight)
    assert value == pytest.approx(loss + 0.05 * theta @ theta)
    assert gradient == pytest.approx(numeric_gradient(lambda t: problem.evaluate(t, weight)[0], theta), abs=1e-6)
    hessian = problem.hessian(theta, weight) + np.diag(problem.l2)
    assert hessian == pytest.approx(numeric_gradient(lambda t: problem.evaluate(t, weight)[1], theta), abs=1e-6)
    scores = problem.scores(theta, slice(None)) @ weight + problem.l2 * theta
    assert scores == pytest.approx(gradient)


def test_the_covariance_is_that_of_a_sandwich_from_finite_differences(problem: RefitProblem) -> None:
    weight = problem.rows.weight
    estimate = minimize(problem, np.zeros(len(problem.l2)), weight)
    assert estimate.converged
    hessian = numeric_gradient(lambda t: problem.evaluate(t, weight)[1], estimate.theta)
    scores = []
    for row in range(problem.n_rows):
        alone = np.zeros(problem.n_rows)
        alone[row] = 1.0
        scores.append(problem.evaluate(estimate.theta, alone)[1] - problem.l2 * estimate.theta)
    inverse = np.linalg.pinv(hessian, rcond=1e-8)
    expected = inverse @ np.cov(np.array(scores).T) @ inverse * problem.n_rows
    features = slice(problem.n_biases, None)
    found = sandwich(problem, estimate)[features, features]
    assert found == pytest.approx(expected[features, features], rel=1e-3, abs=1e-6)


def test_the_estimates_of_an_l1_fit_are_the_weights_of_its_refit(mixed: MarkovField) -> None:
    table = several_kinds()
    refitted = MarkovField(l1=6.0, refit=True).fit(table)
    found = confidence_intervals(mixed, table)
    assert found.estimates == pytest.approx(refitted.field_.weights, abs=5e-3)
    again = confidence_intervals(refitted, table)
    assert again.standard_errors == pytest.approx(found.standard_errors, rel=1e-4)


def test_a_row_of_weight_two_counts_as_one_row_with_two_votes() -> None:
    X, _ = two_by_two()
    field = MarkovField(l1=1.0, l2=0.0).fit(X)
    plain, twice = confidence_intervals(field, X), confidence_intervals(field, X, sample_weight=np.full(len(X), 2.0))
    assert twice.standard_errors == pytest.approx(plain.standard_errors, rel=1e-3)


def test_labels_of_a_classifier_have_intervals() -> None:
    table = several_kinds()
    field = CRFClassifier(l1=3.0).fit(table.drop("yes"), table["yes"])
    found = confidence_intervals(field, table.drop("yes"), table["yes"]).weights
    assert found.columns[-5:] == ["weight", "estimate", "standard_error", "low", "high"]
    assert len(found) == len(field.features_)
    assert (found["low"] < found["high"]).all()


def test_missing_cells_and_other_objectives_are_refused_with_a_reason() -> None:
    table = several_kinds()
    field = MarkovField(l1=6.0).fit(table)
    with pytest.raises(DataError, match=r"3 of 200 rows have missing cells \(columns 'letter'\)"):
        confidence_intervals(field, table.with_columns(letter=table["letter"].scatter([0, 5, 9], None)))
    with pytest.raises(DataError, match="objective='pl'"):
        confidence_intervals(MarkovField(l1=6.0, refit="ml").fit(table[:50]), table[:50])
    with pytest.raises(ValueError, match=r"method must be .* level must be .* n must be"):
        confidence_intervals(field, table, method="jackknife", level=95, n=1)


def test_rounding_errors_beyond_the_curvature_leave_a_step_downhill() -> None:
    # Two parameters of a state that has nearly all of the probability: the matrix would have rank 1.
    hessian = np.diag([3.0, 1e-15, 1e-15])
    hessian[1, 2] = hessian[2, 1] = 1.1e-15
    gradient = np.array([1.0, 1e-9, -1e-9])
    step = newton_solver(hessian)(gradient)
    assert np.isfinite(step).all()
    assert gradient @ step > 0.0
    assert step[0] == pytest.approx(1.0 / 3.0)
