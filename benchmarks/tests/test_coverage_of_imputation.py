"""Coverage of intervals after multiple imputation: data, missing cells, and rows of results."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import imputation


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
