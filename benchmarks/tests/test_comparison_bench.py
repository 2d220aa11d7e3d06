"""The benchmark of comparisons counts differences with and without one."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import comparison


def test_columns_follow_the_one_before_but_for_the_changed_one() -> None:
    X = comparison.draw_chain(4000, np.random.default_rng(0), without=comparison.CHANGED)
    same = [(X[:, k] == X[:, k - 1]).mean() for k in range(1, comparison.COLUMNS)]
    expected = [0.5 if k == comparison.CHANGED else 0.725 for k in range(1, comparison.COLUMNS)]
    np.testing.assert_allclose(same, expected, atol=0.04)


def test_every_way_of_comparing_has_a_row(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        comparison, "_compare", lambda X, rows, *_: {"test": float((X[rows:, 4] != X[rows:, 3]).mean())}
    )
    (row,) = comparison.run_comparison(repeats=2, rows=400, report=lambda line: None)
    assert row["found_without"] < 0.4 < row["found_with"]
    monkeypatch.setattr(comparison, "MISSING", {"0 and 40% of rows in blocks": (0.0, 0.4, {"l1": 4.0})})
    printed = run("comparison", "--repeats", 1).out
    assert all(words in printed for words in ("found without", "rows in blocks"))
