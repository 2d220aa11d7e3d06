"""Options say how a table is read."""

from __future__ import annotations

from pathlib import Path

import pytest

GERMAN = "Größe;Antwort;Zeit\r\n" + "1,50;ja;2\r\n0,25;nein;3\r\n" * 20


@pytest.fixture
def german(tmp_path: Path) -> Path:
    path = tmp_path / "umfrage.csv"
    path.write_bytes((GERMAN + ";ja;2\r\n0,25;NA;3\r\n").encode("cp1252"))
    return path


def test_options_say_how_a_table_is_read(run, german: Path, tmp_path: Path) -> None:
    words = (
        "--set",
        "read.encoding=cp1250",
        "--set",
        "read.separator=semicolon",
        "--set",
        "read.decimal=,",
        "--missing",
        "-99,-98",
    )
    done = run("fit", german, "-o", tmp_path / "m", "--l1", "1", "--no-check", *words)
    assert "read as CSV in cp1250" in done.err
    run("fit", german, "-o", tmp_path / "m", "--set", "read.decimal=;").one_error("The decimal mark must be '.' or ','")
    run("fit", german, "-o", tmp_path / "m", "--set", "read.encoding=x").one_error("The encoding 'x' is unknown")
