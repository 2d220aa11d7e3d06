"""A model remembers how its table was read, so that other commands read alike and the fit can be repeated."""

from __future__ import annotations

import re
import shlex
from html import unescape
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sparsefield import load
from sparsefield.app.tables.file_format import source_of


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A survey in Windows-1252 with semicolons, decimal commas, a code for missing values, weights and comments."""
    rng = np.random.default_rng(0)
    lines = ["Nummer;größe;Antwort;Ort;Gewicht;Kommentar"]
    for k in range(120):
        tall = rng.random() < 0.5
        size = "-99" if k % 11 == 0 else f"{(1.8 if tall else 1.6) + 0.1 * rng.random():.2f}".replace(".", ",")
        answer = "k.A." if k % 13 == 0 else "ja" if tall == (rng.random() < 0.9) else "nein"
        town = ["Köln", "Bonn", "Ulm", "Jena"][int(rng.integers(4))]
        comment = f"Bemerkung Nummer {k}, ausführlich und für jede Person anders geschrieben"
        lines.append(f"P{k:04d};{size};{answer};{town};{1 + k % 3},5;{comment}")
    path = tmp_path_factory.mktemp("survey") / "umfrage.csv"
    path.write_bytes("\r\n".join([*lines, ""]).encode("cp1252"))
    return path


OPTIONS = ("--missing", "-99,k.A.", "--id", "Nummer", "--weight", "Gewicht", "--top-levels", "2", "--l1", "2")


@pytest.fixture(scope="module")
def model(fit, survey: Path) -> Path:
    fit(survey, survey.with_name("m.safetensors"), *OPTIONS)
    return survey.with_name("m.safetensors")


def test_the_record_has_what_was_given_and_what_was_left_out(run, model: Path, survey: Path) -> None:
    source = source_of(load(model).field_.record.source)
    assert source is not None
    assert source.file == str(survey)
    assert source.format.missing == ("-99", "k.A.")
    assert (source.format.encoding, source.format.separator, source.format.decimal) == ("cp1252", ";", ",")
    assert (source.identifiers, source.left_out) == (("Nummer",), ("Kommentar",))
    assert (source.weight, source.top_levels) == ("Gewicht", 2)
    assert source.command in run("info", model).out


def test_missing_values_are_known_to_other_commands(run, model: Path, survey: Path, tmp_path: Path) -> None:
    run("predict", model, survey, "-o", tmp_path / "filled.csv").ok()
    filled, before = (path.read_bytes().decode("cp1252") for path in (tmp_path / "filled.csv", survey))
    assert "k.A." in before
    assert not re.search(r";-99;|;k\.A\.;", filled)
    kept = [row for row in before.split("\r\n") if ";-99;" not in row and ";k.A.;" not in row]
    assert set(kept) <= set(filled.split("\r\n"))
    run("report", model, "-o", tmp_path / "r.html", "--data", survey).ok()
    run("sample", model, "--given", survey, "-o", tmp_path / "drawn.csv", "--burn-in", 5).ok()
    assert not re.search(r";-99;|;k\.A\.;", (tmp_path / "drawn.csv").read_bytes().decode("cp1252"))


def test_the_command_of_the_report_repeats_the_fit(run, model: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    run("report", model, "-o", "r.html")
    before, source = model.read_bytes(), source_of(load(model).field_.record.source)
    assert source is not None
    assert source.command in unescape((tmp_path / "r.html").read_text())
    words = shlex.split(source.command)
    assert words[0] == "sparsefield"
    run(*words[1:]).ok()
    assert model.read_bytes() == before


def test_a_file_in_another_format_is_read_by_its_own(run, survey: Path, tmp_path: Path) -> None:
    words = ("--set", "read.separator=;", "--set", "read.decimal=,", "--missing", "-99,k.A.", "--l1", "5", "--no-check")
    run("fit", survey, "-o", tmp_path / "m", *words).ok()
    pl.DataFrame({"größe": ["1.75", "-99"], "Antwort": ["ja", "k.A."], "Ort": ["Ulm", "Bonn"]}).write_csv(
        tmp_path / "new.csv"
    )
    run("predict", tmp_path / "m", tmp_path / "new.csv", "-o", tmp_path / "out.csv").ok()
    out = pl.read_csv(tmp_path / "out.csv", infer_schema=False)
    assert out.row(0)[:3] == ("1.75", "ja", "Ulm")
    assert out.row(1)[0] != "-99"
    assert out.row(1)[1] in ("ja", "nein")


def test_numbers_with_marks_between_thousands_are_those_of_the_file(run, tmp_path: Path) -> None:
    numbers = [200 + 37 * k for k in range(60)]
    lines = [f"{k % 2};{number:,}".replace(",", ".") + f";{k},5" for k, number in enumerate(numbers)]
    (tmp_path / "t.csv").write_text("\n".join(["a;sales;w", *lines, ";;1,5", ""]))
    words = ("--numeric", "sales", "--weight", "w", "--l1", 1)
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", *words).ok()
    sales = next(v for v in load(tmp_path / "m").field_.schema.variables if v.name == "sales")
    assert (min(sales.states), max(sales.states)) == (200, 2383)
    run("predict", tmp_path / "m", tmp_path / "t.csv", "-o", tmp_path / "out.csv").ok()
    run("analyze", "stability", tmp_path / "m", tmp_path / "t.csv", "--resamples", 2).ok()
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--numeric", "a,w", "--missing", "0,5", "--l1", 1).ok()
