"""``python -m reproduction table1``, called as a person would call it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pooch
import pytest
from program import ProgramResult

from reproduction import table1


@pytest.fixture
def few_animals(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty animals and twelve attributes, of two kinds each, stand in for the public ones."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, 30)[:, None] == np.arange(12) % 2
    cells = np.where(rng.random(kinds.shape) < 0.1, ~kinds, kinds).astype(int)
    table = pl.DataFrame({"animal": [f"a{k:02d}" for k in range(30)], **{f"b{k}": cells[:, k] for k in range(12)}})
    folder = tmp_path_factory.mktemp("data")
    table.write_csv(folder / "animals.csv")
    monkeypatch.setenv("SPARSEFIELD_DATA", str(folder))


assert_one_error = ProgramResult.one_error


@pytest.mark.usefixtures("few_animals")
@pytest.mark.usefixtures("matplotlib")
def test_table1_prints_what_it_writes(run, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    code, printed, said = run("table1", "--quick", "--data", "animals", "--folds", "2", "--output", out)
    assert code == 0
    assert sorted(os.listdir(out)) == ["table1.csv", "table1.json", "table1.svg"]
    document = json.loads((out / "table1.json").read_text("utf-8"))
    for row in document["rows"]:
        if row["origin"] == "measured":
            assert f"{row['ap']:.3f} ({row['ap_sd']:.3f})" in printed
    for words in (
        "cited: Kok, Domingos (2007)",
        "HIRM",
        "12 biases + 66 pairs = 78",
        "CFI vs Grafting",
        "Nadeau and Bengio",
        "AP (positive)",
    ):
        assert words in printed
    assert "…" not in printed
    assert "Animal, paper's setting, pl, CFI (3 of 3): AP" in said
    assert "Nation" not in printed


@pytest.fixture
def short_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    short = [replace(one, changes={"chains": 2, "sweeps": 20}) if one.name == "irm" else one for one in table1.SETTINGS]
    monkeypatch.setattr(table1, "SETTINGS", tuple(short))


@pytest.mark.usefixtures("few_animals", "matplotlib", "short_chains")
def test_the_measured_irm_is_a_row_beside_the_cited_one(run, tmp_path: Path) -> None:
    code, printed, said = run("table1", "--data", "animals", "--setting", "irm", "--folds", "2", "-o", tmp_path)
    assert code == 0
    document = json.loads((tmp_path / "table1.json").read_text("utf-8"))
    [row] = [row for row in document["rows"] if row["origin"] == "measured"]
    assert (row["method"], row["objective"]) == ("IRM", "")
    assert row["cll"] > row["folds"][0]["frequency_cll"]
    assert f"{row['cll']:.3f} ({row['cll_sd']:.3f})" in printed
    assert "MSL and MRC search clauses" in printed
    assert "0 / 0" not in printed
    assert "Animal, 10 chains, IRM (1 of 1): AP" in said


@pytest.mark.usefixtures("few_animals")
def test_splits_prints_every_split(run) -> None:
    code, printed, _ = run("splits", "--setting", "certified", "--splits", "2", "--folds", "2")
    assert code == 0
    lines = [line.split() for line in printed.splitlines() if line.startswith("CFI, certified")]
    assert [line[3] for line in lines] == ["0", "1", "all"]
    assert printed.count("cited") == 3


@pytest.mark.usefixtures("matplotlib")
def test_table1_says_in_a_line_that_there_is_no_data(run, tmp_path: Path, monkeypatch) -> None:
    def unreachable(*_: object, **__: object) -> str:
        raise OSError("no network")

    monkeypatch.delenv("SPARSEFIELD_DATA", raising=False)
    monkeypatch.setattr(pooch, "retrieve", unreachable)
    assert_one_error(run("table1", "--output", tmp_path / "t"), "cannot be reached", "SPARSEFIELD_DATA")
    assert os.listdir(tmp_path) == []


@pytest.mark.usefixtures("matplotlib")
def test_table1_refuses_bad_options_before_any_work(run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    assert_one_error(run("table1", "--data", "plants", "-o", tmp_path / "t"), "animals, nations", "'plants'")
    assert_one_error(run("table1", "--objective", "ml", "-o", tmp_path / "t"), "pl, cd", "'ml'")
    assert_one_error(run("table1", "--folds", "1", "-o", tmp_path / "t"), "folds")
    assert_one_error(run("table1", "-o", tmp_path / "file"), "is a file")
    assert_one_error(run("table1", "-o", tmp_path / "file" / "t"), "cannot be written to")
    assert os.listdir(tmp_path) == ["file"]
