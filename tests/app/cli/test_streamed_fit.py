"""``fit --stream``: Parquet block by block; and sparse matrices in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from sparsefield import MarkovField, load
from sparsefield.app.tables.row_blocks import save_rows

N = 120
rng = np.random.default_rng(0)
RAIN = rng.integers(0, 2, N)
WEATHER = pl.DataFrame(
    {
        "name": [f"{k:03d}" for k in range(N)],
        "rain": RAIN,
        "mood": np.where(rng.random(N) < 0.9, np.where(RAIN, "bad", "good"), "fair"),
        "wet": np.where(rng.random(N) < 0.9, RAIN, 1 - RAIN),
    }
)
MATRIX = sp.csr_matrix(((RAIN[:, None] == [1, 0, 1, 0]) & (rng.random((N, 4)) < 0.5)).astype(np.int8))


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    folder = tmp_path / "parts"
    folder.mkdir()
    WEATHER[:50].write_parquet(folder / "a.parquet")
    WEATHER[50:].write_parquet(folder / "b.parquet")
    return folder


def test_parquet_is_learned_block_by_block(run, parts, tmp_path) -> None:
    WEATHER.write_parquet(tmp_path / "all.parquet")
    wanted = MarkovField(l1="auto", selection="ebic").fit(iter([WEATHER.drop("name")]), observed=["wet"]).features_
    for data in (tmp_path / "all.parquet", parts):
        found = run("fit", data, "--stream", "--id", "name", "--observed", "wet", "-o", tmp_path / "m.safetensors")
        assert found.code == 0
        assert found.err.count("No check: with --stream") == 1
        assert "Learning from 120 rows" in found.err
        assert "Converged" in found.out
        assert load(tmp_path / "m.safetensors").features_.equals(wanted)
    assert "No check" not in run("fit", parts, "--stream", "--no-check", "--id", "name", "-o", tmp_path / "m").err


def test_columns_of_every_kind_and_missing_values_are_learned_block_by_block(run, tmp_path) -> None:
    heat = np.round(20 - 5 * RAIN + rng.normal(size=N), 2)
    table = WEATHER.drop("name").with_columns(heat=heat, mood=pl.when(pl.int_range(N) != 7).then("mood"))
    for k in range(3):
        table[40 * k : 40 * (k + 1)].write_parquet(tmp_path / f"{k}.parquet")
    order = "bad<fair<good"
    done = run("fit", tmp_path, "--stream", "--ordinal", f"mood={order}", "--l1", 3, "-o", tmp_path / "m.safetensors")
    assert done.code == 0, done.err
    assert "Kinds: 2 nominal (rain, wet), 1 ordinal (mood), 1 numeric (heat)" in done.out
    wanted = MarkovField(l1=3.0, kinds={"mood": order}, random_state=0).fit(table)
    assert load(tmp_path / "m.safetensors").features_.equals(wanted.features_)


def test_saved_rows_are_learned(run, tmp_path) -> None:
    rows = save_rows(MATRIX, tmp_path / "rows")
    assert run("fit", rows, "--stream", "--observed", "x0", "-o", tmp_path / "m.safetensors").code == 0
    wanted = MarkovField(l1="auto", selection="ebic").fit(rows, observed=["x0"]).features_
    assert load(tmp_path / "m.safetensors").features_.equals(wanted)
    run("fit", rows, "--stream", "--id", "x0", "-o", tmp_path / "m").one_error("remove --id")


def test_what_cannot_be_streamed_is_told(run, parts, tmp_path) -> None:
    out = ("--stream", "--no-check", "-o", tmp_path / "m.safetensors")
    WEATHER.write_csv(tmp_path / "w.csv")
    run("fit", tmp_path / "w.csv", *out).one_error("Parquet", "scan_csv")
    run("fit", tmp_path / "none.parquet", *out).one_error("there is no such file")
    run("fit", parts, "--missing", "bad", *out).one_error("--missing cannot be used")
    run("fit", parts, "--id", "nothing", *out).one_error("--id names the column 'nothing'")
    run("fit", parts, *out).one_error("'name'", "identifier", "--id")
    assert not (tmp_path / "m.safetensors").exists()


@pytest.mark.slow
def test_sparse_matrices_in_files(run, tmp_path, monkeypatch) -> None:
    sp.save_npz(tmp_path / "m.npz", MATRIX)
    model = tmp_path / "m.safetensors"
    found = run("fit", tmp_path / "m.npz", "-o", model, "--observed", "x1")
    assert found.code == 0
    assert "held-out cells" in found.out
    wanted = MarkovField(l1="auto", random_state=0).fit(MATRIX, observed=["x1"]).features_
    assert load(model).features_.equals(wanted)
    assert "AP" in run("evaluate", tmp_path / "m.npz", "--folds", "2").out
    run("predict", model, tmp_path / "m.npz", "-o", tmp_path / "f.csv").one_error("has no missing values to impute")
    run("fit", tmp_path / "m.npz", "-o", model, "--id", "x1").one_error(
        "remove --id, --weight, --group, --numeric, --ordinal and --nominal"
    )
    monkeypatch.setattr("sparsefield.app.cli.input_data.CELLS_TO_HOLD_OUT", 10)
    assert "No check: held-out cells need a dense table" in run("fit", tmp_path / "m.npz", "--stream", "-o", model).err
