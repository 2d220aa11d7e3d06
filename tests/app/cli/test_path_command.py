"""``path``: figures, a picture or a page of all values of l1, and which one is chosen."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from sparsefield import MarkovField, load, regularization_path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rain = rng.integers(0, 2, 240)
    wet = np.where(rng.random(240) < 0.85, rain, 1 - rain)
    mood = np.where(rng.random(240) < 0.8, np.where(wet == 1, "bad", "good"), "odd")
    frame = pl.DataFrame({"name": [f"n{k}" for k in range(240)], "rain": rain, "wet": wet, "mood": mood})
    frame = frame.with_columns(dice=rng.integers(0, 2, 240))
    frame.write_csv(tmp_path / "data.csv")
    return tmp_path / "data.csv"


@pytest.mark.slow
def test_figures_mark_what_fit_chooses(run, table: Path, tmp_path: Path) -> None:
    roles = ("--id", "name", "--observed", "rain", "--seed", "2")
    done = run("path", table, *roles, "-o", tmp_path / "p.csv")
    assert done.code == 0, done.err
    found = pl.read_csv(tmp_path / "p.csv")
    assert found.columns == ["l1", "features", "score", "error", "selected", "criterion"]
    assert found.height > 10
    assert run("fit", table, *roles, "-o", tmp_path / "m.safetensors", "--no-check").code == 0
    chosen = found.filter("selected")
    assert chosen["l1"].item() == load(tmp_path / "m.safetensors").l1_
    best = found.sort("score", descending=True)[0]
    assert f"Selected: l1 = {chosen['l1'].item():.4g}, with {chosen['features'].item()} feature" in done.out
    if best["l1"].item() == chosen["l1"].item():
        assert "No other l1 has a better score." in done.out
    else:
        assert f"Best score: l1 = {best['l1'].item():.4g}," in done.out
    assert len(re.findall(r"^selected", done.out, re.MULTILINE)) == 1
    assert done.out.endswith(f"Wrote {tmp_path / 'p.csv'}.\n")
    again = run("path", table, *roles, "-o", tmp_path / "q.csv", "--jobs", "2")
    assert again.code == 0
    assert (tmp_path / "p.csv").read_bytes() == (tmp_path / "q.csv").read_bytes()


def test_pictures_and_pages(run, table: Path, tmp_path: Path) -> None:
    words = ("--id", "name", "--selection", "ebic")
    assert run("path", table, *words, "-o", tmp_path / "p.svg").code == 0
    picture = (tmp_path / "p.svg").read_text(encoding="utf-8")
    assert picture.startswith("<svg")
    assert "minus EBIC" in picture
    points = picture.count('class="point"')
    assert points > 20
    assert points % 2 == 0  # a score and a number of features for each l1
    assert 2 <= picture.count('class="vertical-line"') <= 4
    assert run("path", table, *words, "-o", tmp_path / "p.html").code == 0
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert picture.splitlines()[1] in page
    assert page.count(' best">') == 4
    assert "Regularization path of data.csv" in page


@pytest.mark.slow
def test_linked_tables_and_sparse_matrices(run, school: Path, tmp_path: Path) -> None:
    done = run("path", school, "-o", tmp_path / "p.csv", "--template", "within pupil")
    assert done.code == 0, done.err
    assert pl.read_csv(tmp_path / "p.csv")["features"].max() > 0
    matrix = sp.csr_array((np.random.default_rng(0).random((400, 60)) < 0.05).astype(np.int8))
    sp.save_npz(tmp_path / "x.npz", matrix)
    done = run("path", tmp_path / "x.npz", "-o", tmp_path / "p.csv", "--selection", "ebic")
    assert done.code == 0, done.err
    path = regularization_path(MarkovField(l1=2.0, selection="ebic", random_state=0), matrix)
    np.testing.assert_allclose(pl.read_csv(tmp_path / "p.csv")["score"], path["score"])


def test_a_table_that_is_too_small_to_hold_out_cells_says_ebic_everywhere(run, tmp_path: Path) -> None:
    table, model = tmp_path / "small.csv", tmp_path / "m.safetensors"
    table.write_text("a,b,c\n0,1,0\n1,1,0\n0,0,1\n1,0,1\n1,1,1\n")
    fitted = run("fit", table, "-o", model, "--no-check")
    assert fitted.code == 0, fitted.err
    assert fitted.err.count("too few cells to hold some out") == 1
    assert "values, by EBIC." in fitted.out
    told = run("info", model).out
    assert ", by ebic)" in told
    assert "heldout" not in told
    done = run("path", table, "-o", tmp_path / "p.html")
    assert done.code == 0, done.err
    assert done.err.count("too few cells to hold some out") == 1
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "minus EBIC" in page
    for text in (page, done.out):
        assert "held-out" not in text
        assert "within one standard error" not in text
    assert run("path", table, "-o", tmp_path / "p.csv").code == 0
    assert set(pl.read_csv(tmp_path / "p.csv")["criterion"]) == {"ebic"}


def test_refusals(run, table: Path, school: Path, tmp_path: Path) -> None:
    output = ("-o", tmp_path / "p.csv", "--id", "name")
    run("path", table, "-o", tmp_path / "p.png").one_error("p.png", ".svg, .html, .htm, .csv")
    run("path", table, "-o", table, "--id", "name").one_error("one of the files that are read")
    run("path", school, "-o", school / "pupils.csv").one_error("one of the files that are read")
    run("path", table, *output, "--selection", "luck").one_error("selection", "'heldout', 'ebic'")
    run("path", table, *output, "--template", "within x").one_error("--template")
    run("path", tmp_path / "none.csv", "-o", tmp_path / "p.csv").one_error("none.csv")
    assert not (tmp_path / "p.csv").exists()
