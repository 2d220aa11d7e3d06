"""``analyze intervals`` prints and writes intervals, differences, and the stability of centrality."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    rain = rng.integers(0, 2, 200)
    wet = np.where(rng.random(200) < 0.9, rain, 1 - rain)
    slow = np.where(rng.random(200) < 0.7, wet, 1 - wet)
    path = tmp_path_factory.mktemp("confidence") / "days.csv"
    pl.DataFrame({"rain": rain, "wet": wet, "slow": slow}).write_csv(path)
    return path


@pytest.fixture(scope="module")
def model(fit, table: Path) -> Path:
    path = table.with_name("days.safetensors")
    fit(table, path, "--l1", "5")
    return path


def test_intervals_are_printed_and_written(run, model: Path, table: Path, tmp_path: Path) -> None:
    output = tmp_path / "intervals.csv"
    done = run("analyze", "intervals", model, table, "-o", output)
    assert done.code == 0, done.err
    assert "Estimates without L1, with l2 = 1, and 95% intervals from the sandwich covariance" in done.out
    assert "resampled rows" not in done.err
    written = pl.read_csv(output)
    assert written.columns[-4:] == ["estimate", "standard_error", "low", "high"]
    assert set(written.row(0)[:4]) == {"rain", "wet", 1}
    found = json.loads(run("analyze", "intervals", model, table, "--of", "edges", "--json").out)
    assert {row["variable_a"] for row in found["rows"]} <= {"rain", "wet"}
    assert found["rows"][0]["p_value"] < 0.001


def test_a_bootstrap_has_differences(run, model: Path, table: Path) -> None:
    words = ("analyze", "intervals", model, table, "--method", "bootstrap", "--resamples", "20")
    done = run(*words)
    assert done.code == 0, done.err
    assert "percentiles of 20 bootstrap resamples" in done.out
    assert "not adjusted" in run(*words, "--differences").out


def test_a_model_without_features_is_said_in_one_sentence(run, table: Path, tmp_path: Path) -> None:
    path = tmp_path / "none.safetensors"
    assert run("fit", table, "-o", path, "--l1", "10000", "--no-check").code == 0
    done = run("analyze", "intervals", path, table, "--method", "bootstrap", "--resamples", "3")
    assert done.code == 0, done.err
    assert done.out.strip() == "The model has no features of two columns, so there is nothing to estimate."


def test_incomplete_rows_are_refused_with_their_columns(run, model: Path, table: Path, tmp_path: Path) -> None:
    frame, table = pl.read_csv(table), tmp_path / "incomplete.csv"
    frame.with_columns(wet=frame["wet"].scatter([0, 1], None)).write_csv(table)
    done = run("analyze", "intervals", model, table)
    assert done.code == 2
    assert "2 of 200 rows have missing cells (columns 'wet')" in done.err
    done = run("analyze", "intervals", model, table, "--drop-incomplete")
    assert done.code == 0
    assert "Estimated from the 198 complete rows of 200." in done.out
    assert "not the table that the field was learned from, or rows have other weights" in done.err
    assert "the values of 'wet' are not as frequent" in done.err


def test_missing_cells_are_imputed_and_intervals_pooled(run, table: Path, tmp_path: Path) -> None:
    frame, table, path = pl.read_csv(table), tmp_path / "incomplete.csv", tmp_path / "incomplete.safetensors"
    frame.with_columns(wet=frame["wet"].scatter(list(range(0, 200, 5)), None)).write_csv(table)
    assert run("fit", table, "-o", path, "--l1", 5, "--no-check").code == 0
    for words in ((), ("--method", "bootstrap")):
        done = run("analyze", "intervals", path, table, *words)
        done.one_error("40 of 200 rows have missing cells (columns 'wet')", "--imputations 20", "--drop-incomplete")
    done = run("analyze", "intervals", path, table, "--imputations", 3)
    assert done.code == 0, done.err
    assert (
        "Missing cells of 40 of 200 rows were imputed 3 times, and estimates were pooled by Rubin's rules." in done.out
    )
