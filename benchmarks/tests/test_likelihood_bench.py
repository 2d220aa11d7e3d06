"""Weights by the exact likelihood: what the comparison rests on."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import likelihood


def test_the_weights_of_a_tree_are_those_of_its_distribution() -> None:
    X, edges, weights = likelihood.draw_tree(200_000, 3, 2.0, np.random.default_rng(0))
    for (a, b), weight in zip(edges, weights, strict=True):
        counts = np.histogram2d(X[:, a], X[:, b], bins=2)[0]
        odds = np.log(counts[0, 0] * counts[1, 1] / (counts[0, 1] * counts[1, 0]))
        assert odds == pytest.approx(weight, abs=0.05)


def test_rows_of_the_comparison_are_filled() -> None:
    rows = likelihood.run_likelihood([60], [2.0], columns=4, trees=2, report=lambda _: None)
    assert [row["objective"] for row in rows] == ["pl", "ml"]
    for row in rows:
        assert 0.0 < row["rmse"] < 3.0
        assert row["log_likelihood"] < 0.0
        assert "RMSE" in likelihood.describe(row)


@pytest.mark.slow
def test_weights_by_the_likelihood_are_closer_to_the_truth_on_average() -> None:
    by_pairs, exact = likelihood.run_likelihood([100], [4.0], trees=20, report=lambda _: None)
    assert exact["rmse"] < by_pairs["rmse"]
    assert exact["log_likelihood"] > by_pairs["log_likelihood"]
    assert exact["closer"] > 0.5
