"""Tables that commands write look as those that they read, in every format, and never replace what is read."""

from __future__ import annotations

import datetime as dt
import importlib.util
import io
import os
import re
import sys
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sparsefield import load
from sparsefield.app.cli import app as command_line
from sparsefield.app.cli import run_app
from sparsefield.app.cli.console import check_table_output
from sparsefield.app.tables import write
from sparsefield.app.tables.read import read_source, read_table
from sparsefield.app.tables.write import write_table
from sparsefield.errors import DataError

ROWS = 80


def missing_every_tenth(cells: list, first: int) -> list:
    return [None if k % 10 == first else cell for k, cell in enumerate(cells)]


@pytest.fixture(scope="module")
def people() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    height = np.round(rng.normal(170, 9, ROWS), 1)
    days = rng.integers(0, 300, ROWS)
    columns = {
        "height": height.tolist(),
        "weight": np.round(height - 100 + rng.normal(0, 5, ROWS), 1).tolist(),
        "income": np.round(np.exp(rng.normal(10, 0.6, ROWS))).astype(int).tolist(),
        "member": (height > 170).tolist(),
        "day": [dt.date(2024, 1, 1) + dt.timedelta(days=int(k)) for k in days],
    }
    return pl.DataFrame({name: missing_every_tenth(cells, k) for k, (name, cells) in enumerate(columns.items())})


def as_german_text(people: pl.DataFrame) -> bytes:
    def cells(row: dict) -> list[str]:
        height, weight = ("" if row[k] is None else f"{row[k]:.1f}".replace(".", ",") for k in ("height", "weight"))
        income = "" if row["income"] is None else f"{row['income']:,}".replace(",", ".") + ",00"
        return [height, weight, income, "" if row["member"] is None else str(row["member"]).upper()]

    lines = ["Größe;Gewicht;Einkommen;Mitglied", *(";".join(cells(row)) for row in people.iter_rows(named=True))]
    return "\r\n".join([*lines, ""]).encode("cp1252")


@pytest.fixture(scope="module")
def german(people: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("german") / "leute.csv"
    path.write_bytes(as_german_text(people))
    return path


@pytest.fixture
def german_model(run, german: Path) -> Path:
    model = german.parent / "m.safetensors"
    if not model.exists():
        run("fit", german, "-o", model, "--l1", 5, "--no-check").ok()
    return model


GERMAN_CELLS = {
    "Größe": r"^\d+,\d$",
    "Gewicht": r"^\d+,\d$",
    "Einkommen": r"^((\d{1,3}\.)?\d{1,3}|\d+)(,00)?$",
    "Mitglied": "^(?i:TRUE|FALSE)$",
}


def german_cells(content: bytes) -> pl.DataFrame:
    text = content.decode("cp1252")
    assert text.count("\r\n") == text.count("\n")
    return pl.read_csv(io.StringIO(text), separator=";", infer_schema=False)


def test_filled_and_drawn_values_are_written_as_in_the_file_of_the_fit(
    run, german: Path, german_model: Path, tmp_path: Path
) -> None:
    out, without = tmp_path / "o.csv", tmp_path / "without.csv"
    run("predict", german_model, german, "-o", out).ok()
    filled = german_cells(out.read_bytes())
    run("sample", german_model, "-o", out, "-n", 20, "--burn-in", 5).ok()
    without.write_bytes(b"Gr\xf6\xdfe;Gewicht;Mitglied\r\n171,5;;\r\n160,1;;\r\n")
    run("predict", german_model, without, "-o", tmp_path / "added.csv").ok()
    for table in (filled, german_cells(out.read_bytes()), german_cells((tmp_path / "added.csv").read_bytes())):
        for name, cells in GERMAN_CELLS.items():
            assert table[name].str.contains(cells).all(), name


def test_drawn_dates_are_written_as_in_the_file_of_the_fit(run, tmp_path: Path) -> None:
    days = [f"{1 + k % 28:02d}.{1 + k % 12:02d}.2024;{k % 2}" for k in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["day;b", *days]))
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--l1", 5, "--no-check").ok()
    run("sample", tmp_path / "m", "-o", tmp_path / "o.csv", "-n", 5, "--burn-in", 5).ok()
    (tmp_path / "empty.csv").write_text("day;b\n;1\n;0\n")
    run("predict", tmp_path / "m", tmp_path / "empty.csv", "-o", tmp_path / "filled.csv").ok()
    for name in ("o.csv", "filled.csv"):
        written = pl.read_csv(tmp_path / name, separator=";", infer_schema=False)
        assert written["day"].str.contains(r"^\d\d\.\d\d\.2024$").all(), name


