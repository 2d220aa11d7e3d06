"""Coverage of intervals after multiple imputation: data, missing cells, and rows of results."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from benchmarks import draws, imputation


def test_simulated_columns_depend_on_each_other_as_intended() -> None:
    values, variances = imputation.analyze_simulated(imputation.draw_simulated(20_000, np.random.default_rng(0)))
    expected = {"slope of x": 0.5, "slope of z": 0.4, "slope of g = b": 0.6, "slope of g = c": -0.4, "slope of o": 0.3}
    for name, slope in expected.items():
        assert abs(values[name] - slope) < 4 * np.sqrt(variances[name])
        assert abs(imputation.population("simulated").truth[name] - slope) < 0.01


@pytest.mark.parametrize("mechanism", imputation.MECHANISMS)
def test_a_quarter_of_the_cells_is_hidden_and_the_driver_never(mechanism: str) -> None:
    rng = np.random.default_rng(0)
    table = imputation.draw_simulated(20_000, rng)
    missing = np.isnan(imputation.hide_cells(table, mechanism, 0, rng))
    assert not missing[:, 0].any()
    assert missing[:, 1:].mean() == pytest.approx(0.25, abs=0.02)
    high, low = (missing[chosen, 4].mean() for chosen in (table[:, 0] > 1.0, table[:, 0] < -1.0))
    assert (high - low > 0.2) == (mechanism == "mar")


def test_methods_have_rows_of_bias_and_coverage() -> None:
    methods = ("no cell missing", "complete cases", "sparsefield")
    rows = imputation.run_coverage(
        ("simulated",), 2, 80, 2, methods=methods, report=lambda _: None, mechanisms=("mcar",), processes=1
    )
    assert len(rows) == 3 * 9
    assert {row["method"] for row in rows} == set(methods)
    for row in rows:
        assert 0.0 <= row["coverage"] <= 1.0
        assert row["error"] > 0.0


def mixed_table(rows: int = 300) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    size = rng.normal(size=rows)
    near = size + 0.3 * rng.normal(size=(3, rows))
    return pl.DataFrame({"size": size, "other": near[2], "group": np.where(near[0] > 0, "a", "b"), "item": near[1] > 0})


@pytest.mark.parametrize("pattern", draws.PATTERNS)
def test_a_fifth_of_the_cells_is_hidden_by_each_pattern(pattern: str) -> None:
    table = draws.hide(mixed_table(2000), pattern, 0)
    assert table.hidden.mean() == pytest.approx(0.15 if pattern == "mar" else 0.2, abs=0.02)  # "mar" spares a column
    assert table.frame.null_count().sum_horizontal()[0] == table.hidden.sum()
    alone = table.hidden.sum(axis=1)[table.hidden.any(axis=1)]
    assert (table.hidden[:, 0].any()) == (pattern != "mar")
    assert alone.min() == 1


def test_draws_that_know_the_other_columns_have_a_lower_energy_score() -> None:
    table = draws.hide(mixed_table(), "mcar", 0)
    energy = {
        method.name: draws.energy_score(table, method.run(table))
        for method in draws.METHODS
        if not method.package and not method.module
    }
    assert max(energy[name] for name in ("sparsefield", "boosting per column")) < 0.8 * energy["values of the column"]
    truth = np.repeat(table.truth[None], 3, axis=0)
    assert draws.energy_score(table, truth) == pytest.approx(0.0)
    filled = draws._draw_by_field(table)
    assert np.array_equal(filled[0][~table.hidden], table.truth[~table.hidden])
    assert draws.coverage(table, filled) == pytest.approx(0.9, abs=0.08)
