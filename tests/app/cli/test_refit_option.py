"""``fit --refit ml`` and ``fit --refit yes``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField, load


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (80, 4))
    for k in range(1, 4):
        X[:, k] = np.where(rng.random(80) < 0.7, X[:, k - 1], X[:, k])
    pl.DataFrame(X, schema=list("abcd")).write_csv(tmp_path / "answers.csv")
    return tmp_path / "answers.csv"


@pytest.mark.parametrize(("option", "value"), [("refit", "ml"), ("refit", "yes")])
def test_fit_learns_by_the_likelihood(run, answers: Path, tmp_path: Path, option: str, value: str) -> None:
    done = run("fit", answers, "--l1", 2, f"--{option}", value, "-o", tmp_path / "m.safetensors", "--no-check")
    assert done.code == 0, done.err
    model = load(tmp_path / "m.safetensors")
    wanted = MarkovField(l1=2.0, **{option: True if value == "yes" else value}).fit(pl.read_csv(answers))
    np.testing.assert_array_equal(model.field_.theta, wanted.field_.theta)
    assert (model.field_.record.likelihood is None) == (value == "yes")
    assert ("exact likelihood" in run("info", tmp_path / "m.safetensors").out) == (value == "ml")
