"""Benchmarks, called from the command line: rows are printed, pictures written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import inference, paper_scale, peers, scale, startup


def test_scale_prints_rows_recovery_and_growth(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    def rows(sizes, **options):
        asked.update(options, sizes=list(sizes))
        head = {"method": "sparsefield", "status": "done", "certified": True, "recall": 0.8125}
        cost = {"seconds": 1.0, "peak_mb": 20.0, "total_mb": 300.0}
        done = [head | cost | {"data": f"{n} x {m}", "columns": n, "rows": m, "cells_on": 5 * m} for n, m in sizes]
        return [*done[:-1], done[-1] | {"status": "cut off after 9 s"}]

    monkeypatch.setattr(scale, "run_scale", rows)
    words = ("bench", "scale", "--columns", 100, "--columns", 200, "--columns", 300, "--rows", 1000, "--l1", 7)
    done = run(*words, "--output", tmp_path)
    assert asked["sizes"] == [(100, 1000), (200, 1000), (300, 1000)]
    assert asked["l1"] == 7.0
    for word in ("200 x 1000", "0.8125", "1,000 rows", "300 x 1000, sparsefield: cut off after 9 s"):
        assert word in done.out
    assert (tmp_path / "scale-seconds-by-columns.svg").read_text().startswith("<svg")
    found = json.loads(run(*words, "--output", tmp_path, "--json").out)
    assert len(found["rows"]) == 3
    assert found["growth"][0]["seconds_exponent"] == 0.0
    run("bench", "scale", "--short", "--output", tmp_path)
    assert asked["sizes"] == list(scale.SHORT)


def test_paper_and_startup_write_their_pictures(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    def fits(nodes, rows, **options):
        asked.update(options, nodes=nodes)
        done = {"data": "N", "method": "CFI", "status": "done", "batch": 50, "seconds": 2.0, "scoring_seconds": 0.5}
        return [done, {**done, "method": "Full-L1", "status": "cut off after 60 s"}]

    monkeypatch.setattr(paper_scale, "run_paper_scale", fits)
    done = run("bench", "paper", "--short", "--output", tmp_path)
    assert (asked["nodes"], asked["time_limit"], asked["methods"]) == (300, 60.0, ("cfi", "grafting", "full"))
    assert "N, Full-L1: cut off after 60 s" in done.out
    assert "cut off after 60 s" in (tmp_path / "paper.svg").read_text()
    row = {"data": "import", "method": "import numpy", "status": "done", "seconds": 0.5, "beyond": None}
    monkeypatch.setattr(startup, "run_startup", lambda **_: [row])
    assert json.loads(run("bench", "startup", "--json", "--output", tmp_path).out) == [row]
    assert "import numpy" in (tmp_path / "startup.svg").read_text()


def test_peers_have_their_sizes_limits_and_kinds(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(peers, "run_peers", lambda nodes, rows, **options: asked.append((nodes, options)) or [])
    run("bench", "peers", "--output", tmp_path)
    run("bench", "peers", "--short", "--data", "sparse", "--output", tmp_path)
    (nodes, options), (few, less) = asked
    assert (nodes, options["time_limit"], options["kinds"]) == ((100, 400, 1000, 3000), 600.0, ("dense", "sparse"))
    assert (few, less["time_limit"], less["kinds"]) == ((100, 400), 120.0, ("sparse",))


def test_inference_prints_a_row_for_each_method(run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    def rows(fields, **options):
        asked.update(options, fields=fields)
        head = {"data": "weak loops", "seconds": 0.5, "off": 0.0125, "cll": -1.0, "unconverged": 0.25, "gaps": 7}
        return [{**head, "method": name} for name in ("mean-field", "bp")]

    monkeypatch.setattr(inference, "run_inference", rows)
    done = run("bench", "inference", "--nodes", 9, "--method", "bp")
    assert asked["fields"] == tuple(inference.FIELDS)
    assert (asked["nodes"], asked["rows"], asked["methods"]) == (9, 300, ["bp"])
    for word in ("mean-field", "bp", "0.0125", "0.25"):
        assert word in done.out
    assert len(json.loads(run("bench", "inference", "--field", "weak loops", "--json").out)) == 2
    assert asked["fields"] == ("weak loops",)
