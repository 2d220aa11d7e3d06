"""``fit --refit ml``, ``fit --objective ml`` and ``evaluate --likelihood``."""

from __future__ import annotations

import json
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


def test_another_word_for_refit_is_refused(run, answers: Path, tmp_path: Path) -> None:
    done = run("fit", answers, "--refit", "maybe", "-o", tmp_path / "m.safetensors")
    done.one_error("--refit maybe: refit must be yes, no or 'ml', got 'maybe'")


def test_evaluate_shows_the_joint_likelihood_of_held_out_cells(run, answers: Path) -> None:
    done = run("evaluate", answers, "--folds", 2, "--l1", 2, "--likelihood")
    assert done.code == 0, done.err
    assert "cfi: joint log-likelihood of held-out cells, per row: -1." in done.out
    assert "), exact" in done.out
    plain = run("evaluate", answers, "--folds", 2, "--l1", 2, "--likelihood", "--json")
    found = json.loads(plain.out)["results"][0]["joint_log_likelihood"]
    assert found["method"] == "exact"
    assert len(found["folds"]) == 2
    assert found["mean"] == pytest.approx(np.mean(found["folds"]))
    assert found["standard_errors"] == [0.0, 0.0]


def test_whole_rows_have_no_likelihood_of_cells(run, answers: Path) -> None:
    done = run("evaluate", answers, "--whole-rows", "--observed", "a", "--likelihood")
    assert done.code == 2
    assert "--likelihood is about held-out cells" in " ".join(done.err.split())
