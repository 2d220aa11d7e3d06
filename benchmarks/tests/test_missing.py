"""Learning from rows with missing values: what is measured, on tiny data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import mice, missing
from benchmarks.enumerated import EnumeratedField, random_field
from benchmarks.fill import make_missing


def quiet(line: str) -> None:
    """Say nothing."""


# -- fields, missing cells and R's mice -----------------------------------------------------------------------------


def test_a_weight_is_the_log_odds_ratio_of_its_pair_given_the_rest() -> None:
    field = random_field(4, 4, np.random.default_rng(1))
    _, chances = field.distribution()
    p = chances.reshape(2, 2, 2, 2).transpose()  # by x0, x1, x2, x3
    ratio = np.log(p[1, 1] * p[0, 0] / (p[1, 0] * p[0, 1]))
    assert ratio == pytest.approx(np.full((2, 2), field.weights[0, 1]))
    assert field.means() == pytest.approx([p[1].sum(), p[:, 1].sum(), p[:, :, 1].sum(), p[..., 1].sum()])


def test_random_fields_have_the_edges_and_weights_asked_for_and_rows_follow_them() -> None:
    field = random_field(12, 17, np.random.default_rng(2))
    found = np.abs(field.weights[np.triu(field.weights) != 0.0])
    assert len(found) == 17
    assert found.min() >= 0.5
    assert found.max() <= 1.5
    degrees = np.count_nonzero(field.weights, axis=1)
    assert degrees[0] == degrees.max()
    rows = field.draw(20_000, np.random.default_rng(3))
    assert np.abs(rows.mean(axis=0) - field.means()).max() < 0.02
    with pytest.raises(ValueError, match="at most 16 nodes are enumerated, got 20"):
        EnumeratedField(np.zeros(20), np.zeros((20, 20)))


def test_the_first_column_decides_what_is_missing() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (4000, 5)).astype(np.float64)
    found = missing.make_missing_at_random(rows, rng)
    gaps = np.isnan(found)
    assert not gaps[:, 0].any()
    assert gaps[rows[:, 0] == 1.0, 1:].mean() == pytest.approx(0.6, abs=0.03)
    assert gaps[rows[:, 0] == 0.0, 1:].mean() == pytest.approx(0.1, abs=0.03)
    assert np.array_equal(found[~gaps], rows[~gaps])


def test_a_failure_of_r_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "Rscript"
    script.write_text("#!/bin/sh\necho 'there is no package called mice' >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(RuntimeError, match="there is no package called mice"):
        mice.impute_with_mice(np.zeros((4, 2)))


def test_mice_finds_means_and_weights_of_a_known_field() -> None:
    if not mice.has_mice():
        pytest.skip("no R with mice here")
    field = EnumeratedField(np.array([-0.6, -0.2, 0.3]), np.array([[0, 1.2, 0], [1.2, 0, -0.8], [0, -0.8, 0]]))
    rng = np.random.default_rng(5)
    table = make_missing(field.draw(3000, rng), 0.2, rng)
    found = mice.impute_with_mice(table, 3, seed=1)
    assert np.abs(found.means - field.means()).max() < 0.05
    assert np.abs(found.weights - field.weights).max() < 0.35
    assert np.array_equal(found.weights, found.weights.T)
    assert found.seconds > 0.0


# -- tables ---------------------------------------------------------------------------------------------------------


def test_weights_and_predictions_are_compared_with_those_of_complete_rows() -> None:
    heard: list[str] = []
    complete, _, ours, clamped = missing.run_simulation(2, heard.append, quick=True)
    assert [row["method"] for row in (complete, ours, clamped)] == ["complete rows", "default", "mean-field"]
    assert [row["missing"] for row in (complete, ours, clamped)] == [0.0, 0.4, 0.4]
    assert complete["times_complete"] == 1.0
    assert complete["slope_min"] <= complete["slope"] <= complete["slope_max"]
    assert complete["slope"] == pytest.approx(1.0, abs=0.15)
    assert ours["slope"] == pytest.approx(1.0, abs=0.3)
    assert abs(ours["slope"] - 1.0) < abs(clamped["slope"] - 1.0)
    assert complete["log_likelihood"] > ours["log_likelihood"] > clamped["log_likelihood"]
    assert ours["log_likelihood"] > -np.log(2.0)
    assert len(heard) == 2


def test_edges_of_coins_are_counted_for_each_pattern_selection_and_method() -> None:
    rows = missing.run_coins(2, quiet, quick=True)
    assert len(rows) == 2 * 2 * len(missing.METHODS)
    for row in rows:
        assert 0 <= row["edges_median"] <= row["edges_max"] <= 15
    assert max(row["edges_max"] for row in rows if row["selection"] == "ebic" and row["method"] == "default") <= 2


def test_fields_of_half_the_cells_of_nltcs_predict_better_than_frequencies(
    public_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARSEFIELD_DATA", str(public_data))
    found = {row["method"]: row["log_likelihood"] for row in missing.run_nltcs(1, quiet, quick=True)}
    assert list(found) == ["column frequencies", "complete rows", "default", "mean-field"]
    assert found["complete rows"] > found["column frequencies"] + 0.1
    assert found["complete rows"] > found["default"] - 0.01
    assert found["default"] > found["column frequencies"] + 0.1


def test_complete_cases_are_biased_where_cells_are_missing_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing, "has_mice", lambda: False)
    heard: list[str] = []
    found = {row["method"]: row for row in missing.run_mar(3, heard.append, quick=True)}
    assert list(found) == ["no cell missing", "complete cases", "default", "mean-field"]
    assert heard[0] == "mar: mice skipped: no Rscript with the package mice here"
    assert found["complete cases"]["mean_bias"] > 2 * found["default"]["mean_bias"]
    assert found["default"]["weight_bias"] < found["mean-field"]["weight_bias"]
    for row in found.values():
        assert row["mean_worst_sd"] >= row["mean_bias_sd"] > 0.0


def test_table_1_compares_the_methods_on_the_same_folds(public_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARSEFIELD_DATA", str(public_data))
    rows = missing.run_table1(1, quiet, quick=True)
    assert [(row["data"], row["method"]) for row in rows] == [("Animal", label) for label, _ in missing.METHODS]
    assert rows[0]["frequency_cll"] == rows[1]["frequency_cll"]
    for row in rows:
        assert row["cll"] > row["frequency_cll"]
        assert 0.8 < row["ap"] < 1.0
