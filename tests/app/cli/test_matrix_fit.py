"""Sparse matrices in files: ``.npz`` of scipy, and folders of Parquet files of 0/1 columns."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from sparsefield import MarkovField, load

N = 120
rng = np.random.default_rng(0)
RAIN = rng.integers(0, 2, N)
MATRIX = sp.csr_matrix(((RAIN[:, None] == [1, 0, 1, 0]) & (rng.random((N, 4)) < 0.5)).astype(np.int8))


@pytest.mark.slow
def test_sparse_matrices_in_files(run, tmp_path, monkeypatch) -> None:
    sp.save_npz(tmp_path / "m.npz", MATRIX)
    model = tmp_path / "m.safetensors"
    found = run("fit", tmp_path / "m.npz", "-o", model, "--observed", "x1").ok()
    assert "held-out cells" in found.out
    wanted = MarkovField(l1="auto", random_state=0).fit(MATRIX, observed=["x1"]).features_
    assert load(model).features_.equals(wanted)
    assert "AP" in run("evaluate", tmp_path / "m.npz", "--folds", "2").out
    run("predict", model, tmp_path / "m.npz", "-o", tmp_path / "f.csv").one_error("has no missing values to impute")
    run("fit", tmp_path / "m.npz", "-o", model, "--id", "x1").one_error(
        "remove --id, --weight, --group, --numeric, --ordinal and --nominal"
    )
    monkeypatch.setattr("sparsefield.app.cli.inputs.CELLS_TO_HOLD_OUT", 10)
    assert "No check: held-out cells need a dense table" in run("fit", tmp_path / "m.npz", "-o", model).err


def test_a_folder_of_parquet_files_is_a_sparse_matrix(run, tmp_path) -> None:
    folder, model = tmp_path / "parts", tmp_path / "m.safetensors"
    folder.mkdir()
    table = pl.DataFrame(MATRIX.toarray(), schema=["rain", "sun", "wet", "dry"], orient="row").with_columns(
        who=pl.int_range(N).cast(pl.String)
    )
    table[:50].write_parquet(folder / "a.parquet")
    table[50:].write_parquet(folder / "b.parquet")
    done = run("fit", folder, "-o", model, "--observed", "sun", "--id", "who", "--l1", 2).ok()
    assert "held-out cells" in done.out
    field = load(model)
    wanted = MarkovField(l1=2.0).fit(MATRIX, observed=["sun"], columns=["rain", "sun", "wet", "dry"])
    assert field.features_.equals(wanted.features_)
    run("report", model, "-o", tmp_path / "r.html", "--data", folder).ok()
    assert "rain" in (tmp_path / "r.html").read_text()
    run("analyze", "stability", model, folder, "--weight", "who").one_error("--weight names a column of one table")
    run("fit", folder, "-o", model).one_error("'who' (String)", "--id")
    run("fit", folder, "-o", model, "--id", "who", "--ordinal", "sun").one_error("--ordinal")
    table[50:].with_columns(rain=pl.Series([None] * (N - 50), dtype=pl.Int8)).write_parquet(folder / "b.parquet")
    done = run("predict", model, folder, "-o", tmp_path / "o.csv").ok()
    assert f"{N - 50} missing values in 1 column and {N} rows." in done.out
    filled = pl.read_csv(tmp_path / "o.csv")
    assert filled["rain"][:50].to_list() == table["rain"][:50].to_list()
    assert set(filled["rain"]) <= {0, 1}
