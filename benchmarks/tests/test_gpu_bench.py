"""Fits by torch and on the CPU have one optimum, and planted contacts are found, on small data."""

from __future__ import annotations

import pytest

from benchmarks.gpu import run_gpu

pytest.importorskip("torch")
pytestmark = pytest.mark.benchmark


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_each_case_has_a_row_for_the_device_and_the_cpu() -> None:
    rows = {(row["data"], row["method"]): row for row in run_gpu(device="torch", short=True, report=lambda line: None)}
    assert len(rows) == 5
    for case in ("texts", "potts"):
        assert rows[case, "torch"]["objective"] == pytest.approx(rows[case, "cpu"]["objective"], rel=1e-4)
        assert rows[case, "torch"]["certified"]
    assert min(rows["potts", method]["precision"] for method in ("torch", "cpu", "ccmpred")) > 0.3