def test_options_replace_the_remembered_style(run, german_model: Path, tmp_path: Path) -> None:
    options = ("--set", "read.separator=,", "--set", "read.encoding=utf-8", "-n", 5, "--burn-in", 5)
    run("sample", german_model, "-o", tmp_path / "o.csv", *options).ok()
    found = read_source(tmp_path / "o.csv").format
    assert (found.encoding, found.separator, found.decimal) == ("utf-8", ",", ".")


def test_drawn_rows_have_types_where_the_format_has(run, german_model: Path, tmp_path: Path) -> None:
    run("sample", german_model, "-o", tmp_path / "o.parquet", "-n", 5, "--burn-in", 5).ok()
    types = pl.read_parquet(tmp_path / "o.parquet").dtypes
    assert types == [pl.Float64, pl.Float64, pl.Int64, pl.Boolean]


@pytest.mark.parametrize("suffix", [".parquet", ".xlsx"])
def test_numbers_and_dates_of_typed_files_stay_short(run, people: pl.DataFrame, tmp_path: Path, suffix: str) -> None:
    data, model, out = tmp_path / f"t{suffix}", tmp_path / "m", tmp_path / "o.csv"
    {".parquet": people.write_parquet, ".xlsx": people.write_excel}[suffix](data)
    run("fit", data, "-o", model, "--l1", 5, "--no-check").ok()
    assert {v.name: v.dtype for v in load(model).field_.schema.variables}["day"] == "date"
    for command in (("predict", model, data), ("sample", model, "-n", 10, "--burn-in", 5)):
        run(*command, "-o", out).ok()
        table = pl.read_csv(out, infer_schema=False)
        forms = {"height": r"^\d+\.\d$", "income": r"^\d+$", "member": "^(true|false)$", "day": r"^2024-\d\d-\d\d$"}
        for name, cells in forms.items():
            assert table[name].str.contains(cells).all(), name


def test_times_are_dates_only_at_midnight(tmp_path: Path) -> None:
    days = [dt.datetime(2024, 1, 29), None]
    table = pl.DataFrame({"day": days, "time": [dt.datetime(2024, 1, 29, 7, 30), None]})
    write_table(table, tmp_path / "o.csv")
    assert (tmp_path / "o.csv").read_text() == "day,time\n2024-01-29,2024-01-29 07:30:00\n,\n"


SUFFIXES = (".txt", ".csv.gz", ".tsv.gz", ".jsonl", ".pq", ".feather", ".xlsx")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_name_of_the_output_decides_its_format(german: Path, tmp_path: Path, suffix: str) -> None:
    source, out = read_source(german), tmp_path / f"o{suffix}"
    check_table_output(out)
    write_table(source.cells, out, source.format)
    written = read_table(out)
    assert written.columns == source.table.columns
    expected = read_table(german)
    for name in expected.columns:
        kept = expected[name].is_not_null()
        assert written[name].null_count() == expected[name].null_count()
        assert (written[name] == expected[name]).filter(kept).all()


