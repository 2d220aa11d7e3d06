"""``report`` writes a page about a model, with or without data."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from sparsefield import CRFClassifier, MarkovField, confidence_intervals, load
from sparsefield.errors import PenaltyWarning


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    rain = rng.integers(0, 2, 200)
    wet = np.where(rng.random(200) < 0.9, rain, 1 - rain)
    mood = np.where(wet == 1, "bad", "good")
    frame = pl.DataFrame({"name": [f"n{k}" for k in range(200)], "rain": rain, "wet": wet, "mood": mood})
    frame = frame.with_columns(mood=pl.Series([None if k % 8 == 0 else str(v) for k, v in enumerate(mood)]))
    path = tmp_path_factory.mktemp("report") / "data.csv"
    frame.write_csv(path, null_value="?")
    return path


@pytest.fixture(scope="module")
def weather(fit, table: Path) -> Path:
    path = table.with_name("w.safetensors")
    fit(table, path, "--id", "name", "--observed", "rain", "--l1", "1.5", "--set", "features.penalize_biases=yes")
    return path


def test_a_page_about_a_model_and_its_data(run, weather: Path, table: Path, tmp_path: Path) -> None:
    done = run("report", weather, "--data", table, "-o", tmp_path / "r.html").ok()
    assert done.out == f"Wrote {tmp_path / 'r.html'}.\n"
    assert "Note: " not in done.err
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<h1>data</h1>" in page
    assert "25 of 600 values" in page
    run("report", weather, "--data", table, "-o", tmp_path / "s.html", "--jobs", "2").ok()
    assert (tmp_path / "s.html").read_text(encoding="utf-8") == page


def test_without_data_and_with_a_title(run, weather: Path, tmp_path: Path) -> None:
    run("report", weather, "-o", tmp_path / "r.html", "--title", "Rain & <wind>").ok()
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<h1>Rain &amp; &lt;wind&gt;</h1>" in page
    assert "needs rows (--data)" in page


def test_linked_tables(run, school: Path, model: Path, tmp_path: Path) -> None:
    run("report", model, "--data", school, "-o", tmp_path / "r.html").ok()
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "pupil.mood" in page
    assert re.search(r"\d+ of [\d,]+ values", page)
    assert re.search(r'<pre id="command">sparsefield fit [^<]* --l1 0.5', page)


def test_a_sparse_matrix(run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = (rng.random((100, 6)) < 0.3).astype(np.int8)
    X[:, 1] = X[:, 0]
    sp.save_npz(tmp_path / "x.npz", sp.csr_matrix(X))
    MarkovField(l1=2.0).fit(sp.csr_matrix(X)).save(tmp_path / "m.safetensors")
    run("report", tmp_path / "m.safetensors", "--data", tmp_path / "x.npz", "-o", tmp_path / "r.html").ok()
    assert "a sparse matrix has no missing values" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_classifier(run, table: Path, tmp_path: Path) -> None:
    data = pl.read_csv(table, null_values="?").drop_nulls()
    CRFClassifier(l1=2.0).fit(data.select("rain", "wet"), data["mood"]).save(tmp_path / "c.safetensors")
    run("report", tmp_path / "c.safetensors", "--data", table, "-o", tmp_path / "r.html").ok()
    assert "CRFClassifier" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_errors_are_one_line(run, weather: Path, table: Path, school: Path, model: Path) -> None:
    folder = table.parent
    out = folder / "r.html"
    run("report", folder / "none.safetensors", "-o", out).one_error("none.safetensors", "no such file")
    run("report", table, "-o", out).one_error("data.csv")
    run("report", weather, "-o", folder / "r.pdf").one_error("r.pdf", ".html")
    run("report", weather, "-o", folder / "gone" / "r.html").one_error("gone", "does not exist")
    run("report", weather, "--data", folder / "none.csv", "-o", out).one_error("none.csv")
    run("report", weather, "--data", school, "-o", out).one_error("MarkovField", "linked tables")
    run("report", model, "--data", table, "-o", out).one_error("RelationalField", "one table")
    run("report", weather, "--missing", "x", "-o", out).one_error("are for the rows of --data: add --data")
    pl.DataFrame({"rain": [0, 1], "sun": [1, 0]}).write_csv(folder / "other.csv")
    done = run("report", weather, "--data", folder / "other.csv", "-o", out)
    done.one_error("other.csv", "2 of 3 columns of the model are not in the table", "wet", "mood")
    assert not out.exists()


def test_unknown_values_are_noted(run, weather: Path, tmp_path: Path) -> None:
    pl.DataFrame({"rain": [0, 1], "wet": [1, 0], "mood": ["bad", "odd"]}).write_csv(tmp_path / "new.csv")
    done = run("report", weather, "--data", tmp_path / "new.csv", "-o", tmp_path / "r.html").ok()
    assert "'odd'" in done.err
    assert "The data have 2 rows; the field was learned from 200." in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_report_of_a_weighted_fit_says_that_its_scores_are_not_weighted(run, tmp_path: Path) -> None:
    rows = [f"{k % 2},{(k // 2) % 2},{1 + k % 3}" for k in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,<w>", *rows, ""]))
    words = ("-o", tmp_path / "m", "--l1", 1, "--no-check")
    for given, told in ((("--weight", "<w>"), True), (("--id", "<w>"), False)):
        run("fit", tmp_path / "t.csv", *words, *given).ok()
        run("report", tmp_path / "m", "--data", tmp_path / "t.csv", "-o", tmp_path / "r.html").ok()
        page = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert ("row weights of “&lt;w&gt;”; here rows count once" in page) is told


def test_intervals_are_those_of_the_complete_rows(run, weather: Path, table: Path, tmp_path: Path) -> None:
    done = run("report", weather, "--data", table, "--intervals", "-o", tmp_path / "r.html").ok()
    assert "Intervals are estimated from the rows without missing values." in done.err
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Whiskers are intervals of estimates without L1" in page
    rows = pl.read_csv(table, null_values="?").select("rain", "wet", "mood")
    with pytest.warns(PenaltyWarning):
        found = confidence_intervals(load(weather), rows, drop_incomplete=True).by_feature
    assert found
    for low, high in found.values():
        assert f"{low:+.2f} to {high:+.2f}".replace("-", "\u2212") in page


def test_intervals_need_rows_and_a_model_of_one_table(run, weather: Path, school: Path, model: Path, tmp_path) -> None:
    done = run("report", weather, "--intervals", "-o", tmp_path / "r.html")
    assert done.code != 0
    assert "are for the rows of --data: add --data." in done.err
    done = run("report", model, "--data", school, "--intervals", "-o", tmp_path / "r.html")
    assert done.code != 0
    assert "only a MarkovField or a CRFClassifier has confidence intervals" in done.err
