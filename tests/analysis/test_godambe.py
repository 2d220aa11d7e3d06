"""Standard errors agree with closed forms, and with a sandwich from finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from known_tables import several_kinds, two_by_two

from sparsefield import CRFClassifier, MarkovField, confidence_intervals
from sparsefield.analysis.refit import RefitProblem, compile_refit, minimize, newton_solver, sandwich
from sparsefield.data import Layout
from sparsefield.data.table import join_blocks
from sparsefield.errors import DataError
from sparsefield.estimators.compiled_rows import compile_densely
from sparsefield.model import compile_adjacency

pytestmark = pytest.mark.filterwarnings("ignore::sparsefield.errors.PenaltyWarning")  # bins of few rows


@pytest.fixture(scope="module")
def mixed() -> MarkovField:
    return MarkovField(l1=6.0).fit(several_kinds())


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
