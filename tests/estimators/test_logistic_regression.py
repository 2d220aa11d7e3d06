"""Fits agree with logistic regressions and Gaussian graphical models where these are the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import Lasso, LogisticRegression

from sparsefield import CRFClassifier, Features, MarkovField, Solver
from sparsefield.data.coding import PENALTY_FACTORS, ColumnClass


@pytest.fixture(scope="module")
def numbers():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(250, 6))
    X[:, 3] += 0.7 * X[:, 0]
    # Numbers with two values have no bins.
    X = np.where(X > [0.0, 0.3, -0.4, 0.1, 0.7, -0.2], 1.25, -0.75)
    return (X - X.mean(axis=0)) / X.std(axis=0)


def coefficients(model, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """(states less the base, columns) weights, and (states less the base,) intercepts."""
    field = model.field_
    weights = np.zeros((len(field.biases), n_columns))
    for (a, b), w in zip(field.pairs, field.weights, strict=True):
        weights[a, b - len(field.biases)] = w
    return weights, field.biases


@pytest.mark.parametrize(("l1", "l2", "induction"), [(3.0, 1.0, "cfi"), (0.5, 0.0, "full")])
def test_one_binary_target_is_scikit_learns_elastic_net(numbers, l1, l2, induction) -> None:
    rng = np.random.default_rng(0)
    z = numbers @ np.array([1.5, -1.0, 0.0, 0.4, 0.0, 0.05]) - 0.8
    y = (rng.random(len(z)) < 1 / (1 + np.exp(-z))).astype(int)
    assert y.mean() < 0.5
    ours = CRFClassifier(
        l1=l1,
        l2=l2,
        features=Features(penalize_biases=False),
        induction=induction,
        solver=Solver(kkt_tol=1e-5, tol=1e-10, max_iter=5000),
        n_jobs=1,
    ).fit(numbers, y)
    theirs = LogisticRegression(
        solver="saga", C=1 / (l1 + l2), l1_ratio=l1 / (l1 + l2), tol=1e-8, max_iter=20000, random_state=0
    ).fit(numbers, y)
    weights, intercepts = coefficients(ours, 6)
    np.testing.assert_allclose(weights, theirs.coef_, atol=1e-3)
    np.testing.assert_allclose(intercepts, theirs.intercept_, atol=1e-3)
    np.testing.assert_allclose(ours.predict_proba(numbers), theirs.predict_proba(numbers), atol=1e-3)
    assert ((weights == 0) == (theirs.coef_ == 0)).all()


def test_categories_are_one_column_per_state_but_the_most_frequent(numbers) -> None:
    rng = np.random.default_rng(1)
    color = rng.choice(["red", "green", "blue"], size=250, p=[0.2, 0.5, 0.3])
    shape = rng.choice(["round", "square"], size=250, p=[0.4, 0.6])
    z = 1.4 * (color == "red") - 1.1 * (shape == "round") + 0.8 * numbers[:, 0] - 0.6
    y = np.where(rng.random(250) < 1 / (1 + np.exp(-z)), "yes", "no")
    assert (y == "no").sum() > 125
    X = np.empty((250, 3), dtype=object)
    X[:, 0], X[:, 1], X[:, 2] = color, shape, numbers[:, 0]
    options = {"l1": 2.0, "l2": 1.0, "features": Features(coding="reference"), "n_jobs": 1}
    ours = CRFClassifier(solver=Solver(kkt_tol=1e-5, tol=1e-10), **options).fit(X, y)
    design = np.column_stack([color == "blue", color == "red", shape == "round", numbers[:, 0]]).astype(float)
    theirs = LogisticRegression(solver="saga", C=1 / 3, l1_ratio=2 / 3, tol=1e-8, max_iter=20000, random_state=0)
    theirs.fit(design, y)
    weights, intercepts = coefficients(ours, 4)
    np.testing.assert_allclose(weights, theirs.coef_, atol=1e-3)
    np.testing.assert_allclose(intercepts, theirs.intercept_, atol=1e-3)


def test_row_weights_are_scikit_learns(numbers) -> None:
    rng = np.random.default_rng(2)
    y = (rng.random(250) < 1 / (1 + np.exp(1.0 - 2 * numbers[:, 1]))).astype(int)
    weight = rng.uniform(0.1, 4.0, 250)
    # Numbers are standardized with the weights: make the weighted mean and deviation 0 and 1 beforehand.
    X = numbers - np.average(numbers, axis=0, weights=weight)
    X /= np.sqrt(np.average(X**2, axis=0, weights=weight))
    assert np.average(y, weights=weight) < 0.5
    ours = CRFClassifier(
        l1=3.0, l2=1.0, features=Features(penalize_biases=False), solver=Solver(kkt_tol=1e-5, tol=1e-10), n_jobs=1
    )
    ours.fit(X, y, sample_weight=weight)
    theirs = LogisticRegression(solver="saga", C=1 / 4, l1_ratio=3 / 4, tol=1e-8, max_iter=20000, random_state=0)
    theirs.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(coefficients(ours, 6)[0], theirs.coef_, atol=1e-3)


def base_coded_optimum(
    X, codes, l1: float, l2: float, *, penalize_biases: bool
) -> tuple[np.ndarray, np.ndarray, float]:
    """Multinomial regression, the base's logit at 0, by bound-constrained quasi-Newton steps on w = p - n."""
    n, d = X.shape
    k = codes.max()
    design = np.column_stack([np.ones(n), X])
    penalized = np.ones((k, d + 1))
    penalized[:, 0] = penalize_biases
    hot = codes[:, None] == np.arange(1, k + 1)

    def objective(split):
        up, down = split.reshape(2, k, d + 1)
        w = up - down
        z = design @ w.T
        top = np.maximum(z.max(axis=1), 0)
        total = np.exp(-top) + np.exp(z - top[:, None]).sum(axis=1)
        q = np.exp(z - top[:, None]) / total[:, None]
        value = (np.log(total) + top - (hot * z).sum(axis=1)).sum()
        value += (penalized * (l1 * (up + down) + l2 / 2 * w**2)).sum()
        gradient = (q - hot).T @ design + l2 * penalized * w
        return value, np.concatenate([(gradient + l1 * penalized).ravel(), (-gradient + l1 * penalized).ravel()])

    found = minimize(
        objective,
        np.zeros(2 * k * (d + 1)),
        jac=True,
        bounds=[(0, None)] * (2 * k * (d + 1)),
        method="L-BFGS-B",
        options={"maxiter": 20000, "maxfun": 100000, "ftol": 1e-15, "gtol": 1e-8, "maxcor": 30},
    )
    up, down = found.x.reshape(2, k, d + 1)
    return (up - down)[:, 1:], (up - down)[:, 0], found.fun


