"""The loop of training ends at a certified optimum, that of the algorithm in plain NumPy."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from random_tables import chain, hide
from settled import clamped_loss, completed_loss
from sklearn.exceptions import ConvergenceWarning

from sparsefield import CFI, EM, CRFClassifier, Features, MarkovField, Solver
from sparsefield.app.datasets import make_markov_field
from sparsefield.inference import MeanField


def correlated(n_rows: int = 200, n_columns: int = 8) -> np.ndarray:
    return chain(n_rows, n_columns, flip=0.2)


@pytest.mark.parametrize(("seed", "l1"), [(253, 2.0), (358, 0.5)])
def test_a_bias_close_to_its_kink_does_not_stop_a_fit(seed, l1) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(8, 50)), int(rng.integers(2, 12))
    X = rng.integers(0, rng.integers(2, 9, d), (n, d))
    Y = (X[:, :2] + rng.integers(0, 3, (n, 2)) > X[:, :2].mean()).astype(int)
    model = CRFClassifier(l1=l1, n_jobs=1).fit(X, Y)
    assert model.kkt_violation_ <= 0.01 * l1


def test_history_tells_every_step() -> None:
    field = MarkovField(n_jobs=1, l1=1.0, induction=CFI(batch_size=5)).fit(correlated())
    history = field.history_
    assert history["iteration"].to_list() == list(range(1, field.n_iter_ + 1))
    assert set(history["phase"]) <= {"biases", "induce", "optimize", "certify"}
    assert history["objective"][-1] == field.objective_
    assert (history["active"] <= history["features"]).all()
    assert history["active"][-1] == len(field.field_.weights)
    assert (np.diff(history["seconds"].to_numpy()) >= 0).all()
    theta = field.field_.theta
    assert history["l1_norm"][-1] == pytest.approx(np.abs(theta).sum())
    weights = field.field_.weights
    penalty = np.abs(weights).sum() + 0.5 * np.square(weights).sum()
    np.testing.assert_allclose(history["loss"][-1] + penalty, field.objective_)


def test_two_stages_let_biases_converge_first() -> None:
    X = correlated()
    X[:50] = 1
    history = MarkovField(l1=2.0, n_jobs=1, solver=Solver(stages=2)).fit(X).history_
    phases = history["phase"].to_list()
    assert phases[0] == "biases"
    assert "biases" not in phases[phases.index("induce") :]
    assert set(history.filter(history["phase"] == "biases")["features"]) == {0}
    assert "biases" not in MarkovField(l1=2.0, n_jobs=1, solver=Solver(stages=1)).fit(X).history_["phase"].to_list()


def test_the_cap_on_iterations_holds_and_is_said_aloud() -> None:
    field = MarkovField(n_jobs=1, l1=0.1, solver=Solver(max_iter=2))
    with pytest.warns(ConvergenceWarning, match=r"2 iterations.*violation.*Raise solver=Solver\(max_iter=\.\.\.\)"):
        field.fit(correlated())
    assert field.n_iter_ == 2
    assert not field.converged_
    assert field.kkt_violation_ > 0.01 * 0.1


@pytest.mark.parametrize("induction", ["grafting", "cfi"])
@pytest.mark.parametrize("seed", [0, 1])
def test_without_a_certificate_induction_ends_where_an_optimum_brings_no_further_candidate(induction, seed) -> None:
    """Where biases are penalized, they move as pairs join; of network 1 no candidate stands out before."""
    made = make_markov_field(8, 100, burn_in=100, thin=10, seed=seed)
    rule = CFI(threshold=0.0) if induction == "cfi" else induction
    options = {"induction": rule, "l1": 2.0, "features__penalize_biases": True, "n_jobs": 1}
    states = {f"x{k}": (0, 1) for k in range(8)}
    field = (
        MarkovField(l1=2.0)
        .set_params(**options, solver=Solver(certify=False, tol=1e-8))
        .fit(made.samples, states=states)
    )
    if seed == 1:
        assert (field.history_["phase"][0], field.history_["features"][0]) == ("optimize", 0)
    assert len(field.field_.weights) > 10
    assert field.kkt_violation_ < 1e-4
    certified = MarkovField(l1=2.0).set_params(**options, solver=Solver(kkt_tol=1e-4)).fit(made.samples, states=states)
    assert np.array_equal(field.field_.pairs, certified.field_.pairs)
    assert field.objective_ == pytest.approx(certified.objective_, abs=1e-3)
    hasty = (
        MarkovField(l1=2.0)
        .set_params(**options, solver=Solver(certify=False, tol=1e-4))
        .fit(made.samples, states=states)
    )
    assert field.kkt_violation_ < hasty.kkt_violation_ < 0.1 * 2.0


@pytest.mark.parametrize("induction", ["full", "grafting"])
def test_without_a_certificate_a_fit_with_missing_cells_ends_too(induction) -> None:
    X = hide(correlated(80), 0.2)
    field = MarkovField(
        l1=2.0, induction=induction, solver=Solver(certify=False), features=Features(penalize_biases=True), n_jobs=1
    ).fit(X)
    assert field.n_iter_ < 500
    assert field.history_["phase"][-1] == "optimize"


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_a_penalty_beyond_every_gradient_leaves_nothing(missing) -> None:
    X = hide(correlated(), missing)
    field = MarkovField(n_jobs=1, l1=1e5, features=Features(penalize_biases=True)).fit(X)
    assert not field.field_.theta.any()
    assert field.converged_
    assert len(field.features_) == 0
    assert len(field.edges_) == 0
    for p in field.predict_proba(X).values():
        assert np.array_equal(p, np.full_like(p, 0.5))


@pytest.mark.parametrize("missing", [EM(copies=64, max_copies=256), MeanField()], ids=["em", "clamped"])
def test_missing_values_settle_with_the_field(missing) -> None:
    """At the end completions, here all of them, or the beliefs of missing cells are those of the learned weights."""
    X = hide(correlated(), 0.2)
    field = MarkovField(n_jobs=1, l1=1.0, missing=missing).fit(X)
    assert field.converged_
    # The loss of observed cells, with missing cells as the field sees them now, is the loss at the end of training.
    weights = field.field_.weights
    penalty = np.abs(weights).sum() + 0.5 * np.square(weights).sum()
    loss = completed_loss(field, X) if isinstance(missing, EM) else clamped_loss(field, X, missing)
    assert loss + penalty == pytest.approx(field.objective_, rel=2e-4 if isinstance(missing, EM) else 1e-3)


@pytest.mark.parametrize("objective", ["pl", "cd"])
def test_many_rows_that_are_all_alike_do_not_break_the_fit(objective) -> None:
    X = np.ones((5000, 3), dtype=int)
    X[:2] = 0
    field = MarkovField(l1=2.0, n_jobs=1, objective=objective, solver=Solver(certify=objective == "pl")).fit(X)
    assert np.isfinite(field.field_.theta).all()
    assert field.predict_proba(X)["x0"][10, 1] > 0.99


PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-it-works.md"


@pytest.fixture(scope="module")
def plain() -> dict:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict = {}
    exec(compile(code, str(PAGE), "exec"), names)
    return names


@pytest.mark.parametrize(("seed", "l1", "threshold"), [(0, 1.0, 0.2), (1, 4.0, 0.2), (2, 10.0, 0.4), (3, 2.0, 0.0)])
def test_both_learn_the_same_field_of_a_random_table(plain, seed, l1, threshold) -> None:
    rng = np.random.default_rng(seed)
    n_rows, n_columns = int(rng.integers(60, 300)), int(rng.integers(4, 9))
    hidden = rng.normal(size=(n_rows, 2))
    X = (hidden @ rng.normal(size=(2, n_columns)) + rng.normal(size=(n_rows, n_columns)) > 0.3).astype(int)
    b, W, worst = plain["fit"](X, l1, threshold=threshold, tolerance=1e-4, J=5)
    assert worst <= 1e-4 * l1
    field = MarkovField(l1=l1, solver=Solver(kkt_tol=1e-5, tol=1e-12), n_jobs=1).fit(X)
    assert plain["objective"](X, b, W, l1, 1.0) == pytest.approx(field.objective_, rel=1e-6)
    weights = np.zeros_like(W)
    weights[tuple(field.field_.pairs.T)] = field.field_.weights
    np.testing.assert_allclose(W, weights + weights.T, rtol=0, atol=2e-3)
    np.testing.assert_allclose(b, field.field_.biases, rtol=0, atol=5e-3)
    assert len(field.field_.weights) > 0
