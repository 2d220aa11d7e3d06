"""The algorithm in NumPy of docs/how-it-works.md and the library learn the same fields."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from sparsefield import MarkovField, Solver

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