@pytest.mark.parametrize(("l1", "l2", "penalize_biases"), [(2.0, 1.0, True), (0.3, 0.0, False)])
def test_a_multinomial_target_is_base_coded_multinomial_regression(numbers, l1, l2, penalize_biases) -> None:
    """scikit-learn's multinomial regression penalizes one vector per class, ours one per class but the base:
    penalized optima differ by construction, so the same objective, minimized by SciPy, is the reference."""
    rng = np.random.default_rng(5)
    true = rng.normal(size=(3, 6)) * (rng.random((3, 6)) < 0.5)
    z = np.column_stack([np.full(250, 1.6), numbers @ true.T])
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    codes = np.array([rng.choice(4, p=row) for row in p])
    assert np.bincount(codes).argmax() == 0
    ours = CRFClassifier(
        features=Features(penalize_biases=penalize_biases, coding="reference"),
        l1=l1,
        l2=l2,
        solver=Solver(kkt_tol=1e-5, tol=1e-11, max_iter=5000),
        n_jobs=1,
    )
    ours.fit(numbers, codes)
    weights, intercepts, value = base_coded_optimum(numbers, codes, l1, l2, penalize_biases=penalize_biases)
    np.testing.assert_allclose(coefficients(ours, 6)[0], weights, atol=1e-3)
    np.testing.assert_allclose(ours.field_.biases, intercepts, atol=1e-3)
    assert ours.objective_ == pytest.approx(value, rel=1e-7)


