"""``sparsefield inspect``, called as a person would call it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest


@pytest.fixture
def table(tmp_path: Path) -> Path:
    lines = [f"p{k},{'NA' if k % 5 == 0 else 20 + k % 17},{-99 if k % 8 == 0 else k % 4}\n" for k in range(40)]
    (tmp_path / "t.csv").write_text("who,age,grade\n" + "".join(lines))
    return tmp_path / "t.csv"


def test_it_prints_columns_and_advice(run, table: Path) -> None:
    done = run("inspect", table)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "t.csv is read as CSV in UTF-8, separated by commas."
    assert lines[1] == "40 rows, 3 columns (1 ordinal, 1 numeric, 1 left out), 6.7% of the cells missing."
    assert lines[2] == "2 columns have findings."
    assert "who      (nominal)" in done.out
    assert "- 'who' is an identifier, which cannot be learned: --id who" in lines
    assert lines[-1].endswith(": --missing -99")


def test_its_advice_can_be_followed(run, table: Path, tmp_path: Path) -> None:
    words = ("--id", "who", "--missing", "-99")
    done = run("fit", table, "-o", tmp_path / "m", *words, "--l1", 5, "--no-check")
    assert done.code == 0, done.err
    assert "Note" not in done.err


def test_json_has_all_columns(run, table: Path) -> None:
    found = json.loads(run("inspect", table, "--json").out)
    assert [column["name"] for column in found["columns"]] == ["who", "age", "grade"]
    assert found["columns"][0]["left_out"] == "an identifier"
    assert found["advice"][0]["option"] == "--id who"


def test_it_writes_a_page(run, table: Path, tmp_path: Path) -> None:
    done = run("inspect", table, "-o", tmp_path / "book.html")
    assert done.out.endswith(f"Wrote {tmp_path / 'book.html'}.\n")
    assert "Codebook of t.csv" in (tmp_path / "book.html").read_text()
    run("inspect", table, "-o", tmp_path / "book.pdf").one_error(".html")


def test_reading_options_are_used(run, table: Path) -> None:
    done = run("inspect", table, "--missing", "-99")
    assert "10.8% of the cells missing" in done.out
    assert "--missing -99" not in done.out


def test_a_wide_table_is_cut_unless_all_is_given(run, tmp_path: Path) -> None:
    pl.DataFrame({f"c{k}": [0, 1, 1] for k in range(50)}).write_parquet(tmp_path / "w.parquet")
    assert "20 columns not shown" in run("inspect", tmp_path / "w.parquet").out
    shown = run("inspect", tmp_path / "w.parquet", "--all").out
    assert "not shown" not in shown
    assert "c49" in shown


def test_linked_tables_and_matrices_are_refused(run, school: Path, tmp_path: Path) -> None:
    run("inspect", school).one_error("one at a time")
    run("inspect", tmp_path / "m.npz").one_error("sparse 0/1 matrix")
