"""Benchmarks, called from the command line: rows are printed, charts written."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from benchmarks import heldout, startup


def test_json_has_null_where_there_is_no_number(run, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"data": "d", "test_score": float("nan"), "l1": [1.0, float("inf")]}]
    monkeypatch.setattr(heldout, "run_heldout", lambda *_, **__: rows)
    found = json.loads(run("heldout", "--json").out, parse_constant=pytest.fail)
    assert found == [{"data": "d", "test_score": None, "l1": [1.0, None]}]


@pytest.mark.usefixtures("matplotlib")
def test_charts_are_written_to_the_folder(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"data": "import", "method": "import numpy", "status": "done", "seconds": 0.5, "beyond": None}
    monkeypatch.setattr(startup, "run_startup", lambda **_: [row])
    done = run("startup", "--output", tmp_path / "new")
    assert f"Wrote {tmp_path / 'new' / 'startup.svg'}" in done.err
    assert "import numpy" in (tmp_path / "new" / "startup.svg").read_text()


def test_without_matplotlib_rows_are_printed_and_a_line_says_why_there_is_no_chart(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"data": "import", "method": "import numpy", "status": "done", "seconds": 0.5, "beyond": None}
    monkeypatch.setattr(startup, "run_startup", lambda **_: [row])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = run("startup", "--output", tmp_path / "new")
    assert done.code == 0
    assert "import numpy" in done.out
    assert "No charts: Charts need matplotlib: pip install 'sparsefield[bench]'." in done.err
    assert not (tmp_path / "new").exists()


def test_the_help_lists_every_benchmark(run) -> None:
    listed = set(re.findall(r"^\W*([a-z]+)\s", run("--help").out, flags=re.MULTILINE))
    modules = {path.stem for path in Path(startup.__file__).parent.glob("*.py") if "\ndef command(" in path.read_text()}
    assert len(modules) == 33
    assert modules <= listed
