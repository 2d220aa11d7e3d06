"""Fits on local workers are measured beside fits on threads: the saved files are equal, and bytes are counted."""

from __future__ import annotations

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
    assert "2 worker(s) ..." in said


def test_without_dask_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ClusterError, match="pip install"):
        cluster.run_cluster(4, 400)
