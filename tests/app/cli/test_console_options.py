"""Options that all commands share: --quiet, and completion in shells."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from sparsefield.app.cli.console import StatusLine


@pytest.fixture
def table(tmp_path: Path) -> Path:
    pl.DataFrame({"a": [0, 1] * 30, "b": [0, 1] * 29 + [1, None]}).write_csv(tmp_path / "t.csv")
    return tmp_path / "t.csv"


def test_a_quiet_command_that_writes_a_file_prints_nothing(run, table: Path, tmp_path: Path) -> None:
    done = run("fit", table, "-o", tmp_path / "m.safetensors", "--l1", 1, "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")
    done = run("-q", "predict", tmp_path / "m.safetensors", table, "-o", tmp_path / "filled.csv")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert pl.read_csv(tmp_path / "filled.csv")["b"].null_count() == 0


def test_a_quiet_command_whose_result_is_text_prints_it(run, table: Path, tmp_path: Path) -> None:
    assert run("fit", table, "-o", tmp_path / "m.safetensors", "--l1", 1, "-q").code == 0
    done = run("info", tmp_path / "m.safetensors", "-q")
    assert done.out == run("info", tmp_path / "m.safetensors").out
    assert "b" in done.out


def test_a_quiet_command_prints_its_error(run, tmp_path: Path) -> None:
    done = run("fit", tmp_path / "none.csv", "-o", tmp_path / "m.safetensors", "-q")
    assert done.code == 2
    assert done.err == f"Error: {tmp_path / 'none.csv'}: there is no such file.\n"


def test_shells_complete_commands() -> None:
    asked = {"_SPARSEFIELD_COMPLETE": "complete_bash", "COMP_WORDS": "sparsefield sa", "COMP_CWORD": "1"}
    code = "from sparsefield.app.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True, check=False
    )
    assert set(done.stdout.split()) == {"sample"}, done.stderr


def test_the_time_left_is_that_of_the_count_that_runs(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    clock = iter([0.0, 0.0, 10.0, 10.0, 12.0, 12.0, 40.0, 40.0])
    monkeypatch.setattr("sparsefield.app.cli.console.time.perf_counter", lambda: next(clock))
    watch = StatusLine("Drawing")
    watch._next = 0.0
    watch.show_progress(0, 4)  # the work begins at 0 s, after the line was made
    for done in (1, 2):
        watch.show_progress(done, 4)
    watch._next = 0.0
    watch.show_progress(1, 2)  # another count: its first unit took 28 s
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Drawing: 25% done, about 30 s left, 10.0 s"
    assert lines[-1] == "Drawing: 50% done, about 28 s left, 40.0 s"
