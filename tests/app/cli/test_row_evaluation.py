"""``evaluate --whole-rows`` predicts all labels of held-out rows and prints the measures of multi-label predictions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    heat = rng.normal(size=120).round(3)
    sun = (heat + 0.5 * rng.normal(size=120) > 0).astype(int)
    rain = np.where(rng.random(120) < 0.8, 1 - sun, sun)
    path = tmp_path_factory.mktemp("weather") / "weather.csv"
    pl.DataFrame({"heat": heat, "sun": sun, "rain": rain}).write_csv(path)
    return path


def test_measures_and_calibration_are_printed(run, weather: Path) -> None:
    done = run("evaluate", weather, "--observed", "heat", "--whole-rows", "--folds", 3, "--l1", 2)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    for words in ("labels decoded", "Hamming loss", "subset accuracy", "micro F1", "macro F1"):
        assert words in lines[0]
    assert [line.split()[0] for line in lines[1:3]] == ["one", "jointly"]
    assert "By label:" in lines
    assert [line.split()[0] for line in lines[-2:]] == ["sun", "rain"]
    assert lines[-1].endswith("off")


def test_json_has_every_fold_and_label(run, weather: Path) -> None:
    done = run("evaluate", weather, "--observed", "heat", "--whole-rows", "--folds", 3, "--l1", 2, "--json")
    result = json.loads(done.out)
    assert [fold["rows"] for fold in result["folds"]] == [40, 40, 40]
    assert 0.5 < result["summary"]["joint"]["subset_accuracy"]["mean"] < 1.0
    assert [column["name"] for column in result["columns"]] == ["sun", "rain"]


def test_rows_without_observed_columns_are_refused(run, weather: Path) -> None:
    done = run("evaluate", weather, "--whole-rows")
    assert done.code == 2
    assert "name these with --observed" in " ".join(done.err.split())
    done = run("evaluate", weather, "--whole-rows", "--observed", "heat", "--latent", "front=2")
    assert "exclude each other" in " ".join(done.err.split())
    done = run("evaluate", weather, "--whole-rows", "--observed", "heat,sun,rain")
    assert "leave at least one out of --observed" in " ".join(done.err.split())


def test_missing_labels_are_refused_before_any_fit_with_their_rows(run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,a,b\n" + "1,0,1\n0,1,0\n" * 10 + "1,,1\n0,1,\n1,,0\n")
    done = run("evaluate", tmp_path / "t.csv", "--observed", "x", "--whole-rows", "--folds", 3, "--l1", 1)
    assert done.code == 2
    assert "'a' (2 rows, first row 21), 'b' (1 row, first row 22)" in done.err
    assert "done" not in done.err
