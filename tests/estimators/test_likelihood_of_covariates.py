"""The likelihood of labels given a sparse matrix is that of all their combinations, by enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from sparsefield import CRFClassifier

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
