"""Fields by the Bethe likelihood are those of the exact likelihood on trees, whichever rule selects features."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sparsefield import Features, FixedGraph, MarkovField
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
