"""Joint fits of groups reach the optimum of shared weights plus penalized differences."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from sparsefield import MarkovField, compare

COLUMNS, ROWS = 3, 60
PAIRS = list(combinations(range(COLUMNS), 2))


def groups_of_rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three binary columns; the first two go together in both groups, the last two in the first group."""
    rng = np.random.default_rng(seed)
    X, group = rng.integers(0, 2, (2 * ROWS, COLUMNS)), np.repeat([0, 1], ROWS)
    X[:, 1] = np.where(rng.random(2 * ROWS) < 0.5, X[:, 0], X[:, 1])
    X[:, 2] = np.where((group == 0) & (rng.random(2 * ROWS) < 0.7), X[:, 1], X[:, 2])
    return X, group


def plain_loss(X: np.ndarray, biases: np.ndarray, weights: np.ndarray) -> float:
    """Minus the log-pseudo-likelihood of binary rows."""
    matrix = np.zeros((COLUMNS, COLUMNS))
    for (a, b), weight in zip(PAIRS, weights, strict=True):
        matrix[a, b] = matrix[b, a] = weight
    logits = biases + X @ matrix
    return float((np.logaddexp(0.0, logits) - X * logits).sum())


def slow_optimum(X: np.ndarray, group: np.ndarray, l1: float, l1_difference: float, l2: float) -> np.ndarray:
    """The weights (groups, pairs) of a general optimizer; each is the difference of two that are not negative."""
    n = len(PAIRS)

    def split(point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Biases (groups, columns), and shared weights with differences (3, pairs)."""
        parts = point[2 * COLUMNS :].reshape(2, 3, n)
        return point[: 2 * COLUMNS].reshape(2, COLUMNS), parts[0] - parts[1]

    def objective(point: np.ndarray) -> float:
        biases, (shared, *differences) = split(point)
        loss = sum(plain_loss(X[group == g], biases[g], shared + differences[g]) for g in range(2))
        sizes = point[2 * COLUMNS :].reshape(2, 3, n).sum(axis=0)
        squares = sum(np.square(part).sum() for part in (shared, *differences))
        return loss + l1 * sizes[0].sum() + l1_difference * sizes[1:].sum() + 0.5 * l2 * squares

    bounds = [(None, None)] * (2 * COLUMNS) + [(0.0, None)] * (6 * n)
    found = minimize(objective, np.zeros(len(bounds)), bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-13})
    _, (shared, *differences) = split(found.x)
    return shared + np.array(differences)


def weights_of(field: MarkovField) -> np.ndarray:
    """The weights of all pairs of binary columns."""
    found = {
        tuple(pair): weight for pair, weight in zip(field.field_.pairs.tolist(), field.field_.weights, strict=True)
    }
    return np.array([found.get(pair, 0.0) for pair in PAIRS])


def group_weights(X: np.ndarray, group: np.ndarray, **options: float) -> np.ndarray:
    found = compare(X, group, permutations=0, **options)
    return np.array([weights_of(field) for field in found.fields.values()])


@pytest.mark.parametrize(("l1", "l1_difference"), [(2.0, 1.5), (3.0, 4.0)])
def test_the_joint_fit_is_the_optimum_of_a_general_optimizer(l1: float, l1_difference: float) -> None:
    X, group = groups_of_rows()
    found = group_weights(X, group, l1=l1, l1_difference=l1_difference, l2=0.5)
    np.testing.assert_allclose(found, slow_optimum(X, group, l1, l1_difference, 0.5), atol=2e-2)


def test_with_a_small_penalty_of_differences_groups_are_fitted_by_themselves() -> None:
    X, group = groups_of_rows()
    found = group_weights(X, group, l1=100.0, l1_difference=2.0)
    alone = np.array([weights_of(MarkovField(l1=2.0).fit(X[group == g])) for g in range(2)])
    np.testing.assert_allclose(found, alone, atol=2e-2)


def test_with_an_infinite_penalty_of_differences_equal_groups_have_the_pooled_field() -> None:
    X, _ = groups_of_rows()
    twice, group = np.concatenate([X, X]), np.repeat(["a", "b"], len(X))
    found = compare(twice, group, l1=4.0, l1_difference=np.inf, permutations=0)
    pooled = MarkovField(l1=4.0).fit(twice)
    for field in found.fields.values():
        np.testing.assert_allclose(weights_of(field), weights_of(pooled), atol=1e-2)
        np.testing.assert_allclose(field.field_.biases, pooled.field_.biases, atol=1e-2)
    assert len(found.difference_field().weights) == 0


def test_biases_differ_where_weights_do_not() -> None:
    X, group = groups_of_rows()
    X[group == 0, 0] |= np.random.default_rng(1).random(ROWS) < 0.5
    found = compare(X, group, l1=2.0, l1_difference=np.inf, permutations=0)
    one, two = (field.field_ for field in found.fields.values())
    assert one.biases[0] > two.biases[0] + 0.3
    assert len(found.difference_field().weights) == 0


def test_missing_cells_hardly_change_what_is_found() -> None:
    X, group = groups_of_rows()
    X = X.astype(float)
    hidden = X.copy()
    hidden[::9, 0] = hidden[::7, 2] = np.nan
    options = {"l1": 2.0, "l1_difference": 2.0}
    np.testing.assert_allclose(group_weights(hidden, group, **options), group_weights(X, group, **options), atol=0.6)


def test_a_state_that_one_group_never_has_keeps_weights_finite() -> None:
    X, group = groups_of_rows()
    X[group == 1, 2] = 0
    found = compare(X, group, l1=2.0, l1_difference=2.0, permutations=5)
    assert all(np.abs(field.field_.theta).max() < 20.0 for field in found.fields.values())
