"""Dates and odd spellings of cells come back as they were."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest

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
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--no-check", "--l1", 2).ok()
    (tmp_path / "u.csv").write_text("a\n0\n1\n")
    run("predict", tmp_path / "m", tmp_path / "u.csv", "-o", tmp_path / "f.csv").ok()
    filled = (tmp_path / "f.csv").read_text().split()[1:]
    assert all(re.fullmatch(r"[01][,;][0-3][0-9]\.[01][0-9]\.2024", line) for line in filled)


N_ROWS = 200


def written(path: Path, columns: dict[str, list[str]]) -> Path:
    lines = [",".join(columns), *(",".join(cells) for cells in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """Columns of which every tenth cell is missing."""
    rng = np.random.default_rng(0)
    place = rng.integers(0, 4, N_ROWS)
    columns = {
        "member": np.where(place > 1, "TRUE", "FALSE").tolist(),
        "zip": [f"0{k + 1}0" for k in place],
        "rooms": [f"{k + 1}.0" for k in place],
        "rent": [f"{k + e:.2f}" for k, e in zip(place, rng.normal(size=N_ROWS), strict=True)],
        "weight": [f"{k * 10 + e}.0" for k, e in zip(place, rng.integers(0, 9, N_ROWS), strict=True)],
        "score": [f"{k * 10 + e}" for k, e in zip(place, rng.integers(0, 9, N_ROWS), strict=True)],
    }
    for offset, cells in enumerate(columns.values()):
        cells[offset::10] = [""] * len(cells[offset::10])
    return written(tmp_path / "visits.csv", columns)


def test_decimals_that_the_table_lacks_are_those_of_its_others(run, visits: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "m.sparsefield", tmp_path / "out.csv"
    run("fit", visits, "-o", model, "--l1", 1, "--no-check").ok()
    table = pl.read_csv(visits, infer_schema=False)
    some = {"member": ["True", ""], "zip": ["040", "010"], "rooms": ["4.00", ""], "rent": ["3.5", ""]}
    asked = written(tmp_path / "asked.csv", some | {"weight": ["36.0", "1.0"], "score": ["36", "1"]})
    run("predict", model, asked, "-o", out).ok()
    found = pl.read_csv(out, infer_schema=False)
    assert found["member"].to_list() == ["True", "false"]
    assert found["rooms"].to_list() == ["4.00", "1.00"]
    assert len(found["rent"][1].partition(".")[2]) == 2
    assert found.columns == table.columns
