"""``python -m reproduction figures | claims``, called as a person would call them."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pooch
import pytest
from program import ProgramResult

from reproduction import store
from reproduction.claims import CLAIMS
from reproduction.runs import load_real

SMALL = ("--quick", "--size", 7, "--rows", 40, "--folds", 2, "--objective", "pl")
FIGURES = (
    "figures",
    *SMALL,
    "--nodes",
    6,
    "--nodes",
    7,
    "--seeds",
    1,
    "--threshold",
    0,
    "--threshold",
    0.6,
)
CLAIMS_OF = ("claims", *SMALL)

FAKE = {
    "cpu_seconds": 1.0,
    "scoring_seconds": 0.1,
    "error_rate": 0.1,
    "cll": -0.5,
    "ap": 0.9,
    "induced": 9,
    "active": 5,
}

assert_one_error = ProgramResult.one_error


@pytest.fixture(autouse=True)
def few_animals(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch):
    """Twenty animals and six attributes, of two kinds each, stand in for the public ones."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, 20)[:, None] == np.arange(6) % 2
    cells = np.where(rng.random(kinds.shape) < 0.1, ~kinds, kinds).astype(int)
    table = pl.DataFrame({"animal": [f"a{k:02d}" for k in range(20)], **{f"b{k}": cells[:, k] for k in range(6)}})
    folder = tmp_path_factory.mktemp("data")
    table.write_csv(folder / "animals.csv")
    monkeypatch.setenv("SPARSEFIELD_DATA", str(folder))
    load_real.cache_clear()
    yield
    load_real.cache_clear()


