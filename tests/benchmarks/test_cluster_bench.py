"""Fits on local workers are measured beside fits on threads: the saved files are equal, and bytes are counted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks import cluster
from sparsefield.errors import ClusterError


@pytest.mark.cluster
def test_fits_on_threads_and_workers_save_the_same_bytes() -> None:
    pytest.importorskip("distributed", reason="a cluster needs Dask")
    said: list[str] = []
    found = cluster.run_cluster(12, 1_200, workers=(2, 1), repeats=1, seed=1, report=said.append)
    assert [row["method"] for row in found] == ["1 thread(s)", "2 thread(s)", "1 worker(s)", "2 worker(s)"]
    assert all(row["same_bytes"] for row in found)
    assert len({(row["iterations"], row["pairs"]) for row in found}) == 1
    assert found[0]["times_threads"] == 1.0
    assert [row["kb_per_iteration"] is None for row in found] == [True, True, False, False]
    assert found[3]["kb_per_iteration"] > found[2]["kb_per_iteration"] > 0.0
    assert "2 worker(s) ..." in said


def test_the_command_prints_a_table_or_json(run, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    row = {"method": "2 worker(s)", "seconds": 12.5, "kb_per_iteration": 0.125, "same_bytes": True}

    def run_cluster(columns: int, rows: int, **options: Any) -> list[dict[str, Any]]:
        given.update(options, columns=columns, rows=rows)
        return [row]

    monkeypatch.setattr(cluster, "run_cluster", run_cluster)
    args = ("cluster", "--columns", 12, "--rows", 1200, "--workers", 2)
    out = run(*args).out
    assert all(word in out for word in ("2 worker(s)", "12.5", "0.125", "True", "kb per iteration"))
    assert (given["columns"], given["rows"], given["workers"]) == (12, 1200, [2])
    assert json.loads(run(*args, "--json").out) == [row]


def test_without_dask_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ClusterError, match="pip install"):
        cluster.run_cluster(4, 400)
