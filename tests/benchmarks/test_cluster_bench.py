"""Fits on local workers are measured beside fits on threads: the same bytes come out, and what is sent is counted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sparsefield.experiments.cluster_model import Place, Plan

from benchmarks import cluster
from sparsefield.cli import main
from sparsefield.errors import ClusterError

COLUMNS, ROWS = 12, 1_200


def test_fits_are_the_same_everywhere_and_bytes_are_foretold(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "REPEATS", 3)
    monkeypatch.setattr(cluster, "MEGABYTES", 1)
    said: list[str] = []
    plan = Plan(10**6, 10, 2)
    found = cluster.run_cluster(COLUMNS, ROWS, workers=(2, 1), repeats=1, plan=plan, seed=1, report=said.append)
    assert "2 worker(s) ..." in said

    fits = found["fits"]
    assert [row["method"] for row in fits] == ["1 thread(s)", "2 thread(s)", "1 worker(s)", "2 worker(s)"]
    assert all(row["same_bytes"] for row in fits)
    assert len({(row["iterations"], row["evaluations"], row["looks"]) for row in fits}) == 1
    assert (fits[0]["times_threads"], fits[0]["placing_seconds"]) == (1.0, None)
    assert all(row["processor_seconds"] > 0.0 for row in fits)
    assert found["data"]["pairs"] > 0
    assert 1_000 > found["data"]["distinct_rows"] > 500  # equal rows are merged before they are placed

    kilobytes = [row for row in found["foretold"] if row["what"].startswith("kilobytes")]
    assert [row["seen_by_foretold"] for row in kilobytes] == [pytest.approx(1.0, abs=0.02)] * 2
    one, two = found["bytes"]
    for row in (one, two):
        place = Place(found["data"]["distinct_rows"], row["workers"])
        assert (row["shards"], row["entries"]) == (place.n_shards, COLUMNS**2)
        assert row["in_full_kb"] == pytest.approx(8e-3 * COLUMNS**2 * place.n_nodes)
        # 16 bits from each piece that a worker has added up, what is sent in full, and the questions
        assert row["search_kb"] > 1e-3 * place.n_nodes * (2 * COLUMNS**2 + 8 * row["exact"])
        assert row["loopback_kb"] is None or row["loopback_kb"] > row["out_kb"] + row["back_kb"]
    assert two["out_kb"] == pytest.approx(2 * one["out_kb"], rel=0.02)

    named = {row["constant"]: row["value"] for row in found["constants"]}
    for name in (
        "an operation without work, 2 worker(s)",
        "bytes from a worker",
        "an entry that a worker tells, at the client",
    ):
        assert named[name] > 0.0
    assert (found["plan"]["workers"], found["plan"]["threads"]) == (10, 2)
    assert any(line.startswith("First to give way") for line in found["assumptions"])
    assert {row["shards"] for row in found["lists"]} == {4, 16, 100}


def test_the_command_prints_tables_or_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: dict[str, Any] = {}
    data = {"columns": 12, "rows": 1200, "distinct_rows": 999, "l1": 48.5, "pairs": 25}
    plan = {"rows": 5000, "workers": 100, "threads": 4, "shards": 7, "table": [{"what": "evaluations", "count": 31}]}
    found = {
        "cores": 2,
        "load": [0.5, 1.25],
        "data": data,
        "fits": [{"method": "2 worker(s)", "seconds": 1234.5, "same_bytes": True}],
        "bytes": [{"workers": 2, "search_kb": 0.125, "loopback_kb": None}],
        "constants": [{"constant": "bytes to a worker", "value": 77.0, "unit": "MB/s"}],
        "foretold": [{"workers": 2, "what": "seconds of the fit", "seen_by_foretold": 1.5}],
        "plan": plan,
        "assumptions": ["Assumed: nothing."],
        "lists": [{"look": "first", "shards": 16, "candidates": 12_345}],
    }

    def run(columns: int, rows: int, **options: Any) -> dict[str, Any]:
        asked.update(options, columns=columns, rows=rows)
        return found

    monkeypatch.setattr(cluster, "run_cluster", run)
    words = ["bench", "cluster", "--columns", "12", "--rows", "1200", "--workers", "2", "--predict-rows", "5000"]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert not ended.value.code
    out = capsys.readouterr().out
    for word in ("12 columns x 1,200 rows (999 of them distinct)", "1,234", "yes", "0.125", "77", "1.5", "31",
                 "1.25 after", "5,000 rows on 100 workers", "Assumed: nothing.", "12,345"):  # fmt: skip
        assert word in out
    assert (asked["columns"], asked["rows"], asked["workers"], asked["plan"]) == (12, 1200, (2,), Plan(5000))
    with pytest.raises(SystemExit):
        main([*words, "--json"])
    assert json.loads(capsys.readouterr().out) == found


def test_without_dask_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ClusterError, match="pip install"):
        cluster.run_cluster(4, 400)
