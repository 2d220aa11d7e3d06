"""``analyze stability``: how often features are selected, kept in the model and shown by reports."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from sparsefield import CRFClassifier, MarkovField, load, stability


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    rain = rng.integers(0, 2, 300)
    wet = np.where(rng.random(300) < 0.9, rain, 1 - rain)
    frame = pl.DataFrame({"name": [f"n{k}" for k in range(300)], "rain": rain, "wet": wet})
    frame = frame.with_columns(pl.Series(f"dice{k}", rng.integers(0, 2, 300)) for k in range(4))
    frame = frame.with_columns(wet=pl.Series([None if k % 8 == 0 else int(v) for k, v in enumerate(wet)]))
    path = tmp_path_factory.mktemp("stability") / "data.csv"
    frame.write_csv(path, null_value="?")
    return path


@pytest.fixture(scope="module")
def fitted(fit, table: Path) -> Path:
    path = table.with_name("w.safetensors")
    fit(table, path, "--id", "name", "--l1", "9")
    return path


@pytest.fixture
def weather(fitted: Path, tmp_path: Path) -> Path:
    """A copy of the model, which a command may write anew."""
    return Path(shutil.copy(fitted, tmp_path))


@pytest.mark.slow
def test_the_model_is_written_anew_and_reports_show_it(run, weather: Path, table: Path, tmp_path: Path) -> None:
    before = load(weather)
    done = run("analyze", "stability", weather, table, "--resamples", "10", "--seed", "3").ok()
    after = load(weather)
    assert np.array_equal(before.field_.theta, after.field_.theta)
    direct = load(weather)
    frame = pl.read_csv(table, null_values="?").drop("name")
    stability(direct, frame, 10, random_state=3)
    assert direct.field_.record.stability == after.field_.record.stability
    assert after.field_.record.stability.resamples == 10
    assert re.search(r"\+\d\.\d\d +100% +rain=1 and wet=1 go together", done.out)
    assert "10 halves of the rows" in done.out
    assert "Shah and Samworth" in done.out
    assert done.out.endswith(f"Wrote {weather}.\n")
    run("report", weather, "-o", tmp_path / "r.html").ok()
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Selected in at least 90% of 10 halves of the rows" in page
    assert re.search(r"<th[^>]*>(<button[^>]*>)?stability<", page)


def test_another_file_and_the_same_bytes_for_any_threads(run, weather: Path, table: Path, tmp_path: Path) -> None:
    old = weather.read_bytes()
    for jobs in ("1", "2"):
        words = ("--resamples", "4", "--jobs", jobs, "-o", tmp_path / f"{jobs}.safetensors", "--json")
        found = json.loads(run("analyze", "stability", weather, table, *words).out)
    record = load(tmp_path / "2.safetensors").field_.record.stability
    assert (found["resamples"], found["mean_pairs"]) == (4, record.mean_pairs)
    assert sorted(one["selected"] for one in found["features"]) == sorted(record.frequencies)
    assert found["features"][0]["terms"][0].keys() == {"table", "variable", "state"}
    assert (tmp_path / "1.safetensors").read_bytes() == (tmp_path / "2.safetensors").read_bytes()
    assert weather.read_bytes() == old


def test_linked_tables_matrices_and_classifiers(run, model: Path, school: Path, table: Path, tmp_path: Path) -> None:
    run("analyze", "stability", model, school, "--resamples", "4").ok()
    assert len(load(model).field_.record.stability.frequencies) == len(load(model).field_.weights)

    X = (np.random.default_rng(0).random((400, 60)) < 0.05).astype(np.int8)
    X[:, 1] |= X[:, 0]
    sp.save_npz(tmp_path / "x.npz", sp.csr_array(X))
    MarkovField(l1=4.0).fit(sp.csr_array(X)).save(tmp_path / "x.safetensors")
    done = run("analyze", "stability", tmp_path / "x.safetensors", tmp_path / "x.npz", "--resamples", "4").ok()
    assert "100%" in done.out

    frame = pl.read_csv(table, null_values="?")
    X, y = frame.select("rain", "dice0"), frame["dice1"]
    CRFClassifier(l1=1.0).fit(X, y).save(tmp_path / "c.safetensors")
    run("analyze", "stability", tmp_path / "c.safetensors", table, "--resamples", "4").ok()


def test_refusals_leave_the_model_alone(run, weather: Path, table: Path, school: Path, tmp_path: Path) -> None:
    old = weather.read_bytes()
    run("analyze", "stability", weather, table, "--resamples", "5").one_error("even number")
    run("analyze", "stability", weather, school).one_error("linked tables")
    run("analyze", "stability", weather, table, "-o", table).one_error("one of the files that are read")
    run("analyze", "stability", weather, table, "-o", tmp_path / "no" / "m.safetensors").one_error("does not exist")
    run("analyze", "stability", school / "pupils.csv", table).one_error(
        "not a complete sparsefield model", "MODEL comes before DATA"
    )
    pl.read_csv(table).drop("rain").write_csv(tmp_path / "less.csv")
    run("analyze", "stability", weather, tmp_path / "less.csv").one_error("lacks columns: rain")
    assert weather.read_bytes() == old
