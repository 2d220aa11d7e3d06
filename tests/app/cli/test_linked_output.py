"""``predict`` on linked tables imputes missing values, keeps all other cells, and never overwrites inputs."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

from sparsefield import load
from sparsefield.app.tables.schema_file import read_schema


def text(path: Path, separator: str = ",") -> pl.DataFrame:
    return pl.read_csv(path, infer_schema=False, separator=separator)


def ask(school: Path, pupils: str, visits: str = "who,fun\n000,1\n001,0\n") -> Path:
    """A second folder with other tables."""
    folder = school.parent / "new"
    folder.mkdir()
    (folder / "pupils.csv").write_text(pupils)
    (folder / "visits.csv").write_text(visits)
    (folder / "schema.toml").write_text((school / "schema.toml").read_text())
    return folder


def test_only_missing_values_change(run, school: Path, model: Path, tmp_path: Path) -> None:
    run("predict", model, school, "-o", tmp_path / "out").ok()
    assert sorted(os.listdir(tmp_path / "out")) == ["pupil.csv", "visit.csv"]
    before, after = text(school / "pupils.csv"), text(tmp_path / "out" / "pupil.csv")
    assert after.columns == before.columns
    assert after["id"].to_list()[:2] == ["000", "001"]
    assert after["name"].to_list()[:2] == ["007", "NA"]
    missing = before["mood"] == "?"
    assert missing.sum() == 7
    assert after.filter(~missing).equals(before.filter(~missing))
    assert set(after["mood"].filter(missing)) <= {"glad", "sad", "odd"}
    assert after.drop("mood").equals(before.drop("mood"))
    expected = load(model).transform(read_schema(school)).tables["pupil"]["mood"]
    assert after["mood"].to_list() == expected.to_list()
    assert (tmp_path / "out" / "visit.csv").read_bytes() == (school / "visits.csv").read_bytes()


def test_an_unknown_value_stays_and_the_note_names_its_table(run, school: Path, model: Path, tmp_path: Path) -> None:
    folder = ask(school, "id,grade,mood,name\n000,1,,x\n001,2,,y\n", "who,fun\n000,much\n001,\n")
    done = run("predict", model, folder, "-o", tmp_path / "out")
    assert text(tmp_path / "out" / "visit.csv")["fun"][0] == "much"
    assert text(tmp_path / "out" / "visit.csv")["fun"][1] in ("0", "1")
    assert "Note: Column 'fun' of table 'visit' has 1 cell with" in done.err


def test_parquet_and_separators_stay(run, school: Path, model: Path, tmp_path: Path) -> None:
    folder = ask(school, "id;name;grade;mood\n000;x;1;\n001;y;2;\n")
    visits = pl.DataFrame({"who": ["000", "001"], "fun": [1.0, None]}, schema_overrides={"fun": pl.Float32})
    visits.write_parquet(folder / "v.pq")
    schema = 'separator = ";"\n' + (folder / "schema.toml").read_text().replace("visits.csv", "v.pq")
    (folder / "schema.toml").write_text(schema)
    run("predict", model, folder, "-o", tmp_path / "out").ok()
    assert sorted(os.listdir(tmp_path / "out")) == ["pupil.csv", "visit.parquet"]
    assert text(tmp_path / "out" / "pupil.csv", ";")["mood"].to_list() == ["glad", "sad"]
    filled = pl.read_parquet(tmp_path / "out" / "visit.parquet")
    assert filled.schema == visits.schema
    assert filled["fun"].null_count() == 0


def test_a_missing_target_column_of_a_linked_table_is_added(run, school: Path, model: Path, tmp_path: Path) -> None:
    folder = ask(school, "id,name,grade\n000,x,1\n001,y,2\n")
    done = run("predict", model, folder, "-o", tmp_path / "out")
    assert "Note: Table 'pupil' has no column 'mood'; it is added and filled." in done.err
    assert (tmp_path / "out" / "pupil.csv").read_text() == "id,name,grade,mood\n000,x,1,glad\n001,y,2,sad\n"


def test_an_observed_column_is_required(run, school: Path, tmp_path: Path) -> None:
    schema = (school / "schema.toml").read_text()
    (school / "schema.toml").write_text(schema.replace('key = "id"', 'key = "id"\nobserved = ["grade"]'))
    run("fit", school, "-o", tmp_path / "m", "--no-check", "--l1", "0.5").ok()
    folder = ask(school, "id,name,mood\n000,x,\n001,y,\n")
    (folder / "schema.toml").write_text(schema)
    run("predict", tmp_path / "m", folder, "-o", tmp_path / "out").one_error("Table 'pupil' lacks", "'grade'")


def test_probabilities_name_the_table(run, school: Path, model: Path, tmp_path: Path) -> None:
    folder = ask(school, "id,name,grade,mood\n000,x,1,\n001,y,,sad\n", "who,fun\n000,NA\n")
    run("predict", model, folder, "-o", tmp_path / "p.csv", "--proba").ok()
    found = pl.read_csv(tmp_path / "p.csv")
    assert found.columns == ["table", "row", "column", "state", "probability"]
    sums = found.group_by("table", "row", "column", maintain_order=True).agg(pl.col("probability").sum())
    assert sums.select("table", "row", "column").rows() == [
        ("pupil", 1, "mood"),
        ("pupil", 2, "grade"),
        ("visit", 1, "fun"),
    ]
    assert sums["probability"].to_list() == pytest.approx([1.0] * 3)
    help_text = " ".join(run("predict", "--help").out.replace("│", " ").split())
    assert "for linked tables the first column is table" in help_text


def test_inputs_are_never_overwritten(run, school: Path, model: Path, monkeypatch) -> None:
    schema = (school / "schema.toml").read_text()
    (school / "visit.csv").write_bytes((school / "visits.csv").read_bytes())
    (school / "schema.toml").write_text(schema.replace("visits.csv", "visit.csv"))
    before = {path.name: path.read_bytes() for path in school.iterdir()}
    monkeypatch.chdir(school)
    done = run("predict", model, "schema.toml", "-o", ".")
    done.one_error("visit.csv: this is one of the files that are read")
    assert "Imputing" not in done.err
    run("predict", model, "schema.toml", "-o", "pupils.csv", "--proba").one_error("pupils.csv: this is one of")
    assert {path.name: path.read_bytes() for path in school.iterdir()} == before


def test_names_of_tables_cannot_leave_the_output_folder(run, school: Path, tmp_path: Path) -> None:
    name = "../pupil"
    schema = (school / "schema.toml").read_text().replace('to = "pupil"', f'to = "{name}"')
    (school / "schema.toml").write_text(schema.replace("[tables.pupil]", f'[tables."{name}"]'))
    run("fit", school, "-o", tmp_path / "m", "--no-check", "--l1", "0.5").ok()
    done = run("predict", tmp_path / "m", school, "-o", tmp_path / "out")
    done.one_error("has a name that cannot be a file name")
    assert "Imputing" not in done.err
    assert not (tmp_path / "out").exists()


def test_an_unwritable_folder_is_refused_before_inference(
    run, school: Path, model: Path, tmp_path: Path, monkeypatch
) -> None:
    run("predict", model, school, "-o", tmp_path / "no" / "out").one_error("does not exist; create it first")
    run("predict", model, school, "-o", tmp_path / "out.csv").one_error("give a folder")
    (tmp_path / "v1.2").mkdir()
    run("predict", model, school, "-o", tmp_path / "v1.2").ok()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    done = run("predict", model, school, "-o", tmp_path / "out")
    done.one_error("is not writable")
    assert "Imputing" not in done.err


def test_a_table_that_the_model_lacks_is_unchanged(run, school: Path, model: Path, tmp_path: Path) -> None:
    (school / "more.csv").write_text("a,b\n01,\n")
    (school / "schema.toml").write_text((school / "schema.toml").read_text() + '[tables.more]\nfile = "more.csv"\n')
    run("predict", model, school, "-o", tmp_path / "out").ok()
    assert (tmp_path / "out" / "more.csv").read_text() == "a,b\n01,\n"
