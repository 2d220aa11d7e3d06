"""The decisions that the design rests on change the way, not the end."""

from __future__ import annotations

import pytest

from benchmarks import ablations


def test_coordinates_and_batches_lead_to_the_same_optimum(monkeypatch) -> None:
    monkeypatch.setattr(ablations, "_on_animals", lambda report: iter(()))
    rows = ablations.run_ablations(lambda line: None, nodes=30, rows=400)
    assert [row["decision"] for row in rows] == ["coordinates"] * 2 + ["batches"] * 3
    for row in rows:
        assert row["objective"] == pytest.approx(rows[0]["objective"], rel=1e-5)
    steps = {row["setting"]: row["steps"] for row in rows}
    assert steps["centered"] < steps["plain"]
