"""Growth with size is measured, and what was planted is counted."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks import scale
from benchmarks.measure import growth
from sparsefield import MarkovField


def test_sizes_cover_both_series_and_the_aims() -> None:
    sizes = scale.sizes_of()
    assert set(scale.AIMS) <= set(sizes)
    assert {(n, 100_000) for n in scale.COLUMNS} <= set(sizes)
    assert {(10_000, m) for m in scale.ROWS} <= set(sizes)
    assert len(set(sizes)) == len(sizes)
    assert scale.sizes_of([100, 200]) == [(100, 100_000), (200, 100_000)]
    assert scale.sizes_of(None, [300]) == [(10_000, 300)]


def test_the_penalty_follows_the_noise_of_the_data() -> None:
    rng = np.random.default_rng(0)
    few, many = (sp.csr_matrix((rng.random((rows, 50)) < 0.2).astype(np.int8)) for rows in (1000, 4000))
    assert scale.default_l1(few) == pytest.approx(8 + 14 * np.sqrt(1000) * 0.2, rel=0.05)
    assert scale.default_l1(many) - 8 == pytest.approx(2 * (scale.default_l1(few) - 8), rel=0.05)
    assert scale.default_l1(sp.csr_matrix((10, 10), dtype=np.int8)) == 8.0


def test_growth_needs_two_sizes_and_a_cost() -> None:
    assert growth([10, 10], [1.0, 2.0]) is None
    assert growth([10, 100], [None, 2.0]) is None
    assert growth([1, 2, 4], [5.0, 20.0, 80.0]) == 2.0


def test_exponents_are_those_of_each_series() -> None:
    def row(n: int, m: int) -> dict:
        cost = {"seconds": m * n**0.5 / 100, "peak_mb": float(m), "total_mb": 7.0}
        return {"status": "done", "columns": n, "rows": m, "cells_on": 10 * m, "touched": m**2, **cost}

    table = [row(n, m) for n, m in ((100, 100), (400, 100), (400, 200), (400, 800))]
    table.append({"status": "cut off after 1 s", "columns": 400, "rows": 1600})
    by_columns, by_rows, by_work = scale.growth_of(table)
    assert (by_columns["fixed"], by_columns["seconds_exponent"], by_columns["peak_mb_exponent"]) == ("100 rows", 0.5, 0)
    assert (by_rows["fixed"], by_rows["against"], by_rows["points"]) == ("400 columns", "cells_on", 3)
    assert (by_rows["seconds_exponent"], by_rows["peak_mb_exponent"], by_rows["total_mb_exponent"]) == (1.0, 1.0, 0.0)
    assert (by_work["against"], by_work["seconds_exponent"]) == ("touched", 0.5)


@pytest.mark.usefixtures("matplotlib")
def test_growth_is_drawn_along_each_series() -> None:
    sizes = ((100, 100), (400, 100), (400, 200), (400, 800))
    cost = {"status": "done", "seconds": 2.0, "peak_mb": 3.0}
    charts = scale.draw_growth([{"columns": n, "rows": m, "cells_on": 10 * m, **cost} for n, m in sizes])
    assert len(charts) == 4
    (axes,) = charts["scale-memory-by-cells-on.svg"].axes
    assert axes.get_legend_handles_labels()[1] == ["400 columns"]
    assert axes.lines[0].get_xydata().tolist() == [[1000, 3], [2000, 3], [8000, 3]]


def test_a_planted_field_is_found_and_the_row_says_so() -> None:
    lines: list[str] = []
    (row,) = scale.run_scale([(60, 1500)], on=6.0, held_out=300, report=lines.append)
    assert row["status"] == "done"
    assert row["data"] == "60 x 1,500"
    assert row["cells_on"] == pytest.approx(9000, rel=0.1)
    assert row["certified"]
    assert row["kkt_violation"] <= 0.01 * row["l1"]
    assert row["precision"] > 0.8
    assert row["recall_learnable"] > 0.5
    assert row["score_independent"] < row["score"] <= row["score_truth"] + 0.1
    assert row["total_mb"] > row["peak_mb"]
    assert lines[0] == "60 columns, 1,500 rows, 6 on in a row ..."


def test_a_size_that_takes_too_long_gets_a_row_that_says_so() -> None:
    (row,) = scale.run_scale([(60, 100)], on=6.0, time_limit=0.0, report=lambda line: None)
    assert row["status"] == "cut off after 0 s"
    assert scale.growth_of([row]) == []


def test_columns_that_are_never_on_keep_their_place() -> None:
    cells = (np.random.default_rng(0).random((200, 4)) < 0.3).astype(np.int8)
    cells[:, 1] = 0
    cells[:, 3] = cells[:, 2]
    matrix = sp.csr_matrix(cells)
    biases, pairs, weights = scale.learned(MarkovField(l1=2.0).fit(matrix), matrix)
    assert biases[1] == pytest.approx(np.log(0.5 / 200.5))
    assert [2, 3] in pairs.tolist()
    assert 1 not in pairs
    assert len(weights) == len(pairs)


def test_states_that_are_not_one_per_column_are_refused() -> None:
    field = MarkovField(l1=2.0).fit(np.random.default_rng(0).integers(0, 3, (30, 3)))
    with pytest.raises(ValueError, match="no plain 0/1 columns"):
        scale.learned(field, np.zeros((10, 3)))