@pytest.fixture
def scores_only() -> Iterator[None]:
    """Levels have no features, so that numbers depend on each other linearly."""
    before = PENALTY_FACTORS.copy()
    for level in (ColumnClass.LEVEL, ColumnClass.OBSERVED_LEVEL):
        PENALTY_FACTORS[level] = PENALTY_FACTORS[:, level] = np.inf
    yield
    PENALTY_FACTORS[:] = before


def gaussian_rows(n_rows: int, seed: int) -> tuple[np.ndarray, set[tuple[int, int]]]:
    """Rows of a Gaussian chain of five columns with a chord, in different units."""
    rng, edges = np.random.default_rng(seed), {(0, 1), (1, 2), (2, 3), (3, 4), (0, 3)}
    precision = np.eye(5)
    for a, b in edges:
        precision[a, b] = precision[b, a] = 0.35 * (-1) ** (a + b)
    rows = rng.multivariate_normal(np.zeros(5), np.linalg.inv(precision), n_rows)
    return rows * np.array([1.0, 10.0, 0.1, 3.0, 1e4]) + np.array([0.0, 50.0, -3.0, 7.0, 1e5]), edges


@pytest.mark.usefixtures("scores_only")
def test_without_penalties_conditionals_are_those_of_the_empirical_gaussian() -> None:
    train, _ = gaussian_rows(3000, 0)
    test, _ = gaussian_rows(200, 1)
    field = MarkovField(l1=0.0, l2=0.0).fit(train)
    for k in range(5):
        others = np.delete(np.arange(5), k)
        design = np.column_stack([np.ones(len(train)), train[:, others]])
        weights, *_ = np.linalg.lstsq(design, train[:, k], rcond=None)
        residual = float((train[:, k] - design @ weights).std())
        hidden = test.copy()
        hidden[:, k] = np.nan
        found = field.infer(hidden)
        expected = np.column_stack([np.ones(len(test)), test[:, others]]) @ weights
        within = np.abs(expected - train[:, k].mean()) < 2.0 * train[:, k].std()  # levels end where the data end
        difference = (np.asarray(found.mean[f"x{k}"]) - expected)[within] / residual
        assert np.sqrt(np.mean(difference**2)) < 0.06
        assert np.mean(np.asarray(found.std[f"x{k}"])[within]) == pytest.approx(residual, rel=0.05)


@pytest.mark.usefixtures("scores_only")
def test_edges_are_those_of_neighborhood_selection() -> None:
    rows, true = gaussian_rows(1500, 2)
    standard = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    chosen = set()
    for k in range(5):
        others = np.delete(np.arange(5), k)
        weights = Lasso(alpha=0.1).fit(standard[:, others], standard[:, k]).coef_
        chosen |= {(k, int(j)) for j in others[weights != 0.0]}
    neighbors = {(a, b) for a, b in chosen if a < b and (b, a) in chosen}
    field = MarkovField(l1=0.1 * len(rows) * 2 / 4).fit(rows).field_  # two regressions; scores have a factor of 4
    owner = field.schema.variable_of_column
    order = [field.schema.order.index(variable.name) for variable in field.schema.variables]
    found = {tuple(sorted((order[owner[a]], order[owner[b]]))) for a, b in field.pairs.tolist()}
    assert neighbors == true
    assert found == neighbors


def test_levels_find_a_dependence_that_is_not_linear() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=1500)
    rows = np.column_stack([x, x**2 + 0.3 * rng.normal(size=1500)])
    hidden = rows[:300].copy()
    hidden[:, 1] = np.nan
    filled = MarkovField(l1=2.0).fit(rows[300:]).transform(hidden)
    error = np.sqrt(np.mean((filled[:, 1] - rows[:300, 1]) ** 2)) / rows[:, 1].std()
    assert error < 0.7  # a straight line has 1
