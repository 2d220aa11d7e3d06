"""Constants that are added to weights of a chain lower the penalties and leave the likelihood as it is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from sparsefield import ChainCRF, Solver
from sparsefield.chain.model import features_of_keys
from sparsefield.chain.training import center, constant_groups


def penalty(weights: np.ndarray, l1: float, l2: float) -> float:
    return float(l1 * np.abs(weights).sum() + 0.5 * l2 * np.square(weights).sum())


@pytest.mark.parametrize(("l1", "l2"), [(1.0, 0.3), (0.1, 5.0)])
def test_the_constant_is_the_best_one(l1, l2) -> None:
    rng = np.random.default_rng(0)
    for size in (2, 3, 4, 7):
        weights = np.round(rng.normal(size=size), 1) * (rng.random(size) < 0.8)
        found = center(weights, (np.arange(size)[None, :],), l1, l2)
        assert np.allclose(found - weights, found[0] - weights[0])
        best = minimize_scalar(lambda c, w=weights: penalty(w + c, l1, l2), bounds=(-9, 9), method="bounded")
        assert penalty(found, l1, l2) <= best.fun + 1e-9


def test_weights_that_no_constant_improves_stay_bit_for_bit() -> None:
    weights = np.array([0.0, 0.7, -0.3, 0.1, 0.0, 0.0])
    groups = (np.array([[0, 1, 2], [3, 4, 5]]),)
    assert center(weights, groups, 1.0, 0.1).tobytes() == weights.tobytes()


def test_groups_are_attributes_with_all_labels_and_all_transitions() -> None:
    features = features_of_keys(np.array([0, 1, 3, 4, 5, 6, 7, 8, 9]), 3, 2)
    states, steps = constant_groups(features)
    assert states.tolist() == [[0, 1], [3, 4]]
    assert steps.tolist() == [[5, 6, 7, 8]]
    assert constant_groups(features_of_keys(np.array([0, 3]), 3, 2)) == ()


def test_a_fit_of_attributes_with_all_labels_is_the_optimum() -> None:
    rng = np.random.default_rng(1)
    X = [[{"place": str(k), "bias": True} for k in range(6)] for _ in range(40)]
    y = [[str(label) for label in rng.choice(list("abc"), 6, p=[0.5, 0.3, 0.2])] for _ in range(40)]
    chain = ChainCRF(l1=0.5, l2=0.01, n_jobs=1, all_states=True, all_transitions=True, solver=Solver(kkt_tol=1e-3)).fit(
        X, y
    )
    assert chain.converged_
    assert chain.n_iter_ < 300