def rows_of(file: Path) -> list[dict[str, str]]:
    with open(file, encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.usefixtures("matplotlib")
def test_figures_print_what_they_write(run, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    code, printed, said = run(*FIGURES, "-o", out)
    assert code == 0
    files = [f"figure{k}.{kind}" for k in (1, 2, 3) for kind in ("csv", "svg")]
    assert sorted(os.listdir(out)) == sorted([*files, "runs", "structure.csv"])
    assert "done before" not in said
    assert f"Wrote {out / 'figure1.svg'}" in said
    shown = np.array([float(word) for word in re.findall(r"-?\d+\.\d{4}", printed)])
    for row in [*rows_of(out / "figure2.csv"), *rows_of(out / "figure3.csv")]:
        for measure in ("error_rate", "cll", "ap"):
            assert np.abs(shown - float(row[measure])).min() < 6e-5
    for words in ("Figure 2: N = 7, 40 rows, 2 folds", "TrueGraph", "nodewise, AND", "0.6", "looked at"):
        assert words in printed
    assert "nan" not in printed
    # 1 + 2 of figure 2; 2 x 5 of figure 3, Grafting at 7 nodes once more; 2 x 7 complete tables.
    assert len(os.listdir(out / "runs")) == 3 + 10 - 1 + 14
    again = run(*FIGURES, "-o", out)
    assert again.code == 0
    assert "26 of 26 runs were done before" in again.err
    assert again.out == printed


def test_claims_are_printed_and_written(run, tmp_path: Path) -> None:
    asked = (*CLAIMS_OF, "--threshold", 0, "--threshold", 0.2, "--threshold", 0.6, "--seeds", 1, "-o", tmp_path)
    code, printed, said = run(*asked)
    assert code == 0
    rows = rows_of(tmp_path / "claims.csv")
    claims = [claim.words for claim in CLAIMS if "Nation" not in claim.words]
    assert list(dict.fromkeys(row["claim"] for row in rows)) == claims
    for row in rows:
        assert row["verdict"] in printed
        assert f"{row['claim']} (" in printed
        assert f"pl {row['claim_verdict']}" in printed
    for words in (
        "Networks of 7 nodes, 40 rows, 1 seeds, 2 folds",
        "Nadeau and Bengio",
        "1.25 of time",
        "CFI / Full-L1",
    ):
        assert words in printed
    assert "nan" not in printed
    assert f"Wrote {tmp_path / 'claims.csv'}." in said
    code, printed, said = run(*asked, "--json")
    assert code == 0
    assert "15 of 15 runs were done before" in said
    records = json.loads(printed)
    assert [f"{record['difference']:.9g}" for record in records] == [f"{float(row['difference']):.9g}" for row in rows]
    # One network says nothing of the next; folds do.
    assert {record["low"] for record in records if "Animal" not in record["claim"]} == {None}
    assert all(record["low"] is not None for record in records if "Animal" in record["claim"])


@pytest.mark.usefixtures("matplotlib")
def test_figures_and_claims_share_their_runs(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = []
    monkeypatch.setattr(store, "perform", lambda *asked: done.append(asked) or [FAKE])
    thresholds = ("--threshold", 0, "--threshold", 0.2, "--seeds", 1, "-o", tmp_path)
    assert run(*CLAIMS_OF, *thresholds).code == 0
    before = len(done)
    assert run("figures", *SMALL, "--nodes", 7, *thresholds).code == 0
    new = [asked[0] for asked in done[before:]]
    assert {run.nodes for run in new} == {7}
    assert {run.method for run in new if not run.complete} == {"cfi"}


def test_claims_as_printed_have_a_verdict_for_each_tolerance(run, tmp_path: Path) -> None:
    asked = (*CLAIMS_OF, "--as-printed", "--tolerance", 0.1, "--tolerance", 0.01, "--folds-run", 1, "--seeds", 2)
    asked = (*asked, "--claim", 6, "--claim", 10, "--claim", 13, "-o", tmp_path)
    code, printed, said = run(*asked)
    assert code == 0
    assert re.search(r"claim +obj. +0.1 +0.01", printed)
    file = tmp_path / "claims-as-printed-7.csv"
    assert f"Wrote {file}." in said
    rows = rows_of(file)
    assert {row["tolerance"] for row in rows} == {"0.1", "0.01"}
    assert {row["claim"] for row in rows} == {CLAIMS[k].words for k in (5, 9, 12)}
    for number in (6, 10, 13):
        own = [row["claim_verdict"] for row in rows if row["claim"] == CLAIMS[number - 1].words]
        assert re.search(rf"{number}\. .* pl +{own[0]} +{own[-1]}", printed)
    # CFI, Grafting and Full-L1, two stages, and convergence after each batch, for two networks
    assert len(os.listdir(tmp_path / "runs")) == 5 * 2
    code, printed, said = run(*asked, "--at", 0.01)
    assert code == 0
    assert "As printed, tolerance 0.01" in printed
    assert "1 of 2 folds" in printed
    assert "Grafting, convergence / one step" in printed
    assert "10 of 10 runs were done before" in said


def test_claims_that_do_not_exist_are_refused(run, tmp_path: Path) -> None:
    assert_one_error(run(*CLAIMS_OF, "--claim", len(CLAIMS) + 1, "-o", tmp_path / "t"), "--claim", "from 1 to 13")
    assert_one_error(run(*CLAIMS_OF, "--least", "400", "-o", tmp_path / "t"), "--least must be like 400:0.001")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("thresholds", [(0.2,), (0.6, 0.7), (0.1, 0.5), (0.0,)])
def test_claims_that_need_other_thresholds_are_left_out(run, tmp_path: Path, monkeypatch, thresholds) -> None:
    monkeypatch.setattr(store, "perform", lambda *_: [FAKE] * 2)
    asked = [word for threshold in thresholds for word in ("--threshold", threshold)]
    code, printed, _ = run(*CLAIMS_OF, *asked, "--seeds", 2, "-o", tmp_path)
    assert code == 0
    assert "drops sharply" not in printed
    assert ("increasingly faster" in printed) == (len(thresholds) > 1)
    assert ("about as long as Grafting" in printed) == (0.0 in thresholds)
    assert "Batches from 30 to 100" in printed


def test_an_interrupted_study_says_what_is_kept_and_goes_on(run, tmp_path: Path, monkeypatch) -> None:
    done = []

    def perform(one, settings):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(one)
        return [FAKE]

    monkeypatch.setattr(store, "perform", perform)
    code, printed, said = run(*CLAIMS_OF, "--seeds", 1, "-o", tmp_path)
    assert (code, printed) == (130, "")
    assert f"Finished runs are kept in {tmp_path / 'runs'}: the same command goes on from there." in said
    monkeypatch.setattr(store, "perform", lambda *_: [FAKE])
    code, _, said = run(*CLAIMS_OF, "--seeds", 1, "-o", tmp_path)
    assert code == 0
    assert "3 of 17 runs were done before" in said


@pytest.mark.usefixtures("matplotlib")
@pytest.mark.parametrize("command", ["figures", "claims"])
def test_bad_options_are_refused_before_any_work(run, tmp_path: Path, command) -> None:
    (tmp_path / "file").write_text("old")
    asked = (command, *SMALL[:-2], "--seeds", 1)
    assert_one_error(run(*asked, "--objective", "ml", "-o", tmp_path / "t"), "pl, cd", "'ml'")
    assert_one_error(run(*asked, "--folds", 1, "-o", tmp_path / "t"), "folds")
    assert_one_error(run(*asked, "--threshold", -1, "-o", tmp_path / "t"), "threshold")
    assert_one_error(run(*asked, "--size", 1, "-o", tmp_path / "t"), "size")
    assert_one_error(run(*asked, "-o", tmp_path / "file"), "is a file")
    assert_one_error(run(*asked, "-o", tmp_path / "file" / "t"), "cannot be written to")
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.usefixtures("matplotlib")
@pytest.mark.parametrize("command", ["figures", "claims"])
def test_missing_data_are_missed_before_any_work(run, tmp_path: Path, monkeypatch, command) -> None:
    def unreachable(*_: object, **__: object) -> str:
        raise OSError("no network")

    monkeypatch.delenv("SPARSEFIELD_DATA")
    monkeypatch.setattr(pooch, "retrieve", unreachable)
    assert_one_error(run(command, "-o", tmp_path / "t"), "cannot be reached", "SPARSEFIELD_DATA")
    assert os.listdir(tmp_path) == []


def test_missing_matplotlib_is_reported_before_any_work(run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert_one_error(run(*FIGURES, "-o", tmp_path / "t"), "sparsefield[bench]")
    assert os.listdir(tmp_path) == []
