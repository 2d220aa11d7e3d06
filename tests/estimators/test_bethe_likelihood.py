"""Likelihoods of estimators: by belief propagation, and given covariates."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from sparsefield import CRFClassifier, Features, FixedGraph, MarkovField
from sparsefield.app.datasets import make_markov_field


def binary_rows(n_rows: int = 200) -> np.ndarray:
    return make_markov_field(7, n_rows, neighbors=2.0, weights=(-1.5, 1.5), burn_in=200, thin=10, seed=2).samples


def test_a_tree_has_the_weights_of_the_exact_likelihood() -> None:
    X, edges = binary_rows(), [(0, 1), (1, 2), (2, 3), (3, 4), (3, 5), (5, 6)]
    options = {"induction": FixedGraph(edges=edges), "l1": 0.5, "n_jobs": 1}
    exact = MarkovField(objective="ml", **options).fit(X)
    found = MarkovField(objective="bethe", **options).fit(X)
    assert found.converged_
    assert np.array_equal(found.field_.pairs, exact.field_.pairs)
    assert np.allclose(found.field_.theta, exact.field_.theta, atol=1e-3)
    assert found.objective_ == pytest.approx(exact.objective_, rel=1e-6)


@pytest.mark.parametrize(("induction", "penalty"), [("cfi", "l1"), ("grafting", "group")])
def test_all_rules_reach_the_optimum_of_all_pairs(induction: str, penalty: str) -> None:
    X, options = binary_rows(), {"objective": "bethe", "l1": 3.0, "penalty": penalty, "n_jobs": 1}
    full = MarkovField(induction="full", **options).fit(X)
    found = MarkovField(induction=induction, **options).fit(X)
    assert full.converged_
    assert found.converged_
    assert 0 < len(found.edges_) < 21
    assert found.objective_ == pytest.approx(full.objective_, rel=1e-5)


def test_missing_cells_and_several_states_are_learned_from() -> None:
    rng = np.random.default_rng(3)
    common = rng.integers(0, 3, 150)
    X = np.column_stack([np.where(rng.random(150) < 0.45, common, rng.integers(0, 3, 150)) for _ in range(4)]).astype(
        float
    )
    X[rng.random(X.shape) < 0.1] = np.nan
    options = {"kinds": dict.fromkeys(range(4), "nominal"), "l1": 3.0, "n_jobs": 1}
    exact = MarkovField(objective="ml", **options).fit(X)
    found = MarkovField(objective="bethe", **options).fit(X)
    one, two = (field.log_likelihood(X).mean() for field in (exact, found))
    assert two == pytest.approx(one, abs=0.05)


def test_contradictions_and_failures_are_named() -> None:
    X = binary_rows()
    with pytest.raises(ValueError, match="objective='bethe' learns pairs"):
        MarkovField(objective="bethe", features=Features(max_order=3)).fit(X)
    with pytest.raises(ValueError, match="use refit=True with objective='bethe'"):
        MarkovField(objective="bethe", refit="ml").fit(X)
    field = MarkovField(objective="bethe", l1=1.0, n_jobs=1).set_params(solver__max_iter=2)
    with pytest.warns(ConvergenceWarning, match="Raise solver=Solver"):
        field.fit(X)
    assert not field.converged_


N_ROWS = 60


def make_rows() -> tuple[sp.csr_matrix, np.ndarray]:
    """Real numbers that are not 0 or 1, and three labels, the last of three classes."""
    rng = np.random.default_rng(0)
    Z = np.round(rng.normal(size=(N_ROWS, 2)), 2)
    first = (Z[:, 0] + 0.5 * rng.normal(size=N_ROWS) > 0).astype(int)
    second = np.where(rng.random(N_ROWS) < 0.8, first, 1 - first)
    return sp.csr_matrix(Z), np.column_stack([first, second, second + (Z[:, 1] > 0)])


@pytest.fixture(scope="module")
def fitted() -> tuple[CRFClassifier, sp.csr_matrix, np.ndarray]:
    X, Y = make_rows()
    return CRFClassifier(l1=0.3).fit(X, Y), X, Y


def test_the_likelihood_of_one_label_is_that_of_a_logistic_regression() -> None:
    X, Y = make_rows()
    model = CRFClassifier(l1=0.5).fit(X, Y[:, 0])
    own = model.predict_proba(X)[np.arange(N_ROWS), Y[:, 0]]
    np.testing.assert_allclose(model.log_likelihood(X, Y[:, 0]), np.log(own), atol=1e-8)


def test_probabilities_of_all_combinations_of_labels_sum_to_one(fitted) -> None:
    model, X, Y = fitted
    assert (model.field_.pairs[:, 1] < model.field_.schema.n_target_columns).any(), "a pair of labels"
    states = list(product(*model.classes_))
    total = sum(np.exp(model.log_likelihood(X, np.tile(state, (N_ROWS, 1)))) for state in states)
    np.testing.assert_allclose(total, 1.0, atol=1e-8)
    last = Y.astype(float)
    last[:, 2] = np.nan
    parts = [model.log_likelihood(X, np.column_stack([Y[:, :2], np.full(N_ROWS, c)])) for c in model.classes_[2]]
    np.testing.assert_allclose(model.log_likelihood(X, last), np.logaddexp.reduce(parts), atol=1e-8)
