"""An objective of one's own is evaluated as itself, certificate included; it is the one of docs/extending.md."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from random_tables import chain, hide

from sparsefield import MarkovField, load
from sparsefield.errors import DataError
from sparsefield.estimators import field_estimator
from sparsefield.objectives import OBJECTIVES, PseudoLikelihood
from sparsefield.objectives.dense_evaluator import DenseEvaluator

PAGE = Path(__file__).resolve().parents[2] / "docs" / "extending.md"


@pytest.fixture(scope="module")
def example() -> dict:
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(code, str(PAGE), "exec"), names)
    return names


def loss_and_gradient(theta: np.ndarray, X: np.ndarray, beta: float) -> tuple[float, np.ndarray]:
    """Return the loss, by plain formulas, and its gradient for biases and all pairs, by differences."""

    def loss(theta: np.ndarray) -> float:
        n = X.shape[1]
        weights = np.zeros((n, n))
        weights[np.triu_indices(n, 1)] = theta[n:]
        p = 1.0 / (1.0 + np.exp(-(theta[:n] + X @ (weights + weights.T))))
        both = np.stack([1.0 - p, p])
        true = np.where(X == 1, p, 1.0 - p)
        return float(((both ** (1 + beta)).sum(axis=0) / (1 + beta) - true**beta / beta).sum())

    steps = 1e-5 * np.eye(len(theta))
    return loss(theta), np.array([(loss(theta + step) - loss(theta - step)) / 2e-5 for step in steps])


def test_its_fit_has_its_own_optimum_and_a_certificate_over_all_pairs(example) -> None:
    field, X, n = example["field"], example["X"], 5
    theta = np.zeros(n + n * (n - 1) // 2)
    theta[:n] = field.field_.biases
    place = {pair: n + k for k, pair in enumerate(zip(*np.triu_indices(n, 1), strict=True))}
    for pair, weight in zip(field.field_.pairs.tolist(), field.field_.weights, strict=True):
        theta[place[tuple(sorted(pair))]] = weight
    loss, gradient = loss_and_gradient(theta, X, 0.3)
    weights = theta[n:]
    assert field.objective_ == pytest.approx(loss + 2.0 * np.abs(weights).sum() + 0.5 * (weights**2).sum(), rel=1e-9)
    slope = gradient[n:] + weights + 2.0 * np.sign(weights)
    excess = np.where(weights != 0.0, np.abs(slope), np.maximum(np.abs(gradient[n:]) - 2.0, 0.0))
    violation = max(np.abs(gradient[:n]).max(), excess.max())
    assert field.kkt_violation_ == pytest.approx(violation, abs=1e-5)
    assert violation <= 0.01 * 2.0
    assert 0 < np.count_nonzero(weights) < len(weights)
    plain = MarkovField(l1=2.0).fit(X)
    assert not np.allclose(plain.field_.biases, field.field_.biases, atol=1e-3)


def test_a_registered_name_is_its_objective_and_comes_back_from_a_file(example, monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(OBJECTIVES, "robust", example["Robust"])
    named = MarkovField(l1=2.0, objective="robust").fit(example["X"])
    assert np.array_equal(named.field_.theta, example["field"].field_.theta)
    example["field"].save(tmp_path / "model")
    assert load(tmp_path / "model").objective == example["Robust"](beta=0.3)


def test_a_field_of_an_objective_that_is_not_here_predicts_with_a_warning(example, tmp_path) -> None:
    example["field"].save(tmp_path / "model")
    with pytest.warns(UserWarning, match="'Robust', which is not installed here: it predicts"):
        again = load(tmp_path / "model")
    X = np.where(np.eye(5) > 0, np.nan, example["X"][:5])
    assert np.array_equal(again.transform(X), example["field"].transform(X))


def test_columns_of_more_states_are_refused_by_an_objective_of_two(example) -> None:
    with pytest.raises(DataError, match="objective='robust' is for two states, and 'x0' has more"):
        MarkovField(l1=2.0, objective=example["Robust"]()).fit(example["X"] * [1, 2, 1, 1, 1] + np.eye(300, 5, -3))


def test_a_package_adds_a_name_by_an_entry_point(example, monkeypatch) -> None:
    points = {
        "sparsefield.objectives": [
            EntryPoint("plugged", "sparsefield.objectives:PseudoLikelihood", "sparsefield.objectives"),
            EntryPoint("broken", "no_such_module:Objective", "sparsefield.objectives"),
        ]
    }
    monkeypatch.setattr(field_estimator, "entry_points", lambda group: points.get(group, []))
    field_estimator.load_plugins.cache_clear()
    try:
        with pytest.warns(UserWarning, match="'broken' of sparsefield.objectives.*cannot be loaded"):
            assert isinstance(MarkovField(objective="plugged").resolve("objective"), PseudoLikelihood)
    finally:
        OBJECTIVES.pop("plugged", None)
        field_estimator.load_plugins.cache_clear()


@pytest.mark.parametrize("missing", ["em", "mean-field"])
def test_missing_cells_do_not_stop_it(example, missing) -> None:
    field = MarkovField(l1=2.0, objective=example["Robust"](), missing=missing).fit(hide(chain(150, 5, flip=0.2), 0.1))
    assert field.converged_
    assert len(field.field_.weights) >= 4


def test_pseudo_likelihood_by_sweeps_is_that_of_its_regressions(example) -> None:
    class Swept(PseudoLikelihood):
        by_regressions = False

    X = chain(200, 6, flip=0.2)
    swept, usual = (MarkovField(l1=2.0, objective=kind()).fit(X) for kind in (Swept, PseudoLikelihood))
    assert swept.objective_ == pytest.approx(usual.objective_, rel=1e-6)
    assert np.array_equal(swept.field_.pairs, usual.field_.pairs)


def test_missing_cells_that_a_problem_cannot_treat_are_refused(example) -> None:
    class Complete(DenseEvaluator):
        missing_cells = "refused"

    class OfCompleteRows(PseudoLikelihood):
        def make_problem(self, dataset, engine, missing=None):
            return Complete(dataset, self, engine, missing)

    field = MarkovField(l1=2.0, objective=OfCompleteRows())
    assert field.fit(example["X"]).objective_ == pytest.approx(MarkovField(l1=2.0).fit(example["X"]).objective_)
    with pytest.raises(DataError, match="Complete cannot treat them: fill them first"):
        field.fit(hide(example["X"].astype(float), 0.2, 0))
