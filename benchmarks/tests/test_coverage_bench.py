"""The fields of the coverage benchmark have the weights that they say, and its rows have shares."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import coverage
from sparsefield.estimators import MarkovField


def test_the_truth_has_the_units_of_the_weights_of_a_fit() -> None:
    known = coverage.FIELDS["mixed"]
    table = known.frame(known.draw(4000, np.random.default_rng(0)))
    field = coverage.SETTINGS["true"].estimator(known).fit(table)
    truth = known.truth(table)
    assert isinstance(field, MarkovField)
    off = []
    for a, s, b, t, weight in field.features_.iter_rows():
        off.append(weight - truth[a, coverage._plain(s), b, coverage._plain(t)])
    assert len(off) == len(truth)
    assert np.abs(off).mean() < 0.06


def test_a_row_counts_intervals_with_the_truth() -> None:
    told: list[str] = []
    rows = coverage.run_coverage(["ising"], ["true"], repeats=2, resamples=20, report=told.append)
    assert [row["method"] for row in rows] == ["godambe", "bootstrap"]
    assert all(0.6 < row["coverage"] <= 1.0 for row in rows)
    assert "Ising, true edges: godambe" in told[0]


def test_missing_cells_are_removed_and_intervals_pooled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "IMPUTATIONS", 3)
    known, setting = coverage.FIELDS["ising"], coverage.SETTINGS["missing"]
    whole = known.frame(known.draw(300, np.random.default_rng(0)))
    table = setting.remove(whole, np.random.default_rng(1))
    holes = sum(table.null_count().row(0))
    assert 0.1 < holes / (table.height * table.width) < 0.2
    field = setting.estimator(known).fit(table)
    found = setting.intervals(field, table, "godambe", 20, 0.95, 0)
    assert found.imputed is not None
    assert len(found.imputed) == 3
    assert coverage.run_coverage(["ising"], ["missing"], methods=["bootstrap"], repeats=2) == []
