"""Benchmarks, called from the command line: rows are printed, charts written."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from benchmarks import fill, heldout, inference, latent, paper, peers, scale, startup


def test_scale_prints_rows_recovery_and_growth(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    def rows(sizes, **options):
        asked.update(options, sizes=list(sizes))
        head = {"method": "sparsefield", "status": "done", "certified": True, "recall": 0.8125}
        cost = {"seconds": 1.0, "peak_mb": 20.0, "total_mb": 300.0, "touched": 7000}
        done = [head | cost | {"data": f"{n} x {m}", "columns": n, "rows": m, "cells_on": 5 * m} for n, m in sizes]
        return [*done[:-1], done[-1] | {"status": "cut off after 9 s"}]

    monkeypatch.setattr(scale, "run_scale", rows)
    words = ("scale", "--columns", 100, "--columns", 200, "--columns", 300, "--rows", 1000, "--l1", 7)
    done = run(*words, "--output", tmp_path)
    assert asked["sizes"] == [(100, 1000), (200, 1000), (300, 1000)]
    assert asked["l1"] == 7.0
    for word in ("200 x 1000", "0.8125", "1,000 rows", "300 x 1000, sparsefield: cut off after 9 s"):
        assert word in done.out
    found = json.loads(run(*words, "--output", tmp_path, "--json").out)
    assert len(found["rows"]) == 3
    assert found["growth"][0]["seconds_exponent"] == 0.0
    run("scale", "--short", "--output", tmp_path)
    assert asked["sizes"] == list(scale.SHORT)


def test_paper_and_startup_print_their_rows(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    def fits(nodes, rows, **options):
        asked.update(options, nodes=nodes)
        done = {"data": "N", "method": "CFI", "status": "done", "batch": 50, "seconds": 2.0, "scoring_seconds": 0.5}
        return [done, {**done, "method": "Full-L1", "status": "cut off after 60 s"}]

    monkeypatch.setattr(paper, "run_paper", fits)
    done = run("paper", "--short", "--output", tmp_path)
    assert (asked["nodes"], asked["time_limit"], asked["methods"]) == (
        300,
        60.0,
        ("cfi-paper", "grafting", "full", "cfi"),
    )
    assert "N, Full-L1: cut off after 60 s" in done.out
    row = {"data": "import", "method": "import numpy", "status": "done", "seconds": 0.5, "beyond": None}
    monkeypatch.setattr(startup, "run_startup", lambda **_: [row])
    assert json.loads(run("startup", "--json", "--output", tmp_path).out) == [row]


def test_peers_have_their_sizes_limits_and_kinds(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(peers, "run_peers", lambda nodes, rows, **options: asked.append((nodes, options)) or [])
    run("peers", "--output", tmp_path)
    run("peers", "--short", "--data", "sparse", "--output", tmp_path)
    (nodes, options), (few, less) = asked
    assert (nodes, options["time_limit"], options["kinds"]) == ((100, 400, 1000, 3000), 600.0, ("dense", "sparse"))
    assert (few, less["time_limit"], less["kinds"]) == ((100, 400), 120.0, ("sparse",))


def test_inference_prints_a_row_for_each_method(run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    def rows(fields, **options):
        asked.update(options, fields=fields)
        head = {"data": "weak loops", "seconds": 0.5, "off": 0.0125, "cll": -1.0, "unconverged": 0.25, "missing": 7}
        return [{**head, "method": name} for name in ("mean-field", "bp")]

    monkeypatch.setattr(inference, "run_inference", rows)
    done = run("inference", "--nodes", 9, "--method", "bp")
    assert asked["fields"] == tuple(inference.FIELDS)
    assert (asked["nodes"], asked["rows"], asked["methods"]) == (9, 300, ["bp"])
    for word in ("mean-field", "bp", "0.0125", "0.25"):
        assert word in done.out
    assert len(json.loads(run("inference", "--field", "weak loops", "--json").out)) == 2
    assert asked["fields"] == ("weak loops",)


def test_rows_are_printed_as_a_table_or_json(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"data": "d", "method": "ours", "status": "done", "accuracy": 0.71234, "seconds": 1.5}
    monkeypatch.setattr(peers, "run_peers", lambda *_, **__: [row])
    monkeypatch.setattr(peers, "draw_peers", lambda rows: {})
    assert json.loads(run("peers", "--json", "--output", tmp_path).out) == [row]
    monkeypatch.setattr(heldout, "run_heldout", lambda *_, **__: [{"data": "d", "test_score": -4.951}])
    assert "-4.951" in run("heldout").out
    monkeypatch.setattr(fill, "run_fill", lambda *_, **__: [row, {**row, "status": "no data"}])
    done = run("fill")
    assert "0.7123" in done.out
    assert "d, ours: no data" in done.out


def test_json_has_null_where_there_is_no_number(run, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"data": "d", "test_score": float("nan"), "l1": [1.0, float("inf")]}]
    monkeypatch.setattr(heldout, "run_heldout", lambda *_, **__: rows)
    found = json.loads(run("heldout", "--json").out, parse_constant=pytest.fail)
    assert found == [{"data": "d", "test_score": None, "l1": [1.0, None]}]


def test_the_comparison_of_latent_variables_prints_both_fields(run, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"data": "d", "method": "columns alone", "test_score": -2.5}, {"data": "d", "method": "latent", "l1": 3.0}]
    monkeypatch.setattr(latent, "run_latent", lambda *_, **__: rows)
    out = run("latent").out
    for word in ("columns alone", "-2.5", "latent", "3"):
        assert word in out


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
    assert len(modules) == 30
    assert modules <= listed
