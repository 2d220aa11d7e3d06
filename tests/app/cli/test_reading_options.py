"""Commands read tables as people have them, and write them back in the same format."""

from __future__ import annotations

from pathlib import Path

import pytest

GERMAN = "Größe;Antwort;Zeit\r\n" + "1,50;ja;2\r\n0,25;nein;3\r\n" * 20


@pytest.fixture
def german(tmp_path: Path) -> Path:
    path = tmp_path / "umfrage.csv"
    path.write_bytes((GERMAN + ";ja;2\r\n0,25;NA;3\r\n").encode("cp1252"))
    return path


@pytest.fixture
def fitted(run, german: Path, tmp_path: Path) -> Path:
    done = run("fit", german, "-o", tmp_path / "m", "--l1", "1", "--no-check", "--nominal", "Antwort")
    assert done.code == 0
    assert "umfrage.csv is read as CSV in Windows-1252, separated by semicolons, decimal comma." in done.err
    return tmp_path / "m"


def test_predict_keeps_the_format_of_its_input(run, german: Path, fitted: Path, tmp_path: Path) -> None:
    assert run("predict", fitted, german, "-o", tmp_path / "filled.csv").code == 0
    text = (tmp_path / "filled.csv").read_bytes().decode("cp1252")
    assert text.startswith(GERMAN)
    filled, other = text.removeprefix(GERMAN).split("\r\n")[:2]
    number, answer, when = filled.split(";")
    assert (answer, when, other.split(";")[0]) == ("ja", "2", "0,25")
    assert len(number.split(",")[1]) == 2
    assert other.split(";")[1] in ("ja", "nein")


def test_options_say_how_a_table_is_read(run, german: Path, tmp_path: Path) -> None:
    words = ("--encoding", "cp1250", "--separator", "semicolon", "--decimal", ",", "--missing", "-99,-98")
    done = run("fit", german, "-o", tmp_path / "m", "--l1", "1", "--no-check", *words)
    assert "read as CSV in Windows-1250" in done.err
    run("fit", german, "-o", tmp_path / "m", "--decimal", ";").one_error("The decimal mark must be '.' or ','")
    run("fit", german, "-o", tmp_path / "m", "--encoding", "x").one_error("The encoding 'x' is unknown")
