"""Dates of a text file are learned as numbers of days, and missing ones are filled in the spelling of the column."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import polars as pl

from sparsefield.app.cli import app as command_line
from sparsefield.app.cli import run_app


def test_missing_dates_are_filled_in_the_spelling_of_the_column(tmp_path: Path, capsys) -> None:
    data, model, out = tmp_path / "t.csv", tmp_path / "m.safetensors", tmp_path / "out.csv"
    days = [f"{1 + k % 28:02}.{1 + k % 12:02}.2024" for k in range(40)]
    cells = ["" if k % 9 == 4 else day for k, day in enumerate(days)]
    data.write_text("day;heat\n" + "".join(f"{cell};{k % 7},5\n" for k, cell in enumerate(cells)))
    assert run_app(command_line, "sparsefield", ["fit", str(data), "-o", str(model), "--l1=3", "--no-check"]) == 0
    assert "dates in 'day' (day.month.year)" in re.sub(r"\s+", " ", capsys.readouterr().err)
    assert run_app(command_line, "sparsefield", ["predict", str(model), str(data), "-o", str(out), "-q"]) == 0
    after = [line.split(";")[0] for line in out.read_text().splitlines()[1:]]
    assert [new for new, old in zip(after, cells, strict=True) if old] == [old for old in cells if old]
    assert all(re.fullmatch(r"\d\d\.\d\d\.20\d\d", cell) for cell in after)


def test_the_order_of_dates_of_the_fit_is_no_obstacle_to_files_whose_columns_have_types(tmp_path: Path, capsys) -> None:
    data, other, model, out = (tmp_path / name for name in ("t.csv", "o.parquet", "m.safetensors", "out.csv"))
    data.write_text("day,heat\n" + "".join(f"{1 + k % 12:02}/{1 + k % 28:02}/2024,{k % 7}.5\n" for k in range(40)))
    pl.DataFrame({"day": [date(2024, 1, 2), date(2024, 3, 4)], "heat": [1.5, None]}).write_parquet(other)
    fit = ["fit", str(data), "-o", str(model), "--l1=3", "--no-check", "-q", "--set", "read.dates=month-first"]
    assert run_app(command_line, "sparsefield", fit) == 0
    predict = ["predict", str(model), str(other), "-o", str(out), "-q"]
    assert run_app(command_line, "sparsefield", predict) == 0
    capsys.readouterr()
    assert run_app(command_line, "sparsefield", [*predict, "--set", "read.dates=month-first"]) == 2
    assert "remove --set read.dates: a file of the kind Parquet" in re.sub(r"\s+", " ", capsys.readouterr().err)


def test_a_column_of_dates_that_is_not_there_is_added_as_dates(run, tmp_path: Path) -> None:
    rows = [(k % 2, f"{1 + k % 28:02d}.{1 + k % 12:02d}.2024") for k in range(60)]
    (tmp_path / "t.csv").write_text("a;day\n" + "".join(f"{a};{day}\n" for a, day in rows))
    assert run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--no-check", "--l1", 2).code == 0
    (tmp_path / "u.csv").write_text("a\n0\n1\n")
    assert run("predict", tmp_path / "m", tmp_path / "u.csv", "-o", tmp_path / "f.csv").code == 0
    filled = (tmp_path / "f.csv").read_text().split()[1:]
    assert all(re.fullmatch(r"[01][,;][0-3][0-9]\.[01][0-9]\.2024", line) for line in filled)