def test_formats_that_cannot_be_written_are_refused_before_work(
    run, german_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("o.pdf", "o.parquet.gz", "o.gz", "o"):
        run("sample", german_model, "-o", tmp_path / name).one_error(name, "should end in .csv")
    monkeypatch.setattr(write, "find_spec", lambda name: None)
    run("sample", german_model, "-o", tmp_path / "o.xlsx").one_error("xlsxwriter", "sparsefield[files]")
    assert importlib.util.find_spec("xlsxwriter") is not None
    monkeypatch.setattr(write, "MOST_ROWS", 1)
    with pytest.raises(DataError, match="at most 1 rows"):
        write_table(pl.DataFrame({"a": [1, 2]}), tmp_path / "o.xlsx")


def test_a_table_without_a_header_is_written_without_one(run, people: pl.DataFrame, tmp_path: Path) -> None:
    data, model = tmp_path / "t.csv", tmp_path / "m"
    people.drop("day").write_csv(data, include_header=False)
    run("fit", data, "--set", "read.header=no", "-o", model, "--l1", 5, "--no-check").ok()
    run("predict", model, data, "--set", "read.header=no", "-o", tmp_path / "o.csv").ok()
    assert len((tmp_path / "o.csv").read_text().splitlines()) == ROWS
    run("sample", model, "-n", 3, "--burn-in", 5, "-o", tmp_path / "s.csv").ok()
    assert len((tmp_path / "s.csv").read_text().splitlines()) == 3


def test_inputs_are_never_overwritten(run, german: Path, german_model: Path, tmp_path: Path, monkeypatch) -> None:
    data, model = tmp_path / "d.csv", tmp_path / "m.csv"
    data.write_bytes(german.read_bytes())
    model.write_bytes(german_model.read_bytes())
    link, twin = tmp_path / "link.csv", tmp_path / "twin.csv"
    link.symlink_to(data)
    os.link(data, twin)
    before = data.read_bytes(), model.read_bytes()
    for output in (data, link, twin, model, tmp_path / "." / "d.csv"):
        run("predict", model, data, "-o", output).one_error(output.name, "write to another file")
        run("sample", model, "--given", data, "-o", output).one_error("write to another file")
    run("sample", model, "-o", model).one_error("write to another file")
    run("fit", data, "-o", twin).one_error("write to another file")
    with data.open() as opened:
        monkeypatch.setattr(sys, "stdin", opened)
        run("predict", model, "-", "-o", data).one_error("standard input")
    assert (data.read_bytes(), model.read_bytes()) == before


def test_files_of_linked_tables_are_never_overwritten(run, model: Path, school: Path) -> None:
    run("fit", school, "-o", school / "pupils.csv").one_error("pupils.csv", "write to another file")
    run("analyze", "stability", model, school, "-o", school / "schema.toml").one_error("write to another file")


def test_standard_output_is_named_in_words(run, german_model: Path) -> None:
    draw = ("sample", german_model, "-n", 2, "--burn-in", 5, "--set", "read.encoding=utf-8", "-o", "-")
    done = run(*draw)
    assert "Wrote to standard output." in done.err
    assert "Wrote" not in done.out
    quiet = run(*draw, "-q")
    assert (quiet.out, quiet.err) == (done.out, "")


def test_terminals_and_pictures_get_no_control_characters(run, tmp_path: Path) -> None:
    from xml.etree import ElementTree

    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 100)
    table = pl.DataFrame({"a\x1b[31m": a, "b\x07\x01": np.where(rng.random(100) < 0.9, a, 1 - a)})
    table.write_parquet(tmp_path / "t.parquet")
    done = run("fit", tmp_path / "t.parquet", "-o", tmp_path / "m", "--l1", 2, "--no-check").ok()
    shown = run("info", tmp_path / "m")
    assert "�[31m" in shown.out
    assert not set("\x1b\x07\x01") & set(done.out + done.err + shown.out)
    run("plot", tmp_path / "m", "-o", tmp_path / "net.svg").ok()
    assert ElementTree.parse(tmp_path / "net.svg").getroot().tag.endswith("svg")


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
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
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
