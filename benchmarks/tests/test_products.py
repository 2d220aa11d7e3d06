"""Sparse and dense products of signals and errors are timed on one network."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.products import add_plain, draw_products, run_products


def test_every_threshold_has_a_row_and_fewer_products_than_a_smaller_one() -> None:
    table = run_products(20, 60, thresholds=(0.1, 0.4), iterations=3, repeats=1, report=lambda line: None)
    assert [row["threshold"] for row in table] == [0.1, 0.4]
    assert 1.0 > table[0]["share"] > table[1]["share"] > 0.0
    assert all(row[name] > 0.0 for row in table for name in ("plain", "sparse", "dense", "sparse_score", "dense_score"))


def test_the_plain_loop_is_a_matrix_product() -> None:
    left, right = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]), np.array([[0.0, 5.0, 0.0], [7.0, 0.0, 1.0]])
    out = np.zeros((3, 3))
    add_plain(*_by_row(left), *_by_row(right), out)
    assert np.array_equal(out, left.T @ right)


def _by_row(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, columns = np.nonzero(matrix)
    return np.searchsorted(rows, np.arange(len(matrix) + 1)), columns, matrix[rows, columns]


@pytest.mark.usefixtures("matplotlib")
def test_the_chart_has_a_bar_per_threshold_and_one_of_the_dense_product() -> None:
    rows = [{"threshold": 0.2, "share": 0.05, "sparse": 3.0, "dense": 2.0}]
    (axes,) = draw_products(rows)["products.svg"].axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["threshold 0.2, 5.00%", "dense, 32 bits"]
