"""Small networks are learned by every objective."""

from __future__ import annotations

import math

from benchmarks.objectives import run_objectives


def test_every_objective_has_a_row() -> None:
    table = run_objectives((6, 14), (2.0,), networks=1, rows=80, held_out=60, report=lambda line: None)
    found = [(row["nodes"], row["objective"]) for row in table]
    assert found == [(6, "pl"), (6, "cd"), (6, "ml"), (6, "bethe"), (14, "pl"), (14, "cd"), (14, "bethe")]
    assert all(row["cll"] > math.log(0.5) for row in table)
    assert [math.isnan(row["log_likelihood"]) for row in table] == [row["nodes"] > 12 for row in table]
